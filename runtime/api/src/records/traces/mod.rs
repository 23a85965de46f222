//! Traces: list, get, update of marks, deletion.

mod full;
mod outline;

use std::collections::{HashMap, HashSet};

use axum::extract::{Path, State};
use perpend_api_types::list::{Confirmation, NumberedList, PageMeta};
use perpend_api_types::trace::{Deletion, Marks, Trace, TraceFields, TraceInList, TraceWithAll};
use perpend_domain::access::Permission::{TraceDelete, TraceMark, TraceRead};
use perpend_domain::filter::TRACES;
use perpend_domain::fold::MAX_TAGS;
use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::marks::TraceMarks;
use perpend_domain::patch::record_id;
use perpend_domain::trace_list::{TraceOrder, TraceQuery};
use perpend_http_kit::answer::{Answer, Streamed};
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, Param, Params, param};
use perpend_http_kit::page;
use perpend_http_kit::parts::{self, ArrayWriter, BodyParts};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use perpend_telemetry::TracesReader;

use super::conditions::Conditions;
use crate::records::state::{App, Routes};
use full::{ScoreProgress, TraceParts};

const LIST: &[Param] = &[
    page::PAGE,
    page::LIMIT,
    param("userId", "string", "Id of the user."),
    param("name", "string", "Name of the trace."),
    param("sessionId", "string", "Id of the session."),
    param("version", "string", "Version of the trace."),
    param("release", "string", "Release of the trace."),
    param("tags", "array", "Tags that the trace must all have; repeatable."),
    param("environment", "array", "Environments; repeatable."),
    param("fromTimestamp", "date-time", "Start, inclusive."),
    param("toTimestamp", "date-time", "End, exclusive."),
    param("orderBy", "string", "`FIELD.asc` or `FIELD.desc`; `timestamp.desc` when absent."),
    param(
        "fields",
        "string",
        "Comma-separated list of `core`, `io`, `scores`, `observations`, `metrics`; all when absent.",
    ),
    param(
        "filter",
        "string",
        "JSON array of conditions. Takes precedence over the other parameters.",
    ),
];

const FIELDS: &[Param] = &[param(
    "fields",
    "string",
    "Comma-separated list of `core`, `io`, `scores`, `observations`, `metrics`; all when absent.",
)];

const MAX_DELETED: usize = 1_000;

pub(super) fn routes(routes: &mut Routes) {
    let list =
        Operation::get("listTraces", "/api/public/traces", "List traces, newest first", TraceRead)
            .query(LIST);
    routes.add(list, list_traces);
    let delete = Operation::delete(
        "deleteTraces",
        "/api/public/traces",
        "Delete traces with their observations and scores",
        TraceDelete,
    );
    routes.add(delete.body::<Deletion>(), delete_traces);
    let get = Operation::get(
        "getTrace",
        "/api/public/traces/{traceId}",
        "Get a trace with its observations and scores",
        TraceRead,
    );
    routes.add(get.query(FIELDS), get_trace);
    let mark = Operation::patch(
        "markTrace",
        "/api/v1/traces/{traceId}",
        "Update the bookmark and the tags of a trace",
        TraceMark,
    );
    routes.add(mark.body::<Marks>(), mark_trace);
    let delete = Operation::delete(
        "deleteTrace",
        "/api/public/traces/{traceId}",
        "Delete a trace with its observations and scores",
        TraceDelete,
    );
    routes.add(delete, delete_trace);
    outline::routes(routes);
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

    fn trace_fields(&self) -> TraceFields {
        TraceFields { content: self.has("io"), metrics: self.has("metrics") }
    }
}

fn order(params: &Params) -> Result<(TraceOrder, bool), Problem> {
    let Some(text) = params.text("orderBy") else {
        return Ok((TraceOrder::Timestamp, false));
    };
    let invalid = || {
        let fields = "id, timestamp, name, userId, release, version, public, bookmarked, sessionId, latency, totalCost, totalTokens, errorCount, score.NAME";
        Problem::query(
            "orderBy",
            format!("must be FIELD.asc or FIELD.desc with FIELD one of {fields}, got {text:?}"),
        )
    };
    let (field, direction) = text.rsplit_once('.').ok_or_else(invalid)?;
    let order = match field {
        "timestamp" => TraceOrder::Timestamp,
        "bookmarked" => TraceOrder::Bookmarked,
        "id" => TraceOrder::Id,
        "name" => TraceOrder::Name,
        "userId" => TraceOrder::UserId,
        "sessionId" => TraceOrder::SessionId,
        "release" => TraceOrder::Release,
        "version" => TraceOrder::Version,
        "public" => TraceOrder::Public,
        "latency" => TraceOrder::Latency,
        "totalCost" => TraceOrder::TotalCost,
        "totalTokens" => TraceOrder::TotalTokens,
        "errorCount" => TraceOrder::ErrorCount,
        other => match other.strip_prefix("score.") {
            Some(name) if !name.is_empty() => TraceOrder::Score(name.to_owned()),
            _ => return Err(invalid()),
        },
    };
    match direction.to_ascii_lowercase().as_str() {
        "asc" => Ok((order, true)),
        "desc" => Ok((order, false)),
        _ => Err(invalid()),
    }
}

fn query(params: &Params, fields: &Fields) -> Result<TraceQuery, Problem> {
    let mut conditions = Conditions::new(params, TRACES)?;
    for name in ["userId", "name", "sessionId", "version", "release"] {
        conditions.equals(name, params.text(name));
    }
    conditions.has_all("tags", &params.all("tags"));
    conditions.any_of("environment", &params.all("environment"));
    conditions.between("timestamp", params.time("fromTimestamp")?, params.time("toTimestamp")?);
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
        ..TraceQuery::default()
    })
}

async fn list_traces(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Streamed<NumberedList<TraceInList>>, Problem> {
    let fields = Fields::read(&params);
    let query = query(&params, &fields)?;
    let found = app.store.telemetry.find_page(&caller.project, &query).await;
    let (traces, n_total) = found.map_err(|error| match error {
        // A conflict reported by the store is an error of the filter.
        perpend_db::Error::Conflict(why) => Problem::query("filter", why),
        error => error.into(),
    })?;
    let page = TracePageParts {
        app,
        project: caller.project,
        fields,
        traces,
        meta: PageMeta::new(query.paging(), n_total),
        members: ArrayWriter::default(),
    };
    let response = parts::answer(parts::LIST.to_vec(), page).await?;
    Ok(Streamed::new(response))
}

/// The remaining parts of a page of traces.
struct TracePageParts {
    app: App,
    project: ProjectId,
    fields: Fields,
    traces: TracesReader,
    meta: PageMeta,
    members: ArrayWriter,
}

impl BodyParts for TracePageParts {
    async fn write(&mut self, out: &mut Vec<u8>) -> Result<bool, Problem> {
        let (telemetry, fields) = (&self.app.store.telemetry, &self.fields);
        let traces = telemetry.next_traces(&mut self.traces).await?;
        let ids: Vec<TraceId> = traces.iter().map(|stored| stored.trace.id.clone()).collect();
        let mut scores = match fields.has("scores") {
            true => telemetry.score_ids(&self.project, &ids).await?,
            false => HashMap::new(),
        };
        for mut stored in traces {
            let record = record_id(&stored.trace.id);
            let mut observations = std::mem::take(&mut stored.observation_ids);
            observations.retain(|id| Some(id) != record.as_ref());
            let view = TraceInList {
                observations,
                scores: scores.remove(&stored.trace.id).unwrap_or_default(),
                trace: Trace::new(&self.project, stored, fields.trace_fields()),
            };
            self.members.push(out, &view)?;
        }
        if !self.traces.is_done() {
            return Ok(false);
        }
        parts::end_list(out, &self.meta)?;
        Ok(true)
    }
}

async fn get_trace(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    params: Params,
) -> Result<Streamed<TraceWithAll>, Problem> {
    let missing = || Problem::not_found("trace");
    let id = TraceId::new(&id).map_err(|_| missing())?;
    let project = &caller.project;
    let fields = Fields::read(&params);
    let stored = app.store.telemetry.trace(project, &id, fields.has("io")).await?;
    let stored = stored.ok_or_else(missing)?;
    let observations = match fields.has("observations") {
        true => app.store.telemetry.read_trace(project, &id).await?,
        false => None,
    };
    let trace = Trace::new(project, stored, fields.trace_fields());
    let parts = TraceParts {
        app,
        project: caller.project,
        trace: id,
        observations,
        scores: match fields.has("scores") {
            true => ScoreProgress::NotStarted,
            false => ScoreProgress::Omitted,
        },
        members: ArrayWriter::default(),
    };
    full::answer(&trace, parts).await
}

async fn mark_trace(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(marks): Body<Marks>,
) -> Result<Answer<Trace>, Problem> {
    let missing = || Problem::not_found("trace");
    let id = TraceId::new(&id).map_err(|_| missing())?;
    for (name, tags) in [("addTags", &marks.add_tags), ("removeTags", &marks.remove_tags)] {
        if MAX_TAGS < tags.len() {
            return Err(Problem::body(
                name,
                format!("must contain at most {MAX_TAGS} tags, got {}", tags.len()),
            ));
        }
    }
    if let Some(fault) = marks.add_tags.iter().find_map(|tag| TraceMarks::fault_of_tag(tag)) {
        return Err(Problem::body("addTags", fault));
    }
    if let Some(both) = marks.add_tags.iter().find(|tag| marks.remove_tags.contains(tag)) {
        let message = format!("must not contain {both:?}, which removeTags contains");
        return Err(Problem::body("addTags", message));
    }
    let (telemetry, project) = (&app.store.telemetry, &caller.project);
    let known = telemetry.trace(project, &id, false).await?.ok_or_else(missing)?;
    let kept = known.trace.tags.iter().filter(|tag| !marks.remove_tags.contains(tag));
    if MAX_TAGS < kept.chain(&marks.add_tags).collect::<HashSet<_>>().len() {
        let message = format!("must not exceed {MAX_TAGS} tags of the trace");
        return Err(Problem::body("addTags", message));
    }
    // Unchanged marks are not written.
    let has = |tag: &String| known.trace.tags.contains(tag);
    let marks = TraceMarks {
        bookmarked: (marks.bookmarked).filter(|bookmarked| *bookmarked != known.trace.bookmarked),
        add_tags: marks.add_tags.into_iter().filter(|tag| !has(tag)).collect(),
        remove_tags: marks.remove_tags.into_iter().filter(has).collect(),
    };
    if marks == TraceMarks::default() {
        let stored = telemetry.trace(project, &id, true).await?;
        let stored = stored.ok_or_else(missing)?;
        return Ok(Answer(Trace::new(project, stored, TraceFields::ALL)));
    }
    let change = (app.web.ids.uuid().to_string(), app.web.clock.now());
    match telemetry.mark_trace(project, &id, &marks, change).await {
        Ok(()) => app.scheduler.wake(),
        Err(perpend_db::Error::NotFound) => return Err(missing()),
        Err(error) => return Err(error.into()),
    }
    let stored = telemetry.trace(project, &id, true).await?;
    Ok(Answer(Trace::new(project, stored.ok_or_else(missing)?, TraceFields::ALL)))
}

async fn delete_traces(
    State(app): State<App>,
    caller: Act,
    Body(deletion): Body<Deletion>,
) -> Result<Answer<Confirmation>, Problem> {
    if deletion.trace_ids.is_empty() || deletion.trace_ids.len() > MAX_DELETED {
        let message =
            format!("must contain 1 to {MAX_DELETED} ids, got {}", deletion.trace_ids.len());
        return Err(Problem::body("traceIds", message));
    }
    // Invalid ids are ignored like unknown ones.
    let ids: Vec<TraceId> =
        deletion.trace_ids.iter().filter_map(|id| TraceId::new(id).ok()).collect();
    app.store.delete_traces(&caller.project, &ids).await?;
    Ok(Answer(Confirmation::new("Traces deleted")))
}

async fn delete_trace(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<Confirmation>, Problem> {
    if let Ok(id) = TraceId::new(&id) {
        app.store.delete_traces(&caller.project, &[id]).await?;
    }
    Ok(Answer(Confirmation::new("Trace deleted")))
}
