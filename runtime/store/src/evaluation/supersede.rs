//! Of several executions over one target, the newest that ended well speaks: the scores of the others are put
//! aside (evaluation.md 1.12).

use std::collections::BTreeSet;

use perpend_domain::ids::{EvaluatorId, ExecutionId, ProjectId, RuleId, TraceId};
use sha2::{Digest as _, Sha256};

use super::row::id_of;
use crate::Error;
use crate::telemetry::scores::put_aside;
use perpend_sql::{Arg, As, Tx};

/// A trace, and what judges it. Only traces are judged again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Judged<'f> {
    pub(super) project: &'f ProjectId,
    pub(super) trace: &'f TraceId,
    pub(super) rule: &'f RuleId,
    pub(super) evaluator: &'f EvaluatorId,
}

/// How often it was judged, or is to be, beyond the first time.
const GENERATION: &str = "
    SELECT CAST(COALESCE(MAX(generation), 0) AS BIGINT) FROM executions
     WHERE project_id = $1 AND trace_id = $2 AND rule_id = $3 AND evaluator_id = $4
       AND observation_id IS NULL";
/// The newest that ended well is the first; states 4 and 5 are those.
const ALL: &str = "
    SELECT id FROM executions
     WHERE project_id = $1 AND trace_id = $2 AND rule_id = $3 AND evaluator_id = $4
       AND observation_id IS NULL
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

/// Leaves of each only the scores of the newest execution that ended well.
pub(super) async fn leave_the_newest(
    tx: &mut Tx,
    judged: &BTreeSet<Judged<'_>>,
) -> Result<(), Error> {
    for each in judged {
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
        for other in others {
            put_aside(tx, (each.project, each.trace), other, newest).await?;
        }
    }
    Ok(())
}
