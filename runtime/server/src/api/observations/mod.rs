//! Observations: v2 by cursor, and the older list by page.

pub(super) mod prompt_ids;
pub(super) mod view;

use assay_domain::filter::{Filter, OBSERVATIONS};
use assay_domain::ids::{ObservationId, TraceId};
use assay_domain::time::Timestamp;
use assay_store::Numbered;
use assay_store::telemetry::{ObservationCursor, ObservationQuery};
use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::conditions::Conditions;
use super::routes::{Operation, Routes};
use super::{cursor, page};
use crate::App;
use crate::auth::Reader;
use crate::extract::{Param, Params, param};
use crate::problem::Problem;
use view::Groups;

const V2: &[Param] = &[
    param(
        "fields",
        "string",
        "Comma list of core, basic, time, io, metadata, model, usage, prompt, metrics, trace_context.",
    ),
    param(
        "expandMetadata",
        "string",
        "Comma list of metadata keys whose text is not cut.",
    ),
    param("limit", "integer", "1 to 1000, 50 when absent."),
    param("cursor", "string", "`meta.cursor` of the page before."),
    param("isRootObservation", "boolean", "Roots only, or all others."),
    param("name", "string", "Exactly this name."),
    param("userId", "string", "Exactly this user."),
    param("sessionId", "string", "Exactly this session."),
    param(
        "type",
        "string",
        "SPAN, GENERATION, EVENT, AGENT, TOOL, CHAIN, RETRIEVER, EVALUATOR, EMBEDDING or GUARDRAIL.",
    ),
    param("traceId", "string", "In this trace."),
    param("level", "string", "DEBUG, DEFAULT, WARNING or ERROR."),
    param("version", "string", "Exactly this version."),
    param(
        "parentObservationId",
        "string",
        "Below this one; empty: without a parent.",
    ),
    param("environment", "array", "Any of these; repeated."),
    param("fromStartTime", "date-time", "At or after."),
    param("toStartTime", "date-time", "Before."),
    param(
        "filter",
        "string",
        "JSON array of conditions; wins over the simple parameters.",
    ),
];

const V1: &[Param] = &[
    page::PAGE,
    page::LIMIT,
    param("name", "string", "Exactly this name."),
    param("userId", "string", "Exactly this user."),
    param("type", "string", "A type of observation."),
    param("traceId", "string", "In this trace."),
    param("level", "string", "DEBUG, DEFAULT, WARNING or ERROR."),
    param("parentObservationId", "string", "Below this one."),
    param("environment", "array", "Any of these; repeated."),
    param("fromStartTime", "date-time", "At or after."),
    param("toStartTime", "date-time", "Before."),
    param("version", "string", "Exactly this version."),
    param(
        "filter",
        "string",
        "JSON array of conditions; wins over the simple parameters.",
    ),
];

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "/api/public/v2/observations",
        "Observations, latest start first",
    );
    routes.add(list.query(V2), list_v2);
    let list = Operation::get(
        "/api/public/observations",
        "Observations by page, latest start first",
    );
    routes.add(list.query(V1), list_v1);
    let get = Operation::get(
        "/api/public/observations/{observationId}",
        "One observation",
    );
    routes.add(get, get_v1);
}

fn filter(params: &Params) -> Result<Filter, Problem> {
    let mut conditions = Conditions::new(params, OBSERVATIONS)?;
    for name in [
        "name",
        "userId",
        "sessionId",
        "type",
        "traceId",
        "level",
        "version",
    ] {
        conditions.equals(name, params.text(name));
    }
    match params.raw("parentObservationId") {
        Some("") => conditions.is("hasParentObservation", Some(false)),
        parent => conditions.equals("parentObservationId", parent),
    }
    conditions.is("isRootObservation", params.flag("isRootObservation")?);
    conditions.any_of("environment", &params.all("environment"));
    conditions.between(
        "startTime",
        params.time("fromStartTime")?,
        params.time("toStartTime")?,
    );
    conditions.finish()
}

fn place(params: &Params) -> Result<Option<ObservationCursor>, Problem> {
    let Some(value) = cursor::decode(params)? else {
        return Ok(None);
    };
    let trace = value[1].as_str().and_then(|id| TraceId::new(id).ok());
    let id = value[2].as_str().and_then(|id| ObservationId::new(id).ok());
    match (value[0].as_i64(), trace, id) {
        (Some(micros), Some(trace_id), Some(id)) => Ok(Some(ObservationCursor {
            start: Timestamp::from_micros(micros),
            trace_id,
            id,
        })),
        _ => Err(cursor::broken()),
    }
}

fn groups(params: &Params) -> Result<Groups, Problem> {
    let names = params.list("fields");
    if let Some(unknown) = names
        .iter()
        .find(|name| !Groups::NAMES.contains(&name.as_str()))
    {
        let message = format!("{unknown:?} is none of {}", Groups::NAMES.join(", "));
        return Err(Problem::query("fields", message));
    }
    if params.text("parseIoAsJson") == Some("true") {
        let message = "input and output are raw text here; parse what needs parsing";
        return Err(Problem::query("parseIoAsJson", message));
    }
    Ok(Groups::new(names, params.list("expandMetadata")))
}

async fn list_v2(
    State(app): State<App>,
    caller: Reader,
    params: Params,
) -> Result<Json<Value>, Problem> {
    let groups = groups(&params)?;
    let query = ObservationQuery {
        filter: filter(&params)?,
        after: place(&params)?,
        limit: params.int("limit", 1, 1_000, 50)?,
        with_content: groups.reads_content(),
        without_records: true,
        ..ObservationQuery::default()
    };
    let page = app.store.observations(&caller.project, &query).await?;
    let mut data: Vec<Value> = page
        .items
        .iter()
        .map(|stored| view::v2(&caller.project, stored, &groups))
        .collect();
    prompt_ids::fill(&app, &caller.project, &mut data).await?;
    let meta = match page.items.last() {
        Some(last) if page.has_more => {
            let last = &last.observation;
            let place = json!([last.start.as_micros(), last.trace_id, last.id]);
            json!({ "cursor": cursor::encode(&place) })
        }
        _ => json!({}),
    };
    Ok(Json(json!({ "data": data, "meta": meta })))
}

async fn list_v1(
    State(app): State<App>,
    caller: Reader,
    params: Params,
) -> Result<Json<Value>, Problem> {
    let paging = page::paging(&params)?;
    let query = ObservationQuery {
        filter: filter(&params)?,
        limit: paging.limit,
        offset: paging.offset(),
        with_content: true,
        without_records: true,
        with_total: true,
        ..ObservationQuery::default()
    };
    let found = app.store.observations(&caller.project, &query).await?;
    let mut items: Vec<Value> = found.items.iter().map(view::v1).collect();
    prompt_ids::fill(&app, &caller.project, &mut items).await?;
    let found = Numbered {
        n_total: found.n_total,
        items,
    };
    Ok(page::answer(paging, &found, Value::clone))
}

async fn get_v1(
    State(app): State<App>,
    caller: Reader,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let missing = || Problem::not_found("observation");
    let id = ObservationId::new(&id).map_err(|_| missing())?;
    let found = app.store.observation(&caller.project, &id).await?;
    let mut views = [view::v1(&found.ok_or_else(missing)?)];
    prompt_ids::fill(&app, &caller.project, &mut views).await?;
    let [view] = views;
    Ok(Json(view))
}
