//! The outline of a trace, and the search in its observations.

use std::sync::Arc;

use axum::extract::{Path, State};
use perpend_api_types::outline::{OutlineMeta, OutlineRow, OutlineWindow};
use perpend_api_types::trace_search::{TraceSearchHit, TraceSearchMeta, TraceSearchResponse};
use perpend_domain::access::Permission::TraceRead;
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::outline::{Outline, OutlineNode};
use perpend_domain::text_search::{SearchCursor, TextPattern};
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::cursor;
use perpend_http_kit::extract::{Param, Params, param};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use perpend_telemetry::FindQuery;
use serde_json::json;

use crate::records::state::{App, Routes};

/// Characters of a search text.
const MAX_TEXT: usize = 1_000;
/// Rows of one window.
const MAX_ROWS: u32 = 1_000;

const FIND: &[Param] = &[
    param(
        "text",
        "string",
        "Search text of 1 to 1000 characters, matched literally and case-insensitively.",
    )
    .required(),
    param("after", "string", "`meta.after` of the previous response."),
];

const OUTLINE: &[Param] = &[
    param("at", "integer", "Index of the first row; 0 when absent."),
    param("n", "integer", "Number of rows, 1 to 1000; 200 when absent."),
];

pub(super) fn routes(routes: &mut Routes) {
    let outline = Operation::get(
        "getTraceOutline",
        "/api/v1/traces/{traceId}/outline",
        "List the observations of a trace in reading order, without content",
        TraceRead,
    );
    routes.add(outline.query(OUTLINE), outline_of);
    let find = Operation::get(
        "findInTrace",
        "/api/v1/traces/{traceId}/find",
        "Search for a text in the observations of a trace",
        TraceRead,
    );
    routes.add(find.query(FIND), find_in);
}

fn missing() -> Problem {
    Problem::not_found("trace")
}

async fn outline_of(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    params: Params,
) -> Result<Answer<OutlineWindow>, Problem> {
    let id = TraceId::new(&id).map_err(|_| missing())?;
    let at = params.int("at", 0, u32::MAX, 0)? as usize;
    let n = params.int("n", 1, MAX_ROWS, 200)? as usize;
    let (telemetry, project) = (&app.store.telemetry, &caller.project);
    // Read before the observations.
    let version = telemetry.trace_version(project, &id).await?;
    let version = version.ok_or_else(missing)?;
    let key = (project.clone(), id);
    if let Some(outline) = app.outlines.get(&key, version) {
        return Ok(Answer(window(&outline, at, n)));
    }
    let steps = telemetry.outline_observations(project, &key.1).await?;
    // Sorting a large trace would block this thread for too long.
    let outlines = Arc::clone(&app.outlines);
    let made = tokio::task::spawn_blocking(move || outlines.make(key, version, steps)).await;
    let outline = made.map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "building an outline failed");
        Problem::internal()
    })?;
    Ok(Answer(window(&outline, at, n)))
}

fn window(outline: &Outline, at: usize, n: usize) -> OutlineWindow {
    let rows = outline.rows();
    let view = |row: &OutlineNode| {
        let parent = row.parent.and_then(|at| rows.get(at as usize));
        OutlineRow {
            id: row.id().to_owned(),
            parent_observation_id: parent.map(|parent| parent.id().to_owned()),
            depth: row.depth,
            r#type: row.kind,
            name: outline.name(row).to_owned(),
            level: row.level,
            start_time: row.start,
            latency: row.end.map(|end| end.micros_since(row.start) as f64 / 1e6),
            total_tokens: row.tokens,
            total_cost: row.cost,
            descendants: row.n_below,
        }
    };
    OutlineWindow {
        data: rows.iter().skip(at).take(n).map(view).collect(),
        meta: OutlineMeta { at: at as u64, total: rows.len() as u64 },
    }
}

/// The cursor in the parameter `after`.
fn read_cursor(params: &Params) -> Result<Option<SearchCursor>, Problem> {
    let Some(text) = params.text("after") else {
        return Ok(None);
    };
    let cursor = cursor::parse(text).and_then(|value| {
        let start = Timestamp::from_micros(value[0].as_i64()?);
        Some((start, ObservationId::new(value[1].as_str()?).ok()?))
    });
    let invalid = || Problem::query("after", "must be a cursor returned by this endpoint");
    cursor.map(Some).ok_or_else(invalid)
}

async fn find_in(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    params: Params,
) -> Result<Answer<TraceSearchResponse>, Problem> {
    let id = TraceId::new(&id).map_err(|_| missing())?;
    let text = params.text("text").unwrap_or_default();
    let pattern = TextPattern::new(text).filter(|_| text.chars().count() <= MAX_TEXT);
    let invalid = || Problem::query("text", format!("must have 1 to {MAX_TEXT} characters"));
    let query = FindQuery::new(pattern.ok_or_else(invalid)?, read_cursor(&params)?);
    let telemetry = &app.store.telemetry;
    let part = telemetry.find_in_trace(&caller.project, &id, &query).await?;
    let part = part.ok_or_else(missing)?;
    let encode = |(start, id): SearchCursor| cursor::encode(&json!([start.as_micros(), id]));
    Ok(Answer(TraceSearchResponse {
        data: part.hits.into_iter().map(TraceSearchHit::from).collect(),
        meta: TraceSearchMeta {
            searched: part.n_searched,
            total: part.n_observations,
            after: part.next.map(encode),
        },
    }))
}
