//! Change rows for the rule matcher: inserted in the transaction that writes the data, deleted in the one
//! that handles them.

use std::collections::BTreeSet;

use perpend_domain::ids::{ObservationId, ProjectId, SessionId, TraceId};
use perpend_domain::score::{NewScore, Subject};
use perpend_domain::telemetry::IngestChange;
use perpend_domain::time::Timestamp;

use crate::{Error, Telemetry};
use perpend_db::{Sized, Tx, checked, query, value_list};

perpend_db::record! {
    struct ChangeRow {
        seq: i64,
        project_id: String,
        received_at: i64,
        body: Vec<u8>,
        is_scored: i16,
    }
}

/// Kind of the body of a change row: written observations, scored traces and observations, scored sessions,
/// or traces linked by runs.
const WRITTEN: i64 = 0;
const SCORED: i64 = 1;
const SCORED_SESSIONS: i64 = 2;
const LINKED: i64 = 3;

const TOUCHED: &str = "
    SELECT seq, project_id, received_at, body, is_scored FROM touched ORDER BY seq LIMIT $1";
const INSERT: &str =
    "INSERT INTO touched (project_id, received_at, body, is_scored) VALUES ($1, $2, $3, $4)";
static DELETE_TOUCHED: Sized =
    Sized::repeatable(|n| format!("DELETE FROM touched WHERE seq IN ({})", value_list(n, 1)));

fn wrong(error: &dyn std::error::Error) -> Error {
    Error::Inconsistent { what: "touched row", detail: error.to_string() }
}

/// The sessions in the body of a change row. Invalid ids are skipped.
fn sessions_of_body(body: &[u8]) -> Result<Vec<SessionId>, Error> {
    let ids: Vec<&str> = postcard::from_bytes(body).map_err(|error| wrong(&error))?;
    let ids = ids.into_iter().map(SessionId::new);
    Ok(ids.filter_map(Result::ok).collect())
}

/// The body of a change row: ids of observations by trace, in the order of the request. For a scored trace,
/// as opposed to an observation of it, the id is empty.
fn touched_body(body: &[u8]) -> Result<Vec<(TraceId, Option<ObservationId>)>, Error> {
    let traces: Vec<(&str, Vec<&str>)> =
        postcard::from_bytes(body).map_err(|error| wrong(&error))?;
    let mut found = Vec::new();
    for (trace, observations) in traces {
        let trace = TraceId::new(trace).map_err(|error| wrong(&error))?;
        for id in observations {
            let id = match id {
                "" => None,
                id => Some(ObservationId::new(id).map_err(|error| wrong(&error))?),
            };
            found.push((trace.clone(), id));
        }
    }
    Ok(found)
}

/// The inverse of [`touched_body`].
fn to_touched_body<'t>(
    touched: impl Iterator<Item = (&'t TraceId, Option<&'t ObservationId>)>,
) -> Result<Vec<u8>, Error> {
    let mut traces: Vec<(&str, Vec<&str>)> = Vec::new();
    for (trace, id) in touched {
        let id = id.map_or("", |id| id.as_str());
        match traces.last_mut() {
            Some((last, ids)) if *last == trace.as_str() => ids.push(id),
            _ => traces.push((trace.as_str(), vec![id])),
        }
    }
    postcard::to_allocvec(&traces).map_err(|error| wrong(&error))
}

async fn insert(
    tx: &mut Tx,
    project: &ProjectId,
    (body, kind): (Vec<u8>, i64),
    now: Timestamp,
) -> Result<(), Error> {
    let args = [project.as_str().into(), now.as_micros().into(), body.into(), kind.into()];
    tx.execute(INSERT, &args).await?;
    Ok(())
}

/// Records written observations.
pub(super) async fn note_written(
    tx: &mut Tx,
    project: &ProjectId,
    changed: &[(TraceId, ObservationId)],
    now: Timestamp,
) -> Result<(), Error> {
    if changed.is_empty() {
        return Ok(());
    }
    let body = to_touched_body(changed.iter().map(|(trace, id)| (trace, Some(id))))?;
    insert(tx, project, (body, WRITTEN), now).await
}

/// Records that a run linked an item to a trace.
pub(super) async fn note_linked(
    tx: &mut Tx,
    project: &ProjectId,
    trace: &TraceId,
    now: Timestamp,
) -> Result<(), Error> {
    let body = to_touched_body([(trace, None)].into_iter())?;
    insert(tx, project, (body, LINKED), now).await
}

/// Records scores by users or clients. Scores by evaluators matter only to the rules that wait for them.
pub(super) async fn note_scored(
    tx: &mut Tx,
    project: &ProjectId,
    scores: &[NewScore],
    now: Timestamp,
) -> Result<(), Error> {
    let of_others = scores.iter().filter(|score| score.origin.is_none());
    let (mut scored, mut sessions) = (BTreeSet::new(), BTreeSet::new());
    for score in of_others {
        match &score.subject {
            Subject::Trace(trace) => {
                scored.insert((trace, None));
            }
            Subject::Observation(trace, id) => {
                scored.insert((trace, Some(id)));
            }
            Subject::Session(session) => {
                sessions.insert(session.as_str());
            }
            Subject::Experiment(_) => {}
        }
    }
    if !scored.is_empty() {
        let body = to_touched_body(scored.into_iter())?;
        insert(tx, project, (body, SCORED), now).await?;
    }
    if !sessions.is_empty() {
        let body = postcard::to_allocvec(&sessions).map_err(|error| wrong(&error))?;
        insert(tx, project, (body, SCORED_SESSIONS), now).await?;
    }
    Ok(())
}

/// Deletes change rows, inside the transaction of the caller. `false` if another matcher has taken some of
/// them.
///
/// # Errors
/// When the database fails.
pub async fn take_changes(tx: &mut Tx, seqs: &[i64]) -> Result<bool, Error> {
    let push = |args: &mut Vec<_>, seq: &i64| args.push((*seq).into());
    Ok(tx.execute_for(&DELETE_TOUCHED, seqs, push).await? == seqs.len() as u64)
}

impl Telemetry {
    /// The oldest unhandled change rows. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn touched(&self, limit: u32) -> Result<Vec<IngestChange>, Error> {
        let rows: Vec<ChangeRow> =
            query(TOUCHED).bind(i64::from(limit)).fetch_all(&self.pool).await?;
        let touched = rows.into_iter().map(|row| {
            let mut touched = IngestChange {
                seq: row.seq,
                project: checked("touched row", &row.project_id)?,
                received_at: Timestamp::from_micros(row.received_at),
                observations: Vec::new(),
                scored: Vec::new(),
                scored_sessions: Vec::new(),
                linked: Vec::new(),
            };
            match i64::from(row.is_scored) {
                WRITTEN => {
                    let written = touched_body(&row.body)?.into_iter();
                    let written = written.filter_map(|(trace, id)| Some((trace, id?)));
                    touched.observations = written.collect();
                }
                SCORED => touched.scored = touched_body(&row.body)?,
                LINKED => {
                    let linked = touched_body(&row.body)?.into_iter();
                    touched.linked = linked.map(|(trace, _)| trace).collect();
                }
                _ => touched.scored_sessions = sessions_of_body(&row.body)?,
            }
            Ok(touched)
        });
        touched.collect()
    }
}
