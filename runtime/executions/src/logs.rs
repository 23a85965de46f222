//! The last lines that evaluators logged, by execution.
//!
//! Invariant:
//! - **Bounded and short-lived.** A line may quote the content of a trace. Therefore few lines are kept, for
//!   a week, and lines about a deleted trace are deleted with it.

use std::collections::{BTreeSet, HashSet};

use perpend_db::{Arg, Tx, from_json, in_transaction, query_scalar, to_json};
use perpend_domain::evaluation::Execution;
use perpend_domain::ids::{ProjectId, SessionId, TraceId};
use perpend_domain::plugin::LogLine;
use perpend_domain::time::Timestamp;

use super::backtests::{FORGET_COMMENTS, FORGET_SESSION_COMMENTS};
use super::outcome::ExecutionEnd;
use crate::{Error, Ledger};

/// Maximum of lines per execution.
const MAX_LINES: usize = 50;
/// Maximum of characters of the message of a line, and of its fields.
const MAX_CHARS: usize = 1_000;
/// Retention of lines.
const KEPT_MS: i64 = 7 * 24 * 3_600 * 1_000;

const PUT: &str = "
    INSERT INTO execution_logs (execution_seq, project_id, logged_at, lines) VALUES ($1, $2, $3, $4)
    ON CONFLICT (execution_seq) DO UPDATE SET logged_at = excluded.logged_at, lines = excluded.lines";
const GET: &str = "SELECT lines FROM execution_logs WHERE execution_seq = $1 AND project_id = $2";
const FORGET: &str = "
    DELETE FROM execution_logs
     WHERE execution_seq IN (SELECT seq FROM executions WHERE project_id = $1 AND trace_id = $2)";
const FORGET_OLD: &str = "DELETE FROM execution_logs WHERE logged_at < $1";

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The lines that are kept of a log: the last ones, each cut to the maximum length.
#[must_use]
pub fn log_excerpt(lines: &[LogLine]) -> Vec<LogLine> {
    let last = &lines[lines.len().saturating_sub(MAX_LINES)..];
    let cut = last.iter().map(|line| LogLine {
        level: line.level.clone(),
        message: cut(&line.message),
        fields: line.fields.as_deref().map(cut),
    });
    cut.collect()
}

/// Writes the lines of the attempts that end in this transaction; they replace those of earlier attempts.
pub(super) async fn put(
    tx: &mut Tx,
    finished: &[ExecutionEnd<'_>],
    mine: &HashSet<i64>,
    now: Timestamp,
) -> Result<(), Error> {
    for each in finished {
        let execution = each.execution;
        if each.log.is_empty() || !mine.contains(&execution.seq) {
            continue;
        }
        let lines = to_json("execution log", &log_excerpt(&each.log))?;
        let row: [Arg<'_>; 4] = [
            execution.seq.into(),
            execution.project.as_str().into(),
            now.as_micros().into(),
            lines.as_str().into(),
        ];
        tx.execute(PUT, &row).await?;
    }
    Ok(())
}

impl Ledger {
    /// The lines of the last attempt that logged any, oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn execution_log(&self, execution: &Execution) -> Result<Vec<LogLine>, Error> {
        let lines: Option<String> = query_scalar(GET)
            .bind(execution.seq)
            .bind(execution.project.as_str())
            .fetch_optional(&self.pool)
            .await?;
        match lines {
            Some(lines) => from_json("execution log", &lines),
            None => Ok(Vec::new()),
        }
    }

    /// Deletes the lines about deleted traces, and the comments of backtests about them and their sessions.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn delete_logs(
        &self,
        project: &ProjectId,
        traces: &[TraceId],
        sessions: &BTreeSet<SessionId>,
    ) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            for trace in traces {
                let args: [Arg<'_>; 2] = [project.as_str().into(), trace.as_str().into()];
                tx.execute(FORGET, &args).await?;
                tx.execute(FORGET_COMMENTS, &args).await?;
            }
            for session in sessions {
                let args: [Arg<'_>; 2] = [project.as_str().into(), session.as_str().into()];
                tx.execute(FORGET_SESSION_COMMENTS, &args).await?;
            }
        });
        Ok(())
    }

    /// Deletes lines that are older than a week. Crosses tenants: for the server.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn delete_old_logs(&self, now: Timestamp) -> Result<(), Error> {
        let args: [Arg<'_>; 1] = [now.plus_millis(-KEPT_MS).as_micros().into()];
        self.pool.change(FORGET_OLD, &args).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_long_ones_are_cut() {
        let line = |n: usize| LogLine {
            level: "info".to_owned(),
            message: format!("{n} {}", "é".repeat(5_000)),
            fields: Some("{}".to_owned()),
        };
        let kept = log_excerpt(&(0..200).map(line).collect::<Vec<_>>());
        assert_eq!(kept.len(), MAX_LINES);
        assert!(kept[0].message.starts_with("150 é"));
        assert!(kept.iter().all(|line| line.message.chars().count() == MAX_CHARS + 1));
        assert_eq!(log_excerpt(&[]), []);
    }
}
