//! Adds data to the traces of a list that their own rows lack: contents of roots, costs of parts, observation
//! ids.

use std::collections::HashMap;

use perpend_db::{Arg, value_list};
use perpend_domain::ids::ObservationId;
use perpend_domain::telemetry::StoredTrace;

use super::contents::StoredAt;
use super::read::LIST;
use crate::{Error, Telemetry};

/// Bytes of contents that are read at a time.
pub(super) const PART_BYTES: usize = 4 << 20;

perpend_db::record! {
    /// Position of the content of the root of a trace.
    struct RootRow {
        trace: i64,
        seq: i64,
        payload: Option<i64>,
        place: i64,
    }
}

const ROOT: &str = "o.trace, o.seq, o.payload, o.place";

impl RootRow {
    const fn stored_at(&self) -> StoredAt {
        StoredAt { seq: self.seq, payload: self.payload, place: self.place }
    }
}

impl Telemetry {
    /// Adds the content of their roots to traces.
    pub(super) async fn add_roots(&self, traces: &mut [(i64, StoredTrace)]) -> Result<(), Error> {
        let mut left = traces;
        while !left.is_empty() {
            let n = self.add_roots_up_to(left, PART_BYTES).await?;
            left = &mut left[n..];
        }
        Ok(())
    }

    /// Adds the content of their roots to the first of these traces and returns their number: as many as have
    /// contents of at most `max_bytes` together, and at least one.
    pub(super) async fn add_roots_up_to(
        &self,
        traces: &mut [(i64, StoredTrace)],
        max_bytes: usize,
    ) -> Result<usize, Error> {
        let n_traces = traces.len().min(LIST);
        let traces = &mut traces[..n_traces];
        let mut args: Vec<Arg<'static>> = Vec::new();
        let mut places = Vec::new();
        for (number, stored) in traces.iter() {
            if let Some(root) = &stored.trace.root {
                args.push((*number).into());
                args.push(Arg::Text(Some(root.as_str().to_owned().into())));
                let n = args.len();
                places.push(format!("(CAST(${} AS BIGINT), CAST(${n} AS TEXT))", n - 1));
            }
        }
        if places.is_empty() {
            return Ok(n_traces);
        }
        let sql = format!(
            "WITH roots (trace, id) AS (VALUES {}) SELECT {ROOT} FROM roots r \
             JOIN observations o ON o.trace = r.trace AND o.id = r.id",
            places.join(", ")
        );
        let rows: Vec<RootRow> = self.pool.select(&sql, &args).await?;
        let mut by_trace: HashMap<i64, RootRow> =
            rows.into_iter().map(|row| (row.trace, row)).collect();
        let roots = traces.iter().enumerate();
        let roots = roots.filter_map(|(at, (number, _))| Some((at, by_trace.remove(number)?)));
        let roots: Vec<(usize, RootRow)> = roots.collect();
        let stored: Vec<StoredAt> = roots.iter().map(|(_, row)| row.stored_at()).collect();
        let contents = self.contents_up_to(&stored, max_bytes).await?;
        let next = roots.get(contents.len()).map(|(at, _)| *at);
        for ((at, _), content) in roots.iter().zip(contents) {
            traces[*at].1.trace.add_root_content(&content.unwrap_or_default());
        }
        Ok(next.unwrap_or(n_traces))
    }

    /// Adds the costs of input and output to traces. As in the total cost, a call that two instrumentations
    /// reported counts once.
    pub(super) async fn add_part_costs(
        &self,
        traces: &mut [(i64, StoredTrace)],
    ) -> Result<(), Error> {
        for chunk in traces.chunks_mut(LIST) {
            let sql = format!(
                "SELECT o.trace, o.id, o.input_cost, o.output_cost FROM observations o \
                 WHERE o.trace IN ({}) AND (o.input_cost IS NOT NULL OR o.output_cost IS NOT NULL) \
                 ORDER BY o.trace, o.id",
                value_list(chunk.len(), 1)
            );
            let args: Vec<Arg<'static>> =
                chunk.iter().map(|(number, _)| (*number).into()).collect();
            type Costs = (i64, String, Option<f64>, Option<f64>);
            let rows: Vec<Costs> = self.pool.select(&sql, &args).await?;
            let mut by_number: HashMap<i64, &mut StoredTrace> =
                chunk.iter_mut().map(|(number, stored)| (*number, stored)).collect();
            for (number, id, input, output) in rows {
                let Some(stored) = by_number.get_mut(&number) else {
                    continue;
                };
                let duplicates = &stored.trace.duplicates;
                if duplicates.iter().any(|(twice, _)| twice.as_str() == id) {
                    continue;
                }
                for (sum, cost) in stored.part_costs.iter_mut().zip([input, output]) {
                    if let Some(cost) = cost {
                        *sum = Some(sum.unwrap_or(0.0) + cost);
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds the ids of their observations to traces, by start.
    pub(super) async fn add_ids(&self, traces: &mut [(i64, StoredTrace)]) -> Result<(), Error> {
        for chunk in traces.chunks_mut(LIST) {
            let sql = format!(
                "SELECT o.trace, o.id FROM observations o WHERE o.trace IN ({}) \
                 ORDER BY o.trace, o.started_at, o.id",
                value_list(chunk.len(), 1)
            );
            let args: Vec<Arg<'static>> =
                chunk.iter().map(|(number, _)| (*number).into()).collect();
            let rows: Vec<(i64, String)> = self.pool.select(&sql, &args).await?;
            let mut by_trace: HashMap<i64, Vec<ObservationId>> = HashMap::new();
            for (number, id) in rows {
                let id = perpend_db::checked("observation", &id)?;
                by_trace.entry(number).or_default().push(id);
            }
            for (number, stored) in chunk {
                stored.observation_ids = by_trace.remove(number).unwrap_or_default();
            }
        }
        Ok(())
    }
}
