//! The older shape of an observation: every key is there; input, output and metadata are JSON, not text.
//!
//! Traces have thousands of these: they are written as they are stored, without a tree of values between.

use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::observation::{Cost, Usage};
use perpend_domain::payload::Payload;
use perpend_domain::telemetry::StoredObservation;
use perpend_domain::time::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::looked_up::LookedUp;
use super::view::seconds;

/// A payload as JSON.
struct Shown<'a>(Option<&'a Payload>);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None => serializer.serialize_none(),
            Some(Payload::Text(text)) => serializer.serialize_str(text),
            Some(Payload::Json(json)) => match serde_json::from_str::<&RawValue>(json) {
                Ok(raw) => raw.serialize(serializer),
                // Only a broken store could hold it; see [`Payload::to_value`].
                Err(_) => serializer.serialize_str(json),
            },
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    input: u64,
    output: u64,
    total: u64,
    unit: &'static str,
    input_cost: Option<f64>,
    output_cost: Option<f64>,
    total_cost: Option<f64>,
}

/// An observation in the older shape.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::api) struct Whole<'a> {
    id: &'a ObservationId,
    trace_id: &'a TraceId,
    r#type: &'static str,
    name: &'a str,
    start_time: Timestamp,
    end_time: Option<Timestamp>,
    completion_start_time: Option<Timestamp>,
    model: Option<&'a str>,
    model_parameters: &'a Map<String, Value>,
    input: Shown<'a>,
    version: Option<&'a str>,
    metadata: &'a Map<String, Value>,
    output: Shown<'a>,
    usage: Tokens,
    level: &'static str,
    status_message: Option<&'a str>,
    parent_observation_id: Option<&'a ObservationId>,
    prompt_id: Option<&'a str>,
    usage_details: &'a Usage,
    cost_details: &'a Cost,
    environment: &'a str,
    prompt_name: Option<&'a str>,
    prompt_version: Option<i64>,
    model_id: Option<&'a str>,
    input_price: Option<f64>,
    output_price: Option<f64>,
    total_price: Option<f64>,
    calculated_input_cost: Option<f64>,
    calculated_output_cost: Option<f64>,
    calculated_total_cost: Option<f64>,
    latency: Option<f64>,
    time_to_first_token: Option<f64>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

fn sum_of(usage: &Usage, part: &str) -> u64 {
    let parts = usage.iter().filter(|(bucket, _)| bucket.contains(part));
    parts.map(|(_, tokens)| tokens).sum()
}

impl<'a> Whole<'a> {
    pub(in crate::api) fn new(stored: &'a StoredObservation, known: &'a LookedUp) -> Self {
        let observation = &stored.observation;
        let usage = &observation.usage;
        let (input, output) = (sum_of(usage, "input"), sum_of(usage, "output"));
        let costs = observation.effective_cost();
        let cost = |part: &str| costs.get(part).copied();
        let prompt = observation.prompt.as_ref();
        let prices = known.prices(observation);
        let price = |bucket: &str| prices?.price(bucket);
        Self {
            id: &observation.id,
            trace_id: &observation.trace_id,
            r#type: observation.kind.as_str(),
            name: &observation.name,
            start_time: observation.start,
            end_time: observation.end,
            completion_start_time: observation.completion_start,
            model: observation.model.as_deref(),
            model_parameters: &observation.model_parameters,
            input: Shown(observation.content.input.as_ref()),
            version: observation.version.as_deref(),
            metadata: &observation.content.metadata,
            output: Shown(observation.content.output.as_ref()),
            usage: Tokens {
                input,
                output,
                total: usage.get("total").copied().unwrap_or(input + output),
                unit: "TOKENS",
                input_cost: cost("input"),
                output_cost: cost("output"),
                total_cost: cost("total"),
            },
            level: observation.level.as_str(),
            status_message: observation.status_message.as_deref(),
            parent_observation_id: observation.parent_id.as_ref(),
            prompt_id: known.prompt_id(observation),
            usage_details: usage,
            cost_details: costs,
            environment: &observation.environment,
            prompt_name: prompt.map(|prompt| prompt.name.as_str()),
            prompt_version: prompt.and_then(|prompt| prompt.version),
            model_id: observation.price_id.as_deref(),
            input_price: price("input"),
            output_price: price("output"),
            total_price: price("total"),
            calculated_input_cost: cost("input"),
            calculated_output_cost: cost("output"),
            calculated_total_cost: cost("total"),
            latency: seconds(observation.start, observation.end),
            time_to_first_token: seconds(observation.start, observation.completion_start),
            created_at: stored.created_at,
            updated_at: stored.updated_at,
        }
    }
}
