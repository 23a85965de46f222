//! What tokens cost in each project: its own models before the built-in table.
//!
//! A table is made when a project first needs it and is forgotten after a while, so that a model written
//! through another node counts here soon; one written here counts at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use perpend_domain::ids::ProjectId;
use perpend_domain::pricing::PriceTable;
use perpend_domain::time::Timestamp;

use crate::{Catalog, Error};

/// How long a table is used before the models are read again.
const FRESH_MS: i64 = 10_000;
/// Projects whose tables are kept at a time.
const MAX_KEPT: usize = 1_000;

type Kept = HashMap<ProjectId, (Timestamp, Arc<PriceTable>)>;

/// The tables of all projects.
#[derive(Debug, Default)]
pub struct Prices {
    kept: Mutex<Kept>,
}

impl Prices {
    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        // A map of finished tables is whole between any two statements, also after a panic.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table of a project.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn of(
        &self,
        catalog: &Catalog,
        project: &ProjectId,
        now: Timestamp,
    ) -> Result<Arc<PriceTable>, Error> {
        if let Some((until, table)) = self.lock().get(project)
            && now < *until
        {
            return Ok(Arc::clone(table));
        }
        let models = catalog.models(project).await?;
        let table = match models.is_empty() {
            true => PriceTable::built_in(),
            false => Arc::new(PriceTable::of_models(&models, PriceTable::built_in())),
        };
        let mut kept = self.lock();
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        let until = now.plus_millis(FRESH_MS);
        kept.insert(project.clone(), (until, Arc::clone(&table)));
        Ok(table)
    }

    /// The models of a project have changed.
    pub fn forget(&self, project: &ProjectId) {
        self.lock().remove(project);
    }
}
