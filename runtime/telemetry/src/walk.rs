//! Reading one trace in pages, for plug-ins.

use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::telemetry::{StoredObservation, TraceWalkQuery};

use super::row::READ;
use crate::{Error, Telemetry};
use perpend_db::Sql;

impl Telemetry {
    /// Observations of one trace by start and id, with content; `None` if the project has no such trace.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn walk_trace(
        &self,
        project: &ProjectId,
        trace: &TraceId,
        walk: &TraceWalkQuery,
    ) -> Result<Vec<StoredObservation>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(Vec::new());
        };
        let mut sql = Sql::default();
        let number = sql.bind(tenant.into());
        let id = sql.bind_text(trace.as_str());
        sql.push(&format!(
            "SELECT {READ} FROM traces t JOIN observations o ON o.trace = t.number \
             WHERE t.tenant = {number} AND t.trace_id = {id}"
        ));
        for (column, wanted) in [("o.parent_id", &walk.parent), ("o.name", &walk.name)] {
            if let Some(text) = wanted {
                let place = sql.bind_text(text);
                sql.push(&format!(" AND {column} = {place}"));
            }
        }
        if !walk.kinds.is_empty() {
            let kinds = walk.kinds.iter().map(|kind| sql.bind_text(kind.as_str()));
            let places = kinds.collect::<Vec<_>>().join(", ");
            sql.push(&format!(" AND o.kind IN ({places})"));
        }
        if let Some((start, id)) = &walk.after {
            let start = sql.bind(start.as_micros().into());
            let id = sql.bind_text(id.as_str());
            sql.push(&format!(" AND (o.started_at, o.id) > ({start}, {id})"));
        }
        let limit = sql.bind(i64::from(walk.limit).into());
        sql.push(&format!(" ORDER BY o.started_at, o.id LIMIT {limit}"));
        let rows = self.pool.select(&sql.text, &sql.args).await?;
        self.stored(&rows, true).await
    }
}
