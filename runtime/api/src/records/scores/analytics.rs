//! Statistics of scores: the distribution of one, the agreement of two.

use axum::extract::State;
use perpend_domain::access::Permission::ScoreRead;
use perpend_domain::score::ScoreSource;
use perpend_domain::score_analytics::ScoreSelection;
use perpend_experiments::score_analysis::{PairCell, ScoreAnalysis};
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{MISSING, Param, Params, param};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use perpend_storage::ScoreAnalyticsQuery;

use crate::records::state::{App, Routes};

const QUERY: &[Param] = &[
    param("a", "string", "Name of the score, or of the first of two scores.").required(),
    param("aSource", "string", "`API`, `ANNOTATION` or `EVAL`; all sources when absent."),
    param("b", "string", "Name of the score to compare `a` with, on the same subjects."),
    param("bSource", "string", "Source of `b`. Requires `b`."),
    param("environment", "string", "Comma-separated list."),
    param("fromTimestamp", "date-time", "Start, inclusive."),
    param("toTimestamp", "date-time", "End, exclusive."),
    param(
        "row",
        "string",
        "Key of a row of the matrix: lists the newest 100 pairs of a cell. Requires `b` and `column`.",
    ),
    param("column", "string", "Key of a column of the matrix. Requires `b` and `row`."),
];

pub(super) fn routes(routes: &mut Routes) {
    let analyze = Operation::get(
        "analyzeScores",
        "/api/v1/score-analytics",
        "Get the distribution of a score, or the agreement of two scores on the same subjects",
        ScoreRead,
    );
    routes.add(analyze.query(QUERY), analyze_scores);
}

async fn analyze_scores(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<ScoreAnalysis>, Problem> {
    let query = read(&params)?;
    let analysis = app.store.analyze_scores(&caller.project, &query).await;
    Ok(Answer(analysis.map_err(|error| match error {
        perpend_db::Error::Conflict(why) => Problem::query("a", why),
        error => error.into(),
    })?))
}

fn read(params: &Params) -> Result<ScoreAnalyticsQuery, Problem> {
    params.only(QUERY)?;
    let source = |name: &str| params.choice(name, ScoreSource::ALL, ScoreSource::as_str);
    let a = params.text("a").ok_or_else(|| Problem::query("a", MISSING))?;
    let a = ScoreSelection { name: a.to_owned(), source: source("aSource")? };
    let b = match params.text("b") {
        Some(name) => Some(ScoreSelection { name: name.to_owned(), source: source("bSource")? }),
        None => None,
    };
    for name in ["bSource", "row", "column"] {
        if b.is_none() && params.text(name).is_some() {
            return Err(Problem::query(name, "requires `b`"));
        }
    }
    if b.as_ref().is_some_and(|b| a.overlaps(b)) {
        let message = "must differ from `a` in name, or both must have different sources";
        return Err(Problem::query("b", message));
    }
    // A category may be empty.
    let cell = match (params.raw("row"), params.raw("column")) {
        (Some(row), Some(column)) => {
            Some(PairCell { row: row.to_owned(), column: column.to_owned() })
        }
        (None, None) => None,
        (Some(_), None) => return Err(Problem::query("row", "requires `column`")),
        (None, Some(_)) => return Err(Problem::query("column", "requires `row`")),
    };
    Ok(ScoreAnalyticsQuery {
        a,
        b,
        environments: params.list("environment"),
        other_than_environments: Vec::new(),
        from: params.time("fromTimestamp")?,
        to: params.time("toTimestamp")?,
        cell,
    })
}
