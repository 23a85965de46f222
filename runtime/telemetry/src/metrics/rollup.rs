//! Whole hours from the rollups.

use perpend_domain::filter::Filter;
use perpend_domain::metrics::{Granularity, Metric, MetricQuery, MetricView, Partial};
use perpend_domain::time::Timestamp;

use super::Groups;
use super::columns::{Fetched, FetchedRow};
use crate::read::where_of;
use crate::rollup::HOUR;
use crate::{Error, Telemetry};
use perpend_db::{Expr, Sql};

/// The rollup column of a filter column.
pub(crate) fn column(id: &str) -> Option<Expr> {
    Some(match id {
        "environment" => Expr::Text("r.environment"),
        "type" => Expr::Text("r.kind"),
        "level" => Expr::Text("r.level"),
        "model" => Expr::Text("r.model"),
        _ => return None,
    })
}

fn dimension(name: &str) -> Option<&'static str> {
    Some(match name {
        "environment" => "r.environment",
        "type" => "r.kind",
        "level" => "r.level",
        "providedModelName" => "NULLIF(r.model, '')",
        _ => return None,
    })
}

/// Suffix of the column of the measure; empty for the count of rows.
fn measure(metric: &Metric) -> Option<&'static str> {
    use perpend_domain::metrics::Aggregation::{Avg, Count, Sum};
    if !matches!(metric.aggregation, Sum | Avg | Count) {
        return None;
    }
    Some(match metric.measure.name {
        "count" => "",
        "latency" => "latency",
        "timeToFirstToken" => "first_token",
        "inputTokens" => "input_tokens",
        "outputTokens" => "output_tokens",
        "totalTokens" => "total_tokens",
        "inputCost" => "input_cost",
        "outputCost" => "output_cost",
        "totalCost" => "total_cost",
        _ => return None,
    })
}

/// The whole hours of a query.
fn hours(question: &MetricQuery) -> Option<(i64, i64)> {
    let up = |at: Timestamp| {
        let micros = at.as_micros();
        micros.saturating_add((-micros).rem_euclid(HOUR))
    };
    let (from, to) = (up(question.from), question.to.as_micros().div_euclid(HOUR) * HOUR);
    (from < to).then_some((from, to))
}

impl Telemetry {
    /// Adds the whole hours of the query if the rollups can answer it. Returns the range of time that was
    /// added.
    pub(super) async fn add_rollups(
        &self,
        tenant: i64,
        question: &MetricQuery,
        groups: &mut Groups,
    ) -> Result<Option<(Timestamp, Timestamp)>, Error> {
        let Some((from, to)) = hours(question) else {
            return Ok(None);
        };
        let dimensions: Option<Vec<&str>> =
            question.dimensions.iter().map(|d| dimension(d.name)).collect();
        let measures: Option<Vec<&str>> = question.metrics.iter().map(measure).collect();
        let (Some(dimensions), Some(measures)) = (dimensions, measures) else {
            return Ok(None);
        };
        let is_finer = question.granularity == Some(Granularity::Minute);
        if question.view != MetricView::Observations || is_finer {
            return Ok(None);
        }
        let mut sql = Sql::default();
        let [number, first, last] = [tenant, from, to].map(|value| sql.bind(value.into()));
        sql.push(&format!(
            " FROM observation_rollups r WHERE r.tenant = {number} AND r.hour >= {first} \
             AND r.hour < {last}"
        ));
        if !conditions(&mut sql, &question.filter, self.pool.is_postgres()) {
            return Ok(None);
        }
        let bucket = question.granularity.map(|granularity| {
            let step = granularity.step();
            format!("r.hour - (r.hour % {step} + {step}) % {step}")
        });
        let mut selected = vec![bucket.unwrap_or_else(|| "CAST(NULL AS BIGINT)".to_owned())];
        selected.extend(dimensions.iter().map(|sql| (*sql).to_owned()));
        for name in &measures {
            selected.push(match name.is_empty() {
                true => "CAST(SUM(r.n) AS DOUBLE PRECISION), CAST(SUM(r.n) AS DOUBLE PRECISION)".to_owned(),
                false => format!(
                    "CAST(SUM(r.n_{name}) AS DOUBLE PRECISION), CAST(SUM(r.sum_{name}) AS DOUBLE PRECISION)"
                ),
            });
        }
        let places: Vec<String> = (1..=dimensions.len() + 1).map(|at| at.to_string()).collect();
        let text = format!(
            "SELECT {}{} GROUP BY {} HAVING SUM(r.n) > 0",
            selected.join(", "),
            sql.text,
            places.join(", ")
        );
        let fetched = Fetched { n_texts: dimensions.len(), n_numbers: 2 * measures.len() };
        let put = |row: FetchedRow| {
            let at = row.at.map(Timestamp::from_micros);
            let values = groups.of(question, at, row.texts)?;
            for (value, pair) in values.iter_mut().zip(row.numbers.chunks(2)) {
                let number = |at: usize| pair.get(at).copied().flatten().unwrap_or(0.0);
                value.merge(Partial { n: number(0) as u64, sum: number(1), min: None, max: None });
            }
            Ok(())
        };
        self.each_metric_row(&text, &sql.args, &fetched, put).await?;
        Ok(Some((Timestamp::from_micros(from), Timestamp::from_micros(to))))
    }
}

/// Appends the conditions; `false` if the rollups lack one of their columns.
fn conditions(sql: &mut Sql, filter: &Filter, is_postgres: bool) -> bool {
    where_of(sql, filter, column, is_postgres).is_empty()
}
