//! Reads the observations of a large trace as a few texts: for many rows, fetching single rows costs more than
//! reading them.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use perpend_db::Pool;
use serde::de::DeserializeOwned;

use super::row::wrong;
use crate::Error;

/// Observations that are read as one text: a few megabytes unless ids and names are long.
const PER_PART: i64 = 6_250;
/// The rows of a trace count as adjacent if at least one of this number of rows between its first and its
/// last is its own.
const AMONG: i64 = 4;
/// Number of texts at a time.
const AT_ONCE: usize = 3;

/// The rows of a trace in storage order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// The number of the trace.
    pub(super) trace: i64,
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) n: i64,
}

/// A range of rows in storage order.
#[derive(Clone, Copy, Debug)]
struct RowRange {
    from: i64,
    to: i64,
    /// Whether most rows in the range belong to one trace.
    is_together: bool,
}

/// A statement that selects `columns` of the observations `o` of the trace `$1` from `$2` up to `$3`, as a
/// JSON array with one array per row.
///
/// Adjacent rows are read in storage order. SQLite would look each up by its id, which takes three times as
/// long.
pub(super) fn statement(
    (is_postgres, is_together): (bool, bool),
    columns: &str,
    condition: &str,
) -> String {
    let (list, row) = match is_postgres {
        true => ("json_agg", "json_build_array"),
        false => ("json_group_array", "json_array"),
    };
    let of_trace = match is_together && !is_postgres {
        // The sign makes the index of the column unusable.
        true => "+o.trace",
        false => "o.trace",
    };
    format!(
        "SELECT CAST({list}({row}({columns})) AS TEXT) FROM observations o \
         WHERE {of_trace} = $1 AND o.seq >= $2 AND o.seq < $3 AND {condition}"
    )
}

/// The observations of a trace in no particular order. `statement` returns a [`statement`] for each kind of
/// database and for adjacent rows or others; `convert` is called on a thread that may block.
pub(super) async fn read<R, T, F>(
    pool: &Pool,
    extent: Extent,
    statement: fn(bool, bool) -> String,
    convert: F,
) -> Result<Vec<T>, Error>
where
    R: DeserializeOwned + 'static,
    T: Send + 'static,
    F: Fn(R) -> Result<T, Error> + Clone + Send + Sync + 'static,
{
    let parts = parts(pool, extent).await?;
    let is_postgres = pool.is_postgres();
    let parts = parts.into_iter().map(|part| {
        let sql = statement(is_postgres, part.is_together);
        read_part(pool, (extent.trace, part), sql, convert.clone())
    });
    let parts: Vec<Vec<T>> = stream::iter(parts).buffer_unordered(AT_ONCE).try_collect().await?;
    Ok(parts.into_iter().flatten().collect())
}

async fn read_part<R, T, F>(
    pool: &Pool,
    (trace, part): (i64, RowRange),
    sql: String,
    convert: F,
) -> Result<Vec<T>, Error>
where
    R: DeserializeOwned + 'static,
    T: Send + 'static,
    F: Fn(R) -> Result<T, Error> + Send + 'static,
{
    let args = [trace.into(), part.from.into(), part.to.into()];
    let packed: Vec<(Option<String>,)> = pool.select(&sql, &args).await?;
    let Some((Some(packed),)) = packed.into_iter().next() else {
        return Ok(Vec::new());
    };
    let unpack = move || -> Result<Vec<T>, Error> {
        let rows: Vec<R> =
            serde_json::from_str(&packed).map_err(|error| wrong("observation", error))?;
        rows.into_iter().map(convert).collect()
    };
    tokio::task::spawn_blocking(unpack).await.map_err(|error| wrong("observation", error))?
}

/// Ranges that contain all rows of a trace.
async fn parts(pool: &Pool, extent: Extent) -> Result<Vec<RowRange>, Error> {
    let Extent { trace, first, last, n } = extent;
    if AMONG * n <= last - first {
        return stretches(pool, trace).await;
    }
    let n_parts = 1 + n / PER_PART;
    let width = 1 + (last - first) / n_parts;
    let starts = (0..n_parts).map(|at| first + at * width);
    let stretch = |from| RowRange { from, to: from + width, is_together: true };
    Ok(starts.map(stretch).collect())
}

/// The ranges of the rows of a trace that are not adjacent: some may be, and a few may have arrived much
/// later.
async fn stretches(pool: &Pool, trace: i64) -> Result<Vec<RowRange>, Error> {
    let sql = format!(
        "SELECT MIN(x.seq), MAX(x.seq), COUNT(*) FROM (SELECT o.seq, \
         (ROW_NUMBER() OVER (ORDER BY o.seq) - 1) / {PER_PART} AS part \
         FROM observations o WHERE o.trace = $1) x GROUP BY x.part"
    );
    let found: Vec<(i64, i64, i64)> = pool.select(&sql, &[trace.into()]).await?;
    let stretch = |(first, last, n): (i64, i64, i64)| RowRange {
        from: first,
        to: last + 1,
        is_together: last - first < AMONG * n,
    };
    Ok(found.into_iter().map(stretch).collect())
}
