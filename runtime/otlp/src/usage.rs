//! Tokens and money as the sender counts them (otlp.md 4.1 to 4.4, 4.6).
//!
//! The names of counts are in [`perpend_domain::usage`]; here is where counts are looked for, and how the count of a
//! side and those of its parts become disjoint buckets.

use std::collections::BTreeMap;

use perpend_domain::cost::cost_total;
use perpend_domain::observation::{Cost, ObservationKind as Kind, Usage};
use perpend_domain::quantity::Quantity;
use perpend_domain::usage::{Meaning, Relation, Side, meaning};
use rust_decimal::prelude::ToPrimitive;
use serde_json::{Map, Value as Json};

use crate::attributes::{any_json, default_json, json_amount, object_of};
use crate::kind::ai_kind;
use crate::notes::Notes;
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

/// Usage, and the counts that cannot be used.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    usage: Usage,
    /// Name and value of counts that are negative or not finite.
    invalid: Vec<(String, String)>,
}

impl Reading {
    /// The usage; counts that cannot be used are noted under this field.
    pub(crate) fn noted(self, field: &str, notes: &mut Notes) -> Usage {
        for (name, value) in self.invalid {
            notes.ignored(
                &format!("{field}.{name}"),
                &value,
                "a number that is not negative",
            );
        }
        self.usage
    }
}

/// Reads `usageDetails` and the `usage` of a provider's answer.
///
/// Buckets called `input` and `output` are disjoint from all others. Otherwise the object is a provider's, and a side
/// includes its parts as the table of names says, unless the total says otherwise.
pub(crate) fn native_usage(object: &Map<String, Json>) -> Reading {
    let mut counts = Counts::default();
    counts.add_object(object, 0);
    counts.of_object(object.contains_key("input") || object.contains_key("output"))
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

/// A value in the place of a count.
enum Value {
    Count(Quantity),
    /// A number that no count can be.
    Invalid,
    /// Not a number.
    Other,
}

impl Value {
    fn of(value: &Json) -> Self {
        let read = match value {
            Json::Number(number) => match number.as_u64() {
                Some(whole) => Some(whole.into()),
                None => number.as_f64().and_then(Quantity::from_f64),
            },
            Json::String(text) => {
                let text = text.trim();
                match text.parse::<f64>() {
                    Ok(_) => Quantity::parse(text),
                    Err(_) => return Self::Other,
                }
            }
            _ => return Self::Other,
        };
        read.map_or(Self::Invalid, Self::Count)
    }
}

/// One count.
#[derive(Debug)]
struct Count {
    value: Quantity,
    /// Of several counts of one meaning, the one with the lowest rank counts.
    rank: (usize, bool, usize),
    relation: Relation,
    is_in_details: bool,
    /// The bucket that it is in an answer to the sender.
    bucket: String,
}

/// Counts by their meaning.
#[derive(Debug, Default)]
struct Counts {
    known: BTreeMap<Meaning, Count>,
    unknown: Vec<(String, Quantity)>,
    invalid: Vec<(String, String)>,
}

/// Deepest nesting of objects that is read.
const MAX_USAGE_DEPTH: usize = 4;
/// Counts of unknown meaning that are kept.
const MAX_UNKNOWN: usize = 100;

/// Visits the numbers in an object by their dotted paths. Of a list of objects, the member that labels each is part of
/// the path: `promptTokensDetails: [{"modality": "AUDIO", "tokenCount": 3}]`.
fn walk(path: &str, value: &Json, depth: usize, visit: &mut dyn FnMut(&str, &Json)) {
    let inner = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    match value {
        Json::Object(members) if depth < MAX_USAGE_DEPTH => {
            for (name, value) in members {
                walk(&inner(name), value, depth + 1, visit);
            }
        }
        Json::Array(items) if depth < MAX_USAGE_DEPTH => {
            let member = |item: &Json, names: &[&str]| {
                names.iter().find_map(|name| item.get(*name).cloned())
            };
            for item in items {
                let label = member(item, &["modality", "ttl"]);
                let count = member(
                    item,
                    &[
                        "tokenCount",
                        "token_count",
                        "tokens",
                        "inputTokens",
                        "input_tokens",
                    ],
                );
                if let (Some(Json::String(label)), Some(count)) = (label, count) {
                    visit(&inner(&label.to_ascii_lowercase()), &count);
                }
            }
            // Bedrock's counts are lists while a model streams.
            let numbers: Option<Vec<f64>> = items.iter().map(Json::as_f64).collect();
            if let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) {
                visit(path, &Json::from(numbers.iter().sum::<f64>()));
            }
        }
        Json::Object(_) | Json::Array(_) => {}
        value => visit(path, value),
    }
}

/// Python's text of a dictionary of numbers as JSON: LangSmith sends details so.
fn python_object(text: &str) -> Option<Map<String, Json>> {
    let text = text.trim();
    if !text.starts_with("{'") || 4_096 < text.len() || text.contains('"') {
        return None;
    }
    crate::json::object(&text.replace('\'', "\"").replace("None", "null"))
}

impl Counts {
    fn add_object(&mut self, object: &Map<String, Json>, carrier: usize) {
        for (name, value) in object {
            walk(name, value, 1, &mut |path, value| {
                self.add(path, value, carrier)
            });
        }
    }

    /// Attributes with this prefix, objects among them.
    fn add_prefix(&mut self, source: &Source<'_>, prefix: &str, carrier: usize) {
        for entry in source.attributes.with_prefix(prefix) {
            let value = match default_json(entry.value) {
                Json::String(text) => match python_object(&text) {
                    Some(object) => Json::Object(object),
                    None => Json::String(text),
                },
                value => value,
            };
            let path = &entry.key[prefix.len()..];
            walk(path, &value, 1, &mut |path, value| {
                self.add(path, value, carrier)
            });
        }
    }

    fn add(&mut self, path: &str, value: &Json, carrier: usize) {
        // Pydantic AI repeats parts below `details`.
        let inner = ["details.", "usage.", "usageMetadata.", "usage_metadata."]
            .into_iter()
            .find_map(|object| path.strip_prefix(object));
        let name = inner.unwrap_or(path);
        let named = meaning(name);
        let value = match Value::of(value) {
            Value::Count(value) => value,
            Value::Invalid => {
                self.invalid.push((path.to_owned(), value.to_string()));
                return;
            }
            Value::Other => return,
        };
        let Some(named) = named else {
            let lower = name.to_ascii_lowercase();
            let is_money = lower.contains("cost") || lower.contains("price");
            if !is_money && !path.is_empty() && self.unknown.len() < MAX_UNKNOWN {
                self.unknown.push((path.to_owned(), value));
            }
            return;
        };
        let rank = (
            carrier,
            inner.is_some(),
            if name == "input" || name == "output" {
                0
            } else {
                named.rank + 1
            },
        );
        let leaf = name.split_once('.').map(|(_, leaf)| leaf);
        let bucket = match (named.meaning, named.meaning.side(), leaf) {
            (Meaning::Input | Meaning::Output | Meaning::Total, ..) => {
                named.meaning.bucket().to_owned()
            }
            (_, _, None) => name.to_owned(),
            (_, Some(side), Some(leaf))
                if named.is_in_details && leaf.ends_with("tokens") && !leaf.contains('.') =>
            {
                let side = match side {
                    Side::Input => "input",
                    Side::Output => "output",
                };
                format!("{side}_{leaf}")
            }
            _ => named.meaning.bucket().to_owned(),
        };
        let count = Count {
            value,
            rank,
            relation: named.relation,
            is_in_details: named.is_in_details,
            bucket,
        };
        match self.known.entry(named.meaning) {
            std::collections::btree_map::Entry::Vacant(slot) => {
                slot.insert(count);
            }
            std::collections::btree_map::Entry::Occupied(mut slot) => {
                if count.rank < slot.get().rank {
                    slot.insert(count);
                }
            }
        }
    }

    fn value(&self, meaning: Meaning) -> Option<Quantity> {
        self.known.get(&meaning).map(|count| count.value)
    }

    fn sum(&self, meanings: &[Meaning]) -> Quantity {
        meanings
            .iter()
            .filter_map(|meaning| self.value(*meaning))
            .sum()
    }

    /// All input that was written to a cache.
    fn written(&self) -> Quantity {
        let by_lifetime = self.sum(&[Meaning::CacheWrite5m, Meaning::CacheWrite1h]);
        self.sum(&[Meaning::CacheWrite]).max(by_lifetime)
    }

    /// All input that was read from a cache or written to one.
    fn cached_and_written(&self) -> Quantity {
        self.sum(&[Meaning::Cached]).saturating_add(self.written())
    }

    /// Which parts the sides leave out, if the total is exactly what one answer gives: the cached and written input,
    /// and the reasoning. The answer that the names suggest is tried first.
    fn left_out_by_total(&self, suggested: (bool, bool)) -> Option<(bool, bool)> {
        let total = self.value(Meaning::Total)?;
        let (cached, reasoning) = (self.cached_and_written(), self.sum(&[Meaning::Reasoning]));
        let sides = self.sum(&[Meaning::Input, Meaning::Output]);
        let with_tools = sides.saturating_add(self.sum(&[Meaning::InputTool]));
        let is_total = |(no_cached, no_reasoning): &(bool, bool)| {
            let sum_with = |base: Quantity| {
                let left_out = [(*no_cached, cached), (*no_reasoning, reasoning)];
                let left_out = left_out.into_iter().filter(|(is_out, _)| *is_out);
                left_out
                    .map(|(_, part)| part)
                    .sum::<Quantity>()
                    .saturating_add(base)
            };
            sum_with(sides) == total || sum_with(with_tools) == total
        };
        let answers = [
            suggested,
            (false, false),
            (true, false),
            (false, true),
            (true, true),
        ];
        answers.into_iter().find(is_total)
    }

    /// Usage in an object of its own.
    fn of_object(mut self, is_flat: bool) -> Reading {
        let relation = |meaning: Meaning| self.known.get(&meaning).map(|count| count.relation);
        let is_providers = relation(Meaning::Input) == Some(Relation::Inside)
            || matches!(
                relation(Meaning::Output),
                Some(Relation::Inside | Relation::Beside)
            );
        let left_out = match is_flat {
            true => (true, true),
            false => {
                let parts = [
                    Meaning::Cached,
                    Meaning::CacheWrite,
                    Meaning::CacheWrite5m,
                    Meaning::CacheWrite1h,
                ];
                let suggested = (
                    self.leaves_out(Meaning::Input, &parts),
                    self.leaves_out(Meaning::Output, &[Meaning::Reasoning]),
                );
                self.left_out_by_total(suggested).unwrap_or(suggested)
            }
        };
        // A count of unknown meaning beside those of a provider, such as a duration, is not part of its total.
        let unknown = std::mem::take(&mut self.unknown);
        let mut reading = self.disjoint(left_out, is_flat, false);
        let counted = unknown
            .iter()
            .filter(|(name, _)| !is_providers && !name.contains('.'));
        for (_, value) in counted.filter(|_| !reading.has_total) {
            let total = reading.usage.entry("total".to_owned()).or_default();
            *total = total.saturating_add(*value);
        }
        for (name, value) in unknown {
            reading.usage.entry(name).or_insert(value);
        }
        Reading {
            usage: reading.usage,
            invalid: reading.invalid,
        }
    }

    /// Whether the count of a side is without these parts, by their names.
    fn leaves_out(&self, side: Meaning, parts: &[Meaning]) -> bool {
        let own = self.known.get(&side).map(|count| count.relation);
        let mut parts = parts.iter().filter_map(|part| self.known.get(part));
        match own {
            Some(Relation::Inside) => false,
            Some(Relation::Beside) => true,
            _ => parts.all(|part| !part.is_in_details && part.relation != Relation::Inside),
        }
    }

    /// Usage in attributes. A side includes its parts by the conventions, unless the numbers say otherwise, or its
    /// sender is known to count the cached input beside it.
    fn of_attributes(mut self, is_cache_beside: bool) -> Reading {
        self.unknown.clear();
        let (cached, reasoning) = (self.cached_and_written(), self.sum(&[Meaning::Reasoning]));
        let is_more =
            |part: Quantity, side: Meaning| self.value(side).is_some_and(|side| side < part);
        let must = (
            is_cache_beside || is_more(cached, Meaning::Input),
            is_more(reasoning, Meaning::Output),
        );
        let by_total = || {
            let total = self.value(Meaning::Total)?;
            let sides = self.sum(&[Meaning::Input, Meaning::Output]);
            let fits = |part: Quantity| !part.is_zero() && sides.saturating_add(part) <= total;
            Some(self.left_out_by_total(must).unwrap_or_else(|| {
                let no_cached = fits(cached);
                let both = cached.saturating_add(reasoning);
                (
                    no_cached,
                    if no_cached {
                        fits(both) && !reasoning.is_zero()
                    } else {
                        fits(reasoning)
                    },
                )
            }))
        };
        let told = by_total().unwrap_or_default();
        let left_out = (must.0 || told.0, must.1 || told.1);
        let reading = self.disjoint(left_out, false, true);
        Reading {
            usage: reading.usage,
            invalid: reading.invalid,
        }
    }

    /// Disjoint buckets, with a total.
    fn disjoint(mut self, left_out: (bool, bool), is_flat: bool, is_canonical: bool) -> Disjoint {
        let (no_cached, no_reasoning) = left_out;
        let total = self.known.remove(&Meaning::Total).map(|count| count.value);
        let written = self.written();
        let cached_modalities = self.take_cached_modalities(is_flat);
        let mut usage = Usage::new();
        let mut put = |count: &Count, meaning: Meaning, value: Quantity| {
            let bucket = match is_canonical {
                true => meaning.bucket(),
                false => &count.bucket,
            };
            usage.insert(bucket.to_owned(), value);
        };
        // What the two sides include, and what is counted beside them.
        let (mut inside, mut beside) = ([Quantity::ZERO; 2], [Quantity::ZERO; 2]);
        let mut uncached = None;
        let one_hour = self.sum(&[Meaning::CacheWrite1h]);
        let has_write = self.known.contains_key(&Meaning::CacheWrite);
        for (meaning, count) in &self.known {
            let mut value = count.value;
            let is_beside = match meaning {
                Meaning::Input | Meaning::Output | Meaning::Total => continue,
                Meaning::Uncached => {
                    uncached = Some(value);
                    continue;
                }
                // All of a side that is nothing else is text.
                Meaning::InputText | Meaning::OutputText if !is_flat => continue,
                Meaning::CacheWrite5m if has_write => continue,
                Meaning::CacheWrite1h if value.is_zero() => continue,
                // Libraries repeat them for every model, and hardly any call has a predicted output.
                Meaning::AcceptedPrediction | Meaning::RejectedPrediction
                    if is_canonical && value.is_zero() =>
                {
                    continue;
                }
                Meaning::CacheWrite | Meaning::CacheWrite5m => {
                    value = written.saturating_sub(one_hour);
                    no_cached
                }
                Meaning::Cached | Meaning::CacheWrite1h => no_cached,
                Meaning::Reasoning => no_reasoning,
                Meaning::InputTool => true,
                _ => is_flat,
            };
            if let Some((_, cached)) = cached_modalities
                .iter()
                .find(|(modality, _)| modality == meaning)
            {
                value = value.saturating_sub(*cached);
            }
            put(count, *meaning, value);
            let at = usize::from(meaning.side() == Some(Side::Output));
            let sums = match is_beside && !(is_flat && count.is_in_details) {
                true => &mut beside,
                false => &mut inside,
            };
            sums[at] = sums[at].saturating_add(value);
        }
        let mut inclusive = Quantity::ZERO;
        for (at, side) in [Meaning::Input, Meaning::Output].into_iter().enumerate() {
            let of_side = (inside[at], no_cached && at == 0);
            let rest = self.rest(side, uncached.filter(|_| at == 0 && !is_flat), of_side);
            let rest = rest.or(uncached.filter(|_| at == 0));
            let all = [rest.unwrap_or_default(), inside[at], beside[at]];
            inclusive = inclusive.saturating_add(all.into_iter().sum());
            if let Some(rest) = rest {
                usage.insert(side.bucket().to_owned(), rest);
            }
        }
        if let Some(total) = total {
            usage.insert("total".to_owned(), total);
        } else if !usage.is_empty() {
            usage.insert("total".to_owned(), inclusive);
        }
        Disjoint {
            usage,
            has_total: total.is_some(),
            invalid: self.invalid,
        }
    }

    /// What the parts of a side that it includes leave of it; `uncached` is the input without the cached.
    fn rest(
        &self,
        side: Meaning,
        uncached: Option<Quantity>,
        (inside, no_cached): (Quantity, bool),
    ) -> Option<Quantity> {
        let value = self.value(side)?;
        let Some(uncached) = uncached else {
            return Some(value.saturating_sub(inside));
        };
        // Modalities are parts of what was not cached.
        let cached = match no_cached {
            true => Quantity::ZERO,
            false => self.cached_and_written(),
        };
        Some(uncached.saturating_sub(inside.saturating_sub(cached)))
    }

    /// Removes the modalities of the cached input, which repeat it; without [`Meaning::Cached`] they make it up.
    /// Returns what of each modality was cached, where the modality includes it.
    fn take_cached_modalities(&mut self, is_flat: bool) -> Vec<(Meaning, Quantity)> {
        let pairs = [
            (Meaning::CachedText, Meaning::InputText),
            (Meaning::CachedAudio, Meaning::InputAudio),
            (Meaning::CachedImage, Meaning::InputImage),
            (Meaning::CachedVideo, Meaning::InputVideo),
            (Meaning::CachedDocument, Meaning::InputDocument),
        ];
        let taken = pairs.into_iter().filter_map(|(cached, modality)| {
            let count = self.known.remove(&cached)?;
            Some((modality, count.value))
        });
        let taken: Vec<(Meaning, Quantity)> = taken.collect();
        if !taken.is_empty() && !self.known.contains_key(&Meaning::Cached) {
            let count = Count {
                value: taken.iter().map(|(_, value)| *value).sum(),
                rank: (0, false, 0),
                relation: Relation::Inside,
                is_in_details: true,
                bucket: Meaning::Cached.bucket().to_owned(),
            };
            self.known.insert(Meaning::Cached, count);
        }
        match is_flat {
            true => Vec::new(),
            false => taken,
        }
    }
}

/// Disjoint buckets.
struct Disjoint {
    usage: Usage,
    has_total: bool,
    invalid: Vec<(String, String)>,
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
    for prefix in [
        "gen_ai.usage.",
        "ai.usage.",
        "llm.token_count.",
        "llm.usage.",
    ] {
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
    // What a provider adds to the counts of a library: its sides count something else.
    let mut parts = Counts::default();
    parts.add_prefix(source, "anthropic.usage.", carrier);
    for (_, provider) in attributes
        .object("ai.response.providerMetadata")
        .into_iter()
        .flatten()
    {
        if let Json::Object(provider) = provider {
            parts.add_object(&provider, carrier + 1);
        }
    }
    for (meaning, part) in parts.known {
        if !sides.contains(&meaning) && has_sides {
            counts.known.entry(meaning).or_insert(part);
        }
    }
    counts
        .of_attributes(counts_cache_beside(source))
        .noted("usage", notes)
}

/// Attributes that hold usage as one object.
const OBJECTS: [&str; 5] = [
    "gen_ai.usage",
    "llm.usage",
    "langsmith.usage_metadata",
    "usage_metadata",
    "usage",
];

/// Senders that copy the counts of Anthropic or Bedrock, where the input is without the cached input: the OpenTelemetry
/// instrumentations of botocore (0.66b2) and Bedrock (opentelemetry-instrumentation-bedrock 0.62.4), the AI SDK before
/// version 6 (`@ai-sdk/anthropic` 2.0.112, `@ai-sdk/amazon-bedrock` 3.0.137), and Mastra, which passes its counts on.
fn counts_cache_beside(source: &Source<'_>) -> bool {
    let scopes = [
        "opentelemetry.instrumentation.botocore",
        "opentelemetry.instrumentation.bedrock",
    ];
    if scopes
        .iter()
        .any(|scope| source.scope.name.starts_with(scope))
    {
        return true;
    }
    let attributes = source.attributes;
    let is_of_ai_sdk = attributes.get("gen_ai.usage.cached_input_tokens").is_some()
        || (attributes.get("ai.usage.cachedInputTokens").is_some()
            && !attributes.has_prefix("ai.usage.inputTokenDetails."));
    let providers = ["ai.model.provider", "gen_ai.provider.name", "gen_ai.system"];
    let mut providers = providers.iter().filter_map(|key| attributes.text(key));
    is_of_ai_sdk
        && providers.any(|provider| {
            let provider = provider.to_ascii_lowercase();
            provider.contains("anthropic") || provider.contains("bedrock")
        })
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
    use serde_json::json;

    use super::*;

    fn reading(sent: &Json) -> Reading {
        native_usage(sent.as_object().unwrap())
    }

    fn buckets(list: &[(&str, f64)]) -> Usage {
        list.iter()
            .map(|(key, n)| ((*key).to_owned(), Quantity::from_f64(*n).unwrap()))
            .collect()
    }

    #[test]
    fn a_provider_that_counts_more_cached_than_input_leaves_no_negative_input() {
        let sent = json!({ "prompt_tokens": 10, "completion_tokens": 4, "cost": 0.1, "prompt_tokens_details": { "cached_tokens": 12, "text": null } });
        let expected = [
            ("input", 0.0),
            ("input_cached_tokens", 12.0),
            ("output", 4.0),
            ("total", 16.0),
        ];
        assert_eq!(reading(&sent).usage, buckets(&expected));
    }

    #[test]
    fn counts_of_unknown_meaning_may_be_fractions_and_unusable_ones_are_named() {
        let sent = json!({ "a": -1, "b": "x", "c": 1.5, "d": "7", "output_tokens": -1, "input_tokens": "NaN" });
        let read = reading(&sent);
        assert_eq!(
            read.usage,
            buckets(&[("c", 1.5), ("d", 7.0), ("total", 8.5)])
        );
        let invalid: Vec<&str> = read.invalid.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(invalid, ["a", "output_tokens", "input_tokens"]);
    }

    #[test]
    fn a_missing_total_cost_is_the_decimal_sum() {
        let cost = |sent: Json| native_cost(sent.as_object().unwrap(), &mut Notes::default());
        assert_eq!(
            cost(json!({ "input": 0.1, "output": 0.2, "bad": -1 }))["total"],
            0.3
        );
        assert_eq!(cost(json!({ "total": 0 }))["total"], 0.0);
    }
}
