//! Tokens and money as the sender counts them (otlp.md 4.1 to 4.4, 4.6).
//!
//! The names of counts are in [`perpend_domain::usage`]; here is where counts are looked for, and how the count of a
//! side and those of its parts become disjoint buckets.

mod counts;

use perpend_domain::cost::cost_total;
use perpend_domain::observation::{Cost, ObservationKind as Kind, Usage};
use perpend_domain::usage::Meaning;
use rust_decimal::prelude::ToPrimitive;
use serde_json::{Map, Value as Json};

use crate::attributes::{any_json, json_amount, object_of};
use crate::kind::ai_kind;
use crate::notes::Notes;
use crate::source::Source;

use counts::{Counts, Reading};

/// Tokens and costs of a span.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) usage: Usage,
    pub(crate) cost: Cost,
    pub(crate) aggregate_usage: Usage,
    pub(crate) aggregate_cost: Cost,
}

impl Numbers {
    pub(crate) fn is_aggregate(&self) -> bool {
        !self.aggregate_usage.is_empty() || !self.aggregate_cost.is_empty()
    }
}

pub(crate) fn numbers(source: &Source<'_>, kind: Kind, notes: &mut Notes) -> Numbers {
    let attributes = source.attributes;
    let native_usage = attributes
        .native("observation.usage_details")
        .and_then(object_of)
        .map(|object| native_usage(&object).noted("usageDetails", notes))
        .filter(|usage| !usage.is_empty());
    let native_cost = attributes
        .native("observation.cost_details")
        .and_then(object_of)
        .map(|object| native_cost(&object, notes))
        .filter(|cost| !cost.is_empty());
    let usage_is_native = native_usage.is_some();
    let cost_is_native = native_cost.is_some();
    let usage = native_usage.unwrap_or_else(|| convention_usage(source, notes));
    let cost = native_cost.unwrap_or_else(|| convention_cost(source));
    let mut numbers = Numbers::default();
    let is_aggregate = repeats_those_below(source, kind);
    if is_aggregate && !usage_is_native {
        numbers.aggregate_usage = usage;
    } else {
        numbers.usage = usage;
    }
    if is_aggregate && !cost_is_native {
        numbers.aggregate_cost = cost;
    } else {
        numbers.cost = cost;
    }
    let has_usage = !numbers.usage.is_empty() || !numbers.aggregate_usage.is_empty();
    if !has_usage && attributes.has_prefix(AGGREGATED) {
        let mut counts = Counts::default();
        counts.add_prefix(source, AGGREGATED, 0);
        numbers.aggregate_usage = counts.of_attributes(false).noted("usage", notes);
    }
    numbers
}

const AGGREGATED: &str = "gen_ai.aggregated_usage.";

/// Spans whose numbers repeat those of the model calls below them.
fn repeats_those_below(source: &Source<'_>, kind: Kind) -> bool {
    let by_operation = matches!(
        source.operation,
        Some(
            "invoke_agent"
                | "agent_step"
                | "invoke_workflow"
                | "create_agent"
                | "execute_task"
                | "execute_tool"
                | "plan"
        )
    );
    let is_ai_wrapper = source.ai_operation.is_some_and(|op| ai_kind(op).is_none());
    by_operation || is_ai_wrapper || !kind.is_generation_like()
}

/// Reads `usageDetails` and the `usage` of a provider's response.
///
/// Buckets called `input` and `output` are disjoint from all others. Otherwise the object is a provider's, and a side
/// includes its parts by the table of names, unless the total contradicts it.
pub(crate) fn native_usage(object: &Map<String, Json>) -> Reading {
    let mut counts = Counts::default();
    counts.add_object(object, 0);
    counts.of_object(object.contains_key("input") || object.contains_key("output"))
}

/// The costs in the older member `usage`.
pub(crate) fn legacy_cost(object: &Map<String, Json>) -> Cost {
    let sides = [("input", "inputCost"), ("output", "outputCost"), ("total", "totalCost")];
    let amount =
        |(bucket, name): (&str, &str)| Some((bucket.to_owned(), json_amount(object.get(name)?)?));
    with_total_cost(sides.into_iter().filter_map(amount).collect())
}

fn convention_usage(source: &Source<'_>, notes: &mut Notes) -> Usage {
    let attributes = source.attributes;
    let genkit = (source.scope.name == "genkit-tracer")
        .then(|| attributes.get("genkit:output"))
        .flatten()
        .map(any_json)
        .and_then(|output| output.get("usage")?.as_object().cloned());
    let mut counts = Counts::default();
    let mut carrier = 0;
    for object in [genkit, attributes.object("mlflow.chat.tokenUsage")] {
        if let Some(object) = object {
            counts.add_object(&object, carrier);
        }
        carrier += 1;
    }
    for prefix in ["gen_ai.usage.", "ai.usage.", "llm.token_count.", "llm.usage."] {
        counts.add_prefix(source, prefix, carrier);
        carrier += 1;
    }
    for key in ["prompt_tokens", "completion_tokens"] {
        if let Some(value) = attributes.get(&format!("gen_ai.response.{key}")) {
            counts.add(key, &value.to_json(), carrier);
        }
    }
    carrier += 1;
    for key in OBJECTS {
        if let Some(object) = attributes.object(key) {
            counts.add_object(&object, carrier);
        }
        carrier += 1;
    }
    let sides = [Meaning::Input, Meaning::Output, Meaning::Total];
    let has_sides = sides.iter().any(|side| counts.known.contains_key(side));
    if source.scope.name == "gcp.vertex.agent"
        && let Some(answer) = attributes.object("gcp.vertex.agent.llm_response")
        && let Some(Json::Object(usage)) = answer.get("usage_metadata")
    {
        counts.add_object(usage, carrier);
    }
    carrier += 1;
    // Counts that a provider adds to those of a library: its sides have another meaning.
    let mut parts = Counts::default();
    parts.add_prefix(source, "anthropic.usage.", carrier);
    for (_, provider) in attributes.object("ai.response.providerMetadata").into_iter().flatten() {
        if let Json::Object(provider) = provider {
            parts.add_object(&provider, carrier + 1);
        }
    }
    for (meaning, part) in parts.known {
        if !sides.contains(&meaning) && has_sides {
            counts.known.entry(meaning).or_insert(part);
        }
    }
    counts.of_attributes(counts_cache_beside(source)).noted("usage", notes)
}

/// Attributes that hold usage as one object.
const OBJECTS: [&str; 5] =
    ["gen_ai.usage", "llm.usage", "langsmith.usage_metadata", "usage_metadata", "usage"];

/// Senders that copy the counts of Anthropic or Bedrock, where the input is without the cached input: the OpenTelemetry
/// instrumentations of botocore (0.66b2) and Bedrock (opentelemetry-instrumentation-bedrock 0.62.4), the AI SDK before
/// version 6 (`@ai-sdk/anthropic` 2.0.112, `@ai-sdk/amazon-bedrock` 3.0.137; version 4 has the cache only in the
/// metadata of the provider), and Mastra, which passes its counts on.
fn counts_cache_beside(source: &Source<'_>) -> bool {
    let scopes =
        ["opentelemetry.instrumentation.botocore", "opentelemetry.instrumentation.bedrock"];
    if scopes.iter().any(|scope| source.scope.name.starts_with(scope)) {
        return true;
    }
    let attributes = source.attributes;
    let counts = ["ai.usage.cachedInputTokens", "ai.usage.promptTokens"];
    let is_of_ai_sdk = attributes.get("gen_ai.usage.cached_input_tokens").is_some()
        || (attributes.first(&counts).is_some()
            && !attributes.has_prefix("ai.usage.inputTokenDetails."));
    is_of_ai_sdk && is_of_anthropic_or_bedrock(source)
}

fn is_of_anthropic_or_bedrock(source: &Source<'_>) -> bool {
    let attributes = source.attributes;
    let is_either = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.contains("anthropic") || name.contains("bedrock")
    };
    // Models of a gateway have their provider in their name: `anthropic/claude-sonnet-4`.
    let vendor_of = |model: &str| {
        let vendor = model.split_once('/').map(|(vendor, _)| vendor);
        vendor.is_some_and(is_either)
    };
    let providers = ["ai.model.provider", "gen_ai.provider.name", "gen_ai.system"];
    let models = ["ai.model.id", "gen_ai.request.model"];
    let mut providers = providers.iter().filter_map(|key| attributes.text(key));
    let mut models = models.iter().filter_map(|key| attributes.text(key));
    providers
        .any(|provider| is_either(provider) || (provider == "gateway" && models.any(vendor_of)))
}

pub(crate) fn native_cost(object: &Map<String, Json>, notes: &mut Notes) -> Cost {
    let mut cost = Cost::new();
    for (key, value) in object {
        match json_amount(value) {
            Some(amount) => {
                cost.insert(key.clone(), amount);
            }
            None if value.is_null() => {}
            None => {
                let field = format!("costDetails.{key}");
                notes.ignored(&field, &value.to_string(), "a number that is not negative");
            }
        }
    }
    with_total_cost(cost)
}

fn with_total_cost(mut cost: Cost) -> Cost {
    if !cost.is_empty() && !cost.contains_key("total") {
        let total = cost_total(&cost).to_f64().unwrap_or(0.0);
        cost.insert("total".to_owned(), total);
    }
    cost
}

/// litellm 1.110.2, `llms/xai/common_utils.py`.
const XAI_TICKS_PER_DOLLAR: f64 = 1e10;

fn convention_cost(source: &Source<'_>) -> Cost {
    const SIDES: [(&str, &[&str], &str); 3] = [
        (
            "input",
            &[
                "gen_ai.usage.input_cost",
                "gen_ai.cost.input_cost",
                "llm.cost.prompt",
                "mlflow.llm.cost.input_cost",
            ],
            "input_cost",
        ),
        (
            "output",
            &[
                "gen_ai.usage.output_cost",
                "gen_ai.cost.output_cost",
                "llm.cost.completion",
                "mlflow.llm.cost.output_cost",
            ],
            "output_cost",
        ),
        (
            "total",
            &[
                "gen_ai.usage.cost",
                "gen_ai.usage.total_cost",
                "gen_ai.cost.total_cost",
                "llm.cost.total",
                "operation.cost",
                "mlflow.llm.cost.total_cost",
            ],
            "total_cost",
        ),
    ];
    let attributes = source.attributes;
    let mlflow = attributes.object("mlflow.llm.cost");
    let mut cost = Cost::new();
    for (bucket, keys, mlflow_key) in SIDES {
        let sent = keys
            .iter()
            .find_map(|key| crate::attributes::amount(attributes.get(key)?))
            .or_else(|| json_amount(mlflow.as_ref()?.get(mlflow_key)?));
        if let Some(amount) = sent {
            cost.insert(bucket.to_owned(), amount);
        }
    }
    // xai-sdk 1.21.0.
    if cost.is_empty()
        && let Some(ticks) = attributes.get("gen_ai.usage.cost_in_usd_ticks")
        && let Some(ticks) = crate::attributes::amount(ticks)
    {
        cost.insert("total".to_owned(), ticks / XAI_TICKS_PER_DOLLAR);
    }
    with_total_cost(cost)
}

#[cfg(test)]
mod tests {
    use perpend_domain::quantity::Quantity;
    use serde_json::json;

    use super::*;

    fn reading(sent: &Json) -> Reading {
        native_usage(sent.as_object().unwrap())
    }

    fn buckets(list: &[(&str, f64)]) -> Usage {
        list.iter().map(|(key, n)| ((*key).to_owned(), Quantity::from_f64(*n).unwrap())).collect()
    }

    #[test]
    fn a_provider_that_counts_more_cached_than_input_leaves_no_negative_input() {
        let sent = json!({ "prompt_tokens": 10, "completion_tokens": 4, "cost": 0.1, "prompt_tokens_details": { "cached_tokens": 12, "text": null } });
        let expected =
            [("input", 0.0), ("input_cached_tokens", 12.0), ("output", 4.0), ("total", 16.0)];
        assert_eq!(reading(&sent).usage, buckets(&expected));
    }

    #[test]
    fn counts_of_unknown_meaning_may_be_fractions_and_unusable_ones_are_named() {
        let sent = json!({ "a": -1, "b": "x", "c": 1.5, "d": "7", "output_tokens": -1, "input_tokens": "NaN" });
        let read = reading(&sent);
        assert_eq!(read.usage, buckets(&[("c", 1.5), ("d", 7.0), ("total", 8.5)]));
        let invalid: Vec<&str> = read.invalid.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(invalid, ["a", "output_tokens", "input_tokens"]);
    }

    #[test]
    fn a_missing_total_cost_is_the_decimal_sum() {
        let cost = |sent: Json| native_cost(sent.as_object().unwrap(), &mut Notes::default());
        assert_eq!(cost(json!({ "input": 0.1, "output": 0.2, "bad": -1 }))["total"], 0.3);
        assert_eq!(cost(json!({ "total": 0 }))["total"], 0.0);
    }
}
