//! Traces grouped by session or by user, the most recently active groups first.
//!
//! The cost of a page depends on its rows only: the newest trace of each group represents it in the index of
//! time, so that the page is found by an index scan from its start, and sums are computed for the groups of
//! the page only.

use std::collections::HashMap;

use perpend_db::Sql;
use perpend_domain::cost::CostSum;
use perpend_domain::ids::ProjectId;
use perpend_domain::list::{BidirectionalPage, Cursor, ListPosition};
use perpend_domain::telemetry::{GroupKey, GroupQuery, TraceGroup};
use perpend_domain::time::Timestamp;

use crate::{Error, Telemetry};

perpend_db::record! {
    struct NewestRow {
        id: String,
        last_at: i64,
    }
}

perpend_db::record! {
    struct GroupSums {
        id: String,
        first_at: i64,
        last_at: i64,
        ended_at: i64,
        environment: String,
        n_traces: i64,
        n_others: i64,
        other: Option<String>,
        n_observations: i64,
        n_errors: i64,
        total_tokens: f64,
        total_cost: f64,
        n_priced: i64,
        n_unpriced: i64,
    }
}

/// The grouping column, and the column whose distinct values are counted per group.
pub(super) const fn columns(by: GroupKey) -> (&'static str, &'static str) {
    match by {
        GroupKey::Session => ("session_id", "user_id"),
        GroupKey::User => ("user_id", "session_id"),
    }
}

/// The index of the grouping column. SQLite has no statistics: with a condition on one environment it would
/// scan all its traces.
pub(super) const fn of_column(by: GroupKey, is_postgres: bool) -> &'static str {
    match (is_postgres, by) {
        (true, _) => "",
        (false, GroupKey::Session) => " INDEXED BY traces_by_session",
        (false, GroupKey::User) => " INDEXED BY traces_by_user",
    }
}

/// The index that leads to the traces of some groups. Within a group of the other column, the index of that
/// column.
const fn of_question(query: &GroupQuery, is_postgres: bool) -> &'static str {
    match (&query.of, query.by) {
        (None, by) => of_column(by, is_postgres),
        (Some(_), GroupKey::Session) => of_column(GroupKey::User, is_postgres),
        (Some(_), GroupKey::User) => of_column(GroupKey::Session, is_postgres),
    }
}

impl From<GroupSums> for TraceGroup {
    fn from(row: GroupSums) -> Self {
        Self {
            id: row.id,
            first: Timestamp::from_micros(row.first_at),
            last: Timestamp::from_micros(row.last_at),
            end: Timestamp::from_micros(row.ended_at),
            environment: row.environment,
            n_traces: row.n_traces.unsigned_abs(),
            n_others: row.n_others.unsigned_abs(),
            other: row.other,
            n_observations: row.n_observations.unsigned_abs(),
            n_errors: row.n_errors.unsigned_abs(),
            // The sum of values sent by clients may exceed the integer range of the database.
            total_tokens: row.total_tokens as u64,
            cost: CostSum {
                dollars: row.total_cost,
                n_priced: row.n_priced.unsigned_abs(),
                n_unpriced: row.n_unpriced.unsigned_abs(),
            },
        }
    }
}

impl Telemetry {
    /// Sessions or users with sums over their traces, by the start of the newest one.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn trace_groups(
        &self,
        project: &ProjectId,
        query: &GroupQuery,
    ) -> Result<BidirectionalPage<TraceGroup>, Error> {
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok(BidirectionalPage::default());
        };
        if !self.has_groups(tenant, query.by).await? {
            return Ok(BidirectionalPage::default());
        }
        let (found, has_more) = self.places(tenant, query, None).await?;
        let page = BidirectionalPage::read(found, &query.position, has_more, Cursor::clone);
        let ids: Vec<&str> = page.items.iter().map(|place| place.id.as_str()).collect();
        let mut sums = self.sums(tenant, query, &ids).await?;
        let groups = page.items.iter().filter_map(|place| sums.remove(&place.id));
        let groups: Vec<TraceGroup> = groups.collect();
        Ok(page.with_items(groups))
    }

    /// The ids of the sessions or users of a page, without their sums.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn group_ids(
        &self,
        project: &ProjectId,
        query: &GroupQuery,
    ) -> Result<Vec<String>, Error> {
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok(Vec::new());
        };
        let (found, _) = self.places(tenant, query, None).await?;
        Ok(found.into_iter().map(|place| place.id).collect())
    }

    /// If no trace has a group, the scan would read all of them; the partial index of the column shows that.
    pub(super) async fn has_groups(&self, tenant: i64, by: GroupKey) -> Result<bool, Error> {
        let any = format!(
            "SELECT t.number FROM traces t WHERE t.tenant = $1 AND t.{0} IS NOT NULL AND t.{0} <> '' LIMIT 1",
            columns(by).0
        );
        let any: Vec<(i64,)> = self.pool.select(&any, &[tenant.into()]).await?;
        Ok(!any.is_empty())
    }

    /// The positions of the next groups, in the requested direction, and whether there are more; restricted
    /// to these ids if any are given.
    pub(super) async fn places(
        &self,
        tenant: i64,
        query: &GroupQuery,
        among: Option<&[String]>,
    ) -> Result<(Vec<Cursor>, bool), Error> {
        let sql = newest(tenant, query, among, self.pool.is_postgres());
        let mut found: Vec<NewestRow> = self.pool.select(&sql.text, &sql.args).await?;
        let has_more = query.limit < u32::try_from(found.len()).unwrap_or(u32::MAX);
        found.truncate(query.limit as usize);
        let place = |row: NewestRow| Cursor::new(Timestamp::from_micros(row.last_at), row.id);
        Ok((found.into_iter().map(place).collect(), has_more))
    }

    /// Sums over the matching traces of one session or user; `None` if it has none.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn trace_group(
        &self,
        project: &ProjectId,
        query: &GroupQuery,
        id: &str,
    ) -> Result<Option<TraceGroup>, Error> {
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok(None);
        };
        Ok(self.sums(tenant, query, &[id]).await?.remove(id))
    }

    /// Sums over the traces of each of these groups.
    pub(super) async fn sums(
        &self,
        tenant: i64,
        query: &GroupQuery,
        ids: &[&str],
    ) -> Result<HashMap<String, TraceGroup>, Error> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let (column, other) = columns(query.by);
        let mut sql = Sql::default();
        let tenant = sql.bind(tenant.into());
        let ids = bound(ids, &mut sql);
        sql.push(&format!(
            "SELECT t.{column} AS id, MIN(t.started_at) AS first_at, MAX(t.started_at) AS last_at, \
                    MAX(t.started_at + t.latency_us) AS ended_at, \
                    MIN(t.environment) AS environment, COUNT(*) AS n_traces, \
                    COUNT(DISTINCT NULLIF(t.{other}, '')) AS n_others, \
                    MIN(NULLIF(t.{other}, '')) AS other, \
                    CAST(SUM(t.n_observations) AS BIGINT) AS n_observations, \
                    CAST(SUM(t.n_error) AS BIGINT) AS n_errors, \
                    SUM(CAST(COALESCE(t.total_tokens, 0) AS DOUBLE PRECISION)) AS total_tokens, \
                    CAST(SUM(t.total_cost) AS DOUBLE PRECISION) AS total_cost, \
                    CAST(SUM(t.n_priced) AS BIGINT) AS n_priced, \
                    CAST(SUM(t.n_unpriced) AS BIGINT) AS n_unpriced \
               FROM traces t{} WHERE t.tenant = {tenant} AND t.{column} IN ({ids})",
            of_question(query, self.pool.is_postgres())
        ));
        GroupConditions::new(query, &mut sql).push("t", &mut sql);
        sql.push(&format!(" GROUP BY t.{column}"));
        let rows: Vec<GroupSums> = self.pool.select(&sql.text, &sql.args).await?;
        let groups = rows.into_iter().map(TraceGroup::from);
        Ok(groups.map(|group| (group.id.clone(), group)).collect())
    }
}

/// Comma-separated placeholders of these texts.
pub(super) fn bound(texts: &[impl AsRef<str>], sql: &mut Sql) -> String {
    let all = texts.iter().map(|text| sql.bind_text(text.as_ref()));
    all.collect::<Vec<_>>().join(", ")
}

/// The ids of groups with the start of the newest trace of each, from a position on.
pub(super) fn newest(
    tenant: i64,
    query: &GroupQuery,
    among: Option<&[String]>,
    is_postgres: bool,
) -> Sql {
    let (column, _) = columns(query.by);
    let mut sql = Sql::default();
    let tenant = sql.bind(tenant.into());
    let is_end = query.by == GroupKey::User && query.position == ListPosition::end();
    let is_bounded = query.of.is_some() || among.is_some() || is_end;
    let (index, newest) = match (is_bounded, is_postgres) {
        (true, _) => (of_question(query, is_postgres), "MAX(t.started_at)"),
        // SQLite has no statistics: with the index of the column it would read and sort all traces that have
        // a value.
        (false, false) => (" INDEXED BY traces_newest", "t.started_at"),
        (false, true) => ("", "t.started_at"),
    };
    sql.push(&format!(
        "SELECT t.{column} AS id, {newest} AS last_at FROM traces t{index} \
          WHERE t.tenant = {tenant} AND t.{column} IS NOT NULL AND t.{column} <> ''"
    ));
    if let Some(ids) = among {
        let ids = bound(ids, &mut sql);
        sql.push(&format!(" AND t.{column} IN ({ids})"));
    }
    let narrowed = GroupConditions::new(query, &mut sql);
    narrowed.push("t", &mut sql);
    let (outside, beyond) = match query.position.is_backwards {
        true => (">", "<"),
        false => ("<", ">"),
    };
    let place = query.position.cursor.as_ref().map(|after| {
        let at = sql.bind(after.at.as_micros().into());
        let id = sql.bind_text(&after.id);
        format!(
            "{newest} {outside}= {at} AND ({newest} {outside} {at} OR t.{column} {beyond} {id})"
        )
    });
    if is_bounded {
        // The traces of a few groups are read completely: a scan by time would check for each trace whether
        // its group has a later one, and would read nearly all traces to find the users that have been
        // inactive for longest.
        sql.push(&format!(" GROUP BY t.{column}"));
        if let Some(place) = place {
            sql.push(&format!(" HAVING {place}"));
        }
    } else {
        if let Some(place) = place {
            sql.push(&format!(" AND {place}"));
        }
        // Of several traces with equal times the first stored one represents its group.
        sql.push(&format!(
            " AND NOT EXISTS (SELECT 1 FROM traces n WHERE n.tenant = t.tenant AND n.{column} = t.{column}{} \
               AND n.started_at >= t.started_at AND (n.started_at > t.started_at OR n.number < t.number))",
            narrowed.of_later("n"),
        ));
    }
    let [of_time, of_ids] = match query.position.is_backwards {
        true => ["ASC", "DESC"],
        false => ["DESC", "ASC"],
    };
    sql.push(&format!(
        " ORDER BY {newest} {of_time}, t.{column} {of_ids} LIMIT {}",
        query.limit + 1
    ));
    sql
}

/// Conditions on the traces of a query, with bound values.
pub(super) struct GroupConditions {
    from: Option<String>,
    others: Vec<String>,
}

impl GroupConditions {
    pub(super) fn new(query: &GroupQuery, sql: &mut Sql) -> Self {
        let (_, other) = columns(query.by);
        let mut others = Vec::new();
        if let Some(of) = &query.of {
            others.push(format!("{other} = {}", sql.bind_text(of)));
        }
        let [from, to] = [(">=", query.started.0), ("<", query.started.1)].map(|(sign, at)| {
            let at = sql.bind(at?.as_micros().into());
            Some(format!("started_at {sign} {at}"))
        });
        others.extend(to);
        if !query.environments.is_empty() {
            let names = bound(&query.environments, sql);
            others.push(format!("environment IN ({names})"));
        }
        Self { from, others }
    }

    /// Conditions on traces that are later than one in the time range. A second lower bound would hide that
    /// from SQLite, which would read all traces of the group each time.
    fn of_later(&self, table: &str) -> String {
        let all = self.others.iter();
        all.map(|condition| format!(" AND {table}.{condition}")).collect()
    }

    pub(super) fn push(&self, table: &str, sql: &mut Sql) {
        for condition in self.from.iter().chain(&self.others) {
            sql.push(&format!(" AND {table}.{condition}"));
        }
    }
}
