//! Traces: listed, read whole, deleted.

mod whole;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::Response;
use perpend_domain::access::Permission::{TraceDelete, TraceRead};
use perpend_domain::filter::TRACES;
use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::patch::record_id;
use perpend_domain::payload::Payload;
use perpend_domain::score::Score;
use perpend_domain::telemetry::{StoredTrace, TraceOrder, TraceQuery};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::conditions::Conditions;
use super::scores::view::place;
use super::{cursor, page};
use crate::App;
use crate::auth::Act;
use crate::extract::{Body, Param, Params, param};
use crate::problem::Problem;
use crate::routes::{Operation, Routes};
use whole::Rest;

const LIST: &[Param] = &[
    page::PAGE,
    page::LIMIT,
    param("userId", "string", "Exactly this user."),
    param("name", "string", "Exactly this name."),
    param("sessionId", "string", "Exactly this session."),
    param("version", "string", "Exactly this version."),
    param("release", "string", "Exactly this release."),
    param("tags", "array", "All of these; repeated."),
    param("environment", "array", "Any of these; repeated."),
    param("fromTimestamp", "date-time", "At or after."),
    param("toTimestamp", "date-time", "Before."),
    param(
        "orderBy",
        "string",
        "FIELD.asc or FIELD.desc; timestamp.desc when absent.",
    ),
    param(
        "fields",
        "string",
        "Comma list of core, io, scores, observations, metrics; all when absent.",
    ),
    param(
        "filter",
        "string",
        "JSON array of conditions; wins over the simple parameters.",
    ),
];

const FIELDS: &[Param] = &[param(
    "fields",
    "string",
    "Comma list of core, io, scores, observations, metrics; all when absent.",
)];

const MAX_DELETED: usize = 1_000;

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listTraces",
        "/api/public/traces",
        "Traces by page, newest first",
        TraceRead,
    )
    .query(LIST);
    routes.add(list, list_traces);
    let delete = Operation::delete(
        "deleteTraces",
        "/api/public/traces",
        "Delete traces with everything in them",
        TraceDelete,
    );
    routes.add(delete.body::<Deletion>(), delete_traces);
    let get = Operation::get(
        "getTrace",
        "/api/public/traces/{traceId}",
        "One trace with observations and scores",
        TraceRead,
    );
    routes.add(get.query(FIELDS), get_trace);
    let delete = Operation::delete(
        "deleteTrace",
        "/api/public/traces/{traceId}",
        "Delete one trace with everything in it",
        TraceDelete,
    );
    routes.add(delete, delete_trace);
}

/// Groups of fields.
struct Fields(Vec<String>);

impl Fields {
    fn read(params: &Params) -> Self {
        Self(params.list("fields"))
    }

    fn has(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|known| known == name)
    }
}

fn order(params: &Params) -> Result<(TraceOrder, bool), Problem> {
    let Some(text) = params.text("orderBy") else {
        return Ok((TraceOrder::Timestamp, false));
    };
    let bad = || {
        let fields = "id, timestamp, name, userId, release, version, public, bookmarked, sessionId";
        Problem::query(
            "orderBy",
            format!("FIELD.asc or FIELD.desc is expected, FIELD one of {fields}"),
        )
    };
    let (field, direction) = text.rsplit_once('.').ok_or_else(bad)?;
    let order = match field {
        // Traces are not bookmarked here: all are equal in that, and time decides.
        "timestamp" | "bookmarked" => TraceOrder::Timestamp,
        "id" => TraceOrder::Id,
        "name" => TraceOrder::Name,
        "userId" => TraceOrder::UserId,
        "sessionId" => TraceOrder::SessionId,
        "release" => TraceOrder::Release,
        "version" => TraceOrder::Version,
        "public" => TraceOrder::Public,
        _ => return Err(bad()),
    };
    match direction.to_ascii_lowercase().as_str() {
        "asc" => Ok((order, true)),
        "desc" => Ok((order, false)),
        _ => Err(bad()),
    }
}

fn query(params: &Params, fields: &Fields) -> Result<TraceQuery, Problem> {
    let mut conditions = Conditions::new(params, TRACES)?;
    for name in ["userId", "name", "sessionId", "version", "release"] {
        conditions.equals(name, params.text(name));
    }
    conditions.has_all("tags", &params.all("tags"));
    conditions.any_of("environment", &params.all("environment"));
    conditions.between(
        "timestamp",
        params.time("fromTimestamp")?,
        params.time("toTimestamp")?,
    );
    let (order, ascending) = order(params)?;
    let paging = page::paging(params)?;
    Ok(TraceQuery {
        filter: conditions.finish()?,
        order,
        ascending,
        page: paging.page,
        limit: paging.limit,
        with_content: fields.has("io"),
        with_observation_ids: fields.has("observations"),
    })
}

/// The trace alone, with input and output.
pub(super) fn plain(project: &ProjectId, stored: &StoredTrace) -> Value {
    view(project, stored, &Fields(Vec::new()))
}

/// Everything but observations and scores.
fn view(project: &ProjectId, stored: &StoredTrace, fields: &Fields) -> Value {
    let trace = &stored.trace;
    let io = fields.has("io");
    let value = |payload: &Option<Payload>| payload.as_ref().filter(|_| io).map(Payload::to_value);
    let has_metrics = fields.has("metrics");
    json!({
        "id": trace.id,
        "timestamp": trace.timestamp,
        "name": trace.name,
        "input": value(&trace.input),
        "output": value(&trace.output),
        "sessionId": trace.session_id,
        "release": trace.release,
        "version": trace.version,
        "userId": trace.user_id,
        "metadata": if io { json!(trace.metadata) } else { Value::Null },
        "tags": trace.tags,
        "public": trace.public,
        "environment": trace.environment,
        "createdAt": stored.created_at,
        "updatedAt": stored.updated_at,
        "projectId": project,
        "externalId": null,
        "bookmarked": false,
        "htmlPath": format!("/project/{project}/traces/{}", trace.id),
        "latency": if has_metrics { trace.latency_us as f64 / 1e6 } else { -1.0 },
        "totalCost": if has_metrics { trace.total_cost } else { -1.0 },
    })
}

async fn list_traces(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Json<Value>, Problem> {
    let fields = Fields::read(&params);
    let query = query(&params, &fields)?;
    let page = app.store.telemetry.traces(&caller.project, &query).await?;
    let ids: Vec<TraceId> = page
        .items
        .iter()
        .map(|stored| stored.trace.id.clone())
        .collect();
    let scores = match fields.has("scores") && !ids.is_empty() {
        true => {
            app.store
                .telemetry
                .scores_of_traces(&caller.project, &ids)
                .await?
        }
        false => Vec::new(),
    };
    let of = |trace: &TraceId| -> Vec<&str> {
        let about =
            |score: &&Score| place(&score.written.subject).is_some_and(|(id, _)| id == trace);
        scores
            .iter()
            .filter(about)
            .map(|score| score.written.id.as_str())
            .collect()
    };
    let mut data = Vec::with_capacity(page.items.len());
    for stored in &page.items {
        let mut view = view(&caller.project, stored, &fields);
        let record = record_id(&stored.trace.id);
        let steps = stored.observation_ids.iter();
        view["observations"] = steps
            .filter(|id| Some(*id) != record.as_ref())
            .map(|id| json!(id))
            .collect();
        view["scores"] = json!(of(&stored.trace.id));
        data.push(view);
    }
    let meta = cursor::page_meta(query.page, query.limit, page.n_total);
    Ok(Json(json!({ "data": data, "meta": meta })))
}

async fn get_trace(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    params: Params,
) -> Result<Response, Problem> {
    let missing = || Problem::not_found("trace");
    let id = TraceId::new(&id).map_err(|_| missing())?;
    let project = &caller.project;
    let fields = Fields::read(&params);
    let stored = app
        .store
        .telemetry
        .trace(project, &id, fields.has("io"))
        .await?;
    let stored = stored.ok_or_else(missing)?;
    let observations = match fields.has("observations") {
        true => app.store.telemetry.read_trace(project, &id).await?,
        false => None,
    };
    let trace = view(project, &stored, &fields);
    let rest = Rest {
        app,
        project: caller.project,
        trace: id,
        observations,
        is_empty: true,
        with_scores: fields.has("scores"),
    };
    whole::answer(&trace, rest).await
}

/// Traces to be deleted.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Deletion {
    /// 1 to 1000 ids.
    trace_ids: Vec<String>,
}

async fn delete_traces(
    State(app): State<App>,
    caller: Act,
    Body(deletion): Body<Deletion>,
) -> Result<Json<Value>, Problem> {
    if deletion.trace_ids.is_empty() || deletion.trace_ids.len() > MAX_DELETED {
        return Err(Problem::body(
            "traceIds",
            format!("1 to {MAX_DELETED} ids are expected"),
        ));
    }
    // An id that cannot exist is as gone as one that does not.
    let ids: Vec<TraceId> = deletion
        .trace_ids
        .iter()
        .filter_map(|id| TraceId::new(id).ok())
        .collect();
    app.store
        .telemetry
        .delete_traces(&caller.project, &ids)
        .await?;
    Ok(Json(json!({ "message": "Traces deleted" })))
}

async fn delete_trace(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    if let Ok(id) = TraceId::new(&id) {
        app.store
            .telemetry
            .delete_traces(&caller.project, &[id])
            .await?;
    }
    Ok(Json(json!({ "message": "Trace deleted" })))
}
