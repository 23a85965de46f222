//! Runs of experiments together with the items of their datasets.

use std::collections::{HashMap, HashSet};

use perpend_domain::dataset::as_of;
use perpend_domain::evaluation::Rule;
use perpend_domain::experiment::{ExpectedScores, ExperimentRun, RunResults};
use perpend_domain::ids::{ProjectId, RuleId};
use perpend_domain::plugin::Digest;
use perpend_domain::time::Timestamp;

use crate::Store;
use perpend_db::{Error, checked};

/// Items with the digests of their expected outputs.
type ExpectedOutputs = Vec<(String, Option<Digest>)>;

/// Enabled rules of experiments whose runs all ended at a time or before.
const RULES_OF_ENDED: &str = "
    SELECT DISTINCT s.project_id, s.rule_id
      FROM server_runs s JOIN rules r ON r.project_id = s.project_id AND r.id = s.rule_id
     WHERE r.enabled = 1 AND s.rule_id IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM server_runs o
                        WHERE o.project_id = s.project_id AND o.experiment_id = s.experiment_id
                          AND (o.ended_at IS NULL OR $1 < o.ended_at))";

/// Number of results whose item is one of these.
fn n_covered(results: &RunResults, items: &[(String, Option<Digest>)]) -> usize {
    let ids: HashSet<&str> = items.iter().map(|(id, _)| id.as_str()).collect();
    results.items.iter().filter(|result| ids.contains(result.item_id.as_str())).count()
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
        let expected = self.expected_outputs(project, &dataset_id, &results).await?;
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

    /// The items of the dataset in the version that the run used: the newest version that its results name, or
    /// else the state when the run was created.
    async fn expected_outputs(
        &self,
        project: &ProjectId,
        dataset_id: &str,
        results: &RunResults,
    ) -> Result<ExpectedOutputs, Error> {
        let catalog = &self.catalog;
        let versions = results.items.iter().filter_map(|item| item.item_version);
        if let Some(newest) = versions.max() {
            return catalog.expected_outputs(project, dataset_id, as_of(newest)).await;
        }
        let created_at = as_of(results.run.created_at);
        let expected = catalog.expected_outputs(project, dataset_id, created_at).await?;
        let n_expected = n_covered(results, &expected);
        if n_expected == results.items.len() {
            return Ok(expected);
        }
        // The clock of the client may be behind: by it, items did not exist when the run began.
        let times = self.telemetry.run_times(project, &results.run.id).await?;
        let Some((_, last_seen)) = times.filter(|(_, last_seen)| created_at < *last_seen) else {
            return Ok(expected);
        };
        let later = catalog.expected_outputs(project, dataset_id, last_seen).await?;
        Ok(if n_expected < n_covered(results, &later) { later } else { expected })
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
        let mut rules = self.catalog.enabled_rules(project).await?;
        // The rule of a run that the server executed is disabled when all results are scored.
        if let Some(id) = self.ledger.rule_of_run(project, &run.id).await?
            && rules.iter().all(|rule| rule.id != id)
            && let Some(rule) = self.catalog.rule(project, &id).await?
        {
            rules.push(Rule { enabled: true, ..rule });
        }
        Ok(ExpectedScores::of_rules(&rules, run))
    }

    /// The enabled rules of experiments whose runs all ended at `before` or earlier. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rules_of_ended_runs(
        &self,
        before: Timestamp,
    ) -> Result<Vec<(ProjectId, RuleId)>, Error> {
        let rows: Vec<(String, String)> =
            self.pool.select(RULES_OF_ENDED, &[before.as_micros().into()]).await?;
        let pair = |(project, rule): (String, String)| {
            Ok((checked("server run", &project)?, checked("server run", &rule)?))
        };
        rows.into_iter().map(pair).collect()
    }
}
