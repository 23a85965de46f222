//! The number of traces newer than the newest one on a page.

use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_sql::Sql;

use crate::{Error, Telemetry};

impl Telemetry {
    /// Traces that started after a time, without those of some environments, and whether that may not be all: the newest
    /// `limit` of any environment are looked at.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn traces_since(
        &self,
        project: &ProjectId,
        since: Timestamp,
        without: &[&str],
        limit: u32,
    ) -> Result<(u64, bool), Error> {
        let Some(tenant) = self.fresh_tenant(project).await? else {
            return Ok((0, false));
        };
        let mut sql = Sql::default();
        let (tenant, at) = (sql.bind(tenant.into()), sql.bind(since.as_micros().into()));
        let own: Vec<String> = without
            .iter()
            .map(|environment| sql.bind_text(environment))
            .collect();
        let counted = match own.is_empty() {
            true => "1".to_owned(),
            false => format!(
                "CASE WHEN n.environment IN ({}) THEN 0 ELSE 1 END",
                own.join(", ")
            ),
        };
        sql.push(&format!(
            "SELECT COUNT(*), COALESCE(SUM({counted}), 0) FROM \
              (SELECT t.environment FROM traces t WHERE t.tenant = {tenant} AND t.started_at > {at} \
                ORDER BY t.started_at DESC LIMIT {limit}) n"
        ));
        let rows: Vec<(i64, i64)> = self.pool.select(&sql.text, &sql.args).await?;
        let (n_all, n) = rows.into_iter().next().unwrap_or_default();
        Ok((n.unsigned_abs(), i64::from(limit) <= n_all))
    }
}
