//! Of several executions over one target, the newest that ended well speaks: the scores of the others are put
//! aside (evaluation.md 1.12).

use std::collections::{BTreeSet, HashSet};

use perpend_domain::ids::{EvaluatorId, ExecutionId, ProjectId, RuleId, TraceId};
use sha2::{Digest as _, Sha256};

use super::outcome::{Finished, Outcome};
use super::row::id_of;
use crate::Error;
use perpend_sql::{Arg, As, Tx};

/// A trace, and what judges it. Only traces are judged again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Judged<'f> {
    project: &'f ProjectId,
    trace: &'f TraceId,
    rule: &'f RuleId,
    evaluator: &'f EvaluatorId,
}

/// How often it was judged, or is to be, beyond the first time.
const GENERATION: &str = "
    SELECT CAST(COALESCE(MAX(generation), 0) AS BIGINT) FROM executions
     WHERE project_id = $1 AND trace_id = $2 AND rule_id = $3 AND evaluator_id = $4
       AND observation_id IS NULL AND shadow IS NULL";
/// The newest that ended well is the first; states 4 and 5 are those.
const ALL: &str = "
    SELECT id FROM executions
     WHERE project_id = $1 AND trace_id = $2 AND rule_id = $3 AND evaluator_id = $4
       AND observation_id IS NULL AND shadow IS NULL
     ORDER BY CASE WHEN state IN (4, 5) THEN 0 ELSE 1 END, generation DESC";
const LOCK_POSTGRES: &str = "SELECT COUNT(pg_advisory_xact_lock($1))";
/// Keeps the locks apart from others that are taken in this database.
const FIRST_LOCK: i64 = 4_707_217 << 32;

impl Judged<'_> {
    fn args(&self) -> [Arg<'_>; 4] {
        [
            self.project.as_str().into(),
            self.trace.as_str().into(),
            self.rule.as_str().into(),
            self.evaluator.as_str().into(),
        ]
    }

    /// Two nodes that end executions over it take turns, so that the second sees what the first left.
    async fn lock(&self, tx: &mut Tx) -> Result<(), Error> {
        if !tx.is_postgres() {
            return Ok(());
        }
        let mut hash = Sha256::new();
        for part in [
            self.project.as_str(),
            self.trace.as_str(),
            self.rule.as_str(),
        ] {
            hash.update(part);
            hash.update([0]);
        }
        let [a, b, c, d, ..] = <[u8; 32]>::from(hash.finalize());
        let lock = FIRST_LOCK + i64::from(u32::from_be_bytes([a, b, c, d]));
        tx.integer(LOCK_POSTGRES, &[lock.into()]).await?;
        Ok(())
    }
}

/// An execution whose scores another one took the place of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced<'f> {
    /// The tenant.
    pub project: &'f ProjectId,
    /// What both judged.
    pub trace: &'f TraceId,
    /// The older one.
    pub execution: ExecutionId,
    /// The newest that ended well.
    pub newest: ExecutionId,
}

/// The traces that executions which are ours judged to a good end.
fn judged<'f>(finished: &'f [Finished<'f>], mine: &HashSet<i64>) -> BTreeSet<Judged<'f>> {
    let ended_well = |each: &&Finished<'_>| {
        matches!(each.outcome, Outcome::Completed(_) | Outcome::Skipped(_))
            && each.execution.made.target.observation_id.is_none()
            && each.execution.made.shadow.is_none()
            && mine.contains(&each.execution.seq)
    };
    let judged = finished.iter().filter(ended_well).map(|each| Judged {
        project: &each.execution.project,
        trace: &each.execution.made.target.trace_id,
        rule: &each.execution.made.rule_id,
        evaluator: &each.execution.made.evaluator_id,
    });
    judged.collect()
}

/// Whose scores are to be put aside after these ended, inside the transaction that ended those that are `mine`.
///
/// # Errors
/// When the database fails.
pub async fn replaced<'f>(
    tx: &mut Tx,
    finished: &'f [Finished<'f>],
    mine: &HashSet<i64>,
) -> Result<Vec<Replaced<'f>>, Error> {
    let mut replaced = Vec::new();
    for each in judged(finished, mine) {
        if tx.integer(GENERATION, &each.args()).await? == 0 {
            continue;
        }
        each.lock(tx).await?;
        let all = tx.rows(ALL, &each.args(), &[As::Blob]).await?;
        let all = all.iter().map(|cells| id_of(cells[0].blob()?));
        let all = all.collect::<Result<Vec<ExecutionId>, Error>>()?;
        let Some((newest, others)) = all.split_first() else {
            continue;
        };
        replaced.extend(others.iter().map(|other| Replaced {
            project: each.project,
            trace: each.trace,
            execution: other.clone(),
            newest: newest.clone(),
        }));
    }
    Ok(replaced)
}
