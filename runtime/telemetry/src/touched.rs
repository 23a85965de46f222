//! What was written, for whoever matches it with rules: noted in the transaction that writes it, forgotten in the
//! one that has dealt with it.

use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::telemetry::Touched;
use perpend_domain::time::Timestamp;

use crate::{Error, Telemetry};
use perpend_sql::{Sized, Tx, checked, query, value_list};

perpend_sql::record! {
    struct TouchedRow {
        seq: i64,
        project_id: String,
        received_at: i64,
        body: Vec<u8>,
    }
}

const TOUCHED: &str = "
    SELECT seq, project_id, received_at, body FROM touched ORDER BY seq LIMIT $1";
static DELETE_TOUCHED: Sized =
    Sized::repeatable(|n| format!("DELETE FROM touched WHERE seq IN ({})", value_list(n, 1)));

/// The body of a touched row: observations by trace, in the order of the request.
fn touched_body(body: &[u8]) -> Result<Vec<(TraceId, ObservationId)>, Error> {
    let wrong = |detail: String| Error::Inconsistent {
        what: "touched row",
        detail,
    };
    let traces: Vec<(&str, Vec<&str>)> =
        postcard::from_bytes(body).map_err(|error| wrong(error.to_string()))?;
    let mut found = Vec::new();
    for (trace, observations) in traces {
        let trace = TraceId::new(trace).map_err(|error| wrong(error.to_string()))?;
        for id in observations {
            let id = ObservationId::new(id).map_err(|error| wrong(error.to_string()))?;
            found.push((trace.clone(), id));
        }
    }
    Ok(found)
}

/// What [`touched_body`] reads.
pub(super) fn to_touched_body(changed: &[(&TraceId, &ObservationId)]) -> Result<Vec<u8>, Error> {
    let mut traces: Vec<(&str, Vec<&str>)> = Vec::new();
    for (trace, id) in changed {
        match traces.last_mut() {
            Some((last, ids)) if *last == trace.as_str() => ids.push(id.as_str()),
            _ => traces.push((trace.as_str(), vec![id.as_str()])),
        }
    }
    postcard::to_allocvec(&traces).map_err(|error| Error::Inconsistent {
        what: "touched row",
        detail: error.to_string(),
    })
}

/// Forgets touched rows, inside the caller's transaction. `false` when another matcher has taken some of them.
///
/// # Errors
/// When the database fails.
pub async fn take_touched(tx: &mut Tx, seqs: &[i64]) -> Result<bool, Error> {
    let push = |args: &mut Vec<_>, seq: &i64| args.push((*seq).into());
    Ok(tx.execute_for(&DELETE_TOUCHED, seqs, push).await? == seqs.len() as u64)
}

impl Telemetry {
    /// The oldest touched rows that nobody has dealt with. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn touched(&self, limit: u32) -> Result<Vec<Touched>, Error> {
        let rows: Vec<TouchedRow> = query(TOUCHED)
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        let touched = rows.into_iter().map(|row| {
            Ok(Touched {
                seq: row.seq,
                project: checked("touched", &row.project_id)?,
                received_at: Timestamp::from_micros(row.received_at),
                observations: touched_body(&row.body)?,
            })
        });
        touched.collect()
    }
}
