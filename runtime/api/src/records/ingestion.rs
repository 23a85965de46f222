//! `POST /api/public/ingestion`: batches of create and update events, each with its own result; and the
//! endpoints of single objects, which are batches of one event.

use std::collections::{BTreeMap, HashSet};
use std::mem;

use axum::extract::{Request, State};
use perpend_api_types::any_json::AnyJson;
use perpend_api_types::ingestion::{
    AcceptedEvent, GenerationInput, GenerationPatch, IngestionBatch, IngestionResponse,
    RejectedEvent, SpanInput, SpanPatch, TraceInput,
};
use perpend_api_types::list::IdResponse;
use perpend_domain::access::Permission::{IngestWrite, ScoreWrite};
use perpend_domain::telemetry::EventBatch;
use perpend_domain::text::whole_characters;
use perpend_domain::time::Timestamp;
use perpend_http_kit::admission::Account;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::{Act, Requirement};
use perpend_http_kit::extract::{LenientJson, MISSING, from_json, read_json};
use perpend_http_kit::problem::{Code, MAX_LISTED, Problem};
use perpend_http_kit::routes::Operation;
use perpend_otlp::{Event, Limits, read_event};
use serde_json::{Value, json};

use super::scores::write::{foreign_score, put, read_scores};
use crate::records::state::{App, Routes};

/// Batch size of clients. A larger `api.max_body_kib` takes precedence.
const MAX_BODY_BYTES: usize = 4_718_592;
/// Events of a batch. The response lists each accepted event, because clients look for it.
const MAX_EVENTS: usize = 10_000;
/// Characters of the id of a rejected event. Valid ids are shorter.
const MAX_ID_CHARS: usize = 1_000;

pub(super) fn routes(routes: &mut Routes) {
    let batch = Operation::post(
        "ingestBatch",
        "/api/public/ingestion",
        "Ingest create and update events of traces, observations and scores",
        Requirement::Either(IngestWrite, ScoreWrite),
    );
    routes.add(batch.body::<IngestionBatch>(), ingest_batch);
    let create = |id, path, summary| Operation::post(id, path, summary, IngestWrite);
    let trace = create("createTrace", "/api/public/traces", "Create or update a trace");
    let trace = trace.body::<TraceInput>();
    routes.add(trace, |app, caller, body| ingest_one(app, caller, body, TRACE));
    let span = create("createSpan", "/api/public/spans", "Create a span").body::<SpanInput>();
    routes.add(span, |app, caller, body| ingest_one(app, caller, body, SPAN));
    let generation = create("createGeneration", "/api/public/generations", "Create a generation")
        .body::<GenerationInput>();
    routes.add(generation, |app, caller, body| ingest_one(app, caller, body, GENERATION));
    let event = create("createEvent", "/api/public/events", "Create an event").body::<SpanInput>();
    routes.add(event, |app, caller, body| ingest_one(app, caller, body, EVENT));
    let update = |id, path, summary| Operation::patch(id, path, summary, IngestWrite);
    let span = update("updateSpan", "/api/public/spans", "Update a span").body::<SpanPatch>();
    routes.add(span, |app, caller, body| ingest_one(app, caller, body, SPAN_UPDATE));
    let generation = update("updateGeneration", "/api/public/generations", "Update a generation")
        .body::<GenerationPatch>();
    routes.add(generation, |app, caller, body| ingest_one(app, caller, body, GENERATION_UPDATE));
}

/// Records an accepted event.
fn accept(outcome: &mut IngestionResponse, id: &str) {
    outcome.successes.push(AcceptedEvent { id: id.to_owned(), status: 201 });
}

/// Records a rejected event: in the list, or only in the count of omitted ones.
fn reject(outcome: &mut IngestionResponse, id: &str, status: u16, message: &str) {
    if MAX_LISTED <= outcome.errors.len() {
        *outcome.errors_omitted.get_or_insert_default() += 1;
        return;
    }
    let error = match status {
        401 => "UnauthorizedError",
        _ => "InvalidRequestError",
    };
    outcome.errors.push(RejectedEvent {
        id: id.chars().take(MAX_ID_CHARS).collect(),
        status,
        message: message.to_owned(),
        error: error.to_owned(),
    });
}

/// The events of a batch by type.
#[derive(Debug, Default)]
struct SortedEvents {
    batch: EventBatch,
    /// Ids of the events in `batch`.
    ids: Vec<String>,
    /// Scores by event id.
    scores: Vec<(String, Value, Timestamp)>,
    outcome: IngestionResponse,
}

/// Parses every event; CPU only.
fn sort(events: &[Value], limits: &Limits, only_scores: bool) -> SortedEvents {
    let mut sorted = SortedEvents::default();
    let mut seen = HashSet::new();
    for event in events {
        let id = event["id"].as_str().unwrap_or_default();
        if !id.is_empty() && !seen.insert(id) {
            continue;
        }
        match read_event(event, limits) {
            Err(error) => reject(&mut sorted.outcome, id, 400, &error.to_string()),
            Ok(Event::Log) => {}
            Ok(Event::Score(mut body, at)) => {
                // The id of the event, so that a retry writes the same score.
                if body["id"].is_null() {
                    body["id"] = id.into();
                }
                sorted.scores.push((id.to_owned(), body, at));
            }
            Ok(Event::Patch(..)) if only_scores => {
                let message = "a public key alone may only send score-create events";
                reject(&mut sorted.outcome, id, 401, message);
            }
            Ok(Event::Patch(patch, media)) => {
                sorted.ids.push(id.to_owned());
                sorted.batch.patches.push(*patch);
                sorted.batch.media.extend(media);
            }
        }
    }
    // Of two scores with one id the later one takes precedence.
    sorted.scores.sort_by_key(|(_, _, at)| *at);
    sorted
}

/// Stores the valid events and returns the result of each event.
async fn store_events(
    app: &App,
    caller: &Act,
    events: Vec<Value>,
    account: Option<Account>,
) -> Result<IngestionResponse, Problem> {
    let project = &caller.project;
    let only_scores = !caller.permissions.holds(IngestWrite);
    let limits = app.web.config.ingest.span.clone();
    let work = move || {
        // The memory stays reserved until the work ends, also when the client disconnects.
        let _held = account;
        sort(&events, &limits, only_scores)
    };
    let sorted = tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "mapping failed");
        Problem::internal()
    })?;
    let SortedEvents { mut batch, ids, scores, mut outcome } = sorted;
    let (names, items): (Vec<String>, Vec<_>) =
        scores.into_iter().map(|(id, body, at)| (id, (body, at))).unzip();
    let mut taken = Vec::new();
    for (id, score) in names.iter().zip(read_scores(app, caller, items).await?) {
        match score {
            Ok(score) => {
                batch.scores.push(score);
                taken.push(id);
            }
            Err(problem) => reject(&mut outcome, id, 400, problem.message()),
        }
    }
    if only_scores {
        let scores = mem::take(&mut batch.scores);
        let foreign = put(app, caller, &scores, app.web.clock.now()).await?;
        for (id, score) in taken.into_iter().zip(&scores) {
            match foreign.contains(&score.id) {
                true => reject(&mut outcome, id, 401, foreign_score().message()),
                false => accept(&mut outcome, id),
            }
        }
    } else {
        taken.into_iter().for_each(|id| accept(&mut outcome, id));
    }
    let is_empty = batch.patches.is_empty() && batch.scores.is_empty();
    if !is_empty {
        let now = app.web.clock.now();
        let prices = app.prices.of(&app.store.catalog, project, now).await?;
        app.store.telemetry.write_events(project, batch, &prices, now).await?;
        app.scheduler.wake();
    }
    for id in &ids {
        accept(&mut outcome, id);
    }
    Ok(outcome)
}

async fn ingest_batch(
    State(app): State<App>,
    caller: Act,
    request: Request,
) -> Result<Answer<IngestionResponse, 207>, Problem> {
    let limit = app.web.config.api_max_body_bytes.max(MAX_BODY_BYTES);
    let account = Account::of(request.extensions()).cloned();
    let bytes = read_json(&app.web, request, limit).await?;
    let input: IngestionBatch = from_json(&whole_characters(&bytes))?;
    if MAX_EVENTS < input.batch.len() {
        let message = format!("batch must contain at most {MAX_EVENTS} events");
        return Err(Problem::new(Code::TooLarge, message));
    }
    let outcome = store_events(&app, &caller, input.batch, account).await?;
    Ok(Answer(outcome))
}

/// An endpoint of a single object.
#[derive(Clone, Copy, Debug)]
struct SingleEndpoint {
    kind: &'static str,
    /// Member of the body with the id.
    id: &'static str,
}

const fn endpoint(kind: &'static str, id: &'static str) -> SingleEndpoint {
    SingleEndpoint { kind, id }
}

const TRACE: SingleEndpoint = endpoint("trace-create", "id");
const SPAN: SingleEndpoint = endpoint("span-create", "id");
const GENERATION: SingleEndpoint = endpoint("generation-create", "id");
const EVENT: SingleEndpoint = endpoint("event-create", "id");
const SPAN_UPDATE: SingleEndpoint = endpoint("span-update", "spanId");
const GENERATION_UPDATE: SingleEndpoint = endpoint("generation-update", "generationId");

async fn ingest_one(
    State(app): State<App>,
    caller: Act,
    LenientJson(mut body): LenientJson<BTreeMap<String, Value>>,
    endpoint: SingleEndpoint,
) -> Result<Answer<IdResponse<AnyJson>>, Problem> {
    let event_id = app.web.ids.uuid().to_string();
    let id = body.remove(endpoint.id).or_else(|| body.remove("id"));
    let id = id.filter(|id| !id.is_null());
    if id.is_none() && endpoint.kind.ends_with("-update") {
        return Err(Problem::body(endpoint.id, MISSING));
    }
    let id = id.unwrap_or_else(|| event_id.as_str().into());
    body.insert("id".to_owned(), id.clone());
    let event = json!({
        "id": event_id,
        "type": endpoint.kind,
        "timestamp": app.web.clock.now().to_iso_micros(),
        "body": body,
    });
    let outcome = store_events(&app, &caller, vec![event], None).await?;
    match outcome.errors.first() {
        None => Ok(Answer(IdResponse { id: AnyJson(id) })),
        Some(error) => Err(Problem::new(Code::InvalidBody, &*error.message)),
    }
}
