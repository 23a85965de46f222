//! Reads for the engine: the targets of many executions at once, and the progress of traces.

use perpend_domain::telemetry::Progress;
use std::collections::HashMap;

use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::observation::Observation;
use perpend_domain::time::Timestamp;
use perpend_domain::trace::Trace;

use super::block;
use super::contents::StoredAt;
use super::row::{ObservationRow, READ, READ_TRACE, TraceRow};
use crate::{Error, Telemetry};
use perpend_db::{Arg, Sized, checked, query, query_scalar, value_list, value_rows};

/// Traces per statement.
const PER_STATEMENT: usize = 100;

/// CROSS JOIN fixes the join order for SQLite, with one index lookup per table.
static BY_KEYS: Sized = Sized::new(|n| {
    format!(
        "WITH k (trace_id, id) AS (VALUES {}) \
         SELECT {READ} FROM tenants n CROSS JOIN k CROSS JOIN traces t CROSS JOIN observations o \
         WHERE n.project_id = $1 AND t.tenant = n.number AND t.trace_id = k.trace_id \
           AND o.trace = t.number AND o.id = k.id",
        value_rows(n, 2, 2)
    )
});
/// Between folds `n_open` of a trace is an upper bound: it still includes spans that have ended since.
/// Because the next examination is at the end of the longest wait, values above zero are counted exactly
/// here.
static PROGRESS: Sized = Sized::new(|n| {
    format!(
        "SELECT t.trace_id, t.first_seen, t.last_seen, t.root_ended_at, t.has_marker, \
                CASE WHEN t.n_open = 0 THEN 0 \
                     ELSE (SELECT COUNT(*) FROM observations o \
                            WHERE o.trace = t.number AND o.ended_at IS NULL) END AS n_open, \
                (SELECT COUNT(*) FROM observations o \
                  WHERE o.trace = t.number AND o.id <> 't-' || t.trace_id) AS n_observations, \
                CASE WHEN t.root_ended_at IS NOT NULL THEN 1 \
                     WHEN EXISTS (SELECT 1 FROM observations o \
                                   WHERE o.trace = t.number AND o.is_root = 1 \
                                     AND o.id <> 't-' || t.trace_id) THEN 1 \
                     ELSE 0 END AS has_root \
           FROM tenants n JOIN traces t ON t.tenant = n.number \
          WHERE n.project_id = $1 AND t.trace_id IN ({})",
        value_list(n, 2)
    )
});
const OF_TRACE: &str = "
    SELECT o.id FROM tenants n
      JOIN traces t ON t.tenant = n.number
      JOIN observations o ON o.trace = t.number
     WHERE n.project_id = $1 AND t.trace_id = $2
     ORDER BY o.started_at, o.id";

static PAYLOADS_BY_KEYS: Sized = Sized::new(|n| {
    format!(
        "WITH k (trace_id, id) AS (VALUES {}) \
         SELECT t.trace_id, o.id, o.payload \
           FROM tenants n CROSS JOIN k CROSS JOIN traces t CROSS JOIN observations o \
          WHERE n.project_id = $1 AND t.tenant = n.number AND t.trace_id = k.trace_id \
            AND o.trace = t.number AND o.id = k.id",
        value_rows(n, 2, 2)
    )
});
const PAYLOADS_OF_TRACE: &str = "
    SELECT DISTINCT o.payload FROM tenants n
      JOIN traces t ON t.tenant = n.number
      JOIN observations o ON o.trace = t.number
     WHERE n.project_id = $1 AND t.trace_id = $2 AND o.payload IS NOT NULL";
const PAYLOADS_OF_ROOT: &str = "
    SELECT DISTINCT o.payload FROM tenants n
      JOIN traces t ON t.tenant = n.number
      JOIN observations o ON o.trace = t.number
     WHERE n.project_id = $1 AND t.trace_id = $2 AND o.payload IS NOT NULL
       AND (o.is_root = 1 OR o.id = 't-' || t.trace_id)";

/// The part of a block that an observation occupies: a block that is not longer than the maximum holds
/// several.
const fn part_of_block(size: usize) -> usize {
    if size <= 2 * block::FULL_BYTES { size / 8 } else { size }
}

perpend_db::record! {
    struct PayloadRow {
        trace_id: String,
        id: String,
        payload: Option<i64>,
    }
}

perpend_db::record! {
    struct ProgressRow {
        trace_id: String,
        first_seen: i64,
        last_seen: i64,
        root_ended_at: Option<i64>,
        n_open: i64,
        has_marker: i16,
        n_observations: i64,
        has_root: i32,
    }
}

fn count(n: i64) -> u32 {
    u32::try_from(n).unwrap_or(0)
}

impl Telemetry {
    /// The existing ones of these observations, in no particular order. The fields that come from their trace
    /// are not set.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn target_observations(
        &self,
        project: &ProjectId,
        keys: &[(TraceId, ObservationId)],
        with_content: bool,
    ) -> Result<Vec<Observation>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(Vec::new());
        };
        let (mut observations, keys) = self.writer.recent.split(tenant, keys, with_content)?;
        let mut found = Vec::with_capacity(keys.len());
        let mut rest = keys.as_slice();
        while !rest.is_empty() {
            let (sql, n) = BY_KEYS.for_up_to(rest.len());
            let (some, later) = rest.split_at(n.min(rest.len()));
            let rows: Vec<ObservationRow> = {
                let mut query = query(sql).bind(project.as_str());
                for (trace, id) in some {
                    query = query.bind(trace.as_str()).bind(id.as_str());
                }
                query.fetch_all(&self.pool).await?
            };
            found.extend(rows);
            rest = later;
        }
        let read = found.iter().map(ObservationRow::observation);
        let read = read.collect::<Result<Vec<_>, _>>()?;
        if with_content {
            let places: Vec<StoredAt> = found.iter().map(|row| (&row.own).into()).collect();
            let contents = self.contents(&places).await?;
            // An observation that was deleted in the meantime does not exist: it must not be scored as if it
            // were empty.
            observations.extend(read.into_iter().zip(contents).filter_map(
                |(mut observation, content)| {
                    observation.content = content?;
                    Some(observation)
                },
            ));
        } else {
            observations.extend(read);
        }
        Ok(observations)
    }

    /// Approximate size of the content of each of these observations; zero for those that do not exist. For a
    /// small one it is the size of its block.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn content_sizes(
        &self,
        project: &ProjectId,
        keys: &[(TraceId, ObservationId)],
    ) -> Result<Vec<usize>, Error> {
        let mut sizes = vec![0; keys.len()];
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(sizes);
        };
        let recent = self.writer.recent.sizes(tenant, keys);
        let mut wanted: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
        for (at, ((trace, id), recent)) in keys.iter().zip(recent).enumerate() {
            match recent {
                Some(size) => sizes[at] = size,
                None => wanted.entry((trace.as_str(), id.as_str())).or_default().push(at),
            }
        }
        let pairs: Vec<(&str, &str)> = wanted.keys().copied().collect();
        let mut rest = pairs.as_slice();
        let mut found: Vec<PayloadRow> = Vec::new();
        while !rest.is_empty() {
            let (sql, n) = PAYLOADS_BY_KEYS.for_up_to(rest.len());
            let (some, later) = rest.split_at(n.min(rest.len()));
            let mut query = query(sql).bind(project.as_str());
            for (trace, id) in some {
                query = query.bind(*trace).bind(*id);
            }
            found.extend(query.fetch_all(&self.pool).await?);
            rest = later;
        }
        let blocks = found.iter().filter_map(|row| row.payload).collect();
        let blocks = self.block_sizes(blocks).await?;
        for row in found {
            let size = row.payload.and_then(|seq| blocks.get(&seq));
            let places = wanted.get(&(row.trace_id.as_str(), row.id.as_str()));
            for at in places.into_iter().flatten() {
                sizes[*at] = size.map_or(0, |size| part_of_block(*size));
            }
        }
        Ok(sizes)
    }

    /// Size of the content of a trace: of all its observations, or of its root and its record alone.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn trace_content_size(
        &self,
        project: &ProjectId,
        id: &TraceId,
        is_whole: bool,
    ) -> Result<usize, Error> {
        let sql = if is_whole { PAYLOADS_OF_TRACE } else { PAYLOADS_OF_ROOT };
        let blocks: Vec<i64> = query_scalar(sql)
            .bind(project.as_str())
            .bind(id.as_str())
            .fetch_all(&self.pool)
            .await?;
        let sizes = self.block_sizes(blocks.into_iter().collect()).await?;
        Ok(sizes.into_values().fold(0, |sum, size| sum.saturating_add(size)))
    }

    /// A trace with the content of its root.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn target_trace(
        &self,
        project: &ProjectId,
        id: &TraceId,
    ) -> Result<Option<Trace>, Error> {
        let stored = self.trace(project, id, true).await?;
        Ok(stored.map(|stored| stored.trace))
    }

    /// All observations of a trace with content, by start, then id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn target_trace_observations(
        &self,
        project: &ProjectId,
        id: &TraceId,
    ) -> Result<Vec<Observation>, Error> {
        let ids: Vec<String> = query_scalar(OF_TRACE)
            .bind(project.as_str())
            .bind(id.as_str())
            .fetch_all(&self.pool)
            .await?;
        let keys = ids
            .iter()
            .map(|raw| Ok((id.clone(), checked("observation", raw)?)))
            .collect::<Result<Vec<_>, Error>>()?;
        let mut observations = self.target_observations(project, &keys, true).await?;
        observations.sort_by(|a, b| (a.start, &a.id).cmp(&(b.start, &b.id)));
        Ok(observations)
    }

    /// The roots of these traces; traces that do not exist or have no root are left out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn trace_roots(
        &self,
        project: &ProjectId,
        ids: &[TraceId],
    ) -> Result<HashMap<TraceId, ObservationId>, Error> {
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok(HashMap::new());
        };
        let mut found = HashMap::with_capacity(ids.len());
        for some in ids.chunks(PER_STATEMENT) {
            let sql = format!(
                "SELECT {READ_TRACE} FROM traces t WHERE t.tenant = $1 AND t.trace_id IN ({})",
                value_list(some.len(), 2)
            );
            let mut args: Vec<Arg<'_>> = vec![tenant.into()];
            args.extend(some.iter().map(|id| Arg::from(id.as_str())));
            for row in self.pool.select::<TraceRow>(&sql, &args).await? {
                let trace = row.stored()?.trace;
                found.extend(trace.root.map(|root| (trace.id, root)));
            }
        }
        Ok(found)
    }

    /// The progress of a trace, from all its stored data; `None` if the project has no such trace.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn progress_now(
        &self,
        project: &ProjectId,
        id: &TraceId,
    ) -> Result<Option<Progress>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(None);
        };
        // The number of open observations is determined by folding.
        self.folder.of_trace(tenant, id).await?;
        let found = self.trace_progress(project, std::slice::from_ref(id));
        Ok(found.await?.pop().map(|(_, progress)| progress))
    }

    /// The progress of these traces; traces that do not exist are left out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn trace_progress(
        &self,
        project: &ProjectId,
        ids: &[TraceId],
    ) -> Result<Vec<(TraceId, Progress)>, Error> {
        let mut found = Vec::with_capacity(ids.len());
        let mut rest = ids;
        while !rest.is_empty() {
            let (sql, n) = PROGRESS.for_up_to(rest.len());
            let (some, later) = rest.split_at(n.min(rest.len()));
            let rows: Vec<ProgressRow> = {
                let mut query = query(sql).bind(project.as_str());
                for id in some {
                    query = query.bind(id.as_str());
                }
                query.fetch_all(&self.pool).await?
            };
            for row in rows {
                let progress = Progress {
                    first_seen: Timestamp::from_micros(row.first_seen),
                    last_seen: Timestamp::from_micros(row.last_seen),
                    has_root: row.has_root != 0,
                    root_ended_at: row.root_ended_at.map(Timestamp::from_micros),
                    n_open: count(row.n_open),
                    has_marker: row.has_marker != 0,
                    n_observations: count(row.n_observations),
                };
                found.push((checked("trace", &row.trace_id)?, progress));
            }
            rest = later;
        }
        Ok(found)
    }
}
