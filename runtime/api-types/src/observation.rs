//! An observation: the legacy shape with all members, and the v2 shape with field groups.

use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::observation::{Content, Cost, Level, Observation, ObservationKind, Usage};
use perpend_domain::payload::Payload;
use perpend_domain::pricing::AppliedPrices;
use perpend_domain::quantity::Quantity;
use perpend_domain::telemetry::{ResolvedRefs, StoredObservation};
use perpend_domain::time::Timestamp;
use perpend_domain::usage::{Side, side_of};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::any_json::AnyJson;

/// Most characters of a metadata text that is not expanded.
const MAX_METADATA_CHARS: usize = 200;

fn seconds(from: Timestamp, to: Option<Timestamp>) -> Option<f64> {
    to.map(|to| to.micros_since(from) as f64 / 1e6)
}

/// A payload as JSON: text as a string, JSON as sent, without building a tree of values.
pub(crate) fn as_json<S: Serializer>(
    payload: &Option<Payload>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match payload {
        None => serializer.serialize_none(),
        Some(Payload::Text(text)) => serializer.serialize_str(text),
        Some(Payload::Json(json)) => match serde_json::from_str::<&RawValue>(json) {
            Ok(raw) => raw.serialize(serializer),
            // Only a corrupt store could contain it; see [`Payload::to_value`].
            Err(_) => serializer.serialize_str(json),
        },
    }
}

/// Tokens and cost for the oldest clients.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    input: u64,
    output: u64,
    total: u64,
    /// `TOKENS`.
    unit: &'static str,
    /// US dollars.
    input_cost: Option<f64>,
    /// US dollars.
    output_cost: Option<f64>,
    /// US dollars.
    total_cost: Option<f64>,
}

/// An observation in the legacy shape. Traces have thousands of these, so they are written without building a tree of
/// values.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Observation)]
pub struct FullObservation {
    id: ObservationId,
    trace_id: TraceId,
    r#type: ObservationKind,
    name: String,
    start_time: Timestamp,
    end_time: Option<Timestamp>,
    completion_start_time: Option<Timestamp>,
    model: Option<String>,
    #[schema(value_type = BTreeMap<String, AnyJson>)]
    model_parameters: Map<String, Value>,
    /// JSON, or text.
    #[serde(serialize_with = "as_json")]
    #[schema(value_type = AnyJson)]
    input: Option<Payload>,
    version: Option<String>,
    #[schema(value_type = BTreeMap<String, AnyJson>)]
    metadata: Map<String, Value>,
    /// JSON, or text.
    #[serde(serialize_with = "as_json")]
    #[schema(value_type = AnyJson)]
    output: Option<Payload>,
    usage: Tokens,
    level: Level,
    status_message: Option<String>,
    parent_observation_id: Option<ObservationId>,
    prompt_id: Option<String>,
    /// Tokens by bucket.
    #[schema(value_type = BTreeMap<String, u64>)]
    #[serde(serialize_with = "whole")]
    usage_details: Usage,
    /// US dollars by bucket.
    #[schema(value_type = BTreeMap<String, f64>)]
    cost_details: Cost,
    environment: String,
    prompt_name: Option<String>,
    prompt_version: Option<i64>,
    model_id: Option<String>,
    /// US dollars for one token.
    input_price: Option<f64>,
    /// US dollars for one token.
    output_price: Option<f64>,
    /// US dollars for one token.
    total_price: Option<f64>,
    /// US dollars.
    calculated_input_cost: Option<f64>,
    /// US dollars.
    calculated_output_cost: Option<f64>,
    /// US dollars.
    calculated_total_cost: Option<f64>,
    /// Seconds.
    latency: Option<f64>,
    /// Seconds.
    time_to_first_token: Option<f64>,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// The definitions of the offered tools, as sent; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<AnyJson>, required = false)]
    tool_definitions: Vec<Value>,
    /// The calls in the output, in order; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    tool_calls: Vec<ToolCallView>,
    /// The names of the called tools, in the same order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    tool_call_names: Vec<String>,
}

/// The groups `tools` and `io`: the offered and the called tools. Empty lists are absent.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ObservationTools)]
struct Tools {
    /// The definitions of the tools, as sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<AnyJson>, required = false)]
    tool_definitions: Vec<Value>,
    /// The calls in the output, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    tool_calls: Vec<ToolCallView>,
    /// The names of the called tools, in the same order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    tool_call_names: Vec<String>,
}

/// A call of a tool.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ToolCall)]
struct ToolCallView {
    /// The id assigned by the provider.
    id: Option<String>,
    name: String,
    /// Parsed if it was JSON text.
    #[schema(value_type = AnyJson)]
    arguments: Value,
    /// `function`.
    r#type: &'static str,
    /// From 0.
    index: usize,
}

impl Tools {
    fn new(content: &mut Content, called: Vec<String>) -> Self {
        let calls = std::mem::take(&mut content.tool_calls).into_iter();
        let calls = calls.enumerate().map(|(index, call)| ToolCallView {
            id: call.id,
            name: call.name,
            arguments: call.arguments,
            r#type: "function",
            index,
        });
        Self {
            tool_definitions: match content.tool_definitions.take() {
                Some(Value::Array(definitions)) => definitions,
                Some(one) => vec![one],
                None => Vec::new(),
            },
            tool_calls: calls.collect(),
            tool_call_names: called,
        }
    }
}

fn sum_of(usage: &Usage, side: Side) -> u64 {
    let name = match side {
        Side::Input => "input",
        Side::Output => "output",
    };
    let belongs = |bucket: &str| side_of(bucket).map_or(bucket.contains(name), |own| own == side);
    let parts = usage.iter().filter(|(bucket, _)| belongs(bucket));
    parts.map(|(_, tokens)| *tokens).sum::<Quantity>().to_u64()
}

/// Clients accept only integers: fractions are rounded.
fn whole<S: Serializer>(usage: &Usage, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(usage.iter().map(|(bucket, n)| (bucket, n.to_u64())))
}

impl FullObservation {
    /// From a stored observation and its references.
    #[must_use]
    pub fn new(stored: StoredObservation, named: ResolvedRefs<'_>) -> Self {
        let mut own = stored.observation;
        let tools = Tools::new(&mut own.content, std::mem::take(&mut own.called_tools));
        let (input, output) = (sum_of(&own.usage, Side::Input), sum_of(&own.usage, Side::Output));
        let costs = own.effective_cost().clone();
        let cost = |part: &str| costs.get(part).copied();
        let (input_cost, output_cost, total_cost) = (cost("input"), cost("output"), cost("total"));
        let price = |bucket: &str| named.prices?.price(bucket);
        let total = own.usage.get("total").map(|total| total.to_u64());
        let (prompt_name, prompt_version) =
            own.prompt.map(|prompt| (prompt.name, prompt.version)).unzip();
        Self {
            id: own.id,
            trace_id: own.trace_id,
            r#type: own.kind,
            name: own.name,
            start_time: own.start,
            end_time: own.end,
            completion_start_time: own.completion_start,
            model: own.model,
            model_parameters: own.model_parameters,
            input: own.content.input,
            version: own.version,
            metadata: own.content.metadata,
            output: own.content.output,
            usage: Tokens {
                input,
                output,
                total: total.unwrap_or(input + output),
                unit: "TOKENS",
                input_cost,
                output_cost,
                total_cost,
            },
            level: own.level,
            status_message: own.status_message,
            parent_observation_id: own.parent_id,
            prompt_id: named.prompt_id.map(str::to_owned),
            usage_details: own.usage,
            cost_details: costs,
            environment: own.environment,
            prompt_name,
            prompt_version: prompt_version.flatten(),
            model_id: own.price_id,
            input_price: price("input"),
            output_price: price("output"),
            total_price: price("total"),
            calculated_input_cost: input_cost,
            calculated_output_cost: output_cost,
            calculated_total_cost: total_cost,
            latency: seconds(own.start, own.end),
            time_to_first_token: seconds(own.start, own.completion_start),
            created_at: stored.created_at,
            updated_at: stored.updated_at,
            tool_definitions: tools.tool_definitions,
            tool_calls: tools.tool_calls,
            tool_call_names: tools.tool_call_names,
        }
    }
}

/// Field groups of the v2 shape; the core group is always present.
#[derive(Clone, Debug, Default)]
pub struct FieldGroups {
    names: Vec<String>,
    /// Metadata keys whose text is not truncated.
    expanded: Vec<String>,
}

impl FieldGroups {
    /// The names of the groups.
    pub const NAMES: &'static [&'static str] = &[
        "core",
        "basic",
        "time",
        "io",
        "metadata",
        "model",
        "usage",
        "prompt",
        "metrics",
        "tools",
        "trace_context",
    ];

    /// These groups, or `basic` if there are none.
    #[must_use]
    pub fn new(names: Vec<String>, expanded: Vec<String>) -> Self {
        let names = match names.is_empty() {
            true => vec!["basic".to_owned()],
            false => names,
        };
        Self { names, expanded }
    }

    /// Whether a group was requested.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Whether the content is needed.
    #[must_use]
    pub fn reads_content(&self) -> bool {
        self.has("io") || self.has("metadata") || self.has("tools")
    }
}

/// An observation in the v2 shape, with the requested field groups.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ObservationV2)]
pub struct GroupedObservation {
    id: ObservationId,
    trace_id: TraceId,
    start_time: Timestamp,
    end_time: Option<Timestamp>,
    project_id: ProjectId,
    parent_observation_id: Option<ObservationId>,
    r#type: ObservationKind,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Basic)]
    basic: Option<Basic>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Time)]
    time: Option<Time>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Io)]
    io: Option<Io>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Metadata)]
    metadata: Option<Metadata>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Model)]
    model: Option<Model>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = UsageAndCost)]
    usage: Option<UsageAndCost>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Prompt)]
    prompt: Option<Prompt>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Metrics)]
    metrics: Option<Metrics>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Tools)]
    tools: Option<Tools>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = TraceContext)]
    trace_context: Option<TraceContext>,
}

/// The group `basic`.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ObservationBasic)]
struct Basic {
    #[schema(required = false)]
    name: String,
    #[schema(required = false)]
    level: Level,
    status_message: Option<String>,
    version: Option<String>,
    #[schema(required = false)]
    environment: String,
    #[schema(required = false)]
    bookmarked: bool,
    #[schema(required = false)]
    public: bool,
    user_id: Option<String>,
    session_id: Option<String>,
    #[schema(required = false)]
    is_root_observation: bool,
}

/// The group `time`.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ObservationTime)]
struct Time {
    completion_start_time: Option<Timestamp>,
    #[schema(required = false)]
    created_at: Timestamp,
    #[schema(required = false)]
    updated_at: Timestamp,
}

/// The group `io`: the text as sent, which may be JSON.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ObservationIo)]
struct Io {
    input: Option<String>,
    output: Option<String>,
}

/// The group `metadata`.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ObservationMetadata)]
struct Metadata {
    /// Texts are truncated to 200 characters unless `expandMetadata` contains their key.
    #[schema(value_type = BTreeMap<String, AnyJson>, required = false)]
    metadata: Map<String, Value>,
}

/// The group `model`.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ObservationModel)]
struct Model {
    model: Option<String>,
    provided_model_name: Option<String>,
    internal_model_id: Option<String>,
    model_id: Option<String>,
    #[schema(value_type = BTreeMap<String, AnyJson>, required = false)]
    model_parameters: Map<String, Value>,
}

/// The group `usage`.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ObservationUsage)]
struct UsageAndCost {
    /// Tokens by bucket.
    #[schema(value_type = BTreeMap<String, u64>, required = false)]
    #[serde(serialize_with = "whole")]
    usage_details: Usage,
    /// US dollars by bucket.
    #[schema(value_type = BTreeMap<String, f64>, required = false)]
    cost_details: Cost,
    /// US dollars.
    total_cost: Option<f64>,
    usage_pricing_tier_name: Option<String>,
    /// US dollars for one token, as text.
    input_price: Option<String>,
    /// US dollars for one token, as text.
    output_price: Option<String>,
    /// US dollars for one token, as text.
    total_price: Option<String>,
}

/// The group `prompt`.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ObservationPrompt)]
struct Prompt {
    prompt_id: Option<String>,
    prompt_name: Option<String>,
    prompt_version: Option<i64>,
}

/// The group `metrics`.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ObservationMetrics)]
struct Metrics {
    /// Seconds.
    latency: Option<f64>,
    /// Seconds.
    time_to_first_token: Option<f64>,
}

/// The group `trace_context`.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ObservationTraceContext)]
struct TraceContext {
    #[schema(required = false)]
    tags: Vec<String>,
    release: Option<String>,
    trace_name: Option<String>,
}

impl GroupedObservation {
    /// From a stored observation and its references, with the requested groups.
    #[must_use]
    pub fn new(
        project: &ProjectId,
        stored: StoredObservation,
        groups: &FieldGroups,
        named: ResolvedRefs<'_>,
    ) -> Self {
        let has = |name| groups.has(name);
        let (basic, usage) = (
            has("basic").then(|| Basic::new(&stored)),
            has("usage").then(|| UsageAndCost::new(&stored.observation, named.prices)),
        );
        let (mut own, of_trace) = (stored.observation, stored.trace_attributes);
        let called = std::mem::take(&mut own.called_tools);
        let tools = (has("tools") || has("io")).then(|| Tools::new(&mut own.content, called));
        let (prompt_name, prompt_version) =
            own.prompt.map(|prompt| (prompt.name, prompt.version)).unzip();
        let (input, output) = (own.content.input, own.content.output);
        Self {
            id: own.id,
            trace_id: own.trace_id,
            start_time: own.start,
            end_time: own.end,
            project_id: project.clone(),
            parent_observation_id: own.parent_id,
            r#type: own.kind,
            basic,
            time: has("time").then_some(Time {
                completion_start_time: own.completion_start,
                created_at: stored.created_at,
                updated_at: stored.updated_at,
            }),
            io: has("io").then(|| Io {
                input: input.map(Payload::into_text),
                output: output.map(Payload::into_text),
            }),
            metadata: has("metadata")
                .then(|| Metadata { metadata: cut(own.content.metadata, &groups.expanded) }),
            model: has("model").then(|| Model {
                model: own.model.clone(),
                provided_model_name: own.model,
                internal_model_id: own.price_id.clone(),
                model_id: own.price_id,
                model_parameters: own.model_parameters,
            }),
            usage,
            prompt: has("prompt").then(|| Prompt {
                prompt_id: named.prompt_id.map(str::to_owned),
                prompt_name,
                prompt_version: prompt_version.flatten(),
            }),
            metrics: has("metrics").then(|| Metrics {
                latency: seconds(own.start, own.end),
                time_to_first_token: seconds(own.start, own.completion_start),
            }),
            tools,
            trace_context: has("trace_context").then(|| TraceContext {
                tags: of_trace.tags.clone(),
                release: own.release.or_else(|| of_trace.release.clone()),
                trace_name: of_trace.name.clone(),
            }),
        }
    }
}

impl Basic {
    fn new(stored: &StoredObservation) -> Self {
        let (own, of_trace) = (&stored.observation, &stored.trace_attributes);
        let or =
            |own: &Option<String>, other: &Option<String>| own.clone().or_else(|| other.clone());
        Self {
            name: own.name.clone(),
            level: own.level,
            status_message: own.status_message.clone(),
            version: own.version.clone(),
            environment: own.environment.clone(),
            bookmarked: false,
            public: of_trace.public,
            user_id: or(&own.user_id, &of_trace.user_id),
            session_id: or(&own.session_id, &of_trace.session_id),
            is_root_observation: own.is_root(),
        }
    }
}

impl UsageAndCost {
    fn new(own: &Observation, prices: Option<AppliedPrices<'_>>) -> Self {
        let price = |bucket: &str| Some(prices?.price(bucket)?.to_string());
        let cost = own.effective_cost();
        Self {
            usage_details: own.usage.clone(),
            cost_details: cost.clone(),
            total_cost: cost.get("total").copied(),
            usage_pricing_tier_name: prices.map(|prices| prices.tier.to_owned()),
            input_price: price("input"),
            output_price: price("output"),
            total_price: price("total"),
        }
    }
}

/// Truncates texts, except those of the `expanded` keys.
fn cut(mut metadata: Map<String, Value>, expanded: &[String]) -> Map<String, Value> {
    for (key, value) in &mut metadata {
        if let Value::String(text) = value
            && !expanded.contains(key)
            && let Some((end, _)) = text.char_indices().nth(MAX_METADATA_CHARS)
        {
            text.truncate(end);
        }
    }
    metadata
}
