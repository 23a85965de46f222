//! What observations say that stands elsewhere: the ids of the prompts' versions they name, and the prices that
//! their costs were computed with.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use perpend_domain::ids::ProjectId;
use perpend_domain::observation::Observation;
use perpend_domain::pricing::{AppliedPrices, PriceTable};

use crate::App;
use crate::problem::Problem;

/// What was found for some observations.
#[derive(Debug, Default)]
pub(in crate::api) struct LookedUp {
    /// Ids by name and number.
    prompt_ids: HashMap<(String, i64), String>,
    prices: Option<Arc<PriceTable>>,
}

/// Name and number where both are known.
fn version(observation: &Observation) -> Option<(String, i64)> {
    let prompt = observation.prompt.as_ref()?;
    Some((prompt.name.clone(), prompt.version?))
}

impl LookedUp {
    /// What these observations need, as far as the project has it. Where they need nothing, nothing is asked.
    pub(in crate::api) async fn of<'a>(
        app: &App,
        project: &ProjectId,
        observations: impl Iterator<Item = &'a Observation> + Clone,
    ) -> Result<Self, Problem> {
        let mut found = Self::default();
        let wanted: BTreeSet<(String, i64)> = observations.clone().filter_map(version).collect();
        if !wanted.is_empty() {
            let wanted: Vec<_> = wanted.into_iter().collect();
            found.prompt_ids = app.store.catalog.prompt_ids(project, &wanted).await?;
        }
        if observations.into_iter().any(|one| one.price_id.is_some()) {
            let table = app.prices.of(&app.store, project, app.clock.now());
            found.prices = Some(table.await?);
        }
        Ok(found)
    }

    /// The id of the version that an observation names.
    pub(in crate::api) fn prompt_id(&self, observation: &Observation) -> Option<&str> {
        let id = self.prompt_ids.get(&version(observation)?)?;
        Some(id.as_str())
    }

    /// The prices behind the cost of an observation, while its model has them.
    pub(in crate::api) fn prices(&self, observation: &Observation) -> Option<AppliedPrices<'_>> {
        self.prices.as_ref()?.applied(observation)
    }
}
