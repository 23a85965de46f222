//! Prices of tokens per project: its own models take precedence over the built-in table.
//!
//! A table is built at the first use by a project. The models are read again after an interval, so that a
//! change by another node takes effect soon; a change by this node takes effect at once. If the models are
//! unchanged the table stays: its patterns are compiled once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use perpend_domain::ids::ProjectId;
use perpend_domain::model::ModelDefinition;
use perpend_domain::pricing::PriceTable;
use perpend_domain::time::Timestamp;

use crate::{Catalog, Error};

/// Interval after which the models are read again, milliseconds.
const FRESH_MS: i64 = 10_000;
/// Maximum of cached tables.
const MAX_KEPT: usize = 1_000;
/// Maximum of cached tables with models of a project: their compiled patterns take memory.
const MAX_OWN: usize = 32;

type CachedTables = HashMap<ProjectId, CachedTable>;

/// The table of a project.
#[derive(Debug)]
struct CachedTable {
    /// When the models are read again.
    until: Timestamp,
    models: Vec<ModelDefinition>,
    prices: Arc<PriceTable>,
}

/// The tables of all projects.
#[derive(Debug, Default)]
pub struct Prices {
    tables: Mutex<CachedTables>,
}

impl Prices {
    fn lock(&self) -> std::sync::MutexGuard<'_, CachedTables> {
        // A map of finished tables is consistent between any two statements, also after a panic.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
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
        if let Some(table) = self.lock().get(project)
            && now < table.until
        {
            return Ok(Arc::clone(&table.prices));
        }
        let models = catalog.models(project).await?;
        let until = now.plus_millis(FRESH_MS);
        let mut tables = self.lock();
        if let Some(table) = tables.get_mut(project)
            && table.models == models
        {
            table.until = until;
            return Ok(Arc::clone(&table.prices));
        }
        let prices = match models.is_empty() {
            true => PriceTable::built_in(),
            false => Arc::new(PriceTable::of_models(&models, PriceTable::built_in())),
        };
        let is_own = |table: &CachedTable| !table.models.is_empty();
        if !models.is_empty() && MAX_OWN <= tables.values().filter(|table| is_own(table)).count() {
            tables.retain(|_, table| !is_own(table));
        }
        if tables.len() >= MAX_KEPT {
            tables.clear();
        }
        let table = CachedTable { until, models, prices: Arc::clone(&prices) };
        tables.insert(project.clone(), table);
        Ok(prices)
    }

    /// Invalidates the table of a project whose models have changed.
    pub fn forget(&self, project: &ProjectId) {
        self.lock().remove(project);
    }
}
