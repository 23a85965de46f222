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

/// Which traces are news.
#[derive(Clone, Copy, Debug)]
pub struct Since<'a> {
    /// Those that started after this instant.
    pub started: Timestamp,
    /// And those that were first received after this one, whenever they started.
    pub received: Option<Timestamp>,
    /// Of both those alone that started from and before these.
    pub within: (Option<Timestamp>, Option<Timestamp>),
    /// Of both those alone.
    pub among: Among<'a>,
}

/// The numbers and environments of news, of which `limit` are looked at.
pub(super) fn news(tenant: i64, since: Since<'_>, limit: u32, is_postgres: bool) -> Sql {
    let mut sql = Sql::default();
    let tenant = sql.bind(tenant.into());
    let started = sql.bind(since.started.as_micros().into());
    let within = [(">=", since.within.0), ("<", since.within.1)].map(|(sign, at)| match at {
        Some(at) => format!(
            " AND t.started_at {sign} {}",
            sql.bind(at.as_micros().into())
        ),
        None => String::new(),
    });
    let within = within.concat();
    sql.push(&format!(
        "SELECT * FROM (SELECT t.number AS number, t.environment AS environment FROM traces t \
          WHERE t.tenant = {tenant} AND t.started_at > {started}{within} ORDER BY t.started_at DESC LIMIT {limit}) a"
    ));
    if let Some(received) = since.received {
        let received = sql.bind(received.as_micros().into());
        // What was received for the first time then has not changed before.
        let index = if is_postgres {
            ""
        } else {
            " INDEXED BY traces_changed"
        };
        sql.push(&format!(
            " UNION SELECT * FROM (SELECT t.number AS number, t.environment AS environment FROM traces t{index} \
              WHERE t.last_seen > {received} AND t.tenant = {tenant} AND t.first_seen > {received}{within} \
              ORDER BY t.last_seen DESC LIMIT {limit}) b"
        ));
    }
    sql
}

impl Telemetry {
    /// How many traces are news, and whether that may not be all: `limit` of any environment are looked at.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn traces_since(
        &self,
        project: &ProjectId,
        since: Since<'_>,
        limit: u32,
    ) -> Result<(u64, bool), Error> {
        let Some(tenant) = self.fresh_tenant(project).await? else {
            return Ok((0, false));
        };
        let Sql { text, args } = news(tenant, since, limit, self.pool.is_postgres());
        let mut sql = Sql {
            text: String::new(),
            args,
        };
        let (named, [inside, outside]): (Vec<&str>, _) = match since.among {
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
            "SELECT COUNT(*), COALESCE(SUM({counted}), 0) FROM ({text}) n"
        ));
        let rows: Vec<(i64, i64)> = self.pool.select(&sql.text, &sql.args).await?;
        let (n_all, n) = rows.into_iter().next().unwrap_or_default();
        Ok((n.unsigned_abs(), i64::from(limit) <= n_all))
    }
}
