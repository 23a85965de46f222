//! Cost and latency of the last model calls of an evaluator.

use std::collections::HashSet;

use perpend_db::Arg;
use perpend_domain::ids::{EvaluatorId, ProjectId};

use crate::{Error, Ledger};

/// Number of executions over which a mean is taken.
const N_EXECUTIONS: usize = 50;
/// Only the newest calls of the project are searched, which bounds the cost for an evaluator that rarely
/// calls a model. Failed calls and calls answered by stored replies carry no cost and are left out.
const LATEST: &str = "
    SELECT execution_id, cost, latency_ms
      FROM (SELECT execution_id, evaluator_id, cost, error_class, latency_ms, started_at, from_cache
              FROM model_calls WHERE project_id = $1 ORDER BY started_at DESC LIMIT 20000) c
     WHERE evaluator_id = $2 AND error_class IS NULL AND from_cache = 0
     ORDER BY started_at DESC
     LIMIT 2000";

const LATEST_COSTS: &str = "
    SELECT cost
      FROM (SELECT evaluator_id, model, cost, error_class, started_at, from_cache
              FROM model_calls WHERE project_id = $1 ORDER BY started_at DESC LIMIT 20000) c
     WHERE evaluator_id = $2 AND model = $3 AND error_class IS NULL AND from_cache = 0 AND cost IS NOT NULL
     ORDER BY started_at DESC
     LIMIT $4";

/// Execution, cost, milliseconds.
type CallRow = (Vec<u8>, Option<f64>, i64);

/// Means over the last executions of an evaluator that called models.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatestMeans {
    /// Number of executions in the means.
    pub n_executions: u32,
    /// US dollars; `None` if the price of a call is unknown.
    pub cost: Option<f64>,
    /// Time spent in models, milliseconds.
    pub latency_ms: f64,
}

impl Ledger {
    /// Costs of the last calls of a model by an evaluator, US dollars, newest first; at most `limit`, from
    /// the last 20,000 calls of the project.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn latest_costs(
        &self,
        project: &ProjectId,
        (evaluator, model): (&EvaluatorId, &str),
        limit: u32,
    ) -> Result<Vec<f64>, Error> {
        let args: [Arg<'_>; 4] = [
            project.as_str().into(),
            evaluator.as_str().into(),
            model.into(),
            i64::from(limit).into(),
        ];
        let rows: Vec<(f64,)> = self.pool.select(LATEST_COSTS, &args).await?;
        Ok(rows.into_iter().map(|(cost,)| cost).collect())
    }

    /// Means over the last 50 executions of an evaluator; `None` if the last 20,000 calls of the project
    /// contain none.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn latest_means(
        &self,
        project: &ProjectId,
        evaluator: &EvaluatorId,
    ) -> Result<Option<LatestMeans>, Error> {
        let args: [Arg<'_>; 2] = [project.as_str().into(), evaluator.as_str().into()];
        let rows: Vec<CallRow> = self.pool.select(LATEST, &args).await?;
        let mut of_execution: HashSet<Vec<u8>> = HashSet::new();
        let (mut costs, mut latency_ms) = (Some(0.0), 0.0);
        for (execution, cost, latency) in rows {
            if of_execution.len() == N_EXECUTIONS && !of_execution.contains(&execution) {
                continue;
            }
            of_execution.insert(execution);
            costs = costs.zip(cost).map(|(sum, cost)| sum + cost);
            latency_ms += latency as f64;
        }
        let n = of_execution.len();
        Ok((0 < n).then(|| LatestMeans {
            n_executions: u32::try_from(n).unwrap_or(u32::MAX),
            cost: costs.map(|sum: f64| sum / n as f64),
            latency_ms: latency_ms / n as f64,
        }))
    }
}
