//! References of observations: the ids of their prompt versions, and the prices with which their costs were
//! computed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use perpend_domain::ids::ProjectId;
use perpend_domain::observation::Observation;
use perpend_domain::pricing::PriceTable;
use perpend_domain::telemetry::ResolvedRefs;
use perpend_domain::time::Timestamp;

use crate::prices::Prices;
use crate::{Catalog, Error};

/// References of some observations.
#[derive(Debug, Default)]
pub struct ObservationReferences {
    /// Prompt ids by name and version number.
    prompt_ids: HashMap<(String, i64), String>,
    prices: Option<Arc<PriceTable>>,
}

/// Prompt name and version number if both are present.
fn version(observation: &Observation) -> Option<(String, i64)> {
    let prompt = observation.prompt.as_ref()?;
    Some((prompt.name.clone(), prompt.version?))
}

impl ObservationReferences {
    /// The references of these observations that the project has. Without references no statement is run.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn of<'a>(
        catalog: &Catalog,
        prices: &Prices,
        project: &ProjectId,
        observations: impl Iterator<Item = &'a Observation> + Clone,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let mut found = Self::default();
        let wanted: BTreeSet<(String, i64)> = observations.clone().filter_map(version).collect();
        if !wanted.is_empty() {
            let wanted: Vec<_> = wanted.into_iter().collect();
            found.prompt_ids = catalog.prompt_ids(project, &wanted).await?;
        }
        if observations.into_iter().any(|one| one.price_id.is_some()) {
            let table = prices.of(catalog, project, now);
            found.prices = Some(table.await?);
        }
        Ok(found)
    }

    /// The references of one of the observations.
    #[must_use]
    pub fn named_by(&self, observation: &Observation) -> ResolvedRefs<'_> {
        let id = version(observation).and_then(|version| self.prompt_ids.get(&version));
        let prices = self.prices.as_ref();
        ResolvedRefs {
            prompt_id: id.map(String::as_str),
            prices: prices.and_then(|prices| prices.applied(observation)),
        }
    }
}
