//! Lookups by an id alone: observations without their trace, and sessions and users by the prefix of their
//! ids.

use std::collections::{BTreeMap, BTreeSet};

use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::telemetry::GroupKey;

use super::trace_groups::columns;
use crate::{Error, Telemetry};
use perpend_db::{Arg, checked, query_scalar, value_list};

/// Traces whose observations are searched at a time. No index has the ids of observations alone, because at
/// line rate one more index in random order would cost more than this search.
const TRACES_AT_A_TIME: i64 = 200_000;
/// Additional ids to read if the collation of the database mixes other ids among them.
const PASSED_BY: usize = 64;
const LAST_TRACE: &str = "SELECT COALESCE(MAX(number), 0) FROM traces";

/// The observations with an id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservationMatches {
    /// The trace and the name of each observation, newest first.
    pub found: Vec<(TraceId, String)>,
    /// Where to continue: traces with smaller numbers were not searched.
    pub below: Option<i64>,
}

perpend_db::record! {
    struct ObservationIdRow {
        trace_id: String,
        name: String,
    }
}

/// Observations with one of these ids. Ids are unique within a trace only, and an index of ids alone would be
/// written at random positions: SQLite reads the ids of all traces instead of all observations.
pub(super) fn with_id(ids: &str, is_postgres: bool) -> String {
    match is_postgres {
        true => format!("o.id IN ({ids})"),
        false => format!(
            "o.seq IN (SELECT n.seq FROM observations n INDEXED BY observations_by_trace WHERE n.id IN ({ids}))"
        ),
    }
}

/// `+t.tenant` keeps SQLite from scanning all traces of the project: the few rows with the id lead to their
/// traces.
pub(super) fn observations_by_id_sql(is_postgres: bool) -> String {
    let among = match is_postgres {
        true => "o.trace > $2 AND o.trace <= $3 AND o.id = $4",
        false => {
            "o.seq IN (SELECT n.seq FROM observations n INDEXED BY observations_by_trace \
              WHERE n.trace > $2 AND n.trace <= $3 AND n.id = $4)"
        }
    };
    format!(
        "SELECT t.trace_id, o.name FROM observations o JOIN traces t ON t.number = o.trace \
          WHERE +t.tenant = $1 AND {among} ORDER BY +t.number DESC LIMIT $5"
    )
}

pub(super) fn beginning_sql(by: GroupKey, is_first: bool) -> String {
    let (column, _) = columns(by);
    let behind = if is_first { ">=" } else { ">" };
    format!(
        "SELECT t.{column} FROM traces t WHERE t.tenant = $1 AND t.{column} {behind} $2 \
          ORDER BY t.{column} LIMIT 1"
    )
}

impl Telemetry {
    /// The traces among these ids, with their names. The name is empty if the trace has none.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn trace_names(
        &self,
        project: &ProjectId,
        ids: &BTreeSet<&str>,
    ) -> Result<BTreeMap<String, String>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(BTreeMap::new());
        };
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let sql = format!(
            "SELECT trace_id, COALESCE(name, '') FROM traces WHERE tenant = $1 AND trace_id IN ({})",
            value_list(ids.len(), 2)
        );
        let mut args: Vec<Arg<'_>> = vec![tenant.into()];
        args.extend(ids.iter().map(|id| Arg::from(*id)));
        let found: Vec<(String, String)> = self.pool.select(&sql, &args).await?;
        Ok(found.into_iter().collect())
    }

    /// The observations of a project with this id in any trace: in the latest traces, or in the latest ones
    /// below a number. At most `limit`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn observations_by_id(
        &self,
        project: &ProjectId,
        id: &ObservationId,
        below: Option<i64>,
        limit: u32,
    ) -> Result<ObservationMatches, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(ObservationMatches::default());
        };
        let last = match below {
            Some(below) => below.saturating_sub(1),
            None => query_scalar(LAST_TRACE).fetch_one(&self.pool).await?,
        };
        let before = last.saturating_sub(TRACES_AT_A_TIME);
        let args: [Arg<'_>; 5] = [
            tenant.into(),
            before.into(),
            last.into(),
            id.as_str().into(),
            i64::from(limit).into(),
        ];
        let sql = observations_by_id_sql(self.pool.is_postgres());
        let rows: Vec<ObservationIdRow> = self.pool.select(&sql, &args).await?;
        let found = rows.into_iter().map(|row| Ok((checked("trace", &row.trace_id)?, row.name)));
        Ok(ObservationMatches {
            found: found.collect::<Result<_, Error>>()?,
            below: (0 < before).then_some(before + 1),
        })
    }

    /// Ids of sessions or users with a prefix, in their order. An id equal to the prefix comes first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn groups_with_prefix(
        &self,
        project: &ProjectId,
        by: GroupKey,
        start: &str,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        let mut found: Vec<String> = Vec::new();
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok(found);
        };
        if start.is_empty() {
            return Ok(found);
        }
        // Skips from one id to the next: a session of a thousand traces costs as much as one of one trace.
        let mut last = start.to_owned();
        for step in 0..limit + PASSED_BY {
            let sql = beginning_sql(by, step == 0);
            let args: [Arg<'_>; 2] = [tenant.into(), last.as_str().into()];
            let rows: Vec<(String,)> = self.pool.select(&sql, &args).await?;
            let Some((id,)) = rows.into_iter().next() else {
                break;
            };
            match id.starts_with(start) {
                true => found.push(id.clone()),
                // SQLite compares bytes: ids with the same prefix are adjacent.
                false if !self.pool.is_postgres() => break,
                false => {}
            }
            if limit <= found.len() {
                break;
            }
            last = id;
        }
        Ok(found)
    }
}
