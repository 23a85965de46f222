//! The targets of a backtest before it starts.

use std::sync::Arc;

use perpend_db::{Scratch, is_half_over};
use perpend_domain::backtest::BacktestPlan;
use perpend_domain::evaluation::{Evaluator, ExecutionClass, Target};
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

use super::super::BackfillScan;
use super::{N_TARGETS, range_of, rule_of};
use crate::Scheduler;
use crate::catalog::{prepare_evaluator, prepare_with};

/// Maximum of examined targets.
const MAX_EXAMINED: u64 = 2_000;

/// Targets of a backtest, counted over its newest targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BacktestEstimate {
    /// Examined targets.
    pub n_examined: u64,
    /// Targets with a live score.
    pub n_items: u64,
    /// Targets without a live score.
    pub n_unscored: u64,
    /// Targets that the filter does not take.
    pub n_refused: u64,
    /// Whether all targets of the range were examined.
    pub is_whole: bool,
    /// Start of the last examined target.
    pub reached_at: Option<Timestamp>,
}

impl Scheduler {
    /// Counts the newest targets of a backtest without evaluating them.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn estimate_backtest(
        &self,
        project: &ProjectId,
        plan: &BacktestPlan,
    ) -> Result<BacktestEstimate, perpend_db::Error> {
        let inner = &self.inner;
        let store = &inner.deps.store;
        let mut found = BacktestEstimate::default();
        let evaluator = store.catalog.evaluator(project, &plan.evaluator).await?;
        let (Some(evaluator), Some(rule)) = (evaluator, rule_of(plan, inner.deps.clock.now()))
        else {
            return Ok(found);
        };
        let evaluator = Evaluator { version: plan.version.clone(), paused: None, ..evaluator };
        let prepared = Arc::new(prepare_evaluator(store, project, evaluator).await?);
        let range = range_of(plan, &rule);
        let scan = BackfillScan {
            project,
            plan: &range,
            rule: Arc::new(prepare_with(rule, &prepared)),
            class: ExecutionClass::Backfill,
        };
        let mut cursor: Option<String> = None;
        while found.n_examined < MAX_EXAMINED && !is_half_over() {
            let _scratch = Scratch::begin();
            let page = inner.backfill_page(&scan, cursor, N_TARGETS).await?;
            let planned = page.executions.into_iter();
            let targets: Vec<Target> = planned.map(|each| each.execution.target).collect();
            let live = inner.live_scores(project, plan, &targets).await?;
            let n_scored = targets.iter().filter(|target| live.contains_key(*target)).count();
            found.n_examined += page.counts.n_examined;
            found.n_refused += page.counts.n_refused;
            found.n_items += n_scored as u64;
            found.n_unscored += (targets.len() - n_scored) as u64;
            found.reached_at = page.reached_at.or(found.reached_at);
            cursor = page.cursor;
            if page.is_end {
                found.is_whole = true;
                break;
            }
        }
        Ok(found)
    }
}
