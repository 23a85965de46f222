//! Sessions: traces of one conversation. A session exists as long as one of its traces.

use perpend_domain::ids::ProjectId;
use perpend_domain::telemetry::{SessionQuery, SessionSummary};
use perpend_domain::time::Timestamp;

use crate::{Error, Telemetry};
use perpend_db::Sql;
use perpend_domain::list::{NumberedPage, Paging};

perpend_db::record! {
    struct SessionRow {
        id: String,
        created_at: i64,
        environment: String,
        n_total: i64,
    }
}

impl From<SessionRow> for SessionSummary {
    fn from(row: SessionRow) -> Self {
        Self {
            id: row.id,
            created_at: Timestamp::from_micros(row.created_at),
            environment: row.environment,
        }
    }
}

impl Telemetry {
    /// Sessions, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn sessions(
        &self,
        project: &ProjectId,
        query: &SessionQuery,
        paging: Paging,
    ) -> Result<NumberedPage<SessionSummary>, Error> {
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok(NumberedPage::empty());
        };
        let mut sql = Sql::default();
        let number = sql.bind(tenant.into());
        sql.push(&format!(
            "FROM (SELECT session_id AS id, MIN(started_at) AS created_at, \
                          MAX(started_at) AS newest_at, \
                          MIN(environment) AS environment \
                     FROM traces WHERE tenant = {number} AND session_id IS NOT NULL AND session_id <> ''"
        ));
        if let Some(id) = &query.id {
            let id = sql.bind_text(id);
            sql.push(&format!(" AND session_id = {id}"));
        }
        if !query.environments.is_empty() {
            let names: Vec<String> = query.environments.iter().map(|e| sql.bind_text(e)).collect();
            sql.push(&format!(" AND environment IN ({})", names.join(", ")));
        }
        sql.push(" GROUP BY session_id) s WHERE 1 = 1");
        for (sign, at) in [(">=", query.from), ("<", query.to)] {
            if let Some(at) = at {
                let at = sql.bind(at.as_micros().into());
                sql.push(&format!(" AND s.created_at {sign} {at}"));
            }
        }
        if let Some(at) = query.active_from {
            let at = sql.bind(at.as_micros().into());
            sql.push(&format!(" AND s.newest_at >= {at}"));
        }
        // One scan of the traces counts the sessions and finds those of the page.
        let page = format!(
            "SELECT s.id, s.created_at, s.environment, COUNT(*) OVER () AS n_total {} \
             ORDER BY s.created_at DESC, s.id LIMIT {} OFFSET {}",
            sql.text,
            paging.limit,
            paging.offset()
        );
        let rows: Vec<SessionRow> = self.pool.select(&page, &sql.args).await?;
        let n_total = match rows.first() {
            Some(row) => row.n_total.unsigned_abs(),
            None if paging.offset() == 0 => 0,
            None => {
                let count = format!("SELECT COUNT(*) {}", sql.text);
                self.count(&count, &sql.args).await?
            }
        };
        Ok(NumberedPage { items: rows.into_iter().map(SessionSummary::from).collect(), n_total })
    }
}
