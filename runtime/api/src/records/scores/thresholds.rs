//! Thresholds over stored scores.

use axum::extract::State;
use perpend_domain::access::Permission::ScoreRead;
use perpend_domain::score::ScoreSource;
use perpend_domain::score_analytics::ScoreSelection;
use perpend_experiments::score_analysis::ScoreThresholds;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{MISSING, Param, Params, param};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use perpend_storage::{ScoreAnalyticsQuery, ScoreThresholdQuery};

use crate::records::state::{App, Routes};

/// Thresholds of a request.
const MAX_THRESHOLDS: usize = 50;
const QUERY: &[Param] = &[
    param("name", "string", "Name of the scores.").required(),
    param("source", "string", "`API`, `ANNOTATION` or `EVAL`; all sources when absent."),
    param(
        "choice",
        "string",
        "Choice whose stored probability is compared; when absent, the value of numeric scores.",
    ),
    param(
        "threshold",
        "string",
        "Comma-separated list of at most 50 numbers; nine that divide the range when absent.",
    ),
    param("against", "string", "Name of a reference score on the same subjects."),
    param("againstSource", "string", "Source of the reference. Requires `against`."),
    param(
        "positive",
        "string",
        "Category of the reference that is positive; `choice` when absent. Requires `against`.",
    ),
    param("environment", "string", "Comma-separated list."),
    param("fromTimestamp", "date-time", "Start, inclusive."),
    param("toTimestamp", "date-time", "End, exclusive."),
];

pub(super) fn routes(routes: &mut Routes) {
    let evaluate = Operation::get(
        "evaluateScoreThresholds",
        "/api/v1/score-thresholds",
        "Get the verdicts of thresholds over stored numbers or probabilities, without a call",
        ScoreRead,
    );
    routes.add(evaluate.query(QUERY), evaluate_thresholds);
}

async fn evaluate_thresholds(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<ScoreThresholds>, Problem> {
    let query = read(&params)?;
    let found = app.store.score_thresholds(&caller.project, &query).await;
    Ok(Answer(found.map_err(|error| match error {
        perpend_db::Error::Conflict(why) => Problem::query("name", why),
        error => error.into(),
    })?))
}

fn thresholds(params: &Params) -> Result<Vec<f64>, Problem> {
    let listed = params.list("threshold");
    if MAX_THRESHOLDS < listed.len() {
        let message = format!("must have at most {MAX_THRESHOLDS} numbers, got {}", listed.len());
        return Err(Problem::query("threshold", message));
    }
    let number = |text: &String| {
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| {
            Problem::query("threshold", format!("must be a list of numbers, got `{text}`"))
        })
    };
    listed.iter().map(number).collect()
}

fn read(params: &Params) -> Result<ScoreThresholdQuery, Problem> {
    params.only(QUERY)?;
    let source = |name: &str| params.choice(name, ScoreSource::ALL, ScoreSource::as_str);
    let name = params.text("name").ok_or_else(|| Problem::query("name", MISSING))?;
    let a = ScoreSelection { name: name.to_owned(), source: source("source")? };
    let b = match params.text("against") {
        Some(name) => {
            Some(ScoreSelection { name: name.to_owned(), source: source("againstSource")? })
        }
        None => None,
    };
    for name in ["againstSource", "positive"] {
        if b.is_none() && params.text(name).is_some() {
            return Err(Problem::query(name, "requires `against`"));
        }
    }
    if b.as_ref().is_some_and(|b| a.overlaps(b)) {
        let message = "must differ from `name`, or both must have different sources";
        return Err(Problem::query("against", message));
    }
    let text = |name: &str| params.text(name).map(str::to_owned);
    let choice = text("choice");
    Ok(ScoreThresholdQuery {
        scores: ScoreAnalyticsQuery {
            a,
            b,
            environments: params.list("environment"),
            other_than_environments: Vec::new(),
            from: params.time("fromTimestamp")?,
            to: params.time("toTimestamp")?,
            cell: None,
        },
        positive: text("positive").or_else(|| choice.clone()),
        choice,
        thresholds: thresholds(params)?,
    })
}
