//! Questions that columns can answer, as SQL.

use assay_domain::filter::Filter;
use assay_domain::ids::ProjectId;
use assay_domain::metrics::{Metric, Partial, Question, View};
use assay_domain::time::Timestamp;
use sqlx::{AssertSqlSafe, Row as _};

use super::Groups;
use crate::filter_sql::{Expr, Sql};
use crate::pool::on_reader;
use crate::telemetry::db::{Arg, bind_args};
use crate::telemetry::read::{observation_column, trace_column, where_of};
use crate::telemetry::rollup::IS_STEP;
use crate::{Error, Store};

/// Columns of a row beside its bucket.
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

/// How a view is read.
struct Source {
    /// Tables with their aliases, the one with the rows first.
    from: &'static str,
    /// The column of time.
    time: &'static str,
    column: fn(&str) -> Option<Expr>,
}

const OBSERVATIONS: Source = Source {
    from: "observations o JOIN traces t ON t.number = o.trace",
    time: "o.started_at",
    column: observation_column,
};
const TRACES: Source = Source {
    from: "traces t",
    time: "t.started_at",
    column: trace_column,
};
const SCORES: Source = Source {
    from: "scores s LEFT JOIN traces t ON t.tenant = $2 AND t.trace_id = s.trace_id \
           LEFT JOIN observations o ON o.trace = t.number AND o.id = s.observation_id",
    time: "s.timestamp",
    column: score_column,
};
/// Where nothing of the others is asked for.
const SCORES_ALONE: &str = "scores s";
const OBSERVATIONS_ALONE: &str = "observations o";

const fn source(view: View) -> Source {
    match view {
        View::Observations => OBSERVATIONS,
        View::Traces => TRACES,
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

/// A date from microseconds, cut to so many characters.
fn date(column: &str, n_chars: usize, is_postgres: bool) -> String {
    match is_postgres {
        true => format!(
            "substr(to_char(to_timestamp({column} / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD'), 1, {n_chars})"
        ),
        false => format!("substr(date({column} / 1000000, 'unixepoch'), 1, {n_chars})"),
    }
}

fn detail(path: &str, is_postgres: bool) -> String {
    match is_postgres {
        true => format!("(o.detail::json #>> '{{{}}}')", path.replace('.', ",")),
        false => format!("json_extract(o.detail, '$.{path}')"),
    }
}

/// A dimension as text; none when it takes the whole row.
fn dimension(view: View, name: &str, is_postgres: bool) -> Option<String> {
    let text = match (view, name) {
        (View::Observations, "traceRelease") => "t.release",
        (View::Observations, "traceVersion") => "t.version",
        (View::Observations, "providedModelName") => "o.model",
        (View::Observations, "isRootObservation") => {
            "CASE o.is_root WHEN 1 THEN 'true' ELSE 'false' END"
        }
        (View::Observations, "promptVersion") => "CAST(o.prompt_version AS TEXT)",
        (View::Observations, "startTimeMonth") => {
            return Some(date("o.started_at", 7, is_postgres));
        }
        (View::Observations, "experimentId") => return Some(detail("experiment.id", is_postgres)),
        (View::Observations, "experimentName") => {
            return Some(detail("experiment.name", is_postgres));
        }
        (View::Observations, "experimentDatasetId") => {
            return Some(detail("experiment.dataset_id", is_postgres));
        }
        (View::Traces, "timestampMonth") => return Some(date("t.started_at", 7, is_postgres)),
        (_, "timestampMonth") => return Some(date("s.timestamp", 7, is_postgres)),
        (_, "timestampDay") => return Some(date("s.timestamp", 10, is_postgres)),
        (View::ScoresNumeric, "value") => "CAST(s.number AS TEXT)",
        (View::ScoresBoolean, "booleanValue") => {
            "CASE s.number WHEN 0 THEN 'false' ELSE 'true' END"
        }
        (View::ScoresNumeric | View::ScoresBoolean | View::ScoresCategorical, "experimentName") => {
            "CAST(NULL AS TEXT)"
        }
        (
            View::ScoresNumeric | View::ScoresBoolean | View::ScoresCategorical,
            "observationPromptVersion",
        ) => "CAST(o.prompt_version AS TEXT)",
        (_, "tags" | "toolNames" | "calledToolNames" | "costType" | "usageType") => return None,
        (view, other) => match (source(view).column)(other)? {
            Expr::Text(sql) | Expr::NullableText(sql) => sql,
            _ => return None,
        },
    };
    Some(format!("NULLIF({text}, '')"))
}

/// A measure as a number or, where it has none, as text.
fn measure(view: View, metric: &Metric) -> Option<&'static str> {
    Some(match (view, metric.measure.name) {
        (_, "count") => "1",
        (View::Observations, "latency") => "(o.ended_at - o.started_at) / 1000.0",
        (View::Observations, "streamingLatency") => "(o.ended_at - o.first_token_at) / 1000.0",
        (View::Observations, "timeToFirstToken") => "(o.first_token_at - o.started_at) / 1000.0",
        (View::Observations, "inputTokens") => "o.input_tokens",
        (View::Observations, "outputTokens") => "o.output_tokens",
        (View::Observations, "totalTokens") => "o.total_tokens",
        (View::Observations, "tokensPerSecond") => {
            "o.total_tokens * 1000000.0 / NULLIF(o.ended_at - o.started_at, 0)"
        }
        (View::Observations, "outputTokensPerSecond") => {
            "o.output_tokens * 1000000.0 / NULLIF(o.ended_at - o.started_at, 0)"
        }
        (View::Observations, "inputCost") => "o.input_cost",
        (View::Observations, "outputCost") => "o.output_cost",
        (View::Observations, "totalCost") => "o.total_cost",
        (View::Observations, "countScores") => {
            "(SELECT COUNT(*) FROM scores c WHERE c.project_id = $1 AND c.trace_id = t.trace_id \
               AND c.observation_id = o.id)"
        }
        (View::Observations, "uniqueUserIds") => "COALESCE(NULLIF(o.user_id, ''), t.user_id)",
        (View::Observations, "uniqueSessionIds") => {
            "COALESCE(NULLIF(o.session_id, ''), t.session_id)"
        }
        (View::Observations, "traceId") => "t.trace_id",
        (View::Traces, "observationsCount") => "t.n_observations",
        (View::Traces, "scoresCount") => {
            "(SELECT COUNT(*) FROM scores c WHERE c.project_id = $1 AND c.trace_id = t.trace_id)"
        }
        (View::Traces, "uniqueUserIds") => "t.user_id",
        (View::Traces, "uniqueSessionIds") => "t.session_id",
        (View::Traces, "latency") => "t.latency_us / 1000.0",
        (View::Traces, "totalTokens") => "t.total_tokens",
        (View::Traces, "totalCost") => "t.total_cost",
        (View::ScoresNumeric | View::ScoresBoolean, "value") => "s.number",
        _ => return None,
    })
}

/// Which scores a view has.
fn of_type(question: &Question) -> String {
    let condition = match question.view {
        View::ScoresNumeric if question.with_booleans => {
            " AND s.data_type IN ('NUMERIC', 'BOOLEAN')"
        }
        View::ScoresNumeric => " AND s.data_type = 'NUMERIC'",
        View::ScoresBoolean => " AND s.data_type = 'BOOLEAN'",
        View::ScoresCategorical => " AND s.data_type = 'CATEGORICAL'",
        View::Observations => return format!(" AND {IS_STEP}"),
        View::Traces => "",
    };
    condition.to_owned()
}

/// What is selected: a bucket, dimensions, and for each metric a text or numbers.
struct Selected {
    bucket: String,
    texts: Vec<String>,
    numbers: Vec<String>,
}

impl Selected {
    fn new(question: &Question, is_postgres: bool, is_grouped: bool) -> Option<Self> {
        let view = question.view;
        let time = source(view).time;
        let bucket = question.granularity.map(|granularity| {
            let step = granularity.step();
            format!("{time} - ({time} % {step} + {step}) % {step}")
        });
        let dimensions = question.dimensions.iter();
        let mut texts: Vec<String> = dimensions
            .map(|one| dimension(view, one.name, is_postgres))
            .collect::<Option<_>>()?;
        let mut numbers = Vec::new();
        for metric in &question.metrics {
            let sql = measure(view, metric)?;
            if !metric.measure.is_number {
                texts.push(format!("NULLIF({sql}, '')"));
            } else if is_grouped {
                let number = |name: &str| format!("CAST({name}({sql}) AS DOUBLE PRECISION)");
                numbers.extend(["COUNT", "SUM", "MIN", "MAX"].map(number));
            } else {
                numbers.push(format!("CAST({sql} AS DOUBLE PRECISION)"));
            }
        }
        Some(Self {
            bucket: bucket.unwrap_or_else(|| "CAST(NULL AS BIGINT)".to_owned()),
            texts,
            numbers,
        })
    }

    fn columns(&self) -> String {
        let mut all = vec![self.bucket.as_str()];
        all.extend(self.texts.iter().map(String::as_str));
        all.extend(self.numbers.iter().map(String::as_str));
        all.join(", ")
    }
}

impl Store {
    /// Rows of a statement of metrics.
    pub(super) async fn fetch_metrics(
        &self,
        sql: &str,
        args: &[Arg<'_>],
        fetched: &Fetched,
    ) -> Result<Vec<FetchedRow>, Error> {
        let mut found = Vec::new();
        on_reader!(&self.pool, |db| {
            let rows = bind_args!(sqlx::query(AssertSqlSafe(sql.to_owned())), args)
                .fetch_all(db)
                .await?;
            for row in rows {
                let mut texts = Vec::with_capacity(fetched.n_texts);
                for at in 0..fetched.n_texts {
                    texts.push(row.try_get::<Option<String>, _>(at + 1)?);
                }
                let mut numbers = Vec::with_capacity(fetched.n_numbers);
                for at in 0..fetched.n_numbers {
                    numbers.push(row.try_get::<Option<f64>, _>(at + 1 + fetched.n_texts)?);
                }
                found.push(FetchedRow {
                    at: row.try_get(0)?,
                    texts,
                    numbers,
                });
            }
        });
        Ok(found)
    }

    /// Adds the rows of a question where columns can answer it; false where they cannot.
    pub(super) async fn add_columns(
        &self,
        project: &ProjectId,
        tenant: i64,
        question: &Question,
        groups: &mut Groups,
    ) -> Result<bool, Error> {
        let is_grouped = question
            .metrics
            .iter()
            .all(|metric| metric.measure.is_number && metric.aggregation.is_mergeable());
        let Some(selected) = Selected::new(question, self.is_postgres(), is_grouped) else {
            return Ok(false);
        };
        let Some((from, args)) = self.rows_of(project, tenant, question, &selected)? else {
            return Ok(false);
        };
        let mut sql = format!("SELECT {}{from}", selected.columns());
        if is_grouped {
            let places: Vec<String> = (1..=question.dimensions.len() + 1)
                .map(|at| at.to_string())
                .collect();
            sql.push_str(&format!(" GROUP BY {}", places.join(", ")));
        }
        let fetched = Fetched {
            n_texts: selected.texts.len(),
            n_numbers: selected.numbers.len(),
        };
        for mut row in self.fetch_metrics(&sql, &args, &fetched).await? {
            let at = row.at.map(Timestamp::from_micros);
            let measured = row.texts.split_off(question.dimensions.len());
            let values = groups.of(question, at, row.texts)?;
            let (mut texts, mut numbers) = (measured.iter(), row.numbers.iter());
            for (value, metric) in values.iter_mut().zip(&question.metrics) {
                if !metric.measure.is_number {
                    if let Some(Some(text)) = texts.next() {
                        value.add_text(metric.aggregation, text);
                    }
                } else if is_grouped {
                    let mut next = || numbers.next().copied().flatten();
                    value.merge(Partial {
                        n: next().unwrap_or(0.0) as u64,
                        sum: next().unwrap_or(0.0),
                        min: next(),
                        max: next(),
                    });
                } else if let Some(Some(number)) = numbers.next() {
                    value.add(metric.aggregation, *number);
                }
            }
        }
        Ok(true)
    }

    /// `FROM` and `WHERE` of a question with their values; none when a condition needs the whole row.
    fn rows_of(
        &self,
        project: &ProjectId,
        tenant: i64,
        question: &Question,
        selected: &Selected,
    ) -> Result<Option<(String, Vec<Arg<'static>>)>, Error> {
        let source = source(question.view);
        let mut sql = Sql::default();
        let own = sql.bind_text(project.as_str());
        let number = sql.bind(tenant.into());
        let is_about_scores = !matches!(question.view, View::Observations | View::Traces);
        // Each value is named, so that PostgreSQL can tell its type where no condition needs it.
        sql.push(&match question.view {
            View::Observations => {
                format!(" AND o.tenant = {number} AND CAST({own} AS TEXT) <> ''")
            }
            View::Traces => format!(" AND t.tenant = {number} AND CAST({own} AS TEXT) <> ''"),
            _ => format!(" AND s.project_id = {own} AND CAST({number} AS BIGINT) >= 0"),
        });
        sql.push(&of_type(question));
        for (sign, at) in [(">=", question.from), ("<", question.to)] {
            let at = sql.bind(at.as_micros().into());
            sql.push(&format!(" AND {} {sign} {at}", source.time));
        }
        let filter: &Filter = &question.filter;
        if !where_of(&mut sql, filter, source.column, self.is_postgres()).is_empty() {
            return match is_about_scores {
                true => Err(Error::Conflict(
                    "scores cannot be filtered by this condition in metrics",
                )),
                false => Ok(None),
            };
        }
        let columns = selected.columns();
        let reads = |alias: &str| columns.contains(alias) || sql.text.contains(alias);
        let tables = match question.view {
            View::Observations if !reads("t.") => OBSERVATIONS_ALONE,
            View::Observations | View::Traces => source.from,
            _ if !reads("t.") && !reads("o.") => SCORES_ALONE,
            _ => source.from,
        };
        Ok(Some((
            format!(" FROM {tables} WHERE 1 = 1{}", sql.text),
            sql.args,
        )))
    }
}
