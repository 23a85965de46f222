//! Folds stale traces.
//!
//! Optimistic: the observations are read without a lock, and the result is written only if the revision has
//! not changed since. Ingest never waits for a fold.

use std::collections::HashMap;
use std::sync::OnceLock;

use perpend_domain::fold::fold;
use perpend_domain::ids::TraceId;
use perpend_domain::trace::Trace;

use super::row::{self, ObservationRow, READ, TRACE_COMPUTED};
use crate::Error;
use perpend_db::{Arg, Pool, despite_collisions, in_transaction, query, unlimited};

/// Traces per transaction.
const CHUNK: i64 = 100;
/// Maximum of chunks that a list call folds. On a busier database some traces are shown in an older state.
const MAX_CHUNKS: u32 = 200;

perpend_db::record! {
    #[derive(Clone, Copy, Debug)]
    struct StaleTrace {
        number: i64,
        revision: i64,
    }
}

const STALE: &str = "SELECT number, revision FROM traces WHERE stale = 1 ORDER BY number LIMIT $1";
/// The plus keeps SQLite from reading all traces of the tenant by their time: stale ones are few and have an
/// index.
pub(super) const STALE_OF_TENANT: &str = "
    SELECT number, revision FROM traces WHERE stale = 1 AND +tenant = $1 ORDER BY number LIMIT $2";
const STALE_TRACE: &str = "
    SELECT number, revision FROM traces WHERE tenant = $1 AND trace_id = $2 AND stale = 1";

fn observations_sql() -> &'static str {
    static SQL: OnceLock<String> = OnceLock::new();
    SQL.get_or_init(|| {
        format!(
            "SELECT {READ} FROM traces t JOIN observations o ON o.trace = t.number WHERE t.number = $1"
        )
    })
}

fn update_sql() -> &'static str {
    static SQL: OnceLock<String> = OnceLock::new();
    SQL.get_or_init(|| {
        let columns: Vec<String> = TRACE_COMPUTED
            .iter()
            .chain(&["detail"])
            .enumerate()
            .map(|(at, column)| format!("{column} = ${}", at + 4))
            .collect();
        format!(
            "UPDATE traces SET stale = 0, n_open = $3, {} WHERE number = $1 AND revision = $2",
            columns.join(", ")
        )
    })
}

/// Not within the limits of a request: the next reader needs the folded traces too.
async fn fold_all(pool: &Pool, stale: &[StaleTrace]) -> Result<(), Error> {
    unlimited(fold_and_write(pool, stale)).await
}

async fn fold_and_write(pool: &Pool, stale: &[StaleTrace]) -> Result<(), Error> {
    let mut folded: Vec<FoldedTrace> = Vec::with_capacity(stale.len());
    for trace in stale {
        let rows: Vec<ObservationRow> =
            query(observations_sql()).bind(trace.number).fetch_all(pool).await?;
        let observations =
            rows.iter().map(ObservationRow::observation).collect::<Result<Vec<_>, _>>()?;
        let n_open = observations.iter().filter(|o| o.end.is_none()).count() as i64;
        if let Some(computed) = fold(&observations) {
            let detail = row::trace_detail(&computed)?;
            folded.push((*trace, n_open, computed, detail));
        }
    }
    despite_collisions!(write_all(pool, &folded).await)
}

/// A trace, the number of its open observations, and the result of folding it.
type FoldedTrace = (StaleTrace, i64, Trace, String);

async fn write_all(pool: &Pool, folded: &[FoldedTrace]) -> Result<(), Error> {
    in_transaction!(pool, |tx| {
        for (trace, n_open, computed, detail) in folded {
            let mut args: Vec<Arg<'_>> =
                vec![trace.number.into(), trace.revision.into(), (*n_open).into()];
            row::push_trace_args(&mut args, computed, detail);
            tx.execute(update_sql(), &args).await?;
        }
    });
    Ok(())
}

/// Folds the stale traces that have not changed since `before`; returns the others with their revisions. A
/// trace that changes permanently is folded by its readers.
pub(super) async fn fold_quiet(
    pool: &Pool,
    before: &HashMap<i64, i64>,
) -> Result<HashMap<i64, i64>, Error> {
    let stale: Vec<StaleTrace> = query(STALE).bind(20 * CHUNK).fetch_all(pool).await?;
    let (quiet, busy): (Vec<StaleTrace>, Vec<StaleTrace>) =
        stale.into_iter().partition(|trace| before.get(&trace.number) == Some(&trace.revision));
    for chunk in quiet.chunks(CHUNK as usize) {
        fold_all(pool, chunk).await?;
    }
    Ok(busy.into_iter().map(|trace| (trace.number, trace.revision)).collect())
}

/// Folds the stale traces of a tenant.
pub(super) async fn of_tenant(pool: &Pool, tenant: i64) -> Result<(), Error> {
    for _ in 0..MAX_CHUNKS {
        let stale: Vec<StaleTrace> =
            query(STALE_OF_TENANT).bind(tenant).bind(CHUNK).fetch_all(pool).await?;
        if stale.is_empty() {
            break;
        }
        fold_all(pool, &stale).await?;
    }
    Ok(())
}

/// Folds one trace if it is stale.
pub(super) async fn of_trace(pool: &Pool, tenant: i64, trace: &TraceId) -> Result<(), Error> {
    // Repeated if a batch arrived in between; the last attempt shows the state at the time of the request.
    for _ in 0..3 {
        let args: [Arg<'_>; 2] = [tenant.into(), trace.as_str().into()];
        let stale: Vec<StaleTrace> = query(STALE_TRACE).bind_all(&args).fetch_all(pool).await?;
        if stale.is_empty() {
            break;
        }
        fold_all(pool, &stale).await?;
    }
    Ok(())
}
