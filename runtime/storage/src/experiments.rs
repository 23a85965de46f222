//! Runs of experiments together with the items of their datasets.

use std::collections::HashMap;

use perpend_domain::dataset::as_of;
use perpend_domain::experiment::{ExpectedScores, ExperimentRun, RunResults};
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

use crate::Store;
use perpend_db::Error;

/// The version of the dataset that a run used: the newest version that its results name, or else the state
/// when the run was created.
fn dataset_version(results: &RunResults) -> Timestamp {
    let versions = results.items.iter().filter_map(|item| item.item_version);
    versions.max().unwrap_or_else(|| as_of(results.run.created_at))
}

impl Store {
    /// The run with the results of its items and the items that it was expected to have; `None` if there is
    /// no run with this id.
    ///
    /// # Errors
    /// When the database fails, or the results exceed the memory of the request.
    pub async fn run_results(
        &self,
        project: &ProjectId,
        run_id: &str,
    ) -> Result<Option<RunResults>, Error> {
        let Some(mut results) = self.telemetry.run_results(project, run_id).await? else {
            return Ok(None);
        };
        let Some(dataset_id) = results.run.dataset_id.clone() else {
            return Ok(Some(results));
        };
        let dataset = self.catalog.dataset_by_id(project, &dataset_id).await?;
        results.run.dataset_name = dataset.map(|stored| stored.dataset.name);
        let at = dataset_version(&results);
        let expected = self.catalog.expected_outputs(project, &dataset_id, at).await?;
        let by_id: HashMap<&str, _> =
            expected.iter().map(|(id, digest)| (id.as_str(), *digest)).collect();
        for item in results.items.iter_mut().filter(|item| item.expected_output.is_none()) {
            item.expected_output = by_id.get(item.item_id.as_str()).copied().flatten();
        }
        if results.run.dataset_name.is_some() {
            // A run that the server executes may use a part of the items.
            let started = self.ledger.server_run_items(project, run_id).await?;
            results.expected_items = Some(match started.is_empty() {
                true => expected.into_iter().map(|(id, _)| id).collect(),
                false => started,
            });
        }
        Ok(Some(results))
    }

    /// The scores that the rules of the project give to each item of the run.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn expected_scores(
        &self,
        project: &ProjectId,
        run: &ExperimentRun,
    ) -> Result<ExpectedScores, Error> {
        let rules = self.catalog.enabled_rules(project).await?;
        Ok(ExpectedScores::of_rules(&rules, run))
    }
}
