//! Writing scores, many at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use perpend_domain::evaluation::Target;
use perpend_domain::ids::{ExecutionId, ProjectId, ScoreId};
use perpend_domain::score::{NewScore, ScoreValue, Subject};
use perpend_domain::time::Timestamp;

use super::storable_json;
use crate::change_log::note_scored;
use crate::{Error, Telemetry};
use perpend_db::{Arg, ColumnType, Sized, Tx, query, value_list, value_rows};
use perpend_db::{despite_collisions, in_transaction};

const COLUMNS: [&str; 28] = [
    "project_id",
    "id",
    "trace_id",
    "observation_id",
    "session_id",
    "experiment_id",
    "environment",
    "timestamp",
    "created_at",
    "updated_at",
    "name",
    "data_type",
    "number",
    "text",
    "source",
    "comment",
    "metadata",
    "config_id",
    "queue_id",
    "author_user_id",
    "execution_id",
    "evaluator_id",
    "evaluator_version_id",
    "rule_id",
    "fingerprint",
    "inclusion_probability",
    "given_name",
    "public_half",
];
/// Index of the first column in [`COLUMNS`] that a second write replaces; earlier columns keep the values of
/// the first write.
const FIRST_REPLACED: usize = 10;

static INSERT: Sized = Sized::repeatable(|n| format!("{} DO NOTHING", insert_into(n)));
static UPSERT: Sized = Sized::new(|n| upsert(n, ""));
/// Replaces only rows that were written with the same public key.
static UPSERT_OF_HALF: Sized =
    Sized::new(|n| upsert(n, "scores.public_half = excluded.public_half AND "));

fn upsert(n: usize, only: &str) -> String {
    let replaced = &COLUMNS[FIRST_REPLACED..];
    let sets: Vec<_> = replaced.iter().map(|c| format!("{c} = excluded.{c}")).collect();
    let differs: Vec<_> =
        replaced.iter().map(|c| format!("scores.{c} IS DISTINCT FROM excluded.{c}")).collect();
    format!(
        "{} DO UPDATE SET {}, updated_at = excluded.updated_at WHERE {only}({})",
        insert_into(n),
        sets.join(", "),
        differs.join(" OR ")
    )
}

/// Ids of scores that belong to other writers.
static OF_OTHERS: Sized = Sized::new(|n| {
    format!(
        "SELECT id FROM scores WHERE project_id = $1 AND public_half IS DISTINCT FROM $2 AND id IN ({})",
        value_list(n, 3)
    )
});

fn insert_into(n_rows: usize) -> String {
    format!(
        "INSERT /*or fail*/ INTO scores ({}) VALUES {} ON CONFLICT (project_id, id)",
        COLUMNS.join(", "),
        value_rows(n_rows, COLUMNS.len(), 1)
    )
}

/// One score of a call, which may contain its id several times.
struct ScoreInsert<'s> {
    /// Provides target, environment and time.
    first: &'s NewScore,
    /// Provides all other columns.
    last: &'s NewScore,
    metadata: String,
}

/// In the order of ids, so that two transactions that write the same scores rarely deadlock. One row per id:
/// a statement cannot replace a row that it inserted itself.
fn rows(scores: &[NewScore]) -> Result<Vec<ScoreInsert<'_>>, Error> {
    let mut by_id: BTreeMap<&ScoreId, (&NewScore, &NewScore)> = BTreeMap::new();
    for score in scores {
        by_id.entry(&score.id).and_modify(|(_, last)| *last = score).or_insert((score, score));
    }
    by_id
        .into_values()
        .map(|(first, last)| {
            Ok(ScoreInsert { first, last, metadata: storable_json(&last.metadata)? })
        })
        .collect()
}

/// Trace, observation, session, experiment.
fn target(subject: &Subject) -> [Option<&str>; 4] {
    match subject {
        Subject::Trace(trace) => [Some(trace.as_str()), None, None, None],
        Subject::Observation(trace, observation) => {
            [Some(trace.as_str()), Some(observation.as_str()), None, None]
        }
        Subject::Session(session) => [None, None, Some(session), None],
        Subject::Experiment(experiment) => [None, None, None, Some(experiment)],
    }
}

fn value(value: &ScoreValue) -> (Option<f64>, Option<&str>) {
    match value {
        ScoreValue::Numeric(number) => (Some(*number), None),
        ScoreValue::Boolean(truth) => (Some(f64::from(u8::from(*truth))), None),
        ScoreValue::Categorical(text) | ScoreValue::Text(text) | ScoreValue::Correction(text) => {
            (None, Some(text))
        }
    }
}

/// Appends the values of one row in the order of [`COLUMNS`].
fn push_args<'s>(
    args: &mut Vec<Arg<'s>>,
    project: &'s ProjectId,
    row: &'s ScoreInsert<'s>,
    half: Option<&'s str>,
    now: Timestamp,
) {
    let score = row.last;
    let [trace, observation, session, experiment] = target(&row.first.subject);
    let (number, text) = value(&score.value);
    let origin = score.origin.as_ref();
    args.extend([
        project.as_str().into(),
        score.id.as_str().into(),
        trace.into(),
        observation.into(),
        session.into(),
        experiment.into(),
        row.first.environment.as_str().into(),
        row.first.timestamp.as_micros().into(),
        now.as_micros().into(),
        now.as_micros().into(),
        score.name.as_str().into(),
        score.value.data_type().as_str().into(),
        number.into(),
        text.into(),
        score.source.as_str().into(),
        score.comment.as_deref().into(),
        row.metadata.as_str().into(),
        score.config_id.as_deref().into(),
        score.queue_id.as_deref().into(),
        score.author_user_id.as_deref().into(),
        origin.map(|o| o.execution_id.as_str()).into(),
        origin.map(|o| o.evaluator_id.as_str()).into(),
        origin.map(|o| o.evaluator_version_id.as_str()).into(),
        origin.map(|o| o.rule_id.as_str()).into(),
        Arg::Blob(origin.map(|o| o.fingerprint.as_bytes().as_slice().into())),
        origin.map(|o| o.inclusion_probability).into(),
        origin.map(|o| o.score_name.as_str()).into(),
        half.into(),
    ]);
}

/// Writes scores of one project inside the transaction of the caller. Of equal ids the later one wins.
///
/// # Errors
/// When the database fails; the same holds for the other functions of this module.
pub async fn put(
    tx: &mut Tx,
    project: &ProjectId,
    scores: &[NewScore],
    now: Timestamp,
) -> Result<(), Error> {
    put_by(tx, project, scores, None, now).await
}

/// As [`put`], for a caller authenticated only by the public half of a key: it does not replace scores of
/// others.
async fn put_by(
    tx: &mut Tx,
    project: &ProjectId,
    scores: &[NewScore],
    half: Option<&str>,
    now: Timestamp,
) -> Result<(), Error> {
    let upsert = match half {
        None => &UPSERT,
        Some(_) => &UPSERT_OF_HALF,
    };
    let rows = rows(scores)?;
    let mut rest = rows.as_slice();
    while !rest.is_empty() {
        let push = |args: &mut Vec<_>, row| push_args(args, project, row, half, now);
        let (n_new, later) = tx.execute_some(&INSERT, &[], rest, push).await?;
        let (chunk, later) = rest.split_at(rest.len() - later.len());
        // Nearly all scores are new; only existing ones may have to be replaced.
        if (n_new as usize) < chunk.len() {
            tx.execute_for(upsert, chunk, push).await?;
        }
        rest = later;
    }
    Ok(())
}

static IDS_OF_EXECUTION: LazyLock<[String; 3]> = LazyLock::new(|| {
    OF_EXECUTION.map(|of_execution| format!("SELECT id FROM scores {of_execution}"))
});
/// Conditions for an execution over a trace or its observations, over a session, and over a run.
const OF_EXECUTION: [&str; 3] = [
    "WHERE project_id = $1 AND trace_id = $2 AND execution_id = $3",
    "WHERE project_id = $1 AND session_id = $2 AND execution_id = $3",
    "WHERE project_id = $1 AND experiment_id = $2 AND execution_id = $3",
];
const DELETE: &str = "DELETE FROM scores WHERE project_id = $1 AND id = $2";

/// The index of the statements for a target, and the id for which they search.
pub(super) fn place_of(target: &Target) -> (usize, &str) {
    match target {
        Target::Observation(trace, _) | Target::Trace(trace) => (0, trace.as_str()),
        Target::Session(session) => (1, session.as_str()),
        Target::Run(run) => (2, run),
    }
}

/// Deletes the scores of an execution that are not in `keep`, inside the transaction of the caller: an
/// attempt with fewer scores than an earlier one must not leave the surplus (evaluation.md 1.7).
pub async fn delete_surplus(
    tx: &mut Tx,
    (project, target): (&ProjectId, &Target),
    execution: &ExecutionId,
    keep: &[ScoreId],
) -> Result<(), Error> {
    let (place, over) = place_of(target);
    let args = [project.as_str(), over, execution.as_str()].map(Arg::from);
    let ids = tx.rows(&IDS_OF_EXECUTION[place], &args, &[ColumnType::Text]);
    for cells in ids.await? {
        let id = cells[0].text()?;
        if keep.iter().all(|kept| kept.as_str() != id) {
            tx.execute(DELETE, &[project.as_str().into(), id.into()]).await?;
        }
    }
    Ok(())
}

/// Moves the scores of an execution over a target to the superseded ones, with `newest` as the execution that
/// supersedes them. Inside the transaction of the caller.
pub async fn supersede(
    tx: &mut Tx,
    (project, target): (&ProjectId, &Target),
    execution: &ExecutionId,
    newest: &ExecutionId,
) -> Result<(), Error> {
    static COPY: LazyLock<[[String; 3]; 2]> = LazyLock::new(|| {
        let copy = |of_execution, locked| {
            let columns = COLUMNS.join(", ");
            format!(
                "INSERT INTO superseded_scores ({columns}, superseded_by) \
                 SELECT {columns}, $4 FROM (SELECT * FROM scores {of_execution} {locked}) old \
                 WHERE true ON CONFLICT (project_id, id) DO NOTHING"
            )
        };
        // Waits for a concurrent deletion, so that deleted rows are not copied.
        ["", "FOR UPDATE"].map(|locked| OF_EXECUTION.map(|of_execution| copy(of_execution, locked)))
    });
    static REMOVE: LazyLock<[String; 3]> = LazyLock::new(|| {
        OF_EXECUTION.map(|of_execution| format!("DELETE FROM scores {of_execution}"))
    });
    let (place, over) = place_of(target);
    let of_execution = [project.as_str(), over, execution.as_str()].map(Arg::from);
    let [project, over, execution] = of_execution.clone();
    let args = [project, over, execution, newest.as_str().into()];
    tx.execute(&COPY[usize::from(tx.is_postgres())][place], &args).await?;
    tx.execute(&REMOVE[place], &of_execution).await?;
    Ok(())
}

impl Telemetry {
    /// Writes scores. A score with an existing id gets the new name, value, source, comment, metadata and
    /// origin; its target, environment, timestamp and creation time stay. Writing the same score again
    /// changes nothing, not even the time of the last change. Of equal ids in one call the later one wins.
    ///
    /// # Errors
    /// When the database fails; nothing is written then.
    pub async fn put_scores(
        &self,
        project: &ProjectId,
        scores: &[NewScore],
        now: Timestamp,
    ) -> Result<(), Error> {
        if scores.is_empty() {
            return Ok(());
        }
        despite_collisions!(self.put_scores_once(project, scores, now).await)
    }

    async fn put_scores_once(
        &self,
        project: &ProjectId,
        scores: &[NewScore],
        now: Timestamp,
    ) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            put(&mut tx, project, scores, now).await?;
            note_scored(&mut tx, project, scores, now).await?;
        });
        Ok(())
    }

    /// As [`Telemetry::put_scores`], for a caller authenticated only by the public half of the key with this
    /// id. Scores of other writers are unchanged, and their ids are returned.
    ///
    /// # Errors
    /// When the database fails; nothing is written then.
    pub async fn put_scores_by_public_key(
        &self,
        project: &ProjectId,
        scores: &[NewScore],
        half: &str,
        now: Timestamp,
    ) -> Result<BTreeSet<ScoreId>, Error> {
        despite_collisions!(self.put_of_half_once(project, scores, half, now).await)
    }

    async fn put_of_half_once(
        &self,
        project: &ProjectId,
        scores: &[NewScore],
        half: &str,
        now: Timestamp,
    ) -> Result<BTreeSet<ScoreId>, Error> {
        let ids: BTreeSet<&ScoreId> = scores.iter().map(|score| &score.id).collect();
        let ids: Vec<_> = ids.into_iter().collect();
        Ok(in_transaction!(&self.pool, |tx| {
            put_by(&mut tx, project, scores, Some(half), now).await?;
            note_scored(&mut tx, project, scores, now).await?;
            let mut of_others = BTreeSet::new();
            let mut rest = ids.as_slice();
            while !rest.is_empty() {
                let (sql, n) = OF_OTHERS.for_up_to(rest.len());
                let (chunk, later) = rest.split_at(n);
                let mut args = vec![project.as_str().into(), half.into()];
                args.extend(chunk.iter().map(|id| Arg::from(id.as_str())));
                let found = tx.rows(sql, &args, &[ColumnType::Text]).await?;
                let found = found.iter().map(|cells| cells[0].text());
                let found = found.collect::<Result<BTreeSet<&str>, _>>()?;
                let theirs = chunk.iter().filter(|id| found.contains(id.as_str()));
                of_others.extend(theirs.map(|id| (*id).clone()));
                rest = later;
            }
            of_others
        }))
    }

    /// Deletes a score.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no such score.
    pub async fn delete_score(&self, project: &ProjectId, id: &ScoreId) -> Result<(), Error> {
        let n_gone = in_transaction!(&self.pool, |tx| {
            query(DELETE).bind(project.as_str()).bind(id.as_str()).execute(&mut tx).await?
        });
        match n_gone {
            0 => Err(Error::NotFound),
            _ => Ok(()),
        }
    }
}
