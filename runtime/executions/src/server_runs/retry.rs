//! Further calls for the failed items of a run.

use perpend_db::{in_transaction, query, query_scalar};
use perpend_domain::ids::ProjectId;
use perpend_domain::server_run::RunState;
use perpend_domain::time::Timestamp;

use super::drive::state_of;
use crate::{Error, Ledger};

/// The outcome of a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunRetry {
    /// This number of failed items is pending.
    Pending(u64),
    /// The state of the run does not allow it: its calls have not ended, or it was cancelled.
    Refused(RunState),
}

// The row is locked: the run cannot be resumed meanwhile.
const LOCK: &str = "
    UPDATE server_runs SET updated_at = $3 WHERE project_id = $1 AND id = $2 RETURNING state";
/// Another attempt has another trace, and is a new target of rules.
const FAILED_AGAIN: &str = "
    UPDATE server_run_items
       SET state = 0, attempt = attempt + 1, tries = 0, due_at = $3, error_class = NULL, error_message = NULL
     WHERE project_id = $1 AND run_id = $2 AND state = 4";
const REOPEN: &str = "
    UPDATE server_runs SET state = 0, ended_at = NULL, updated_at = $3
     WHERE project_id = $1 AND id = $2 AND state = 2";

impl Ledger {
    /// Makes the failed items of a completed or paused run pending, each with another attempt, and continues a completed
    /// run. `None` if there is no such run.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn retry_failed_items(
        &self,
        project: &ProjectId,
        id: &str,
        now: Timestamp,
    ) -> Result<Option<RunRetry>, Error> {
        let n_pending = in_transaction!(&self.pool, |tx| {
            let state: Option<i16> = query_scalar(LOCK)
                .bind(project.as_str())
                .bind(id)
                .bind(now.as_micros())
                .fetch_optional(&mut tx)
                .await?;
            let Some(state) = state.map(state_of).transpose()? else {
                return Ok(None);
            };
            if !matches!(state, RunState::Completed | RunState::Paused) {
                return Ok(Some(RunRetry::Refused(state)));
            }
            let n_pending = query(FAILED_AGAIN)
                .bind(project.as_str())
                .bind(id)
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            if 0 < n_pending {
                query(REOPEN)
                    .bind(project.as_str())
                    .bind(id)
                    .bind(now.as_micros())
                    .execute(&mut tx)
                    .await?;
            }
            n_pending
        });
        Ok(Some(RunRetry::Pending(n_pending)))
    }
}
