//! Aggregates of sessions and users: their scores, their traces per day, the traces of a user over time, and
//! traces with low scores.
//!
//! All of them are bounded: scores are read from the newest traces of each group.

use std::collections::{BTreeMap, HashMap};

use perpend_db::{Sql, checked};
use perpend_domain::cost::CostSum;
use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::score::ScoreDataType;
use perpend_domain::telemetry::{GroupKey, GroupQuery};
use perpend_domain::time::Timestamp;

use crate::trace_groups::{GroupConditions, bound, columns, of_column};
use crate::{Error, Telemetry};

/// Traces of a user that are searched for low scores.
const LOOKED_AT: u32 = 1_000;
/// Pairs of score name and trace that are read for the lowest scores.
const LOWEST: u32 = 200;
/// Numeric scores from 0 to 1 below this value are low.
const LOW: f64 = 0.5;

perpend_db::record! {
    struct SumRow {
        id: String,
        is_own: i64,
        name: String,
        data_type: String,
        category: Option<String>,
        n: i64,
        total: f64,
    }
}

perpend_db::record! {
    struct DayRow {
        id: String,
        day: i64,
        n: i64,
    }
}

perpend_db::record! {
    struct PartRow {
        part: i64,
        n: i64,
        n_failed: i64,
        total_cost: f64,
        n_priced: i64,
        n_unpriced: i64,
    }
}

perpend_db::record! {
    struct LowRow {
        trace_id: String,
        name: String,
        data_type: String,
    }
}

/// Aggregate of the scores of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreSum {
    /// Their name.
    pub name: String,
    /// Type of the values.
    pub data_type: ScoreDataType,
    /// Whether the scores are on the session itself and not on its traces.
    pub is_own: bool,
    /// Number of scores.
    pub n: u64,
    /// Sum of numbers; `true` counts as one.
    pub total: f64,
    /// The most frequent category, and its number of scores.
    pub top: Option<(String, u64)>,
}

/// Totals of the traces that started in one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IntervalTotals {
    /// Start of the interval.
    pub at: Timestamp,
    /// Number of traces.
    pub n_traces: u64,
    /// Number of traces with an observation of level `ERROR`.
    pub n_failed: u64,
    /// Total cost.
    pub cost: CostSum,
}

/// A trace with a low score.
#[derive(Clone, Debug, PartialEq)]
pub struct LowScore {
    /// The trace.
    pub trace: TraceId,
    /// The name of the score.
    pub name: String,
    /// Whether it is a boolean score that is false, and not a number.
    pub is_truth: bool,
}

impl Telemetry {
    /// The scores of each of these sessions or users by name: first those of the session itself, then those
    /// of its newest traces, `newest` of each, in alphabetical order. Scores of observations are left out.
    /// Environments and the time range of traces are those of the query.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn scores_of_groups(
        &self,
        project: &ProjectId,
        query: &GroupQuery,
        ids: &[&str],
        newest: u32,
    ) -> Result<HashMap<String, Vec<ScoreSum>>, Error> {
        let mut found: HashMap<String, Vec<ScoreSum>> = HashMap::new();
        let Some(tenant) = self.tenant(project).await?.filter(|_| !ids.is_empty()) else {
            return Ok(found);
        };
        let newest = (newest, self.pool.is_postgres());
        let sql = scores(project, tenant, query, ids, newest);
        let rows: Vec<SumRow> = self.pool.select(&sql.text, &sql.args).await?;
        let mut sums: BTreeMap<(String, bool, String, String), ScoreSum> = BTreeMap::new();
        for row in rows {
            let is_own = row.is_own == 1;
            let data_type = checked("score", &row.data_type)?;
            let n = row.n.unsigned_abs();
            let key = (row.id, !is_own, row.name.clone(), row.data_type);
            let sum = sums.entry(key).or_insert_with(|| ScoreSum {
                name: row.name,
                data_type,
                is_own,
                n: 0,
                total: 0.0,
                top: None,
            });
            sum.n += n;
            sum.total += row.total;
            // Of equally frequent categories the first in alphabetical order.
            let is_more = |category: &String| match &sum.top {
                None => true,
                Some((top, most)) => n > *most || (n == *most && category < top),
            };
            if let Some(category) = row.category.filter(is_more) {
                sum.top = Some((category, n));
            }
        }
        for ((id, ..), sum) in sums {
            found.entry(id).or_default().push(sum);
        }
        Ok(found)
    }

    /// Number of traces of each of these sessions or users per day, for the given number of days from this
    /// instant, in the environments of the query.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn traces_by_day(
        &self,
        project: &ProjectId,
        query: &GroupQuery,
        ids: &[&str],
        (from, n_days): (Timestamp, usize),
    ) -> Result<HashMap<String, Vec<u64>>, Error> {
        const DAY_US: i64 = 86_400_000_000;
        let mut found: HashMap<String, Vec<u64>> = HashMap::new();
        let Some(tenant) = self.tenant(project).await?.filter(|_| !ids.is_empty()) else {
            return Ok(found);
        };
        let (column, _) = columns(query.by);
        let index = of_column(query.by, self.pool.is_postgres());
        let length = i64::try_from(n_days).unwrap_or_default() * DAY_US;
        let days = GroupQuery {
            environments: query.environments.clone(),
            started: (Some(from), Some(Timestamp::from_micros(from.as_micros() + length))),
            ..GroupQuery::new(query.by, query.limit)
        };
        let mut sql = Sql::default();
        let tenant = sql.bind(tenant.into());
        let start = sql.bind(from.as_micros().into());
        let ids = bound(ids, &mut sql);
        sql.push(&format!(
            "SELECT t.{column} AS id, (t.started_at - {start}) / {DAY_US} AS day, COUNT(*) AS n \
               FROM traces t{index} WHERE t.tenant = {tenant} AND t.{column} IN ({ids})"
        ));
        GroupConditions::new(&days, &mut sql).push("t", &mut sql);
        sql.push(" GROUP BY 1, 2");
        let rows: Vec<DayRow> = self.pool.select(&sql.text, &sql.args).await?;
        for row in rows {
            let by_day = found.entry(row.id).or_insert_with(|| vec![0; n_days]);
            let day = usize::try_from(row.day).ok();
            if let Some(n) = day.and_then(|day| by_day.get_mut(day)) {
                *n = row.n.unsigned_abs();
            }
        }
        Ok(found)
    }

    /// Totals of the traces of a user in the time range and the environments of the query, by intervals of a
    /// number of microseconds. The first interval begins with an instant before which the range has no trace.
    /// Intervals without traces are left out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn user_interval_totals(
        &self,
        project: &ProjectId,
        query: &GroupQuery,
        user: &str,
        (first, length): (Timestamp, i64),
    ) -> Result<Vec<IntervalTotals>, Error> {
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok(Vec::new());
        };
        let index = of_column(GroupKey::User, self.pool.is_postgres());
        let mut sql = Sql::default();
        let [tenant, start] = [tenant, first.as_micros()].map(|number| sql.bind(number.into()));
        let user = sql.bind_text(user);
        sql.push(&format!(
            "SELECT (t.started_at - {start}) / {length} AS part, COUNT(*) AS n, \
                    CAST(SUM(CASE WHEN t.n_error > 0 THEN 1 ELSE 0 END) AS BIGINT) AS n_failed, \
                    CAST(SUM(t.total_cost) AS DOUBLE PRECISION) AS total_cost, \
                    CAST(SUM(t.n_priced) AS BIGINT) AS n_priced, \
                    CAST(SUM(t.n_unpriced) AS BIGINT) AS n_unpriced \
               FROM traces t{index} WHERE t.tenant = {tenant} AND t.user_id = {user}"
        ));
        GroupConditions::new(query, &mut sql).push("t", &mut sql);
        sql.push(" GROUP BY 1 ORDER BY 1");
        let rows: Vec<PartRow> = self.pool.select(&sql.text, &sql.args).await?;
        let parts = rows.into_iter().map(|row| IntervalTotals {
            at: Timestamp::from_micros(first.as_micros() + row.part * length),
            n_traces: row.n.unsigned_abs(),
            n_failed: row.n_failed.unsigned_abs(),
            cost: CostSum {
                dollars: row.total_cost,
                n_priced: row.n_priced.unsigned_abs(),
                n_unpriced: row.n_unpriced.unsigned_abs(),
            },
        });
        Ok(parts.collect())
    }

    /// The lowest scores of the newest 1,000 traces of a user in the time range and the environments of the
    /// query, on the trace itself: `false`, and numbers below 0.5 of names whose numbers all are from 0 to 1.
    /// The lowest first, then by the newest trace.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn low_scores(
        &self,
        project: &ProjectId,
        query: &GroupQuery,
        user: &str,
    ) -> Result<Vec<LowScore>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(Vec::new());
        };
        let mut sql = Sql::default();
        let [tenant, low] = [sql.bind(tenant.into()), sql.bind(LOW.into())];
        let [project, user] = [project.as_str(), user].map(|text| sql.bind_text(text));
        sql.push(&format!(
            "WITH x AS (SELECT t.trace_id, t.started_at, s.name, s.data_type, s.number FROM \
               (SELECT n.trace_id, n.started_at FROM traces n{} WHERE n.tenant = {tenant} AND n.user_id = {user}",
            of_column(GroupKey::User, self.pool.is_postgres())
        ));
        GroupConditions::new(query, &mut sql).push("n", &mut sql);
        sql.push(&format!(
            " ORDER BY n.started_at DESC LIMIT {LOOKED_AT}) t \
               CROSS JOIN scores s WHERE s.project_id = {project} AND s.trace_id = t.trace_id \
               AND s.observation_id IS NULL AND s.number IS NOT NULL) \
             SELECT x.trace_id AS trace_id, x.name AS name, x.data_type AS data_type FROM x \
              WHERE x.number < {low} AND x.name NOT IN (SELECT y.name FROM x y WHERE y.number < 0 OR y.number > 1) \
              GROUP BY x.trace_id, x.name, x.data_type \
              ORDER BY MIN(x.number), MAX(x.started_at) DESC, x.trace_id, x.name LIMIT {LOWEST}"
        ));
        let rows: Vec<LowRow> = self.pool.select(&sql.text, &sql.args).await?;
        let low = |row: LowRow| {
            let data_type: ScoreDataType = checked("score", &row.data_type)?;
            Ok::<_, Error>(LowScore {
                trace: checked("trace", &row.trace_id)?,
                name: row.name,
                is_truth: data_type == ScoreDataType::Boolean,
            })
        };
        rows.into_iter().map(low).collect()
    }
}

/// The scores of these groups, grouped by subject, name, data type and category.
pub(super) fn scores(
    project: &ProjectId,
    tenant: i64,
    query: &GroupQuery,
    ids: &[&str],
    (newest, is_postgres): (u32, bool),
) -> Sql {
    const SUMS: &str = "s.name AS name, s.data_type AS data_type, \
        CASE WHEN s.data_type = 'CATEGORICAL' THEN s.text END AS category, COUNT(*) AS n, \
        SUM(CAST(COALESCE(s.number, 0) AS DOUBLE PRECISION)) AS total";
    let (column, _) = columns(query.by);
    let mut sql = Sql::default();
    let tenant = sql.bind(tenant.into());
    let project = sql.bind_text(project.as_str());
    let narrowed = GroupConditions::new(query, &mut sql);
    let ids: Vec<String> = ids.iter().map(|id| sql.bind_text(id)).collect();
    let index = of_column(query.by, is_postgres);
    if query.by == GroupKey::Session {
        let environments = match query.environments.is_empty() {
            true => String::new(),
            false => {
                let names = bound(&query.environments, &mut sql);
                format!(" AND s.environment IN ({names})")
            }
        };
        sql.push(&format!(
            "SELECT s.session_id AS id, CAST(1 AS BIGINT) AS is_own, {SUMS} FROM scores s \
              WHERE s.project_id = {project} AND s.session_id IN ({}){environments} \
              GROUP BY s.session_id, s.name, s.data_type, CASE WHEN s.data_type = 'CATEGORICAL' THEN s.text END \
              UNION ALL ",
            ids.join(", ")
        ));
    }
    sql.push(&format!("SELECT g.id AS id, CAST(0 AS BIGINT) AS is_own, {SUMS} FROM ("));
    for (at, id) in ids.iter().enumerate() {
        let sign = if at == 0 { "" } else { " UNION ALL " };
        sql.push(&format!(
            "{sign}SELECT * FROM (SELECT t.{column} AS id, t.trace_id AS trace_id FROM traces t{index} \
              WHERE t.tenant = {tenant} AND t.{column} = {id}"
        ));
        narrowed.push("t", &mut sql);
        sql.push(&format!(" ORDER BY t.started_at DESC LIMIT {newest}) n{at}"));
    }
    // Traces are the outer table: there are fewer of them than scores.
    sql.push(&format!(
        ") g CROSS JOIN scores s WHERE s.project_id = {project} AND s.trace_id = g.trace_id AND s.observation_id IS NULL \
          GROUP BY g.id, s.name, s.data_type, CASE WHEN s.data_type = 'CATEGORICAL' THEN s.text END"
    ));
    sql
}
