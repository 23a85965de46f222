//! Time, cost and failures of the newest executions of an evaluator.

use perpend_db::Arg;
use perpend_domain::ids::{EvaluatorId, ProjectId};
use perpend_domain::time::Timestamp;

use crate::{Error, Ledger};

/// Newest executions and model calls of the project that are searched for those of the evaluator.
const MAX_SEARCHED: i64 = 5_000;
/// Completed, skipped and failed ones, without those of shadow versions.
const EXECUTIONS: &str = "
    SELECT state, finished_at - first_attempt_at
      FROM (SELECT evaluator_id, shadow, state, first_attempt_at, finished_at FROM executions
             WHERE project_id = $1 AND created_at >= $2 ORDER BY created_at DESC, id DESC LIMIT $3) e
     WHERE evaluator_id = $4 AND shadow IS NULL AND state IN (4, 5, 6)";
/// Executions of the project since a time, at most `$3`.
const COUNT: &str = "
    SELECT COUNT(*) FROM (SELECT id FROM executions WHERE project_id = $1 AND created_at >= $2 LIMIT $3) e";
/// Without calls that were answered by stored replies.
const CALLS: &str = "
    SELECT latency_ms, cost, CASE WHEN error_class IS NULL THEN 0 ELSE 1 END
      FROM (SELECT evaluator_id, latency_ms, cost, error_class, from_cache FROM model_calls
             WHERE project_id = $1 AND started_at >= $2 ORDER BY started_at DESC LIMIT $3) c
     WHERE evaluator_id = $4 AND from_cache = 0";
const FAILED: i16 = 6;

/// The median and the 95th percentile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// The median.
    pub p50: i64,
    /// The 95th percentile.
    pub p95: i64,
}

impl Percentiles {
    /// `None` without values.
    fn of(mut values: Vec<i64>) -> Option<Self> {
        values.sort_unstable();
        let last = values.len().checked_sub(1)?;
        let at = |percent: usize| {
            values[(values.len() * percent).div_ceil(100).saturating_sub(1).min(last)]
        };
        Some(Self { p50: at(50), p95: at(95) })
    }
}

/// Figures of the newest executions of an evaluator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EvaluatorFigures {
    /// Whether the project has more executions than were searched.
    pub is_cut: bool,
    /// Executions that were completed, skipped or failed.
    pub n_executions: u64,
    /// Failed ones.
    pub n_failed: u64,
    /// Microseconds from the first attempt to the end.
    pub time_us: Option<Percentiles>,
    /// Model calls without cached replies.
    pub n_calls: u64,
    /// Calls without a usable reply.
    pub n_failed_calls: u64,
    /// Milliseconds of the other calls.
    pub call_ms: Option<Percentiles>,
    /// Mean cost of the calls with a price, US dollars.
    pub usd_per_call: Option<f64>,
}

impl Ledger {
    /// Figures of an evaluator since a time, from the newest 5,000 executions and model calls of the project.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn evaluator_figures(
        &self,
        project: &ProjectId,
        evaluator: &EvaluatorId,
        since: Timestamp,
    ) -> Result<EvaluatorFigures, Error> {
        let args: [Arg<'_>; 4] = [
            project.as_str().into(),
            since.as_micros().into(),
            MAX_SEARCHED.into(),
            evaluator.as_str().into(),
        ];
        let all: [Arg<'_>; 3] =
            [project.as_str().into(), since.as_micros().into(), (MAX_SEARCHED + 1).into()];
        let n_all: Vec<(i64,)> = self.pool.select(COUNT, &all).await?;
        let executions: Vec<(i16, Option<i64>)> = self.pool.select(EXECUTIONS, &args).await?;
        let calls: Vec<(i64, Option<f64>, i32)> = self.pool.select(CALLS, &args).await?;
        let answered = calls.iter().filter(|(_, _, failed)| *failed == 0);
        let costs: Vec<f64> = calls.iter().filter_map(|(_, cost, _)| *cost).collect();
        let n_answered = answered.clone().count();
        Ok(EvaluatorFigures {
            is_cut: n_all.first().is_some_and(|(n,)| MAX_SEARCHED < *n),
            n_executions: executions.len() as u64,
            n_failed: executions.iter().filter(|(state, _)| *state == FAILED).count() as u64,
            time_us: Percentiles::of(executions.iter().filter_map(|(_, time)| *time).collect()),
            n_calls: calls.len() as u64,
            n_failed_calls: (calls.len() - n_answered) as u64,
            call_ms: Percentiles::of(answered.map(|(ms, ..)| *ms).collect()),
            usd_per_call: (!costs.is_empty())
                .then(|| costs.iter().sum::<f64>() / costs.len() as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_of_the_list() {
        assert_eq!(Percentiles::of(Vec::new()), None);
        assert_eq!(Percentiles::of(vec![7]), Some(Percentiles { p50: 7, p95: 7 }));
        let values: Vec<i64> = (1..=100).rev().collect();
        assert_eq!(Percentiles::of(values), Some(Percentiles { p50: 50, p95: 95 }));
    }
}
