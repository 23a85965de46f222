//! `GET P/export/scores`: the list of scores as a file. The parameters are those of the list.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use perpend_domain::score::{Score, ScoreOrigin, ScoreValue, Subject};
use perpend_domain::telemetry::ScoreQuery;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::scores::{ScorePage, ScoresFrom};
use serde_json::Value;

use crate::export::{
    ExportColumn, ExportFormat, ExportedList, ExportedPage, PAGE_ROWS, reject_faults, respond,
};
use crate::read;
use crate::request::cursor;
use crate::request::query::Query;
use crate::request::viewer::Viewer;
use crate::scores::list::{MAX_TESTED, ScoreListParams, ScoreListQuery, ScoreReferences};
use crate::state::App;

struct ExportedScore {
    score: Score,
    is_superseded: bool,
    /// Names of the author, the score config, the evaluator and the rule, if these exist.
    author: Option<String>,
    config: Option<String>,
    evaluator: Option<String>,
    rule: Option<String>,
    evaluator_version: Option<u32>,
}

type ScoreColumn = ExportColumn<ExportedScore>;

pub(crate) async fn export_scores(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
    Query(params): Query<ScoreListParams>,
) -> Result<Response, Problem> {
    let format = ExportFormat::from_query(raw.as_deref())?;
    let now = read::start_of_minute(app.web.clock.now());
    let ScoreListQuery { query, parsed, shows_older, mut notices, .. } =
        ScoreListQuery::new(&params, &viewer, now);
    let of_table = (&*params.n, &*params.sort, &*params.cols);
    cursor::page_size(of_table, "the newest", &mut notices);
    reject_faults(&notices, &parsed)?;
    let list = ScoreExport { app: app.clone(), viewer, query, shows_older, from: None };
    respond(&app, ("scores", format), list, columns()).await
}

struct ScoreExport {
    app: App,
    viewer: Viewer,
    query: ScoreQuery,
    /// Each score is followed by those that it superseded.
    shows_older: bool,
    from: Option<ScoresFrom>,
}

impl ExportedList for ScoreExport {
    type Row = ExportedScore;

    async fn next_page(&mut self) -> Result<ExportedPage<ExportedScore>, Problem> {
        let (telemetry, project) = (&self.app.store.telemetry, &self.viewer.project);
        let from = self.from.as_ref();
        let part = telemetry.scores_from(project, &self.query, from, (PAGE_ROWS, MAX_TESTED));
        let ScorePage { items, last, stopped, .. } = part.await?;
        let older = match self.shows_older {
            true => telemetry.scores_superseded_by(project, &items).await?.of_each,
            false => Vec::new(),
        };
        let all: Vec<&Score> = items.iter().chain(older.iter().flatten()).collect();
        let references = ScoreReferences::read(&self.app, &self.viewer, &all).await?;
        let mut rows = Vec::with_capacity(all.len());
        for (at, score) in items.iter().enumerate() {
            rows.push(row(&references, score, false));
            let superseded = older.get(at).into_iter().flatten();
            rows.extend(superseded.map(|score| row(&references, score, true)));
        }
        self.from = stopped.or_else(|| last.map(ScoresFrom::After));
        Ok(ExportedPage { rows, is_last: self.from.is_none() })
    }
}

fn row(references: &ScoreReferences, score: &Score, is_superseded: bool) -> ExportedScore {
    let written = &score.written;
    let origin = written.origin.as_ref().map(|origin| references.origins.origin(origin));
    let name = |of: &perpend_views::ResourceLink| of.id.as_ref().map(|_| of.name.raw().to_owned());
    let author = written.author_user_id.as_ref();
    let config = written.config_id.as_ref();
    ExportedScore {
        is_superseded,
        author: author.and_then(|id| references.people.get(id)).cloned(),
        config: config.and_then(|id| references.configs.get(id)).cloned(),
        evaluator: origin.as_ref().and_then(|origin| name(&origin.evaluator)),
        rule: origin.as_ref().and_then(|origin| name(&origin.rule)),
        evaluator_version: origin.as_ref().and_then(|origin| origin.version),
        score: score.clone(),
    }
}

/// The value without its type.
pub(crate) fn score_value(value: &ScoreValue) -> Value {
    match value {
        ScoreValue::Numeric(number) => Value::from(*number),
        ScoreValue::Boolean(truth) => Value::from(*truth),
        ScoreValue::Categorical(text) | ScoreValue::Text(text) | ScoreValue::Correction(text) => {
            Value::from(text.as_str())
        }
    }
}

fn columns() -> Vec<ScoreColumn> {
    vec![
        ScoreColumn::new("id", "Id", |row| row.score.written.id.as_str().into()),
        ScoreColumn::new("name", "Score", |row| row.score.written.name.as_str().into()),
        ScoreColumn::new("value", "Value", |row| score_value(&row.score.written.value)),
        ScoreColumn::new("dataType", "Data type", |row| {
            row.score.written.value.data_type().as_str().into()
        }),
        ScoreColumn::new("target", "Target", |row| target(row).kind.into()),
        ScoreColumn::new("traceId", "Trace id", |row| target(row).trace.into()),
        ScoreColumn::new("observationId", "Observation id", |row| target(row).observation.into()),
        ScoreColumn::new("sessionId", "Session id", |row| target(row).session.into()),
        ScoreColumn::new("datasetRunId", "Run id", |row| target(row).run.into()),
        ScoreColumn::new("source", "Source", |row| row.score.written.source.as_str().into()),
        ScoreColumn::new("evaluator", "Evaluator", |row| row.evaluator.clone().into()),
        ScoreColumn::new("evaluatorId", "Evaluator id", |row| {
            of_origin(row, |origin| origin.evaluator_id.as_str().into())
        }),
        ScoreColumn::new("evaluatorVersion", "Evaluator version", |row| {
            row.evaluator_version.into()
        }),
        ScoreColumn::new("rule", "Rule", |row| row.rule.clone().into()),
        ScoreColumn::new("ruleId", "Rule id", |row| {
            of_origin(row, |origin| origin.rule_id.as_str().into())
        }),
        ScoreColumn::new("executionId", "Execution id", |row| {
            of_origin(row, |origin| origin.execution_id.as_str().into())
        }),
        ScoreColumn::new("fingerprint", "Fingerprint", |row| {
            of_origin(row, |origin| origin.fingerprint.to_string().into())
        }),
        ScoreColumn::new("comment", "Comment", |row| row.score.written.comment.clone().into()),
        ScoreColumn::new("author", "Author", |row| row.author.clone().into()),
        ScoreColumn::new("authorUserId", "Author id", |row| {
            row.score.written.author_user_id.clone().into()
        }),
        ScoreColumn::new("config", "Config", |row| row.config.clone().into()),
        ScoreColumn::new("configId", "Config id", |row| row.score.written.config_id.clone().into()),
        ScoreColumn::new("environment", "Environment", |row| {
            row.score.written.environment.as_str().into()
        }),
        ScoreColumn::new("timestamp", "Time", |row| {
            row.score.written.timestamp.to_iso_micros().into()
        }),
        ScoreColumn::new("superseded", "Superseded", |row| row.is_superseded.into()),
    ]
}

fn of_origin(row: &ExportedScore, value: impl Fn(&ScoreOrigin) -> Value) -> Value {
    row.score.written.origin.as_ref().map(value).unwrap_or_default()
}

/// Kind and ids of the target.
#[derive(Default)]
struct ScoreTarget<'r> {
    kind: &'static str,
    trace: Option<&'r str>,
    observation: Option<&'r str>,
    session: Option<&'r str>,
    run: Option<&'r str>,
}

fn target(row: &ExportedScore) -> ScoreTarget<'_> {
    let none = ScoreTarget::default();
    match &row.score.written.subject {
        Subject::Trace(trace) => ScoreTarget { kind: "trace", trace: Some(trace.as_str()), ..none },
        Subject::Observation(trace, observation) => ScoreTarget {
            kind: "observation",
            trace: Some(trace.as_str()),
            observation: Some(observation.as_str()),
            ..none
        },
        Subject::Session(session) => {
            ScoreTarget { kind: "session", session: Some(session.as_str()), ..none }
        }
        Subject::Experiment(run) => ScoreTarget { kind: "run", run: Some(run.as_str()), ..none },
    }
}
