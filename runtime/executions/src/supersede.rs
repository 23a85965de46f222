//! Of several executions over one target, the newest successful one counts. The scores of the others are
//! superseded (evaluation.md 1.12).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::LazyLock;

use perpend_domain::evaluation::Target;
use perpend_domain::ids::{EvaluatorId, ExecutionId, ProjectId, RuleId};
use sha2::{Digest as _, Sha256};

use super::outcome::{ExecutionEnd, Outcome};
use super::row::id_of;
use crate::Error;
use perpend_db::{Arg, ColumnType, Tx};

/// A target and its evaluator. Observations are evaluated more than once by backfills only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EvaluatedTarget<'f> {
    project: &'f ProjectId,
    target: &'f Target,
    rule: &'f RuleId,
    evaluator: &'f EvaluatorId,
}

/// Number of the generation: repetitions after the first evaluation.
static GENERATION: LazyLock<[String; 4]> = LazyLock::new(|| {
    OVER.map(|over| {
        format!("SELECT CAST(COALESCE(MAX(generation), 0) AS BIGINT) FROM executions {over}")
    })
});
/// The newest successful execution comes first; states 4 and 5 are successful.
static ALL: LazyLock<[String; 4]> = LazyLock::new(|| {
    OVER.map(|over| {
        format!(
            "SELECT id FROM executions {over} \
             ORDER BY CASE WHEN state IN (4, 5) THEN 0 ELSE 1 END, generation DESC"
        )
    })
});
/// Whether a rule has evaluated any observation more than once. SQLite uses the partial index only if the condition is
/// written as in the index.
const HAS_REPEATED: &str = "
    SELECT CAST(COUNT(*) AS BIGINT)
      FROM (SELECT seq FROM executions
             WHERE project_id = $1 AND rule_id = $2 AND generation > 0 AND observation_id IS NOT NULL LIMIT 1) r";
/// Conditions for a trace, for a session, for a run and for an observation.
const OVER: [&str; 4] = [
    "WHERE project_id = $1 AND trace_id = $2 AND rule_id = $3 AND evaluator_id = $4 \
       AND observation_id IS NULL AND session_id IS NULL AND shadow IS NULL",
    "WHERE project_id = $1 AND session_id = $2 AND rule_id = $3 AND evaluator_id = $4 AND shadow IS NULL",
    "WHERE project_id = $1 AND trace_id = '' AND observation_id = $2 AND rule_id = $3 AND evaluator_id = $4 \
       AND session_id IS NULL AND shadow IS NULL",
    "WHERE project_id = $1 AND trace_id = $2 AND rule_id = $3 AND evaluator_id = $4 \
       AND observation_id = $5 AND session_id IS NULL AND shadow IS NULL",
];
const LOCK_POSTGRES: &str = "SELECT COUNT(pg_advisory_xact_lock($1))";
/// Base of the advisory locks, so that they do not collide with others of this database.
const FIRST_LOCK: i64 = 4_707_217 << 32;

impl EvaluatedTarget<'_> {
    /// The index of the statements, and the id for which they search.
    fn over(&self) -> (usize, &str) {
        match self.target {
            Target::Observation(trace, _) => (3, trace.as_str()),
            Target::Trace(trace) => (0, trace.as_str()),
            Target::Session(session) => (1, session.as_str()),
            Target::Run(run) => (2, run),
        }
    }

    fn args(&self) -> Vec<Arg<'_>> {
        let mut args: Vec<Arg<'_>> = vec![
            self.project.as_str().into(),
            self.over().1.into(),
            self.rule.as_str().into(),
            self.evaluator.as_str().into(),
        ];
        args.extend(self.target.observation().map(|id| Arg::from(id.as_str())));
        args
    }

    /// Serialises nodes that end executions over the same target, so that the second one sees the commit of
    /// the first.
    async fn lock(&self, tx: &mut Tx) -> Result<(), Error> {
        if !tx.is_postgres() {
            return Ok(());
        }
        let mut hash = Sha256::new();
        for part in [self.project.as_str(), self.over().1, self.rule.as_str()] {
            hash.update(part);
            hash.update([0]);
        }
        let [a, b, c, d, ..] = <[u8; 32]>::from(hash.finalize());
        let lock = FIRST_LOCK + i64::from(u32::from_be_bytes([a, b, c, d]));
        tx.integer(LOCK_POSTGRES, &[lock.into()]).await?;
        Ok(())
    }
}

/// An execution whose scores are superseded by another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupersededExecution<'f> {
    /// The tenant.
    pub project: &'f ProjectId,
    /// The target of both.
    pub target: &'f Target,
    /// The older execution.
    pub execution: ExecutionId,
    /// The newest successful execution.
    pub newest: ExecutionId,
}

/// The targets of successful executions that are still under our lease.
fn judged<'f>(
    finished: &'f [ExecutionEnd<'f>],
    mine: &HashSet<i64>,
) -> BTreeSet<EvaluatedTarget<'f>> {
    let ended_well = |each: &&ExecutionEnd<'_>| {
        matches!(each.outcome, Outcome::Completed(_) | Outcome::Skipped(_))
            && each.execution.made.shadow.is_none()
            && mine.contains(&each.execution.seq)
    };
    let judged = finished.iter().filter(ended_well).map(|each| EvaluatedTarget {
        project: &each.execution.project,
        target: &each.execution.made.target,
        rule: &each.execution.made.rule_id,
        evaluator: &each.execution.made.evaluator_id,
    });
    judged.collect()
}

/// The targets that may have been evaluated before.
async fn evaluated_again<'f>(
    tx: &mut Tx,
    finished: &'f [ExecutionEnd<'f>],
    mine: &HashSet<i64>,
) -> Result<Vec<EvaluatedTarget<'f>>, Error> {
    // Nearly all rules evaluate each observation once: then one statement for each rule is enough.
    let mut has_repeated: BTreeMap<(&ProjectId, &RuleId), bool> = BTreeMap::new();
    let mut found = Vec::new();
    for each in judged(finished, mine) {
        let rule = (each.project, each.rule);
        if !each.target.is_whole() && !has_repeated.contains_key(&rule) {
            let args = [each.project.as_str().into(), each.rule.as_str().into()];
            has_repeated.insert(rule, tx.integer(HAS_REPEATED, &args).await? != 0);
        }
        if each.target.is_whole() || has_repeated[&rule] {
            found.push(each);
        }
    }
    Ok(found)
}

/// The executions whose scores are superseded after these ended, inside the transaction that ended those in
/// `mine`.
///
/// # Errors
/// When the database fails.
pub async fn replaced<'f>(
    tx: &mut Tx,
    finished: &'f [ExecutionEnd<'f>],
    mine: &HashSet<i64>,
) -> Result<Vec<SupersededExecution<'f>>, Error> {
    let mut replaced = Vec::new();
    for each in evaluated_again(tx, finished, mine).await? {
        let (place, _) = each.over();
        if tx.integer(&GENERATION[place], &each.args()).await? == 0 {
            continue;
        }
        each.lock(tx).await?;
        let all = tx.rows(&ALL[place], &each.args(), &[ColumnType::Blob]).await?;
        let all = all.iter().map(|cells| id_of(cells[0].blob()?));
        let all = all.collect::<Result<Vec<ExecutionId>, Error>>()?;
        let Some((newest, others)) = all.split_first() else {
            continue;
        };
        replaced.extend(others.iter().map(|other| SupersededExecution {
            project: each.project,
            target: each.target,
            execution: other.clone(),
            newest: newest.clone(),
        }));
    }
    Ok(replaced)
}
