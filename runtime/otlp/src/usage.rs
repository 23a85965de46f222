//! Tokens and money as the sender counts them (otlp.md 4.1 to 4.4, 4.6).

use perpend_domain::cost::cost_total;
use perpend_domain::observation::{Cost, ObservationKind as Kind, Usage};
use rust_decimal::prelude::ToPrimitive;
use serde_json::{Map, Value as Json};

use crate::attributes::{any_json, json_amount, json_count, object_of};
use crate::kind::ai_kind;
use crate::source::Source;

/// What a span says about tokens and money.
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

pub(crate) fn numbers(source: &Source<'_>, kind: Kind) -> Numbers {
    let attributes = source.attributes;
    let native_usage = attributes
        .native("observation.usage_details")
        .and_then(object_of)
        .map(|object| native_usage(&object))
        .filter(|usage| !usage.is_empty());
    let native_cost = attributes
        .native("observation.cost_details")
        .and_then(object_of)
        .map(|object| native_cost(&object))
        .filter(|cost| !cost.is_empty());
    let usage_is_native = native_usage.is_some();
    let cost_is_native = native_cost.is_some();
    let usage = native_usage.unwrap_or_else(|| convention_usage(source));
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
        numbers.aggregate_usage = table_usage(&|key| {
            let name = key.strip_prefix(USAGE)?;
            crate::attributes::count(attributes.get(&format!("{AGGREGATED}{name}"))?)
        });
    }
    numbers
}

const USAGE: &str = "gen_ai.usage.";
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

/// The three shapes of native usage.
pub(crate) fn native_usage(object: &Map<String, Json>) -> Usage {
    let has = |key: &str| object.contains_key(key);
    let usage = if has("prompt_tokens") || has("completion_tokens") {
        openai_usage(object, "prompt_tokens", "completion_tokens")
    } else if has("input_tokens_details")
        || has("output_tokens_details")
        || (has("input_tokens") && has("total_tokens"))
    {
        openai_usage(object, "input_tokens", "output_tokens")
    } else {
        plain_usage(object)
    };
    with_total(usage, None)
}

/// The older member `usage`: counts by side, in either of its two spellings, beside unit and cost.
pub(crate) fn legacy_usage(object: &Map<String, Json>) -> Usage {
    let first = |names: [&str; 2]| {
        let values = names.iter().filter_map(|name| object.get(*name));
        values.filter_map(json_count).next()
    };
    let sides = [
        ("input", ["input", "promptTokens"]),
        ("output", ["output", "completionTokens"]),
        ("total", ["total", "totalTokens"]),
    ];
    let usage = sides.into_iter();
    let usage = usage.filter_map(|(bucket, names)| Some((bucket.to_owned(), first(names)?)));
    with_total(usage.collect(), None)
}

/// The costs in the older member `usage`.
pub(crate) fn legacy_cost(object: &Map<String, Json>) -> Cost {
    let sides = [
        ("input", "inputCost"),
        ("output", "outputCost"),
        ("total", "totalCost"),
    ];
    let amount =
        |(bucket, name): (&str, &str)| Some((bucket.to_owned(), json_amount(object.get(name)?)?));
    with_total_cost(sides.into_iter().filter_map(amount).collect())
}

fn plain_usage(object: &Map<String, Json>) -> Usage {
    let renamed = |key: &str| match key {
        "input_tokens" => "input".to_owned(),
        "output_tokens" => "output".to_owned(),
        "total_tokens" => "total".to_owned(),
        other => other.to_owned(),
    };
    object
        .iter()
        .filter_map(|(key, value)| Some((renamed(key), json_count(value)?)))
        .collect()
}

/// Totals with details: each side is what the details leave of it.
fn openai_usage(object: &Map<String, Json>, input: &str, output: &str) -> Usage {
    let mut usage = Usage::new();
    for (side, key) in [("input", input), ("output", output)] {
        let mut rest = object.get(key).and_then(json_count);
        let details = object.get(&format!("{key}_details"));
        for (name, value) in details.and_then(Json::as_object).into_iter().flatten() {
            if let Some(tokens) = json_count(value) {
                usage.insert(format!("{side}_{name}"), tokens);
                rest = rest.map(|rest| rest.saturating_sub(tokens));
            }
        }
        if let Some(rest) = rest {
            usage.insert(side.to_owned(), rest);
        }
    }
    if let Some(total) = object.get("total_tokens").and_then(json_count) {
        usage.insert("total".to_owned(), total);
    }
    usage
}

/// Adds `total` when it is missing: the sum of the buckets unless a better one is known.
fn with_total(mut usage: Usage, known: Option<u64>) -> Usage {
    if !usage.is_empty() && !usage.contains_key("total") {
        let sum = usage.values().fold(0_u64, |sum, n| sum.saturating_add(*n));
        usage.insert("total".to_owned(), known.unwrap_or(sum));
    }
    usage
}

fn convention_usage(source: &Source<'_>) -> Usage {
    let attributes = source.attributes;
    let mlflow = attributes.object("mlflow.chat.tokenUsage");
    let genkit = (source.scope.name == "genkit-tracer")
        .then(|| attributes.get("genkit:output"))
        .flatten()
        .map(any_json)
        .and_then(|output| output.get("usage")?.as_object().cloned());
    let provider = attributes.object("ai.response.providerMetadata");
    let vertex = (source.scope.name == "gcp.vertex.agent")
        .then(|| attributes.object("gcp.vertex.agent.llm_response"))
        .flatten();
    let has_usage = [
        "gen_ai.usage.",
        "llm.token_count.",
        "ai.usage.",
        "llm.usage.",
    ]
    .iter()
    .any(|prefix| attributes.has_prefix(prefix));
    let has_carrier = [&mlflow, &genkit, &provider, &vertex]
        .iter()
        .any(|c| c.is_some());
    if !has_usage && !has_carrier {
        return Usage::new();
    }
    table_usage(&|key| {
        for (carrier, object) in [
            ("genkit/", &genkit),
            ("provider/", &provider),
            ("vertex/", &vertex),
        ] {
            if let Some(path) = key.strip_prefix(carrier) {
                return at_path(object.as_ref()?, path);
            }
        }
        let in_mlflow = || {
            let counts = mlflow.as_ref()?;
            json_count(counts.get(key.strip_prefix(USAGE).unwrap_or(key))?)
        };
        in_mlflow().or_else(|| crate::attributes::count(attributes.get(key)?))
    })
}

fn at_path(object: &Map<String, Json>, path: &str) -> Option<u64> {
    let mut segments = path.split('.');
    let first = object.get(segments.next()?)?;
    let value = segments.try_fold(first, |value, segment| value.get(segment))?;
    json_count(value)
}

type Lookup<'l> = &'l dyn Fn(&str) -> Option<u64>;

/// Where each value of the table in 4.3 may stand, in order. Before a slash stands the
/// JSON object that a library puts its counts into.
const INPUT: &[&str] = &[
    "genkit/inputTokens",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "ai.usage.inputTokens",
    "ai.usage.promptTokens",
    "llm.token_count.prompt",
    "ai.usage.tokens",
];
const OUTPUT: &[&str] = &[
    "genkit/outputTokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
    "llm.token_count.completion",
];
const TOTAL: &[&str] = &[
    "genkit/totalTokens",
    "gen_ai.usage.total_tokens",
    "llm.token_count.total",
    "llm.usage.total_tokens",
    "ai.usage.totalTokens",
];
const CACHED: &[&str] = &[
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.cache_read_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "gen_ai.usage.details.cache_read_input_tokens",
    "gen_ai.usage.input_cached_tokens",
    "ai.usage.inputTokenDetails.cacheReadTokens",
    "ai.usage.cachedInputTokens",
    "llm.token_count.prompt_details.cache_read",
    "llm.token_count.prompt_details.cache_input",
    "provider/openai.cachedPromptTokens",
    "provider/anthropic.usage.cache_read_input_tokens",
    "provider/bedrock.usage.cacheReadInputTokens",
    "vertex/usage_metadata.cached_content_token_count",
];
const CACHE_WRITE: &[&str] = &[
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.cache_write_tokens",
    "gen_ai.usage.details.cache_write_tokens",
    "gen_ai.usage.details.cache_creation_input_tokens",
    "gen_ai.usage.input_cache_creation",
    "ai.usage.inputTokenDetails.cacheWriteTokens",
    "llm.token_count.prompt_details.cache_write",
    "provider/anthropic.usage.cache_creation_input_tokens",
    "provider/bedrock.usage.cacheWriteInputTokens",
    "provider/bedrock.usage.cacheCreationInputTokens",
];
const CACHE_WRITE_1H: &[&str] = &[
    "anthropic.usage.cache_creation.ephemeral_1h_input_tokens",
    "gen_ai.usage.cache_creation.input_tokens.ephemeral_1h",
    "cache_creation_input_tokens_above_1hr",
    "provider/anthropic.usage.cache_creation.ephemeral_1h_input_tokens",
];
const AUDIO_IN: &[&str] = &[
    "gen_ai.usage.audio.input_tokens",
    "gen_ai.usage.audio_input_tokens",
    "llm.token_count.prompt_details.audio",
];
const REASONING: &[&str] = &[
    "genkit/thoughtsTokens",
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.details.reasoning_tokens",
    "ai.usage.outputTokenDetails.reasoningTokens",
    "ai.usage.reasoningTokens",
    "llm.token_count.completion_details.reasoning",
    "llm.usage.reasoning_tokens",
    "provider/openai.reasoningTokens",
];
const AUDIO_OUT: &[&str] = &[
    "gen_ai.usage.audio.output_tokens",
    "gen_ai.usage.audio_output_tokens",
    "llm.token_count.completion_details.audio",
];

fn table_usage(lookup: Lookup<'_>) -> Usage {
    let first = |keys: &[&str]| keys.iter().find_map(|key| lookup(key));
    let (input, output, total) = (first(INPUT), first(OUTPUT), first(TOTAL));
    let mut cache_write = first(CACHE_WRITE);
    let one_hour = first(CACHE_WRITE_1H).filter(|tokens| *tokens > 0);
    if let Some(one_hour) = one_hour {
        cache_write = cache_write.map(|write| write.saturating_sub(one_hour));
    }
    let input_details = [
        ("input_cached_tokens", first(CACHED)),
        ("input_cache_creation", cache_write),
        ("input_cache_creation_1h", one_hour),
        ("input_audio_tokens", first(AUDIO_IN)),
        (
            "input_image_tokens",
            lookup("gen_ai.usage.image.input_tokens"),
        ),
        (
            "input_video_tokens",
            lookup("gen_ai.usage.video.input_tokens"),
        ),
    ];
    let output_details = [
        ("output_reasoning_tokens", first(REASONING)),
        ("output_audio_tokens", first(AUDIO_OUT)),
    ];
    let no_cache = lookup("ai.usage.inputTokenDetails.noCacheTokens");
    let given = total.map(|total| (total, output.unwrap_or(0)));
    let mut usage = Usage::new();
    let inclusive_input = side(&mut usage, "input", input, &input_details, no_cache, given);
    let inclusive_output = side(&mut usage, "output", output, &output_details, None, None);
    if let Some(total) = total {
        usage.insert("total".to_owned(), total);
    }
    with_total(
        usage,
        Some(inclusive_input.saturating_add(inclusive_output)),
    )
}

/// Makes the buckets of one side disjoint and returns its inclusive value. `given` are the total and the
/// output, which tell exclusive input counts apart.
fn side(
    usage: &mut Usage,
    name: &str,
    value: Option<u64>,
    details: &[(&str, Option<u64>)],
    no_cache: Option<u64>,
    given: Option<(u64, u64)>,
) -> u64 {
    let sum = details
        .iter()
        .filter_map(|(_, tokens)| *tokens)
        .fold(0_u64, u64::saturating_add);
    for (bucket, tokens) in details {
        if let Some(tokens) = tokens {
            usage.insert((*bucket).to_owned(), *tokens);
        }
    }
    if let Some(rest) = no_cache {
        usage.insert(name.to_owned(), rest);
        return value.unwrap_or(rest.saturating_add(sum));
    }
    let Some(value) = value else {
        return sum;
    };
    let all = value.saturating_add(sum);
    let is_exclusive = sum > value
        || given.is_some_and(|(total, output)| sum > 0 && total >= all.saturating_add(output));
    usage.insert(
        name.to_owned(),
        if is_exclusive { value } else { value - sum },
    );
    if is_exclusive { all } else { value }
}

pub(crate) fn native_cost(object: &Map<String, Json>) -> Cost {
    let cost = object
        .iter()
        .filter_map(|(key, value)| Some((key.clone(), json_amount(value)?)))
        .collect();
    with_total_cost(cost)
}

fn with_total_cost(mut cost: Cost) -> Cost {
    if !cost.is_empty() && !cost.contains_key("total") {
        let total = cost_total(&cost).to_f64().unwrap_or(0.0);
        cost.insert("total".to_owned(), total);
    }
    cost
}

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
    with_total_cost(cost)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn from_table(sent: &[(&str, u64)]) -> Usage {
        table_usage(&|key| sent.iter().find(|(sent, _)| *sent == key).map(|(_, n)| *n))
    }

    fn buckets(list: &[(&str, u64)]) -> Usage {
        list.iter()
            .map(|(key, n)| ((*key).to_owned(), *n))
            .collect()
    }

    #[test]
    fn the_worked_examples_of_the_specification_hold() {
        let openai = from_table(&[
            ("gen_ai.usage.input_tokens", 120),
            ("gen_ai.usage.output_tokens", 40),
            ("gen_ai.usage.cache_read.input_tokens", 64),
            ("gen_ai.usage.reasoning.output_tokens", 16),
            ("gen_ai.usage.total_tokens", 160),
        ]);
        assert_eq!(
            openai,
            buckets(&[
                ("input", 56),
                ("input_cached_tokens", 64),
                ("output", 24),
                ("output_reasoning_tokens", 16),
                ("total", 160)
            ])
        );
        let anthropic = from_table(&[
            ("gen_ai.usage.input_tokens", 530),
            ("gen_ai.usage.output_tokens", 55),
            ("gen_ai.usage.cache_read.input_tokens", 400),
            ("gen_ai.usage.cache_creation.input_tokens", 100),
        ]);
        assert_eq!(
            anthropic,
            buckets(&[
                ("input", 30),
                ("input_cached_tokens", 400),
                ("input_cache_creation", 100),
                ("output", 55),
                ("total", 585)
            ])
        );
        let raw = json!({ "input_tokens": 30, "cache_read_input_tokens": 400, "cache_creation_input_tokens": 100, "output_tokens": 55 });
        assert_eq!(
            native_usage(raw.as_object().unwrap()),
            buckets(&[
                ("input", 30),
                ("cache_read_input_tokens", 400),
                ("cache_creation_input_tokens", 100),
                ("output", 55),
                ("total", 585)
            ])
        );
        let gemini = from_table(&[
            ("llm.token_count.prompt", 110),
            ("llm.token_count.completion", 42),
            ("llm.token_count.prompt_details.cache_read", 50),
            ("llm.token_count.completion_details.reasoning", 30),
        ]);
        assert_eq!(
            gemini,
            buckets(&[
                ("input", 60),
                ("input_cached_tokens", 50),
                ("output", 12),
                ("output_reasoning_tokens", 30),
                ("total", 152)
            ])
        );
    }

    #[test]
    fn exclusive_counts_are_recognised() {
        let more_cached_than_input = from_table(&[
            ("gen_ai.usage.input_tokens", 30),
            ("gen_ai.usage.cache_read_input_tokens", 400),
        ]);
        assert_eq!(
            more_cached_than_input,
            buckets(&[("input", 30), ("input_cached_tokens", 400), ("total", 430)])
        );
        let by_total = from_table(&[
            ("gen_ai.usage.input_tokens", 300),
            ("gen_ai.usage.output_tokens", 10),
            ("gen_ai.usage.cache_read_input_tokens", 100),
            ("gen_ai.usage.total_tokens", 410),
        ]);
        assert_eq!(by_total["input"], 300);
    }

    #[test]
    fn the_one_hour_part_leaves_the_default_cache_bucket_and_zero_counts_are_kept() {
        let usage = from_table(&[
            ("gen_ai.usage.input_tokens", 100),
            ("gen_ai.usage.cache_creation.input_tokens", 60),
            (
                "anthropic.usage.cache_creation.ephemeral_1h_input_tokens",
                20,
            ),
            ("gen_ai.usage.audio.input_tokens", 0),
        ]);
        assert_eq!(
            usage,
            buckets(&[
                ("input", 40),
                ("input_cache_creation", 40),
                ("input_cache_creation_1h", 20),
                ("input_audio_tokens", 0),
                ("total", 100)
            ])
        );
    }

    #[test]
    fn unknown_keys_beside_openai_usage_do_not_switch_the_conversion_off() {
        let sent = json!({ "prompt_tokens": 10, "completion_tokens": 4, "cost": 0.1, "prompt_tokens_details": { "cached_tokens": 12, "text": null }, "x": -1 });
        assert_eq!(
            native_usage(sent.as_object().unwrap()),
            buckets(&[
                ("input", 0),
                ("input_cached_tokens", 12),
                ("output", 4),
                ("total", 16)
            ])
        );
        let invalid = json!({ "a": -1, "b": "x", "c": 1.5, "d": "7" });
        assert_eq!(
            native_usage(invalid.as_object().unwrap()),
            buckets(&[("d", 7), ("total", 7)])
        );
    }

    #[test]
    fn a_missing_total_cost_is_the_decimal_sum() {
        let cost = native_cost(
            json!({ "input": 0.1, "output": 0.2, "bad": -1 })
                .as_object()
                .unwrap(),
        );
        assert_eq!(cost["total"], 0.3);
        assert_eq!(
            native_cost(json!({ "total": 0 }).as_object().unwrap())["total"],
            0.0
        );
    }
}
