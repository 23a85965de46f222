//! Counts by their meaning, and the disjoint buckets that they make.

use std::collections::BTreeMap;

use perpend_domain::observation::Usage;
use perpend_domain::quantity::Quantity;
use perpend_domain::usage::{Meaning, Relation, Side, meaning};
use serde_json::{Map, Value as Json};

use crate::attributes::default_json;
use crate::notes::Notes;
use crate::source::Source;

/// Usage, and the counts that cannot be used.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(super) usage: Usage,
    /// Name and value of counts that are negative or not finite.
    pub(super) invalid: Vec<(String, String)>,
}

impl Reading {
    /// The usage; counts that cannot be used are noted under this field.
    pub(crate) fn noted(self, field: &str, notes: &mut Notes) -> Usage {
        for (name, value) in self.invalid {
            notes.ignored(&format!("{field}.{name}"), &value, "a number that is not negative");
        }
        self.usage
    }
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
pub(super) struct Count {
    value: Quantity,
    /// Of several counts of one meaning, the one with the lowest rank counts.
    rank: (usize, bool, usize),
    relation: Relation,
    is_in_details: bool,
    /// The bucket that it is in an answer to the sender.
    bucket: String,
    /// Whether its name is that of a canonical bucket.
    is_canonical: bool,
}

/// Counts by their meaning.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) known: BTreeMap<Meaning, Count>,
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
                    &["tokenCount", "token_count", "tokens", "inputTokens", "input_tokens"],
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
    pub(super) fn add_object(&mut self, object: &Map<String, Json>, carrier: usize) {
        for (name, value) in object {
            walk(name, value, 1, &mut |path, value| self.add(path, value, carrier));
        }
    }

    /// Attributes with this prefix, objects among them.
    pub(super) fn add_prefix(&mut self, source: &Source<'_>, prefix: &str, carrier: usize) {
        for entry in source.attributes.with_prefix(prefix) {
            let value = match default_json(entry.value) {
                Json::String(text) => match python_object(&text) {
                    Some(object) => Json::Object(object),
                    None => Json::String(text),
                },
                value => value,
            };
            let path = &entry.key[prefix.len()..];
            walk(path, &value, 1, &mut |path, value| self.add(path, value, carrier));
        }
    }

    pub(super) fn add(&mut self, path: &str, value: &Json, carrier: usize) {
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
            if name == "input" || name == "output" { 0 } else { named.rank + 1 },
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
            is_canonical: path == named.meaning.bucket(),
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
        meanings.iter().filter_map(|meaning| self.value(*meaning)).sum()
    }

    /// Whether what was written to a cache for an hour is not part of the other counts of written input: buckets are
    /// disjoint where the object is flat, and it has the canonical name or all buckets together are the total.
    fn is_hour_apart(&self, is_flat: bool, total: Option<Quantity>) -> bool {
        let one_hour = self.known.get(&Meaning::CacheWrite1h);
        let Some(one_hour) = one_hour.filter(|_| is_flat) else {
            return false;
        };
        let counted = self.known.iter().filter(|(meaning, count)| {
            !matches!(meaning, Meaning::Uncached | Meaning::Total) && !count.is_in_details
        });
        let all: Quantity = counted.map(|(_, count)| count.value).sum();
        one_hour.is_canonical || total == Some(all)
    }

    /// All input that was written to a cache.
    fn written(&self, is_hour_apart: bool) -> Quantity {
        if is_hour_apart {
            let written = self.sum(&[Meaning::CacheWrite]);
            let written = written.max(self.sum(&[Meaning::CacheWrite5m]));
            return written.saturating_add(self.sum(&[Meaning::CacheWrite1h]));
        }
        let by_lifetime = self.sum(&[Meaning::CacheWrite5m, Meaning::CacheWrite1h]);
        self.sum(&[Meaning::CacheWrite]).max(by_lifetime)
    }

    /// All input that was read from a cache or written to one.
    fn cached_and_written(&self) -> Quantity {
        self.sum(&[Meaning::Cached]).saturating_add(self.written(false))
    }

    /// The parts that the sides exclude, if exactly one choice gives the total: the cached and written input,
    /// and the reasoning. The choice suggested by the names is tried first.
    fn left_out_by_total(&self, suggested: (bool, bool)) -> Option<(bool, bool)> {
        let total = self.value(Meaning::Total)?;
        let (cached, reasoning) = (self.cached_and_written(), self.sum(&[Meaning::Reasoning]));
        let sides = self.sum(&[Meaning::Input, Meaning::Output]);
        let with_tools = sides.saturating_add(self.sum(&[Meaning::InputTool]));
        let is_total = |(no_cached, no_reasoning): &(bool, bool)| {
            let sum_with = |base: Quantity| {
                let left_out = [(*no_cached, cached), (*no_reasoning, reasoning)];
                let left_out = left_out.into_iter().filter(|(is_out, _)| *is_out);
                left_out.map(|(_, part)| part).sum::<Quantity>().saturating_add(base)
            };
            sum_with(sides) == total || sum_with(with_tools) == total
        };
        let answers = [suggested, (false, false), (true, false), (false, true), (true, true)];
        answers.into_iter().find(is_total)
    }

    /// Takes the written input out of the input of a flat object whose total shows that the input is without the input
    /// read from a cache, but not without what was written to one: the Langfuse callback of litellm 1.110.2.
    fn take_written_from_input(&mut self) {
        let written = self.written(false);
        let cached = self.sum(&[Meaning::Cached]);
        let all = self.sum(&[Meaning::Input, Meaning::Output, Meaning::Cached]);
        let has_canonical_name = [Meaning::CacheWrite, Meaning::CacheWrite1h]
            .iter()
            .filter_map(|meaning| self.known.get(meaning))
            .any(|count| count.is_canonical);
        if cached.is_zero() || has_canonical_name || self.value(Meaning::Total) != Some(all) {
            return;
        }
        if let Some(input) = self.known.get_mut(&Meaning::Input)
            && written <= input.value
        {
            input.value = input.value.saturating_sub(written);
        }
    }

    /// Usage in an object.
    pub(super) fn of_object(mut self, is_flat: bool) -> Reading {
        if is_flat {
            self.take_written_from_input();
        }
        let relation = |meaning: Meaning| self.known.get(&meaning).map(|count| count.relation);
        let is_providers = relation(Meaning::Input) == Some(Relation::Inside)
            || matches!(relation(Meaning::Output), Some(Relation::Inside | Relation::Additional));
        let left_out = match is_flat {
            true => (true, true),
            false => {
                let parts = [
                    Meaning::Cached,
                    Meaning::CacheWrite,
                    Meaning::CacheWrite5m,
                    Meaning::CacheWrite1h,
                ];
                let (cached, reasoning) =
                    (self.cached_and_written(), self.sum(&[Meaning::Reasoning]));
                let suggested = (
                    self.leaves_out(Meaning::Input, &parts, cached),
                    self.leaves_out(Meaning::Output, &[Meaning::Reasoning], reasoning),
                );
                self.left_out_by_total(suggested).unwrap_or(suggested)
            }
        };
        // A count of unknown meaning next to those of a provider, such as a duration, is not part of its total.
        let unknown = std::mem::take(&mut self.unknown);
        let mut reading = self.disjoint(left_out, is_flat, false);
        let counted = unknown.iter().filter(|(name, _)| !is_providers && !name.contains('.'));
        for (_, value) in counted.filter(|_| !reading.has_total) {
            let total = reading.usage.entry("total".to_owned()).or_default();
            *total = total.saturating_add(*value);
        }
        for (name, value) in unknown {
            reading.usage.entry(name).or_insert(value);
        }
        Reading { usage: reading.usage, invalid: reading.invalid }
    }

    /// Whether the count of a side excludes these parts, whose sum is `all`: decided by the names, or by the numbers if
    /// only the names of the parts imply inclusion.
    fn leaves_out(&self, side: Meaning, parts: &[Meaning], all: Quantity) -> bool {
        let own = self.known.get(&side).map(|count| count.relation);
        let parts: Vec<&Count> = parts.iter().filter_map(|part| self.known.get(part)).collect();
        match own {
            Some(Relation::Inside) => false,
            Some(Relation::Additional) => true,
            _ if parts.iter().any(|part| part.is_in_details) => false,
            _ => {
                let is_more = self.value(side).is_some_and(|side| side < all);
                is_more || parts.iter().all(|part| part.relation != Relation::Inside)
            }
        }
    }

    /// Usage in attributes. A side includes its parts by the conventions, unless the numbers contradict it, the library is known
    /// to count the cached input separately, or the total is missing and the name of the reasoning count implies that it is
    /// separate from the output.
    pub(super) fn of_attributes(mut self, is_cache_beside: bool) -> Reading {
        self.unknown.clear();
        let (cached, reasoning) = (self.cached_and_written(), self.sum(&[Meaning::Reasoning]));
        let is_more =
            |part: Quantity, side: Meaning| self.value(side).is_some_and(|side| side < part);
        let has_total = self.known.contains_key(&Meaning::Total);
        let relation = |meaning: Meaning| self.known.get(&meaning).map(|count| count.relation);
        let is_separate_by_name =
            !has_total && relation(Meaning::Reasoning) == Some(Relation::Additional);
        let must = (
            is_cache_beside || is_more(cached, Meaning::Input),
            is_separate_by_name || is_more(reasoning, Meaning::Output),
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
                    if no_cached { fits(both) && !reasoning.is_zero() } else { fits(reasoning) },
                )
            }))
        };
        let by_total = by_total().unwrap_or_default();
        let left_out = (must.0 || by_total.0, must.1 || by_total.1);
        let reading = self.disjoint(left_out, false, true);
        Reading { usage: reading.usage, invalid: reading.invalid }
    }

    /// Disjoint buckets, with a total.
    fn disjoint(mut self, left_out: (bool, bool), is_flat: bool, is_canonical: bool) -> Disjoint {
        let (no_cached, no_reasoning) = left_out;
        let total = self.known.remove(&Meaning::Total).map(|count| count.value);
        let written = self.written(self.is_hour_apart(is_flat, total));
        let cached_modalities = self.take_cached_modalities(is_flat);
        let mut usage = Usage::new();
        let mut put = |count: &Count, meaning: Meaning, value: Quantity| {
            let bucket = match is_canonical {
                true => meaning.bucket(),
                false => &count.bucket,
            };
            usage.insert(bucket.to_owned(), value);
        };
        // Parts included in the two sides, and parts counted separately.
        let (mut inside, mut separate) = ([Quantity::ZERO; 2], [Quantity::ZERO; 2]);
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
            if let Some((_, cached)) =
                cached_modalities.iter().find(|(modality, _)| modality == meaning)
            {
                value = value.saturating_sub(*cached);
            }
            put(count, *meaning, value);
            let at = usize::from(meaning.side() == Some(Side::Output));
            let sums = match is_beside && !(is_flat && count.is_in_details) {
                true => &mut separate,
                false => &mut inside,
            };
            sums[at] = sums[at].saturating_add(value);
        }
        let mut inclusive = Quantity::ZERO;
        for (at, side) in [Meaning::Input, Meaning::Output].into_iter().enumerate() {
            let of_side = (inside[at], no_cached && at == 0);
            let rest = self.rest(side, uncached.filter(|_| at == 0 && !is_flat), of_side);
            let rest = rest.or(uncached.filter(|_| at == 0));
            let all = [rest.unwrap_or_default(), inside[at], separate[at]];
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
        Disjoint { usage, has_total: total.is_some(), invalid: self.invalid }
    }

    /// The rest of a side without its included parts; `uncached` is the input without the cached one.
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

    /// Removes the modalities of the cached input, which repeat it; without [`Meaning::Cached`] they make it up. Buckets
    /// of a flat object stay, since they are disjoint. Returns what of each modality was cached, where the modality
    /// includes it.
    fn take_cached_modalities(&mut self, is_flat: bool) -> Vec<(Meaning, Quantity)> {
        let pairs = [
            (Meaning::CachedText, Meaning::InputText),
            (Meaning::CachedAudio, Meaning::InputAudio),
            (Meaning::CachedImage, Meaning::InputImage),
            (Meaning::CachedVideo, Meaning::InputVideo),
            (Meaning::CachedDocument, Meaning::InputDocument),
        ];
        let taken = pairs.into_iter().filter_map(|(cached, modality)| {
            if is_flat && !self.known.get(&cached)?.is_in_details {
                return None;
            }
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
                is_canonical: false,
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
