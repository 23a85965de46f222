//! Backfills: a rule applied to stored targets, page by page, newest first.
//!
//! Invariants:
//! - **Bounded.** One page of targets is in memory at a time, and a limited number of executions of a backfill waits or
//!   runs. The next page is read when half of them have ended.
//! - **Resumed exactly.** A page is written in one transaction with the position after it, at the revision of the
//!   backfill that was read before. A process that is killed, and another node with the same page, change nothing.
//! - **Behind live scoring.** The executions have the class `backfill`, which gets the fewest turns.

mod backtests;
mod chosen;
mod estimate;
mod pages;
mod steps;

use std::sync::Arc;

use perpend_domain::backfill::{BackfillPlan, BackfillReason};
use perpend_domain::evaluation::{ExecutionClass, Rule};
use perpend_domain::filter::WrittenFilter;
use perpend_domain::ids::ProjectId;

use crate::catalog::{PreparedRule, prepare_alone};
use crate::deps::Inner;

pub use backtests::{BACKTEST_JOB, BacktestAdvance, BacktestEstimate};
pub use chosen::ChosenTargets;
pub use estimate::BackfillEstimate;
pub use steps::BackfillAdvance;

/// The name of the job that advances backfills.
pub const BACKFILL_JOB: &str = "backfills";

/// A backfill with its rule as it is now.
#[derive(Clone, Debug)]
struct BackfillScan<'p> {
    project: &'p ProjectId,
    plan: &'p BackfillPlan,
    /// With the conditions of both, and without shadow versions.
    rule: Arc<PreparedRule>,
    /// Of the executions.
    class: ExecutionClass,
}

/// Whether a backfill can continue.
#[derive(Clone, Debug)]
enum Preparation<'p> {
    Ready(BackfillScan<'p>),
    /// It waits until the rule changes.
    Waits(BackfillReason),
    /// It cannot continue.
    Fails(BackfillReason),
}

impl Inner {
    async fn prepare_backfill<'p>(
        &self,
        project: &'p ProjectId,
        plan: &'p BackfillPlan,
    ) -> Result<Preparation<'p>, perpend_db::Error> {
        let store = &self.deps.store;
        let Some(rule) = store.catalog.rule(project, &plan.rule).await? else {
            return Ok(Preparation::Fails(BackfillReason::RuleDeleted));
        };
        if rule.target != plan.target {
            return Ok(Preparation::Fails(BackfillReason::RuleChanged));
        }
        if !rule.enabled {
            return Ok(Preparation::Waits(BackfillReason::RuleDisabled));
        }
        let scan = self.scan_of(project, plan, rule).await?;
        let mut assignments = scan.rule.assignments.iter();
        let all_paused = assignments.all(|each| each.evaluator.evaluator.paused.is_some());
        Ok(match scan.rule.rule.paused.is_some() || all_paused {
            true => Preparation::Waits(BackfillReason::RulePaused),
            false => Preparation::Ready(scan),
        })
    }

    async fn scan_of<'p>(
        &self,
        project: &'p ProjectId,
        plan: &'p BackfillPlan,
        rule: Rule,
    ) -> Result<BackfillScan<'p>, perpend_db::Error> {
        let sent = [rule.filter.sent(), plan.filter.sent()].concat();
        let (filter, _) = WrittenFilter::stored(sent, rule.target.filter_columns());
        let rule = Rule { filter, ..rule };
        let mut rule = prepare_alone(&self.deps.store, project, rule).await?;
        rule.assignments.retain(|each| each.shadow.is_none());
        let class = ExecutionClass::Backfill;
        Ok(BackfillScan { project, plan, rule: Arc::new(rule), class })
    }
}
