//! Folds stale traces.
//!
//! Optimistic: the observations are read without a lock, and the result is written only if the revision has
//! not changed since. Ingest never waits for a fold.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use perpend_domain::fold::fold;
use perpend_domain::ids::TraceId;
use perpend_domain::observation::Observation;
use perpend_domain::telemetry::TraceVersion;
use perpend_domain::trace::Trace;
use tokio::sync::Mutex;

use super::packed::{self, Extent};
use super::row::{self, OwnRow, READ_OWN, TRACE_COMPUTED, wrong};
use crate::Error;
use perpend_db::{
    Arg, Pool, checked, despite_collisions, in_transaction, query, query_scalar, unlimited,
};

/// Traces per transaction.
const CHUNK: i64 = 100;
/// Maximum of chunks that a list call folds. On a busier database some traces are shown in an older state.
const MAX_CHUNKS: u32 = 200;
/// How often a trace is folded for one reader if batches arrive in between; the last attempt shows the state
/// at the time of the request.
const ATTEMPTS: u32 = 3;
/// A trace with more observations is large.
const MAX_SMALL: i64 = 500;
/// Number of locks of large traces.
const N_LOCKS: usize = 16;

perpend_db::record! {
    #[derive(Debug)]
    struct StaleTrace {
        number: i64,
        revision: i64,
        trace_id: String,
    }
}

impl StaleTrace {
    const fn version(&self) -> TraceVersion {
        TraceVersion { number: self.number, revision: self.revision }
    }

    fn id(&self) -> Result<TraceId, Error> {
        checked("trace", &self.trace_id)
    }
}

const STALE: &str =
    "SELECT number, revision, trace_id FROM traces WHERE stale = 1 ORDER BY number LIMIT $1";
/// The plus keeps SQLite from reading all traces of the tenant by their time, or all after a number: stale
/// ones are few and have an index.
pub(super) const STALE_OF_TENANT: &str = "
    SELECT number, revision, trace_id FROM traces
     WHERE stale = 1 AND +tenant = $1 AND +number > $2 ORDER BY number LIMIT $3";
const STALE_TRACE: &str = "
    SELECT number, revision, trace_id FROM traces WHERE tenant = $1 AND trace_id = $2 AND stale = 1";
const STILL_STALE: &str =
    "SELECT number FROM traces WHERE number = $1 AND revision = $2 AND stale = 1";
const EXTENT: &str = "
    SELECT MIN(o.seq), MAX(o.seq), COUNT(*) FROM observations o WHERE o.trace = $1 GROUP BY o.trace";

/// Observations whose details are short enough for a text with those of many others.
const IS_SHORT: &str = "LENGTH(o.detail) <= 2048";

/// The observations of a small trace, and one more than those of a large one.
fn few_observations_sql() -> &'static str {
    static SQL: OnceLock<String> = OnceLock::new();
    SQL.get_or_init(|| {
        let limit = MAX_SMALL + 1;
        format!("SELECT {READ_OWN} FROM observations o WHERE o.trace = $1 LIMIT {limit}")
    })
}

fn long_observations_sql() -> &'static str {
    static SQL: OnceLock<String> = OnceLock::new();
    SQL.get_or_init(|| {
        format!("SELECT {READ_OWN} FROM observations o WHERE o.trace = $1 AND NOT ({IS_SHORT})")
    })
}

fn short_observations(is_postgres: bool, is_together: bool) -> String {
    packed::statement((is_postgres, is_together), READ_OWN, IS_SHORT)
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

/// A folded trace: its version, the number of its open observations, and the result with its details.
type FoldedTrace = (TraceVersion, i64, Trace, String);

fn folded(
    version: TraceVersion,
    observations: &[Observation],
) -> Result<Option<FoldedTrace>, Error> {
    let n_open = observations.iter().filter(|o| o.end.is_none()).count() as i64;
    let Some(computed) = fold(observations) else {
        return Ok(None);
    };
    let detail = row::trace_detail(&computed)?;
    Ok(Some((version, n_open, computed, detail)))
}

/// Folds stale traces, cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    pool: Pool,
    /// One reader at a time folds a large trace; the others wait for it. Numbers of traces share the locks.
    large: Arc<[Mutex<()>; N_LOCKS]>,
}

impl Folder {
    pub(super) fn new(pool: &Pool) -> Self {
        Self { pool: pool.clone(), large: Arc::default() }
    }

    /// Not within the limits of a request: the next reader needs the folded traces too.
    async fn fold_all(&self, stale: &[StaleTrace]) -> Result<(), Error> {
        unlimited(self.fold_and_write(stale)).await
    }

    async fn fold_and_write(&self, stale: &[StaleTrace]) -> Result<(), Error> {
        let mut all: Vec<FoldedTrace> = Vec::with_capacity(stale.len());
        for trace in stale {
            let rows: Vec<OwnRow> =
                query(few_observations_sql()).bind(trace.number).fetch_all(&self.pool).await?;
            if (MAX_SMALL as usize) < rows.len() {
                Box::pin(self.fold_large(trace)).await?;
                continue;
            }
            let id = trace.id()?;
            let observations = rows.iter().map(|row| row.observation(id.clone()));
            let observations = observations.collect::<Result<Vec<_>, _>>()?;
            all.extend(folded(trace.version(), &observations)?);
        }
        self.write(&all).await
    }

    /// Folds a large trace, unless another reader has done so in the meantime.
    async fn fold_large(&self, trace: &StaleTrace) -> Result<(), Error> {
        let lock = trace.number.unsigned_abs() as usize % N_LOCKS;
        let _turn = self.large[lock].lock().await;
        let version = trace.version();
        let still_stale = query_scalar(STILL_STALE).bind(version.number).bind(version.revision);
        let still_stale: Option<i64> = still_stale.fetch_optional(&self.pool).await?;
        if still_stale.is_none() {
            return Ok(());
        }
        let observations = self.large_trace(trace).await?;
        // Folding a large trace would block the other requests of this thread.
        let result = tokio::task::spawn_blocking(move || folded(version, &observations)).await;
        let result = result.map_err(|error| wrong("trace", error))??;
        self.write(result.as_slice()).await
    }

    /// The observations of a large trace.
    async fn large_trace(&self, trace: &StaleTrace) -> Result<Vec<Observation>, Error> {
        let number = trace.number;
        let found: Vec<(i64, i64, i64)> = query(EXTENT).bind(number).fetch_all(&self.pool).await?;
        let Some((first, last, n)) = found.into_iter().next() else {
            return Ok(Vec::new());
        };
        let extent = Extent { trace: number, first, last, n };
        let id = trace.id()?;
        let of_trace = id.clone();
        let convert = move |row: OwnRow| row.observation(of_trace.clone());
        let mut observations =
            packed::read(&self.pool, extent, short_observations, convert).await?;
        let long: Vec<OwnRow> =
            query(long_observations_sql()).bind(number).fetch_all(&self.pool).await?;
        for row in long {
            observations.push(row.observation(id.clone())?);
        }
        Ok(observations)
    }

    async fn write(&self, folded: &[FoldedTrace]) -> Result<(), Error> {
        if folded.is_empty() {
            return Ok(());
        }
        despite_collisions!(write_all(&self.pool, folded).await)
    }

    /// Folds the stale traces that have not changed since `before`; returns the others with their revisions. A
    /// trace that changes permanently is folded by its readers.
    pub(super) async fn fold_quiet(
        &self,
        before: &HashMap<i64, i64>,
    ) -> Result<HashMap<i64, i64>, Error> {
        let stale: Vec<StaleTrace> = query(STALE).bind(20 * CHUNK).fetch_all(&self.pool).await?;
        let (quiet, busy): (Vec<StaleTrace>, Vec<StaleTrace>) =
            stale.into_iter().partition(|trace| before.get(&trace.number) == Some(&trace.revision));
        for chunk in quiet.chunks(CHUNK as usize) {
            self.fold_all(chunk).await?;
        }
        Ok(busy.into_iter().map(|trace| (trace.number, trace.revision)).collect())
    }

    /// Folds the stale traces of a tenant.
    pub(super) async fn of_tenant(&self, tenant: i64) -> Result<(), Error> {
        let mut n_chunks = 0;
        for _ in 0..ATTEMPTS {
            let mut after = i64::MIN;
            loop {
                let stale = query(STALE_OF_TENANT).bind(tenant).bind(after).bind(CHUNK);
                let stale: Vec<StaleTrace> = stale.fetch_all(&self.pool).await?;
                let Some(last) = stale.last() else {
                    break;
                };
                after = last.number;
                n_chunks += 1;
                self.fold_all(&stale).await?;
                if n_chunks == MAX_CHUNKS {
                    return Ok(());
                }
            }
            if after == i64::MIN {
                break;
            }
        }
        Ok(())
    }

    /// Folds one trace if it is stale.
    pub(super) async fn of_trace(&self, tenant: i64, trace: &TraceId) -> Result<(), Error> {
        for _ in 0..ATTEMPTS {
            let args: [Arg<'_>; 2] = [tenant.into(), trace.as_str().into()];
            let stale: Vec<StaleTrace> =
                query(STALE_TRACE).bind_all(&args).fetch_all(&self.pool).await?;
            if stale.is_empty() {
                break;
            }
            self.fold_all(&stale).await?;
        }
        Ok(())
    }
}

async fn write_all(pool: &Pool, folded: &[FoldedTrace]) -> Result<(), Error> {
    in_transaction!(pool, |tx| {
        for (version, n_open, computed, detail) in folded {
            let mut args: Vec<Arg<'_>> =
                vec![version.number.into(), version.revision.into(), (*n_open).into()];
            row::push_trace_args(&mut args, computed, detail);
            tx.execute(update_sql(), &args).await?;
        }
    });
    Ok(())
}
