//! Scores: written by clients, read in the two shapes of the compat API.

mod query;
pub(super) mod view;
mod write;

use assay_domain::ids::ScoreId;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::cursor;
use super::routes::{Access, Operation, Routes};
use crate::App;
use crate::auth::{Reader, Writer};
use crate::extract::Params;
use crate::problem::Problem;

pub(super) fn routes(routes: &mut Routes) {
    let create = Operation::post("/api/public/scores", "Write one score, or an array of them")
        .access(Access::PublicKey)
        .body::<write::ScoreInput>();
    routes.add(create, write::create_scores);
    let delete = Operation::delete("/api/public/scores/{scoreId}", "Delete a score").status(202);
    routes.add(delete, delete_score);
    let list = Operation::get("/api/public/v3/scores", "Scores, newest first").query(query::V3);
    routes.add(list, list_v3);
    let list =
        Operation::get("/api/public/v2/scores", "Scores by page, newest first").query(query::V2);
    routes.add(list, list_v2);
    let get = Operation::get("/api/public/v2/scores/{scoreId}", "One score");
    routes.add(get, get_v2);
}

fn known(id: &str) -> Result<ScoreId, Problem> {
    ScoreId::new(id).map_err(|_| Problem::not_found("score"))
}

async fn delete_score(
    State(app): State<App>,
    caller: Writer,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let deleted = app.store.delete_score(&caller.project, &known(&id)?).await;
    deleted.map_err(|error| match error {
        assay_store::Error::NotFound => Problem::not_found("score"),
        error => error.into(),
    })?;
    Ok((
        StatusCode::ACCEPTED,
        Json(json!({ "message": "Score deleted" })),
    ))
}

async fn list_v3(
    State(app): State<App>,
    caller: Reader,
    params: Params,
) -> Result<Json<Value>, Problem> {
    let (wanted, fields) = query::read_v3(&params)?;
    let limit = params.int("limit", 1, 100, 50)?;
    let after = cursor::place(&params)?;
    let page = app
        .store
        .scores(&caller.project, &wanted, after.as_ref(), limit)
        .await?;
    let data: Vec<Value> = page
        .items
        .iter()
        .map(|score| view::v3(&caller.project, score, fields))
        .collect();
    let mut meta = cursor::meta(page.next.as_ref());
    meta["limit"] = limit.into();
    Ok(Json(json!({ "data": data, "meta": meta })))
}

async fn list_v2(
    State(app): State<App>,
    caller: Reader,
    params: Params,
) -> Result<Json<Value>, Problem> {
    let wanted = query::read_v2(&params)?;
    let with_trace = query::has_trace_group(&params);
    let (page, limit) = (
        params.int("page", 1, u32::MAX, 1)?,
        params.int("limit", 1, 100, 50)?,
    );
    let found = app
        .store
        .scores_page(&caller.project, &wanted, page, limit)
        .await?;
    let mut data = Vec::with_capacity(found.items.len());
    for score in &found.items {
        let mut view = view::v2(score);
        if with_trace {
            view["trace"] = trace_of(&app, &caller, score).await?;
        }
        data.push(view);
    }
    let meta = cursor::page_meta(page, limit, found.n_total);
    Ok(Json(json!({ "data": data, "meta": meta })))
}

/// The `trace` member of a listed score.
async fn trace_of(
    app: &App,
    caller: &Reader,
    score: &assay_domain::score::Score,
) -> Result<Value, Problem> {
    let Some((trace_id, _)) = view::place(&score.written.subject) else {
        return Ok(Value::Null);
    };
    let trace = app.store.trace(&caller.project, trace_id, false).await?;
    Ok(trace.map_or(Value::Null, |stored| {
        let trace = stored.trace;
        json!({
            "userId": trace.user_id,
            "tags": trace.tags,
            "environment": trace.environment,
            "sessionId": trace.session_id,
        })
    }))
}

async fn get_v2(
    State(app): State<App>,
    caller: Reader,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let score = app.store.score(&caller.project, &known(&id)?).await?;
    let score = score.ok_or_else(|| Problem::not_found("score"))?;
    Ok(Json(view::v2(&score)))
}
