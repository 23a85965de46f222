//! The ids of the prompts' versions that observations name.

use std::collections::{BTreeSet, HashMap};

use assay_domain::ids::ProjectId;
use assay_domain::observation::Observation;

use crate::App;
use crate::problem::Problem;

/// Ids by name and number.
#[derive(Debug, Default)]
pub(in crate::api) struct PromptIds(HashMap<(String, i64), String>);

/// Name and number where both are known.
fn version(observation: &Observation) -> Option<(String, i64)> {
    let prompt = observation.prompt.as_ref()?;
    Some((prompt.name.clone(), prompt.version?))
}

impl PromptIds {
    /// The ids of what these observations name, as far as the project has it. Where no prompt is named
    /// nothing is asked.
    pub(in crate::api) async fn of<'a>(
        app: &App,
        project: &ProjectId,
        observations: impl Iterator<Item = &'a Observation>,
    ) -> Result<Self, Problem> {
        let wanted: BTreeSet<(String, i64)> = observations.filter_map(version).collect();
        if wanted.is_empty() {
            return Ok(Self::default());
        }
        let wanted: Vec<_> = wanted.into_iter().collect();
        Ok(Self(app.store.prompt_ids(project, &wanted).await?))
    }

    /// The id of the version that an observation names.
    pub(in crate::api) fn get(&self, observation: &Observation) -> Option<&str> {
        Some(self.0.get(&version(observation)?)?.as_str())
    }
}
