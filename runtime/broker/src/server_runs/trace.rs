//! The trace of a result: its root, which has the experiment attributes, and the usage that an application reported.
//! Calls of models are written to the same trace when they end.

use perpend_domain::dataset::DatasetItem;
use perpend_domain::identity::{call_span_id, root_span_id};
use perpend_domain::ids::ObservationId;
use perpend_domain::observation::{
    Cost, ExperimentLink, Level, Observation, ObservationKind, TraceFacts,
};
use perpend_domain::payload::Payload;
use perpend_domain::server_run::{RUN_ENVIRONMENT, RunAnswer, call_id, run_trace_id};
use perpend_domain::time::Timestamp;
use perpend_executions::{ClaimedItem, ServerRun};
use serde_json::{Map, Value, json};

/// The name of the root, as clients name it.
const ROOT_NAME: &str = "experiment-item-run";
/// The name of the observation with the usage that an application reported.
const REPORTED_NAME: &str = "reported usage";

/// The result of an item.
pub(super) enum ItemResult<'r> {
    Answer(&'r RunAnswer),
    Error { class: &'r str, message: &'r str, times: (Timestamp, Timestamp) },
}

/// `id` is 16 hex digits, derived by the server.
fn observation_id(id: &str) -> ObservationId {
    ObservationId::new(id).unwrap_or_else(|_| unreachable!("16 hex digits are a valid id"))
}

fn payload(value: &Value) -> Option<Payload> {
    (!value.is_null()).then(|| Payload::from_value(value.clone()))
}

/// The `traceparent` header for an application, whose spans then belong to the trace of the item.
pub(super) fn traceparent(run: &ServerRun, item: &ClaimedItem) -> String {
    let trace = run_trace_id(&run.id, &item.item_id, item.repetition, item.attempt);
    let root = root_span_id(&call_id(&trace));
    format!("00-{trace}-{root}-01")
}

/// The observations of a result. Their ids are derived, so that writing them again changes nothing.
pub(super) fn observations(
    run: &ServerRun,
    item: &ClaimedItem,
    data: Option<&DatasetItem>,
    result: &ItemResult<'_>,
) -> Vec<Observation> {
    let trace = run_trace_id(&run.id, &item.item_id, item.repetition, item.attempt);
    let id = observation_id(&root_span_id(&call_id(&trace)));
    let times = match result {
        ItemResult::Answer(answer) => {
            let start = Timestamp::from_micros(answer.started_at);
            (start, start.plus_millis(answer.latency_ms.cast_signed()))
        }
        ItemResult::Error { times, .. } => *times,
    };
    let mut root = Observation::ended(trace.clone(), id, ObservationKind::Span, times);
    root.name = ROOT_NAME.to_owned();
    root.environment = RUN_ENVIRONMENT.to_owned();
    root.content.input = data.and_then(|data| payload(&data.input));
    root.content.metadata = Map::from_iter([
        ("repetition".to_owned(), json!(item.repetition)),
        ("attempt".to_owned(), json!(item.attempt)),
    ]);
    root.experiment = Some(Box::new(link(run, item, data, &root.id)));
    root.trace =
        Some(Box::new(TraceFacts { name: Some(run.name.clone()), ..TraceFacts::default() }));
    root.has_content = true;
    root.is_complete_marker = true;
    let mut all = Vec::with_capacity(2);
    match result {
        ItemResult::Answer(answer) => {
            root.content.output = payload(&answer.output);
            if let Some(own) = &answer.trace_id {
                // The application may send further observations of this trace.
                root.is_complete_marker = own != trace.as_str();
                root.content.metadata.insert("application_trace_id".to_owned(), json!(own));
            }
            all.extend(reported(answer, &root, trace.as_str()));
        }
        ItemResult::Error { class, message, .. } => {
            root.level = Level::Error;
            root.status_message = Some(format!("{class}: {message}"));
        }
    }
    all.push(root);
    all
}

fn link(
    run: &ServerRun,
    item: &ClaimedItem,
    data: Option<&DatasetItem>,
    root: &ObservationId,
) -> ExperimentLink {
    ExperimentLink {
        id: Some(run.id.clone()),
        name: Some(run.name.clone()),
        dataset_id: Some(run.dataset_id.clone()),
        item_id: Some(item.item_id.clone()),
        item_version: Some(item.item_version),
        item_expected_output: data.and_then(|data| payload(&data.expected_output)),
        item_metadata: data.map(|data| data.metadata.clone()).filter(|value| !value.is_null()),
        item_root_observation_id: Some(root.to_string()),
        repetition: Some(item.repetition),
        attempt: Some(item.attempt),
        ..ExperimentLink::default()
    }
}

/// The usage and cost that the application reported, unless its own observations are in this trace.
fn reported(answer: &RunAnswer, root: &Observation, trace: &str) -> Option<Observation> {
    if answer.trace_id.as_deref() == Some(trace) {
        return None;
    }
    if answer.usage.is_none() && answer.cost_usd.is_none() {
        return None;
    }
    let execution = call_id(&root.trace_id);
    let id = observation_id(&call_span_id(&execution, 0, 0));
    let times = (root.start, root.end.unwrap_or(root.start));
    let mut own = Observation::ended(root.trace_id.clone(), id, ObservationKind::Generation, times);
    own.parent_id = Some(root.id.clone());
    own.name = REPORTED_NAME.to_owned();
    own.environment = RUN_ENVIRONMENT.to_owned();
    own.usage = answer.usage.clone().unwrap_or_default();
    let cost = answer.cost_usd.map(|cost| Cost::from([("total".to_owned(), cost)]));
    own.cost = cost.unwrap_or_default();
    Some(own)
}
