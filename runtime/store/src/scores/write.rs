//! Writing scores, many at a time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::OnceLock;

use assay_domain::ids::{ExecutionId, ProjectId, ScoreId, TraceId};
use assay_domain::score::{NewScore, ScoreValue, Subject};
use assay_domain::time::Timestamp;
use sqlx::{PgConnection, SqliteConnection};

use super::{storable, storable_json};
use crate::pool::in_transaction;
use crate::spell::Spell as _;
use crate::{Error, Store};

/// A connection inside the caller's transaction: `(&mut *tx).into()` with either driver.
pub(crate) enum Connection<'t> {
    Sqlite(&'t mut SqliteConnection),
    Postgres(&'t mut PgConnection),
}

impl<'t> From<&'t mut SqliteConnection> for Connection<'t> {
    fn from(connection: &'t mut SqliteConnection) -> Self {
        Self::Sqlite(connection)
    }
}

impl<'t> From<&'t mut PgConnection> for Connection<'t> {
    fn from(connection: &'t mut PgConnection) -> Self {
        Self::Postgres(connection)
    }
}

/// Runs the body once for each driver.
macro_rules! on_connection {
    ($connection:expr, |$db:ident| $body:block) => {
        match $connection {
            Connection::Sqlite($db) => $body,
            Connection::Postgres($db) => $body,
        }
    };
}

/// Rows per statement, descending. Few sizes, so that all of them stay prepared.
const CHUNKS: [usize; 3] = [64, 8, 1];
static UPSERTS: [OnceLock<String>; 3] = [const { OnceLock::new() }; 3];

const COLUMNS: [&str; 26] = [
    "project_id",
    "id",
    "trace_id",
    "observation_id",
    "session_id",
    "experiment_id",
    "timestamp",
    "created_at",
    "updated_at",
    "name",
    "data_type",
    "number",
    "text",
    "source",
    "environment",
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
];
/// From here on in [`COLUMNS`] a second write replaces; those before belong to the first.
const FIRST_REPLACED: usize = 9;

fn upsert(size: usize) -> String {
    let mut sql = format!("INSERT INTO scores ({}) VALUES ", COLUMNS.join(", "));
    for row in 0..size {
        sql.push_str(if row == 0 { "(" } else { ", (" });
        for column in 0..COLUMNS.len() {
            let comma = if column == 0 { "" } else { ", " };
            // Writing to a `String` cannot fail.
            let _ = write!(sql, "{comma}${}", row * COLUMNS.len() + column + 1);
        }
        sql.push(')');
    }
    let replaced = &COLUMNS[FIRST_REPLACED..];
    let sets: Vec<_> = replaced
        .iter()
        .map(|c| format!("{c} = excluded.{c}"))
        .collect();
    let differs: Vec<_> = replaced
        .iter()
        .map(|c| format!("scores.{c} IS DISTINCT FROM excluded.{c}"))
        .collect();
    let _ = write!(
        sql,
        " ON CONFLICT (project_id, id) DO UPDATE SET {}, updated_at = excluded.updated_at WHERE {}",
        sets.join(", "),
        differs.join(" OR ")
    );
    sql
}

/// The statement for as many as possible of `n` rows, and how many that is.
fn statement(n: usize) -> (&'static str, usize) {
    let at = CHUNKS.iter().position(|&size| size <= n).unwrap_or(2);
    let sql = UPSERTS[at].get_or_init(|| upsert(CHUNKS[at]));
    (sql, CHUNKS[at])
}

/// One score of a call, which may hold it several times.
struct Row<'s> {
    /// Gives target and time.
    first: &'s NewScore,
    /// Gives everything else.
    last: &'s NewScore,
    metadata: String,
}

/// In the order of ids: two transactions that write the same scores wait for each other instead of
/// deadlocking. One row per id: a statement cannot replace a row it inserted itself.
fn rows(scores: &[NewScore]) -> Result<Vec<Row<'_>>, Error> {
    let mut by_id: BTreeMap<&ScoreId, (&NewScore, &NewScore)> = BTreeMap::new();
    for score in scores {
        by_id
            .entry(&score.id)
            .and_modify(|(_, last)| *last = score)
            .or_insert((score, score));
    }
    by_id
        .into_values()
        .map(|(first, last)| {
            Ok(Row {
                first,
                last,
                metadata: storable_json(&last.metadata)?,
            })
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

/// Binds one row in the order of [`COLUMNS`].
macro_rules! bind_row {
    ($query:expr, $project:expr, $row:expr, $now:expr) => {{
        let score = $row.last;
        let [trace, observation, session, experiment] = target(&$row.first.subject);
        let (number, text) = value(&score.value);
        let origin = score.origin.as_ref();
        $query
            .bind($project.as_str())
            .bind(score.id.as_str())
            .bind(trace)
            .bind(observation)
            .bind(session.map(storable))
            .bind(experiment.map(storable))
            .bind($row.first.timestamp.as_micros())
            .bind($now.as_micros())
            .bind($now.as_micros())
            .bind(storable(&score.name))
            .bind(score.value.data_type().as_str())
            .bind(number)
            .bind(text.map(storable))
            .bind(score.source.as_str())
            .bind(storable(&score.environment))
            .bind(score.comment.as_deref().map(storable))
            .bind(&$row.metadata)
            .bind(score.config_id.as_deref().map(storable))
            .bind(score.queue_id.as_deref().map(storable))
            .bind(score.author_user_id.as_deref().map(storable))
            .bind(origin.map(|o| o.execution_id.as_str()))
            .bind(origin.map(|o| o.evaluator_id.as_str()))
            .bind(origin.map(|o| o.evaluator_version_id.as_str()))
            .bind(origin.map(|o| o.rule_id.as_str()))
            .bind(origin.map(|o| o.fingerprint.as_bytes().as_slice()))
            .bind(origin.map(|o| o.inclusion_probability))
    }};
}

/// Writes scores of one project inside the caller's transaction; of equal ids the later one holds.
pub(crate) async fn put(
    connection: Connection<'_>,
    project: &ProjectId,
    scores: &[NewScore],
    now: Timestamp,
) -> Result<(), Error> {
    let rows = rows(scores)?;
    on_connection!(connection, |db| {
        let mut rest = rows.as_slice();
        while !rest.is_empty() {
            let (sql, size) = statement(rest.len());
            let (chunk, after) = rest.split_at(size);
            let mut query = sqlx::query(db.spell(sql));
            for row in chunk {
                query = bind_row!(query, project, row, now);
            }
            query.execute(&mut *db).await?;
            rest = after;
        }
    });
    Ok(())
}

const IDS_OF_EXECUTION: &str = "
    SELECT id FROM scores WHERE project_id = $1 AND trace_id = $2 AND execution_id = $3";
const DELETE: &str = "DELETE FROM scores WHERE project_id = $1 AND id = $2";

/// Deletes the scores of an execution that are not in `keep`, inside the caller's transaction: an
/// attempt that gives fewer scores than an earlier one must not leave the surplus (evaluation.md 1.7).
/// `trace` is the trace of its target.
pub(crate) async fn delete_others(
    connection: Connection<'_>,
    project: &ProjectId,
    trace: &TraceId,
    execution: &ExecutionId,
    keep: &[ScoreId],
) -> Result<(), Error> {
    on_connection!(connection, |db| {
        let standing: Vec<String> = sqlx::query_scalar(IDS_OF_EXECUTION)
            .bind(project.as_str())
            .bind(trace.as_str())
            .bind(execution.as_str())
            .fetch_all(&mut *db)
            .await?;
        for id in standing {
            if keep.iter().all(|kept| kept.as_str() != id) {
                sqlx::query(DELETE)
                    .bind(project.as_str())
                    .bind(id)
                    .execute(&mut *db)
                    .await?;
            }
        }
    });
    Ok(())
}

impl Store {
    /// Writes scores. A score whose id stands already gets the new name, value, source, comment,
    /// metadata and origin; its target, timestamp and time of creation stay. The same again changes
    /// nothing, the time of the last change included. Of equal ids in one call the later one holds.
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
        in_transaction!(&self.pool, |tx| {
            put((&mut *tx).into(), project, scores, now).await?;
        });
        Ok(())
    }

    /// Deletes a score.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no such score.
    pub async fn delete_score(&self, project: &ProjectId, id: &ScoreId) -> Result<(), Error> {
        let n_gone = in_transaction!(&self.pool, |tx| {
            sqlx::query(DELETE)
                .bind(project.as_str())
                .bind(id.as_str())
                .execute(&mut *tx)
                .await?
                .rows_affected()
        });
        match n_gone {
            0 => Err(Error::NotFound),
            _ => Ok(()),
        }
    }
}
