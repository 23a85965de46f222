//! Scores: written by clients, read in the formats of the compat API.

mod analytics;
mod query;
mod thresholds;
pub(super) mod write;

use std::collections::{BTreeSet, HashMap};

use axum::extract::{Path, State};
use perpend_api_types::list::{Confirmation, CursorList, NumberedList};
use perpend_api_types::score::{ScoreInList, ScoreInput, ScoreTrace, ScoreV2, ScoreV3, place};
use perpend_catalog::Categories;
use perpend_domain::access::Permission::{ScoreDelete, ScoreRead, ScoreWrite};
use perpend_domain::filter::{Condition, Filter, TRACES, Test, find};
use perpend_domain::ids::{ScoreId, TraceId};
use perpend_domain::score::{Score, ScoreDataType};
use perpend_domain::telemetry::{ScoreQuery, StoredTrace};
use perpend_domain::trace_list::TraceQuery;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::cursor;
use perpend_http_kit::extract::Params;
use perpend_http_kit::page;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;

use crate::records::state::{App, Routes};

pub(super) fn routes(routes: &mut Routes) {
    let create = Operation::post(
        "createScores",
        write::PATH,
        "Create or update a score, or an array of scores",
        ScoreWrite,
    )
    .body::<ScoreInput>();
    routes.add(create, write::create_scores);
    let delete = Operation::delete(
        "deleteScore",
        "/api/public/scores/{scoreId}",
        "Delete a score",
        ScoreDelete,
    );
    routes.add(delete, delete_score);
    let list = Operation::get(
        "listScores",
        "/api/public/v3/scores",
        "List scores, newest first",
        ScoreRead,
    )
    .query(query::V3);
    routes.add(list, list_v3);
    let list = Operation::get(
        "listScoresV2",
        "/api/public/v2/scores",
        "List scores by page, newest first (v2)",
        ScoreRead,
    )
    .query(query::V2);
    routes.add(list, list_v2);
    let get = Operation::get(
        "getScore",
        "/api/public/v2/scores/{scoreId}",
        "Get a score (v2)",
        ScoreRead,
    );
    routes.add(get, get_v2);
    let list = Operation::get(
        "listScoresV1",
        "/api/public/scores",
        "List scores of traces by page (v1)",
        ScoreRead,
    );
    routes.add(list.query(query::V2), list_v1);
    let get = Operation::get(
        "getScoreV1",
        "/api/public/scores/{scoreId}",
        "Get a score of a trace (v1)",
        ScoreRead,
    );
    routes.add(get, get_v1);
    analytics::routes(routes);
    thresholds::routes(routes);
}

fn parse_id(id: &str) -> Result<ScoreId, Problem> {
    ScoreId::new(id).map_err(|_| Problem::not_found("score"))
}

async fn delete_score(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<Confirmation, 202>, Problem> {
    let deleted = app.store.telemetry.delete_score(&caller.project, &parse_id(&id)?).await;
    deleted.map_err(|error| match error {
        perpend_db::Error::NotFound => Problem::not_found("score"),
        error => error.into(),
    })?;
    Ok(Answer(Confirmation::new("Score deleted")))
}

async fn list_v3(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<CursorList<ScoreV3>>, Problem> {
    let (query, fields) = query::read_v3(&params)?;
    let limit = params.int("limit", 1, 100, 50)?;
    let after = cursor::position(&params)?;
    let page = app.store.telemetry.scores(&caller.project, &query, after.as_ref(), limit).await?;
    let view = |score| ScoreV3::new(&caller.project, score, fields);
    let mut meta = cursor::meta(page.next.as_ref());
    meta.limit = Some(limit);
    Ok(Answer(CursorList { data: page.items.iter().map(view).collect(), meta }))
}

async fn list_v2(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<NumberedList<ScoreInList>>, Problem> {
    let query = query::read_v2(&params)?;
    numbered(&app, &caller, &params, &query).await
}

/// The v1 list: scores of traces, without corrections.
async fn list_v1(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<NumberedList<ScoreInList>>, Problem> {
    let mut query = query::read_v2(&params)?;
    query.is_in_trace = true;
    if query.data_types.is_empty() {
        query.data_types = ScoreDataType::ALL.to_vec();
    }
    let is_listed = |data_type: &ScoreDataType| *data_type != ScoreDataType::Correction;
    query.data_types.retain(is_listed);
    if query.data_types.is_empty() {
        let message = "must not be CORRECTION; /api/public/v2/scores lists corrections";
        return Err(Problem::query("dataType", message));
    }
    numbered(&app, &caller, &params, &query).await
}

/// A numbered page in the v2 format.
async fn numbered(
    app: &App,
    caller: &Act,
    params: &Params,
    query: &ScoreQuery,
) -> Result<Answer<NumberedList<ScoreInList>>, Problem> {
    let paging = page::paging(params)?;
    let found = app.store.telemetry.scores_page(&caller.project, query, paging);
    let found = found.await?;
    let categories = Categories::of(&app.store.catalog, &caller.project, &found.items).await?;
    let traces = match query::has_trace_group(params) {
        true => Some(traces_of(app, caller, &found.items).await?),
        false => None,
    };
    Ok(Answer(NumberedList::new(paging, &found, |score| ScoreInList {
        score: ScoreV2::new(score, |label| categories.number(score, label)),
        trace: traces.as_ref().map(|traces| {
            let (trace, _) = place(&score.written.subject)?;
            traces.get(trace).cloned()
        }),
    })))
}

/// The `trace` member of listed scores, by trace.
async fn traces_of(
    app: &App,
    caller: &Act,
    scores: &[Score],
) -> Result<HashMap<TraceId, ScoreTrace>, Problem> {
    let ids: BTreeSet<&TraceId> =
        scores.iter().filter_map(|score| Some(place(&score.written.subject)?.0)).collect();
    let names: Vec<String> = ids.iter().map(|id| id.to_string()).collect();
    let query = TraceQuery {
        filter: Filter {
            conditions: vec![Condition { column: find(TRACES, "id"), test: Test::AnyOf(names) }],
        },
        limit: ids.len() as u32,
        ..TraceQuery::default()
    };
    let found = app.store.telemetry.traces(&caller.project, &query).await?;
    let member = |stored: StoredTrace| {
        let trace = stored.trace;
        let view = ScoreTrace {
            user_id: trace.user_id,
            tags: trace.tags,
            environment: trace.environment,
            session_id: trace.session_id,
        };
        (trace.id, view)
    };
    Ok(found.items.into_iter().map(member).collect())
}

async fn get_v2(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<ScoreV2>, Problem> {
    let score = app.store.telemetry.score(&caller.project, &parse_id(&id)?).await?;
    let score = score.ok_or_else(|| Problem::not_found("score"))?;
    let categories = Categories::of(&app.store.catalog, &caller.project, [&score]).await?;
    let number_of = |label: &str| categories.number(&score, label);
    Ok(Answer(ScoreV2::new(&score, number_of)))
}

async fn get_v1(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<ScoreV2>, Problem> {
    let missing = || Problem::not_found("score");
    let score = app.store.telemetry.score(&caller.project, &parse_id(&id)?).await?;
    let score = score.ok_or_else(missing)?;
    let is_correction = score.written.value.data_type() == ScoreDataType::Correction;
    if is_correction || place(&score.written.subject).is_none() {
        return Err(missing());
    }
    let categories = Categories::of(&app.store.catalog, &caller.project, [&score]).await?;
    let number_of = |label: &str| categories.number(&score, label);
    Ok(Answer(ScoreV2::new(&score, number_of)))
}
