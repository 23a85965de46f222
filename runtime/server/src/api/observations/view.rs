//! How an observation reads: the v2 shape in groups of fields. The older one is in [`super::whole`].

use perpend_domain::ids::ProjectId;
use perpend_domain::observation::Observation;
use perpend_domain::payload::Payload;
use perpend_domain::telemetry::StoredObservation;
use perpend_domain::time::Timestamp;
use serde_json::{Map, Value, json};

use super::looked_up::LookedUp;

/// Characters of a metadata text that is not expanded.
const MAX_METADATA_CHARS: usize = 200;

/// Groups of fields of the v2 shape; the core is always there.
#[derive(Clone, Debug, Default)]
pub(in crate::api) struct Groups {
    names: Vec<String>,
    /// Metadata keys whose text is not cut.
    pub(super) expanded: Vec<String>,
}

impl Groups {
    pub(super) const NAMES: &'static [&'static str] = &[
        "core",
        "basic",
        "time",
        "io",
        "metadata",
        "model",
        "usage",
        "prompt",
        "metrics",
        "trace_context",
    ];

    pub(in crate::api) fn new(names: Vec<String>, expanded: Vec<String>) -> Self {
        let names = match names.is_empty() {
            true => vec!["basic".to_owned()],
            false => names,
        };
        Self { names, expanded }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Whether the bulky part is needed.
    pub(super) fn reads_content(&self) -> bool {
        self.has("io") || self.has("metadata")
    }
}

pub(super) fn seconds(from: Timestamp, to: Option<Timestamp>) -> Option<f64> {
    to.map(|to| to.micros_since(from) as f64 / 1e6)
}

fn total_cost(observation: &Observation) -> Option<f64> {
    observation.effective_cost().get("total").copied()
}

/// The v2 shape.
pub(in crate::api) fn v2(
    project: &ProjectId,
    stored: &StoredObservation,
    groups: &Groups,
    known: &LookedUp,
) -> Value {
    let observation = &stored.observation;
    let mut view = Map::new();
    let mut put = |members: Value| {
        if let Value::Object(members) = members {
            view.extend(members);
        }
    };
    put(json!({
        "id": observation.id,
        "traceId": observation.trace_id,
        "startTime": observation.start,
        "endTime": observation.end,
        "projectId": project,
        "parentObservationId": observation.parent_id,
        "type": observation.kind.as_str(),
    }));
    if groups.has("basic") {
        put(basic(stored));
    }
    if groups.has("time") {
        put(json!({
            "completionStartTime": observation.completion_start,
            "createdAt": stored.created_at,
            "updatedAt": stored.updated_at,
        }));
    }
    if groups.has("io") {
        put(json!({
            "input": observation.content.input.as_ref().map(Payload::as_str),
            "output": observation.content.output.as_ref().map(Payload::as_str),
        }));
    }
    if groups.has("metadata") {
        put(json!({ "metadata": cut(&observation.content.metadata, &groups.expanded) }));
    }
    if groups.has("model") {
        put(json!({
            "model": observation.model,
            "providedModelName": observation.model,
            "internalModelId": observation.price_id,
            "modelId": observation.price_id,
            "modelParameters": observation.model_parameters,
        }));
    }
    if groups.has("usage") {
        let prices = known.prices(observation);
        // Prices are texts in this shape.
        let price = |bucket: &str| Some(prices?.price(bucket)?.to_string());
        put(json!({
            "usageDetails": observation.usage,
            "costDetails": observation.effective_cost(),
            "totalCost": total_cost(observation),
            "usagePricingTierName": prices.map(|prices| prices.tier),
            "inputPrice": price("input"),
            "outputPrice": price("output"),
            "totalPrice": price("total"),
        }));
    }
    if groups.has("prompt") {
        put(json!({
            "promptId": known.prompt_id(observation),
            "promptName": observation.prompt.as_ref().map(|prompt| &prompt.name),
            "promptVersion": observation.prompt.as_ref().and_then(|prompt| prompt.version),
        }));
    }
    if groups.has("metrics") {
        put(json!({
            "latency": seconds(observation.start, observation.end),
            "timeToFirstToken": seconds(observation.start, observation.completion_start),
        }));
    }
    if groups.has("trace_context") {
        put(json!({
            "tags": stored.of_trace.tags,
            "release": observation.release.as_ref().or(stored.of_trace.release.as_ref()),
            "traceName": stored.of_trace.name,
        }));
    }
    Value::Object(view)
}

fn basic(stored: &StoredObservation) -> Value {
    let observation = &stored.observation;
    let of_trace = &stored.of_trace;
    json!({
        "name": observation.name,
        "level": observation.level.as_str(),
        "statusMessage": observation.status_message,
        "version": observation.version,
        "environment": observation.environment,
        "bookmarked": false,
        "public": of_trace.public,
        "userId": observation.user_id.as_ref().or(of_trace.user_id.as_ref()),
        "sessionId": observation.session_id.as_ref().or(of_trace.session_id.as_ref()),
        "isRootObservation": observation.is_root(),
    })
}

fn cut(metadata: &Map<String, Value>, expanded: &[String]) -> Map<String, Value> {
    let cut = |(key, value): (&String, &Value)| {
        let short = match value {
            Value::String(text) if !expanded.contains(key) => text
                .chars()
                .take(MAX_METADATA_CHARS)
                .collect::<String>()
                .into(),
            other => other.clone(),
        };
        (key.clone(), short)
    };
    metadata.iter().map(cut).collect()
}
