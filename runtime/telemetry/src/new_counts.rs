//! Counts of traces, observations, groups and scores that are newer than a page.

use perpend_db::Sql;
use perpend_domain::ids::ProjectId;
use perpend_domain::telemetry::{GroupQuery, ScoreQuery};
use perpend_domain::time::Timestamp;

use crate::rollup::IS_OBSERVATION;
use crate::trace_groups::columns;
use crate::{Error, Telemetry};

/// The environments of the traces that are counted.
#[derive(Clone, Copy, Debug)]
pub enum EnvironmentFilter<'a> {
    /// Only these.
    Only(&'a [String]),
    /// All except these.
    Without(&'a [&'a str]),
}

/// Selects the traces that count as new.
#[derive(Clone, Copy, Debug)]
pub struct NewTraceFilter<'a> {
    /// Traces that started after this instant.
    pub started: Timestamp,
    /// In addition traces that were first received after this instant, whenever they started.
    pub received: Option<Timestamp>,
    /// Restricts both to traces that started from the first to before the second instant.
    pub within: (Option<Timestamp>, Option<Timestamp>),
    /// Restricts both to environments.
    pub among: EnvironmentFilter<'a>,
}

/// Numbers and environments of new traces, at most `limit` rows.
pub(super) fn news(tenant: i64, since: NewTraceFilter<'_>, limit: u32, is_postgres: bool) -> Sql {
    let mut sql = Sql::default();
    let tenant = sql.bind(tenant.into());
    let started = sql.bind(since.started.as_micros().into());
    let within = [(">=", since.within.0), ("<", since.within.1)].map(|(sign, at)| match at {
        Some(at) => format!(" AND t.started_at {sign} {}", sql.bind(at.as_micros().into())),
        None => String::new(),
    });
    let within = within.concat();
    sql.push(&format!(
        "SELECT * FROM (SELECT t.number AS number, t.environment AS environment FROM traces t \
          WHERE t.tenant = {tenant} AND t.started_at > {started}{within} ORDER BY t.started_at DESC LIMIT {limit}) a"
    ));
    if let Some(received) = since.received {
        let received = sql.bind(received.as_micros().into());
        // A trace that was first received then has not changed before.
        let index = if is_postgres { "" } else { " INDEXED BY traces_changed" };
        sql.push(&format!(
            " UNION SELECT * FROM (SELECT t.number AS number, t.environment AS environment FROM traces t{index} \
              WHERE t.last_seen > {received} AND t.tenant = {tenant} AND t.first_seen > {received}{within} \
              ORDER BY t.last_seen DESC LIMIT {limit}) b"
        ));
    }
    sql
}

/// Whether a row `n` is in a time range and in one of some environments; in any if none is given.
fn fitting(
    sql: &mut Sql,
    (column, (from, to)): (&str, (Option<Timestamp>, Option<Timestamp>)),
    environments: &[String],
) -> String {
    let mut all = vec!["1 = 1".to_owned()];
    for (sign, at) in [(">=", from), ("<", to)] {
        if let Some(at) = at {
            all.push(format!("{column} {sign} {}", sql.bind(at.as_micros().into())));
        }
    }
    if !environments.is_empty() {
        let names: Vec<String> = environments.iter().map(|name| sql.bind_text(name)).collect();
        all.push(format!("n.environment IN ({})", names.join(", ")));
    }
    all.join(" AND ")
}

impl Telemetry {
    /// Number of new traces, and whether there may be more: at most `limit` traces of any environment are
    /// read.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn traces_since(
        &self,
        project: &ProjectId,
        since: NewTraceFilter<'_>,
        limit: u32,
    ) -> Result<(u64, bool), Error> {
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok((0, false));
        };
        let Sql { text, args } = news(tenant, since, limit, self.pool.is_postgres());
        let mut sql = Sql { text: String::new(), args };
        let (named, [inside, outside]): (Vec<&str>, _) = match since.among {
            EnvironmentFilter::Only(named) => (named.iter().map(String::as_str).collect(), [1, 0]),
            EnvironmentFilter::Without(named) => (named.to_vec(), [0, 1]),
        };
        let named: Vec<String> = named.into_iter().map(|name| sql.bind_text(name)).collect();
        let counted = match named.is_empty() {
            true => outside.to_string(),
            false => format!(
                "CASE WHEN n.environment IN ({}) THEN {inside} ELSE {outside} END",
                named.join(", ")
            ),
        };
        sql.push(&format!("SELECT COUNT(*), COALESCE(SUM({counted}), 0) FROM ({text}) n"));
        let rows: Vec<(i64, i64)> = self.pool.select(&sql.text, &sql.args).await?;
        let (n_all, n) = rows.into_iter().next().unwrap_or_default();
        Ok((n.unsigned_abs(), i64::from(limit) <= n_all))
    }

    /// Number of observations that were first received after an instant and started in a time range, and whether there may be
    /// more: at most `limit` observations are read.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn observations_since(
        &self,
        project: &ProjectId,
        started: (Option<Timestamp>, Option<Timestamp>),
        among: EnvironmentFilter<'_>,
        (received, limit): (Timestamp, u32),
    ) -> Result<(u64, bool), Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok((0, false));
        };
        let mut sql = Sql::default();
        let tenant = sql.bind(tenant.into());
        let received = sql.bind(received.as_micros().into());
        let index = match self.pool.is_postgres() {
            true => "",
            false => " INDEXED BY observations_changed",
        };
        let news = format!(
            "SELECT o.environment AS environment, o.started_at AS started_at, o.created_at AS created FROM observations o{index} \
              WHERE o.updated_at > {received} AND o.tenant = {tenant} AND {IS_OBSERVATION} \
              ORDER BY o.updated_at DESC LIMIT {limit}"
        );
        let (only, without): (&[String], &[&str]) = match among {
            EnvironmentFilter::Only(only) => (only, &[]),
            EnvironmentFilter::Without(without) => (&[], without),
        };
        let fits = fitting(&mut sql, ("n.started_at", started), only);
        let others = without.iter();
        let others: Vec<String> =
            others.map(|name| format!(" AND n.environment <> {}", sql.bind_text(name))).collect();
        sql.push(&format!(
            "SELECT COUNT(*), COUNT(CASE WHEN {fits} AND n.created > {received}{} THEN 1 END) FROM ({news}) n",
            others.concat()
        ));
        let rows: Vec<(i64, i64)> = self.pool.select(&sql.text, &sql.args).await?;
        let (n_all, n) = rows.into_iter().next().unwrap_or_default();
        Ok((n.unsigned_abs(), i64::from(limit) <= n_all))
    }

    /// Number of sessions or users, or with `only` of traces of that one, with traces that were first
    /// received after an instant, in the time range and the environments of the query; and whether there may
    /// be more: at most `limit` traces are read.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn groups_since(
        &self,
        project: &ProjectId,
        query: &GroupQuery,
        only: Option<&str>,
        (received, limit): (Timestamp, u32),
    ) -> Result<(u64, bool), Error> {
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok((0, false));
        };
        let mut sql = Sql::default();
        let tenant = sql.bind(tenant.into());
        let received = sql.bind(received.as_micros().into());
        let column = columns(query.by).0;
        let index = match self.pool.is_postgres() {
            true => "",
            false => " INDEXED BY traces_changed",
        };
        let news = format!(
            "SELECT t.{column} AS named, t.environment AS environment, t.started_at AS started_at FROM traces t{index} \
              WHERE t.last_seen > {received} AND t.tenant = {tenant} AND t.first_seen > {received} \
              ORDER BY t.last_seen DESC LIMIT {limit}"
        );
        let fits = fitting(&mut sql, ("n.started_at", query.started), &query.environments);
        let n = match only {
            Some(id) => {
                let id = sql.bind_text(id);
                format!("COUNT(CASE WHEN {fits} AND n.named = {id} THEN 1 END)")
            }
            None => format!("COUNT(DISTINCT CASE WHEN {fits} THEN NULLIF(n.named, '') END)"),
        };
        sql.push(&format!("SELECT COUNT(*), {n} FROM ({news}) n"));
        let rows: Vec<(i64, i64)> = self.pool.select(&sql.text, &sql.args).await?;
        let (n_all, n) = rows.into_iter().next().unwrap_or_default();
        Ok((n.unsigned_abs(), i64::from(limit) <= n_all))
    }

    /// Number of scores of this time range and these environments that were made after an instant, and
    /// whether there may be more: at most `limit` are read. A score that is only rewritten does not count.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn scores_since(
        &self,
        project: &ProjectId,
        query: &ScoreQuery,
        (received, limit): (Timestamp, u32),
    ) -> Result<(u64, bool), Error> {
        let mut sql = Sql::default();
        let project = sql.bind_text(project.as_str());
        let received = sql.bind(received.as_micros().into());
        let index = match self.pool.is_postgres() {
            true => "",
            false => " INDEXED BY scores_changed",
        };
        let news = format!(
            "SELECT s.environment AS environment, s.timestamp AS at, s.created_at AS created FROM scores s{index} \
              WHERE s.project_id = {project} AND s.updated_at > {received} ORDER BY s.updated_at DESC LIMIT {limit}"
        );
        let fits = fitting(&mut sql, ("n.at", (query.from, query.to)), &query.environments);
        let others = query.other_than_environments.iter();
        let others: Vec<String> =
            others.map(|name| format!(" AND n.environment <> {}", sql.bind_text(name))).collect();
        sql.push(&format!(
            "SELECT COUNT(*), COUNT(CASE WHEN {fits} AND n.created > {received}{} THEN 1 END) FROM ({news}) n",
            others.concat()
        ));
        let rows: Vec<(i64, i64)> = self.pool.select(&sql.text, &sql.args).await?;
        let (n_all, n) = rows.into_iter().next().unwrap_or_default();
        Ok((n.unsigned_abs(), i64::from(limit) <= n_all))
    }
}
