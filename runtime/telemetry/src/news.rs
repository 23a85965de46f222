//! The number of traces newer than the newest one on a page.

use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_sql::Sql;

use crate::{Error, Telemetry};

/// The environments of the traces that are counted.
#[derive(Clone, Copy, Debug)]
pub enum Among<'a> {
    /// These alone.
    Only(&'a [String]),
    /// All but these.
    Without(&'a [&'a str]),
}

impl Telemetry {
    /// Traces that started after a time and, where that is said, before another one, and whether that may not be all: the
    /// newest `limit` of any environment are looked at.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn traces_since(
        &self,
        project: &ProjectId,
        (since, until): (Timestamp, Option<Timestamp>),
        among: Among<'_>,
        limit: u32,
    ) -> Result<(u64, bool), Error> {
        let Some(tenant) = self.fresh_tenant(project).await? else {
            return Ok((0, false));
        };
        let mut sql = Sql::default();
        let (tenant, at) = (sql.bind(tenant.into()), sql.bind(since.as_micros().into()));
        let until = until.map(|until| sql.bind(until.as_micros().into()));
        let until = until.map_or_else(String::new, |until| format!(" AND t.started_at < {until}"));
        let (named, [inside, outside]): (Vec<&str>, _) = match among {
            Among::Only(named) => (named.iter().map(String::as_str).collect(), [1, 0]),
            Among::Without(named) => (named.to_vec(), [0, 1]),
        };
        let named: Vec<String> = named.into_iter().map(|name| sql.bind_text(name)).collect();
        let counted = match named.is_empty() {
            true => outside.to_string(),
            false => format!(
                "CASE WHEN n.environment IN ({}) THEN {inside} ELSE {outside} END",
                named.join(", ")
            ),
        };
        sql.push(&format!(
            "SELECT COUNT(*), COALESCE(SUM({counted}), 0) FROM \
              (SELECT t.environment FROM traces t WHERE t.tenant = {tenant} AND t.started_at > {at}{until} \
                ORDER BY t.started_at DESC LIMIT {limit}) n"
        ));
        let rows: Vec<(i64, i64)> = self.pool.select(&sql.text, &sql.args).await?;
        let (n_all, n) = rows.into_iter().next().unwrap_or_default();
        Ok((n.unsigned_abs(), i64::from(limit) <= n_all))
    }
}
