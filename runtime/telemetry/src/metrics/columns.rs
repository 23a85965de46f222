//! Metric queries that columns can answer, as SQL.

use std::sync::OnceLock;

use perpend_domain::filter::{Condition, Filter, Test};
use perpend_domain::ids::ProjectId;
use perpend_domain::metrics::{
    Accumulator, Aggregation, Granularity, Metric, MetricQuery, MetricView, Partial,
};
use perpend_domain::time::Timestamp;

use super::Groups;
use crate::MarkCondition;
use crate::experiments::{EXPERIMENT_COLUMNS, column_of_linking_run};
use crate::read::{observation_column, trace_column, where_of};
use crate::rollup::IS_OBSERVATION;
use crate::trace_shape::push_marks;
use crate::{Error, Telemetry};
use perpend_db::{Arg, Cell, ColumnType, Row, query};
use perpend_db::{Expr, Sql};

/// Columns of a row in addition to its bucket.
pub(super) struct Fetched {
    pub(super) n_texts: usize,
    pub(super) n_numbers: usize,
}

/// Bucket, dimensions, and numbers.
pub(super) struct FetchedRow {
    pub(super) at: Option<i64>,
    pub(super) texts: Vec<Option<String>>,
    pub(super) numbers: Vec<Option<f64>>,
}

/// Source of a view.
struct Source {
    /// Tables with their aliases, the table with the rows first.
    from: &'static str,
    /// The time column.
    time: &'static str,
    column: fn(&str) -> Option<Expr>,
}

const OBSERVATIONS: Source = Source {
    from: "observations o JOIN traces t ON t.number = o.trace",
    time: "o.started_at",
    column: observation_column,
};
const TRACES: Source = Source { from: "traces t", time: "t.started_at", column: trace_column };
const SCORES: Source = Source {
    from: "scores s LEFT JOIN traces t ON t.tenant = $2 AND t.trace_id = s.trace_id \
           LEFT JOIN observations o ON o.trace = t.number AND o.id = s.observation_id",
    time: "s.timestamp",
    column: score_column,
};
/// If no other table is needed.
const SCORES_ALONE: &str = "scores s";
const OBSERVATIONS_ALONE: &str = "observations o";

const fn source(view: MetricView) -> Source {
    match view {
        MetricView::Observations => OBSERVATIONS,
        MetricView::Traces => TRACES,
        _ => SCORES,
    }
}

fn score_column(id: &str) -> Option<Expr> {
    Some(match id {
        "id" => Expr::Text("s.id"),
        "name" => Expr::Text("s.name"),
        "source" => Expr::Text("s.source"),
        "dataType" => Expr::Text("s.data_type"),
        "environment" => Expr::Text("s.environment"),
        "timestamp" => Expr::Time("s.timestamp"),
        "value" => Expr::Number("s.number"),
        "booleanValue" => Expr::Bool("CAST(s.number AS BIGINT)"),
        "stringValue" => Expr::NullableText("s.text"),
        "traceId" => Expr::NullableText("s.trace_id"),
        "observationId" => Expr::NullableText("s.observation_id"),
        "sessionId" => Expr::NullableText("COALESCE(s.session_id, t.session_id)"),
        "datasetRunId" | "experimentId" => Expr::NullableText("s.experiment_id"),
        "configId" => Expr::NullableText("s.config_id"),
        "userId" => Expr::NullableText("t.user_id"),
        "traceName" => Expr::NullableText("t.name"),
        "traceRelease" => Expr::NullableText("t.release"),
        "traceVersion" => Expr::NullableText("t.version"),
        "observationName" => Expr::NullableText("o.name"),
        "observationModelName" => Expr::NullableText("o.model"),
        "observationPromptName" => Expr::NullableText("o.prompt_name"),
        "observationPromptVersion" => Expr::Number("o.prompt_version"),
        _ => return None,
    })
}

/// A date from microseconds, cut to a number of characters.
fn date(column: &str, n_chars: usize, is_postgres: bool) -> String {
    match is_postgres {
        true => format!(
            "substr(to_char(to_timestamp({column} / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD'), 1, {n_chars})"
        ),
        false => format!("substr(date({column} / 1000000, 'unixepoch'), 1, {n_chars})"),
    }
}

/// All tags as one text, in their order; null if there are none. PostgreSQL has no text with a NUL, which
/// JSON can contain.
fn tags(detail: &str, is_postgres: bool) -> String {
    match is_postgres {
        true => format!(
            "(SELECT string_agg(g.value, ',' ORDER BY g.ordinality) FROM json_array_elements_text(\
             replace({detail}, '\\u0000', '\\ufffd')::json -> 'tags') WITH ORDINALITY g)"
        ),
        false => {
            format!("(SELECT group_concat(g.value, ',') FROM json_each({detail}, '$.tags') g)")
        }
    }
}

fn detail(path: &str, is_postgres: bool) -> String {
    match is_postgres {
        true => format!(
            "(replace(o.detail, '\\u0000', '\\ufffd')::json #>> '{{{}}}')",
            path.replace('.', ",")
        ),
        false => format!("json_extract(o.detail, '$.{path}')"),
    }
}

/// The run of an observation: the one that links it as an item, or else the one of its attributes.
fn run_column(id: &str, is_postgres: bool) -> Option<&'static str> {
    static SQL: OnceLock<[[String; 3]; 2]> = OnceLock::new();
    let at = EXPERIMENT_COLUMNS.iter().position(|column| *column == id)?;
    let all = SQL.get_or_init(|| {
        [false, true].map(|is_postgres| {
            ["id", "name", "dataset_id"].map(|column| {
                let own = detail(&format!("experiment.{column}"), is_postgres);
                format!("COALESCE({}, {own})", column_of_linking_run(column))
            })
        })
    });
    Some(all[usize::from(is_postgres)][at].as_str())
}

/// A column of observations, or of their runs.
fn observation_or_run_column<const IS_POSTGRES: bool>(id: &str) -> Option<Expr> {
    run_column(id, IS_POSTGRES).map(Expr::NullableText).or_else(|| observation_column(id))
}

/// A dimension as text; `None` if it needs the whole row.
fn dimension(view: MetricView, name: &str, is_postgres: bool) -> Option<String> {
    let text = match (view, name) {
        (MetricView::Observations, name) if EXPERIMENT_COLUMNS.contains(&name) => {
            run_column(name, is_postgres)?
        }
        (MetricView::Observations, "traceRelease") => "t.release",
        (MetricView::Observations, "traceVersion") => "t.version",
        (MetricView::Observations, "providedModelName") => "o.model",
        (MetricView::Observations, "isRootObservation") => {
            "CASE o.is_root WHEN 1 THEN 'true' ELSE 'false' END"
        }
        (MetricView::Observations, "promptVersion") => "CAST(o.prompt_version AS TEXT)",
        (MetricView::Observations, "startTimeMonth") => {
            return Some(date("o.started_at", 7, is_postgres));
        }
        (MetricView::Traces, "timestampMonth") => {
            return Some(date("t.started_at", 7, is_postgres));
        }
        (_, "timestampMonth") => return Some(date("s.timestamp", 7, is_postgres)),
        (_, "timestampDay") => return Some(date("s.timestamp", 10, is_postgres)),
        (MetricView::ScoresNumeric, "value") => "CAST(s.number AS TEXT)",
        (MetricView::ScoresBoolean, "booleanValue") => {
            "CASE s.number WHEN 0 THEN 'false' ELSE 'true' END"
        }
        (
            MetricView::ScoresNumeric | MetricView::ScoresBoolean | MetricView::ScoresCategorical,
            "experimentName",
        ) => {
            "(SELECT r.name FROM dataset_runs r \
               WHERE r.project_id = s.project_id AND r.id = s.experiment_id)"
        }
        (
            MetricView::ScoresNumeric | MetricView::ScoresBoolean | MetricView::ScoresCategorical,
            "observationPromptVersion",
        ) => "CAST(o.prompt_version AS TEXT)",
        (MetricView::Observations, "tags") => {
            let [own, of_trace] = ["o.detail", "t.detail"].map(|detail| tags(detail, is_postgres));
            return Some(format!("COALESCE({own}, {of_trace})"));
        }
        (_, "tags") => return Some(tags("t.detail", is_postgres)),
        (_, "toolNames" | "calledToolNames" | "costType" | "usageType") => return None,
        (view, other) => match (source(view).column)(other)? {
            Expr::Text(sql) | Expr::NullableText(sql) => sql,
            _ => return None,
        },
    };
    Some(format!("NULLIF({text}, '')"))
}

/// A measure as a number, or as text for a measure without one.
fn measure(view: MetricView, metric: &Metric) -> Option<&'static str> {
    Some(match (view, metric.measure.name) {
        (_, "count") => "1",
        (MetricView::Observations, "latency") => "(o.ended_at - o.started_at) / 1000.0",
        (MetricView::Observations, "streamingLatency") => {
            "(o.ended_at - o.first_token_at) / 1000.0"
        }
        (MetricView::Observations, "timeToFirstToken") => {
            "(o.first_token_at - o.started_at) / 1000.0"
        }
        (MetricView::Observations, "inputTokens") => "o.input_tokens",
        (MetricView::Observations, "outputTokens") => "o.output_tokens",
        (MetricView::Observations, "totalTokens") => "o.total_tokens",
        (MetricView::Observations, "tokensPerSecond") => {
            "o.total_tokens * 1000000.0 / NULLIF(o.ended_at - o.started_at, 0)"
        }
        (MetricView::Observations, "outputTokensPerSecond") => {
            "o.output_tokens * 1000000.0 / NULLIF(o.ended_at - o.started_at, 0)"
        }
        (MetricView::Observations, "inputCost") => "o.input_cost",
        (MetricView::Observations, "outputCost") => "o.output_cost",
        (MetricView::Observations, "totalCost") => "o.total_cost",
        (MetricView::Observations, "countScores") => {
            "(SELECT COUNT(*) FROM scores c WHERE c.project_id = $1 AND c.trace_id = t.trace_id \
               AND c.observation_id = o.id)"
        }
        (MetricView::Observations, "uniqueUserIds") => "COALESCE(NULLIF(o.user_id, ''), t.user_id)",
        (MetricView::Observations, "uniqueSessionIds") => {
            "COALESCE(NULLIF(o.session_id, ''), t.session_id)"
        }
        (MetricView::Observations, "traceId") => "t.trace_id",
        (MetricView::Traces, "observationsCount") => "t.n_observations",
        (MetricView::Traces, "scoresCount") => {
            "(SELECT COUNT(*) FROM scores c WHERE c.project_id = $1 AND c.trace_id = t.trace_id)"
        }
        (MetricView::Traces, "uniqueUserIds") => "t.user_id",
        (MetricView::Traces, "uniqueSessionIds") => "t.session_id",
        (MetricView::Traces, "latency") => "t.latency_us / 1000.0",
        (MetricView::Traces, "totalTokens") => "t.total_tokens",
        (MetricView::Traces, "totalCost") => "t.total_cost",
        (MetricView::ScoresNumeric | MetricView::ScoresBoolean, "value") => "s.number",
        _ => return None,
    })
}

/// Appends a condition on the tags of a score's trace or on the metadata of the score; `false` for any other.
fn score_condition(sql: &mut Sql, condition: &Condition, tenant: &str, is_postgres: bool) -> bool {
    let is_on = |id: &str| condition.column.is_some_and(|column| column.id == id);
    if is_on("tags") && condition.test == Test::IsNull {
        sql.push(" AND t.number IS NULL");
    } else if is_on("tags") && condition.test == Test::IsNotNull {
        sql.push(" AND t.number IS NOT NULL");
    } else if let (true, Some(marked)) = (is_on("tags"), MarkCondition::of(condition)) {
        // A score without a trace has no list of tags, which differs from an empty one.
        sql.push(" AND t.number IS NOT NULL");
        push_marks(&marked, sql, tenant, ("t.started_at", "t.number"));
    } else if is_on("metadata") {
        return sql.member("s.metadata", &condition.test, is_postgres);
    } else {
        return false;
    }
    true
}

/// The condition on the data types of a view.
fn of_type(question: &MetricQuery) -> String {
    let condition = match question.view {
        MetricView::ScoresNumeric if question.with_booleans => {
            " AND s.data_type IN ('NUMERIC', 'BOOLEAN')"
        }
        MetricView::ScoresNumeric => " AND s.data_type = 'NUMERIC'",
        MetricView::ScoresBoolean => " AND s.data_type = 'BOOLEAN'",
        MetricView::ScoresCategorical => " AND s.data_type = 'CATEGORICAL'",
        MetricView::Observations => return format!(" AND {IS_OBSERVATION}"),
        MetricView::Traces => "",
    };
    condition.to_owned()
}

/// The start of the bucket of a time, for the database to group by.
fn bucket(granularity: Granularity, time: &str, is_postgres: bool) -> String {
    const DAY: i64 = 86_400_000_000;
    let floor =
        |step: i64, shift: i64| format!("{time} - (({time} + {shift}) % {step} + {step}) % {step}");
    match granularity {
        // The epoch was a Thursday; weeks start on Mondays.
        Granularity::Week => floor(7 * DAY, 3 * DAY),
        Granularity::Month if is_postgres => format!(
            "CAST(EXTRACT(EPOCH FROM date_trunc('month', to_timestamp({time} / 1000000.0) \
             AT TIME ZONE 'UTC')) AS BIGINT) * 1000000"
        ),
        Granularity::Month => format!(
            "CAST(strftime('%s', {time} / 1000000, 'unixepoch', 'start of month') AS INTEGER) * 1000000"
        ),
        other => floor(other.step(), 0),
    }
}

/// Number of columns of a metric if the database aggregates.
const fn n_sums(metric: &Metric) -> usize {
    match (metric.aggregation, metric.measure.is_number) {
        (Aggregation::Uniq, _) | (_, false) => 1,
        _ => 4,
    }
}

/// The aggregate expressions of a metric.
fn sums(metric: &Metric, sql: &str) -> Vec<String> {
    let value = match metric.measure.is_number {
        true => format!("CAST({sql} AS DOUBLE PRECISION)"),
        false => format!("NULLIF({sql}, '')"),
    };
    let number = |what: String| format!("CAST({what} AS DOUBLE PRECISION)");
    match (metric.aggregation, metric.measure.is_number) {
        // The number of a trace is as selective as its id and is in the same table.
        (Aggregation::Uniq, _) if sql == "t.trace_id" => {
            vec![number("COUNT(DISTINCT o.trace)".to_owned())]
        }
        (Aggregation::Uniq, _) => vec![number(format!("COUNT(DISTINCT {value})"))],
        (_, false) => vec![number(format!("COUNT({value})"))],
        _ => ["COUNT", "SUM", "MIN", "MAX"].map(|name| number(format!("{name}({sql})"))).into(),
    }
}

/// The expression by which a metric orders groups.
fn size(metric: &Metric, sql: &str) -> Option<String> {
    Some(match metric.aggregation {
        Aggregation::Sum => format!("SUM({sql})"),
        Aggregation::Min => format!("MIN({sql})"),
        Aggregation::Max => format!("MAX({sql})"),
        Aggregation::Avg => format!("AVG({sql})"),
        Aggregation::Count | Aggregation::Uniq => sums(metric, sql).swap_remove(0),
        _ => return None,
    })
}

fn put_sums(value: &mut Accumulator, metric: &Metric, numbers: &[Option<f64>]) {
    let number = |at: usize| numbers.get(at).copied().flatten();
    let n = number(0).unwrap_or(0.0) as u64;
    match (metric.aggregation, metric.measure.is_number) {
        (Aggregation::Uniq, _) => value.add_distinct(n),
        (_, false) => value.merge(Partial { n, ..Partial::default() }),
        _ => value.merge(Partial {
            n,
            sum: number(1).unwrap_or(0.0),
            min: number(2),
            max: number(3),
        }),
    }
}

/// Selected expressions: a bucket, dimensions, and the expression of each metric.
struct Selected {
    bucket: String,
    dimensions: Vec<String>,
    measures: Vec<&'static str>,
}

impl Selected {
    fn new(question: &MetricQuery, is_postgres: bool) -> Option<Self> {
        let view = question.view;
        let time = source(view).time;
        let bucket = question.granularity.map(|granularity| bucket(granularity, time, is_postgres));
        let dimensions = question.dimensions.iter();
        Some(Self {
            bucket: bucket.unwrap_or_else(|| "CAST(NULL AS BIGINT)".to_owned()),
            dimensions: dimensions
                .map(|one| dimension(view, one.name, is_postgres))
                .collect::<Option<_>>()?,
            measures: question
                .metrics
                .iter()
                .map(|metric| measure(view, metric))
                .collect::<Option<_>>()?,
        })
    }

    /// Bucket, dimensions, and the given expressions.
    fn columns(&self, numbers: &[String]) -> String {
        let mut all = vec![self.bucket.as_str()];
        all.extend(self.dimensions.iter().map(String::as_str));
        all.extend(numbers.iter().map(String::as_str));
        all.join(", ")
    }

    /// The aggregates of the metrics that need no single values.
    fn sums(&self, question: &MetricQuery) -> Vec<String> {
        let metrics = question.metrics.iter().zip(&self.measures);
        let summed = metrics.filter(|(metric, _)| !metric.aggregation.needs_values());
        summed.flat_map(|(metric, sql)| sums(metric, sql)).collect()
    }

    /// The values of the metrics that need single values.
    fn values(&self, question: &MetricQuery) -> Vec<String> {
        let metrics = question.metrics.iter().zip(&self.measures);
        let single = metrics.filter(|(metric, _)| metric.aggregation.needs_values());
        single.map(|(_, sql)| format!("CAST({sql} AS DOUBLE PRECISION)")).collect()
    }

    /// `ORDER BY` and `LIMIT` if the largest groups are enough.
    fn largest(&self, question: &MetricQuery) -> Option<String> {
        let top = question.top.filter(|_| question.granularity.is_none())?;
        if question.metrics.iter().any(|metric| metric.aggregation.needs_values()) {
            return None;
        }
        let size = size(question.metrics.get(top.metric)?, self.measures.get(top.metric)?)?;
        let mut order = vec![format!("{size} DESC NULLS LAST")];
        // Absent values first, as everywhere in the order of groups.
        order.extend((2..2 + self.dimensions.len()).map(|at| format!("{at} NULLS FIRST")));
        Some(format!(" ORDER BY {} LIMIT {}", order.join(", "), top.n))
    }
}

impl Telemetry {
    /// Passes the rows of a metric statement on one at a time.
    pub(super) async fn each_metric_row(
        &self,
        sql: &str,
        args: &[Arg<'_>],
        fetched: &Fetched,
        mut put: impl FnMut(FetchedRow) -> Result<(), Error> + Send,
    ) -> Result<(), Error> {
        let types: Vec<ColumnType> = [ColumnType::Int]
            .into_iter()
            .chain(std::iter::repeat_n(ColumnType::Text, fetched.n_texts))
            .chain(std::iter::repeat_n(ColumnType::Float, fetched.n_numbers))
            .collect();
        let put = &mut |row: Row| {
            let mut cells = row.cells(&types)?.into_iter();
            put(FetchedRow {
                at: cells.next().and_then(Cell::into_int),
                texts: cells.by_ref().take(fetched.n_texts).map(Cell::into_text).collect(),
                numbers: cells.map(Cell::into_float).collect(),
            })
        };
        let rows = query(sql.to_owned()).bind_all(args);
        rows.each(&self.pool, put).await
    }

    /// Adds the rows of a query if columns can answer it; `false` otherwise.
    pub(super) async fn add_columns(
        &self,
        project: &ProjectId,
        tenant: i64,
        question: &MetricQuery,
        groups: &mut Groups,
    ) -> Result<bool, Error> {
        let Some(selected) = Selected::new(question, self.pool.is_postgres()) else {
            return Ok(false);
        };
        let (sums, values) = (selected.sums(question), selected.values(question));
        let read = [selected.columns(&sums), selected.columns(&values)].concat();
        let Some((from, args)) = self.rows_of(project, tenant, question, &read)? else {
            return Ok(false);
        };
        if !sums.is_empty() {
            self.add_sums(question, &selected, (&from, &args), groups).await?;
        }
        if !values.is_empty() {
            self.add_values(question, &selected, (&from, &args), groups).await?;
        }
        Ok(true)
    }

    async fn add_sums(
        &self,
        question: &MetricQuery,
        selected: &Selected,
        (from, args): (&str, &[Arg<'static>]),
        groups: &mut Groups,
    ) -> Result<(), Error> {
        let sums = selected.sums(question);
        let places: Vec<String> =
            (1..=question.dimensions.len() + 1).map(|at| at.to_string()).collect();
        let sql = format!(
            "SELECT {}{from} GROUP BY {}{}",
            selected.columns(&sums),
            places.join(", "),
            selected.largest(question).unwrap_or_default()
        );
        let fetched = Fetched { n_texts: selected.dimensions.len(), n_numbers: sums.len() };
        let put = |row: FetchedRow| {
            let at = row.at.map(Timestamp::from_micros);
            let mut numbers = row.numbers.as_slice();
            let values = groups.of(question, at, row.texts)?;
            for (value, metric) in values.iter_mut().zip(&question.metrics) {
                if !metric.aggregation.needs_values() {
                    let (own, others) = numbers.split_at(n_sums(metric).min(numbers.len()));
                    put_sums(value, metric, own);
                    numbers = others;
                }
            }
            Ok(())
        };
        self.each_metric_row(&sql, args, &fetched, put).await
    }

    async fn add_values(
        &self,
        question: &MetricQuery,
        selected: &Selected,
        (from, args): (&str, &[Arg<'static>]),
        groups: &mut Groups,
    ) -> Result<(), Error> {
        let columns = selected.values(question);
        let sql = format!("SELECT {}{from}", selected.columns(&columns));
        let fetched = Fetched { n_texts: selected.dimensions.len(), n_numbers: columns.len() };
        let put = |row: FetchedRow| {
            let at = row.at.map(Timestamp::from_micros);
            groups.count_values(row.numbers.iter().flatten().count())?;
            let mut numbers = row.numbers.iter();
            let values = groups.of(question, at, row.texts)?;
            for (value, metric) in values.iter_mut().zip(&question.metrics) {
                if metric.aggregation.needs_values()
                    && let Some(Some(number)) = numbers.next()
                {
                    value.add(metric.aggregation, *number);
                }
            }
            Ok(())
        };
        self.each_metric_row(&sql, args, &fetched, put).await
    }

    /// `FROM` and `WHERE` of a query with their values; `None` if a condition needs the whole row.
    fn rows_of(
        &self,
        project: &ProjectId,
        tenant: i64,
        question: &MetricQuery,
        columns: &str,
    ) -> Result<Option<(String, Vec<Arg<'static>>)>, Error> {
        let source = source(question.view);
        let mut sql = Sql::default();
        let own = sql.bind_text(project.as_str());
        let number = sql.bind(tenant.into());
        let is_about_scores =
            !matches!(question.view, MetricView::Observations | MetricView::Traces);
        // Each value occurs in the statement, so that PostgreSQL can derive its type even if no condition
        // uses it.
        sql.push(&match question.view {
            MetricView::Observations => {
                format!(" AND o.tenant = {number} AND CAST({own} AS TEXT) <> ''")
            }
            MetricView::Traces => format!(" AND t.tenant = {number} AND CAST({own} AS TEXT) <> ''"),
            _ => format!(" AND s.project_id = {own} AND CAST({number} AS BIGINT) >= 0"),
        });
        sql.push(&of_type(question));
        for (sign, at) in [(">=", question.from), ("<", question.to)] {
            let at = sql.bind(at.as_micros().into());
            sql.push(&format!(" AND {} {sign} {at}", source.time));
        }
        let mut filter: Filter = question.filter.clone();
        if is_about_scores {
            let is_postgres = self.pool.is_postgres();
            filter
                .conditions
                .retain(|condition| !score_condition(&mut sql, condition, &number, is_postgres));
        }
        let column: fn(&str) -> Option<Expr> = match question.view {
            MetricView::Observations if self.pool.is_postgres() => {
                observation_or_run_column::<true>
            }
            MetricView::Observations => observation_or_run_column::<false>,
            _ => source.column,
        };
        if !where_of(&mut sql, &filter, column, self.pool.is_postgres()).is_empty() {
            return match is_about_scores {
                true => Err(Error::Conflict(
                    "scores cannot be filtered by one of these conditions in metrics: lists have at most \
                     100 values, tags at most 200 characters, keys at most four dots",
                )),
                false => Ok(None),
            };
        }
        let reads = |alias: &str| columns.contains(alias) || sql.text.contains(alias);
        let tables = match question.view {
            MetricView::Observations if !reads("t.") => OBSERVATIONS_ALONE,
            MetricView::Observations | MetricView::Traces => source.from,
            _ if !reads("t.") && !reads("o.") => SCORES_ALONE,
            _ => source.from,
        };
        Ok(Some((format!(" FROM {tables} WHERE 1 = 1{}", sql.text), sql.args)))
    }
}
