//! Numbers of traces, and of traces with errors, per interval of time: counted in indexes alone.

use std::collections::BTreeSet;

use perpend_db::Sql;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

use crate::{Error, Telemetry};

/// Counts of one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntervalCounts {
    /// Number of traces that started in the interval.
    pub traces: u64,
    /// Number of those with an observation of level `ERROR`.
    pub with_errors: u64,
}

/// Environments to count.
#[derive(Clone, Copy, Debug)]
pub enum Environments<'a> {
    /// Only these.
    Only(&'a [&'a str]),
    /// All except these.
    AllBut(&'a [&'a str]),
}

perpend_db::record! {
    struct CountRow {
        traces: i64,
        with_errors: i64,
    }
}

/// The traces that started in the interval `s`. Each of these statements reads one range of one index.
fn began(tenant: &str, index: &str, condition: &str) -> String {
    format!(
        "(SELECT COUNT(*) FROM traces t{index} WHERE t.tenant = {tenant}{condition} \
           AND t.started_at >= s.begins AND t.started_at < s.ends)"
    )
}

impl Telemetry {
    /// The counts of each interval, start inclusive and end exclusive, in the order of the intervals.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn traces_began(
        &self,
        project: &ProjectId,
        environments: Environments<'_>,
        stretches: &[(Timestamp, Timestamp)],
    ) -> Result<Vec<IntervalCounts>, Error> {
        let tenant = self.folded_tenant(project).await?;
        let counts_none = matches!(environments, Environments::Only([]));
        let Some(tenant) = tenant.filter(|_| !counts_none && !stretches.is_empty()) else {
            return Ok(vec![IntervalCounts::default(); stretches.len()]);
        };
        let mut sql = Sql::default();
        let tenant = sql.bind(tenant.into());
        let (Environments::Only(names) | Environments::AllBut(names)) = environments;
        let different: BTreeSet<&str> = names.iter().copied().collect();
        let names: Vec<String> = different.into_iter().map(|name| sql.bind_text(name)).collect();
        let mut rows = Vec::with_capacity(stretches.len());
        for (place, (from, to)) in stretches.iter().enumerate() {
            let [from, to] = [from, to].map(|at| sql.bind(at.as_micros().into()));
            rows.push(format!(
                "(CAST({place} AS BIGINT), CAST({from} AS BIGINT), CAST({to} AS BIGINT))"
            ));
        }
        // An index by environment serves a single one; a query that excludes some would read every row.
        let of_each =
            names.iter().map(|name| began(&tenant, "", &format!(" AND t.environment = {name}")));
        let of_each: Vec<String> = of_each.collect();
        let (traces, test) = match environments {
            Environments::Only(_) => (of_each.join(" + "), "IN"),
            Environments::AllBut(_) => {
                let all = [began(&tenant, "", "")].into_iter().chain(of_each);
                (all.collect::<Vec<_>>().join(" - "), "NOT IN")
            }
        };
        let failed = match names.is_empty() {
            true => " AND t.n_error > 0".to_owned(),
            false => format!(" AND t.n_error > 0 AND t.environment {test} ({})", names.join(", ")),
        };
        // SQLite has no statistics to show that few traces have errors.
        let index = match self.pool.is_postgres() {
            true => "",
            false => " INDEXED BY traces_failed",
        };
        sql.push(&format!(
            "WITH s (place, begins, ends) AS (VALUES {}) \
             SELECT {traces} AS traces, {} AS with_errors FROM s ORDER BY s.place",
            rows.join(", "),
            began(&tenant, index, &failed)
        ));
        let counted: Vec<CountRow> = self.pool.select(&sql.text, &sql.args).await?;
        let began = counted.into_iter().map(|row| IntervalCounts {
            traces: row.traces.unsigned_abs(),
            with_errors: row.with_errors.unsigned_abs(),
        });
        Ok(began.collect())
    }
}
