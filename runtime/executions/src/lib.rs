//! Storage of executions: changes, watches, executions, their attempts and outcomes.
//!
//! Invariants:
//! - **Made once.** An execution's id is derived from its key and unique; making it again is a no-op.
//! - **Change rows are consumed once.** They are deleted in the transaction that makes their executions.
//! - **One holder.** Every statement that ends a lease repeats state and fence in its WHERE clause.
//!   Executions that another process has taken over are left unchanged, and so are their scores.
//! - **Scores and state together.** Scores are written in the transaction that completes their execution.

mod backfills;
mod backtests;
mod claim;
mod codes;
mod connection_use;
mod costs;
mod counts;
mod exchanges;
mod figures;
mod finish;
mod firings;
mod funnel;
mod latest;
mod list;
mod logs;
mod matches;
mod model_calls;
mod outcome;
mod queue;
mod read;
mod replies;
mod row;
mod server_runs;
mod supersede;
mod sweep;
mod waiting;

pub use backfills::{BackfillChange, BackfillStep, SettledExecutions};
pub use backtests::{BacktestStep, Flip, FlipCursor};
pub use claim::{Lease, QueueShare, Release, ResumeScope};
pub use connection_use::{FailedCall, ModelCost};
pub use costs::{CostReservation, DayCost, InsufficientBudget, RuleCost, Spending};
pub use counts::RuleCount;
pub use exchanges::{AttemptKey, CallKey, KeptResponse, NewExchange};
pub use figures::{EvaluatorFigures, Percentiles};
pub use finish::{EndReport, LeaseEnd, count, end};
pub use firings::{RuleFiring, RuleSchedule};
pub use funnel::{FailureCount, rule_funnel};
pub use latest::LatestMeans;
pub use list::ExecutionFilter;
pub use logs::log_excerpt;
pub use matches::{MatchBatch, NewWatch, PlannedExecution, Watch, make};
pub use outcome::{ExecutionEnd, Outcome};
pub use queue::ExecutionQueue;
pub use read::StateCount;
pub use replies::StoredReply;
pub use server_runs::{
    AnsweredItem, ClaimedItem, FailedItem, ItemEnd, MAX_DRIVEN_RUNS, NewServerRun, OwnedByRuns,
    RunChange, RunItem, RunLease, RunProgress, RunRetry, ServerRun, delete_server_run,
    delete_server_runs_of_dataset, insert_run,
};
pub use supersede::{SupersededExecution, replaced};
pub use waiting::{FailedExecutionFilter, WaitingCount};

use perpend_db::{Error, Pool};

/// Handle to the tables of executions, cheap to clone.
#[derive(Clone, Debug)]
pub struct Ledger {
    pool: Pool,
}

impl Ledger {
    /// For a database with the current schema.
    #[must_use]
    pub fn new(pool: &Pool) -> Self {
        Self { pool: pool.clone() }
    }
}
