//! From a set of observations to their trace (otlp.md 3, 4.4, 4.5).
//!
//! Invariant: the result depends only on the set, never on the order in which it arrived. Every tie is
//! broken by start and id, and money is added in decimal, where addition has no order.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use serde_json::{Map, Value};

use crate::accumulated::{MAX_BUCKETS, limit_metadata};
use crate::cost::{CostSum, cost_total};
use crate::ids::ObservationId;
use crate::observation::{Content, Level, Observation, TraceFacts, Usage};
use crate::quantity::Quantity;
use crate::time::Timestamp;
use crate::trace::{ObservationNames, Trace};

/// Tags kept on one trace.
pub const MAX_TAGS: usize = 100;
/// Models, and names of prompts, kept on one trace.
pub const MAX_OBSERVATION_NAMES: usize = 100;
/// Parts of the root's metadata that the trace shows too.
const ROOT_PARTS: [&str; 3] = ["attributes", "resourceAttributes", "scope"];
/// Calls that look the same are compared pairwise only up to this many, so that a hostile trace costs
/// linear time.
const MAX_SAME_CALLS: usize = 200;

/// The trace of these observations; none for an empty set.
///
/// Works with empty `content`: then input, output and metadata hold the explicit trace facts only, and
/// [`Trace::add_root_content`] with the content of [`Trace::root`] completes them.
#[must_use]
pub fn fold(observations: &[Observation]) -> Option<Trace> {
    let set = Set::new(observations);
    let (rank, root) = set.root()?;
    let explicit = set.by_precedence(root);
    let record = observations.iter().find(|o| o.is_trace_record());
    let facts = || explicit.iter().filter_map(|observation| observation.trace.as_deref());
    let is_record = root.is_trace_record();
    let timed = || observations.iter().filter(|o| is_record || !o.is_trace_record());
    let first_start = timed().map(|o| o.start).min()?;
    let last_end = timed().map(|o| o.end.unwrap_or(o.start)).max()?;
    let duplicates = set.duplicates();
    let (usage, cost) = set.totals(&duplicates);
    let pick = |field: fn(&Observation) -> &Option<String>| {
        explicit.iter().find_map(|observation| field(observation).clone())
    };

    let mut trace = Trace {
        id: root.trace_id.clone(),
        name: facts()
            .find_map(|facts| facts.name.clone())
            .or_else(|| (!is_record).then(|| root.name.clone())),
        input: facts().find_map(|facts| facts.input.clone()),
        output: facts().find_map(|facts| facts.output.clone()),
        timestamp: match facts().find_map(|facts| facts.timestamp) {
            Some(timestamp) => timestamp,
            None if rank <= Rank::Parentless => root.start,
            None => first_start,
        },
        user_id: pick(|observation| &observation.user_id),
        session_id: pick(|observation| &observation.session_id),
        release: pick(|observation| &observation.release),
        version: record.and_then(|record| record.version.clone()).or_else(|| root.version.clone()),
        environment: facts()
            .find_map(|facts| facts.environment.clone())
            .unwrap_or_else(|| root.environment.clone()),
        public: facts().find_map(|facts| facts.public).unwrap_or(false),
        bookmarked: record.and_then(|record| record.trace.as_ref()?.bookmarked).unwrap_or(false),
        tags: union_of_tags(observations, record),
        metadata: set.trace_metadata(root),
        observation_names: observation_names(observations),
        root: Some(root.id.clone()),
        root_is_provisional: rank.is_provisional(),
        duplicates: duplicates.into_iter().map(|(id, of)| (id.clone(), of.clone())).collect(),
        usage,
        total_cost: cost.dollars,
        n_priced: u32::try_from(cost.n_priced).unwrap_or(u32::MAX),
        n_unpriced: u32::try_from(cost.n_unpriced).unwrap_or(u32::MAX),
        latency_us: last_end.micros_since(first_start),
        n_observations: u32::try_from(without_trace_record(observations).count())
            .unwrap_or(u32::MAX),
        n_by_level: count_levels(observations),
        first_start,
        last_end,
    };
    trace.add_root_content(&root.content);
    Some(trace)
}

impl Trace {
    /// Completes what [`fold`] left open when content is stored apart: input, output and the describing
    /// metadata of the root. Explicit values stay; adding the same content again changes nothing.
    pub fn add_root_content(&mut self, content: &Content) {
        if self.input.is_none() {
            self.input.clone_from(&content.input);
        }
        if self.output.is_none() {
            self.output.clone_from(&content.output);
        }
        for part in ROOT_PARTS {
            if let (false, Some(value)) =
                (self.metadata.contains_key(part), content.metadata.get(part))
            {
                self.metadata.insert(part.to_owned(), value.clone());
            }
        }
    }
}

/// The rank of a version of an observation: a later end, then more attributes.
#[must_use]
pub fn version_rank(observation: &Observation) -> (Option<Timestamp>, u32) {
    (observation.end, observation.attribute_count)
}

/// Whether `arrived` takes the place of `stored`, both versions of one observation (otlp.md 7, case 3):
/// the later end wins, then more attributes, then the later arrival. An identical repeat changes nothing.
#[must_use]
pub fn replaces(stored: &Observation, arrived: &Observation) -> bool {
    match version_rank(arrived).cmp(&version_rank(stored)) {
        Ordering::Greater => true,
        Ordering::Less => false,
        Ordering::Equal => arrived != stored,
    }
}

/// The rank of an observation as root; the lowest wins (otlp.md 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Parentless,
    AppRoot,
    AsRoot,
    ParentMissing,
    InCycle,
    /// The record of a trace is not an observation of it: it is the root only in the absence of other observations.
    Record,
}

impl Rank {
    const fn is_provisional(self) -> bool {
        matches!(self, Self::ParentMissing | Self::InCycle)
    }
}

/// The observations with an index by id.
struct Set<'a> {
    observations: &'a [Observation],
    by_id: HashMap<&'a ObservationId, &'a Observation>,
    /// Members of a cycle of parents: they stand on the top level (otlp.md 7, case 8).
    in_cycle: HashSet<&'a ObservationId>,
}

impl<'a> Set<'a> {
    fn new(observations: &'a [Observation]) -> Self {
        let mut set = Self {
            observations,
            by_id: observations.iter().map(|o| (&o.id, o)).collect(),
            in_cycle: HashSet::new(),
        };
        set.in_cycle = set.cycles();
        set
    }

    /// Walks up from each observation until it meets a path; meeting its own path closes a cycle.
    fn cycles(&self) -> HashSet<&'a ObservationId> {
        let mut found = HashSet::new();
        let mut walk_of: HashMap<&ObservationId, usize> = HashMap::new();
        for (walk, observation) in self.observations.iter().enumerate() {
            let mut at = Some(observation);
            while let Some(observation) = at {
                match walk_of.get(&observation.id) {
                    None => {
                        walk_of.insert(&observation.id, walk);
                    }
                    Some(earlier) if *earlier == walk && found.insert(&observation.id) => {}
                    Some(_) => break,
                }
                at = self.parent(observation);
            }
        }
        found
    }

    /// The parent, unless following it would lead in a circle.
    fn parent(&self, observation: &Observation) -> Option<&'a Observation> {
        if self.in_cycle.contains(&observation.id) {
            return None;
        }
        let parent_id = observation.parent_id.as_ref()?;
        self.by_id.get(parent_id).copied()
    }

    fn rank(&self, observation: &Observation) -> Rank {
        match &observation.parent_id {
            _ if observation.is_trace_record() => Rank::Record,
            None => Rank::Parentless,
            Some(parent) if *parent == observation.id => Rank::Parentless,
            Some(_) if observation.is_app_root => Rank::AppRoot,
            Some(_) if observation.as_root => Rank::AsRoot,
            Some(parent) if !self.by_id.contains_key(parent) => Rank::ParentMissing,
            Some(_) => Rank::InCycle,
        }
    }

    fn root(&self) -> Option<(Rank, &'a Observation)> {
        self.observations
            .iter()
            .map(|observation| (self.rank(observation), observation))
            .min_by_key(|(rank, observation)| (*rank, observation.start, &observation.id))
    }

    /// The order of lookups of explicit values: the record of the trace, the root, then the others, latest
    /// start first, then by id.
    fn by_precedence(&self, root: &'a Observation) -> Vec<&'a Observation> {
        let mut ordered: Vec<&Observation> = self.observations.iter().collect();
        ordered.sort_by_key(|o| {
            let is_observation = !o.is_trace_record();
            (is_observation, o.id != root.id, Reverse(o.start), &o.id)
        });
        ordered
    }

    fn trace_metadata(&self, root: &Observation) -> Map<String, Value> {
        let mut ordered: Vec<(&Observation, &TraceFacts)> = self
            .observations
            .iter()
            .filter_map(|o| Some((o, o.trace.as_deref()?)))
            .filter(|(_, facts)| !facts.metadata.is_empty())
            .collect();
        ordered.sort_by_key(|(o, _)| (o.is_trace_record(), o.id == root.id, o.start, &o.id));
        let mut merged = Map::new();
        for (_, facts) in ordered {
            merge_deep(&mut merged, &facts.metadata);
        }
        limit_metadata(&mut merged);
        merged
    }

    /// Usage and cost of the whole trace, without duplicates, with an aggregate only where nothing below
    /// it counts.
    fn totals(&self, duplicates: &[(&ObservationId, &ObservationId)]) -> (Usage, CostSum) {
        let left_out: HashSet<&ObservationId> = duplicates.iter().map(|(id, _)| *id).collect();
        let counted_below = self.above(has_numbers);
        let models_below = self.above(uses_model);
        let mut usage = Usage::new();
        let mut costs: Vec<Decimal> = Vec::new();
        let mut sum = CostSum::default();
        for observation in self.observations {
            if left_out.contains(&observation.id) {
                continue;
            }
            let own_cost = observation.effective_cost();
            let counts_aggregate = !counted_below.contains(&observation.id);
            let mut is_priced = !own_cost.is_empty();
            add_usage(&mut usage, &observation.usage);
            costs.push(cost_total(own_cost));
            if counts_aggregate && observation.usage.is_empty() {
                add_usage(&mut usage, &observation.aggregate_usage);
            }
            if counts_aggregate && own_cost.is_empty() {
                let cost = observation.effective_aggregate_cost();
                is_priced = !cost.is_empty();
                costs.push(cost_total(cost));
            }
            // An observation that only names a model wraps the calls below it, if any.
            let should_have_cost = observation.is_call()
                || (uses_model(observation) && !models_below.contains(&observation.id));
            sum.n_priced += u64::from(is_priced);
            sum.n_unpriced += u64::from(!is_priced && should_have_cost);
        }
        limit_buckets(&mut usage);
        // Amounts that differ by more than 28 digits are rounded while adding, so the order is fixed.
        costs.sort_unstable();
        let total = costs.into_iter().fold(Decimal::ZERO, Decimal::saturating_add);
        sum.dollars = total.to_f64().unwrap_or(0.0);
        (usage, sum)
    }

    /// Every observation that has one of these somewhere below it.
    fn above(&self, is_one: fn(&Observation) -> bool) -> HashSet<&'a ObservationId> {
        let mut marked = HashSet::new();
        for observation in self.observations.iter().filter(|o| is_one(o)) {
            let mut above = self.parent(observation);
            // The ancestors of a marked observation are marked.
            while let Some(ancestor) = above {
                if !marked.insert(&ancestor.id) {
                    break;
                }
                above = self.parent(ancestor);
            }
        }
        marked
    }

    /// Pairs of one call seen by two instrumentations: the one left out, and the one that stays.
    fn duplicates(&self) -> Vec<(&'a ObservationId, &'a ObservationId)> {
        let calls: Vec<&Observation> = self
            .observations
            .iter()
            .filter(|o| o.kind.is_generation_like() && !o.usage.is_empty())
            .collect();
        let n_scopes =
            calls.iter().map(|call| call.scope_name.as_str()).collect::<BTreeSet<_>>().len();
        if n_scopes < 2 {
            return Vec::new();
        }
        let mut by_response: BTreeMap<&str, Vec<&Observation>> = BTreeMap::new();
        let mut by_numbers: BTreeMap<(Quantity, Quantity, String), Vec<&Observation>> =
            BTreeMap::new();
        for call in calls {
            if let Some(response) = &call.response_id {
                by_response.entry(response).or_default().push(call);
            }
            let (total, output) = token_sums(&call.usage);
            if !total.is_zero()
                && !output.is_zero()
                && let Some(model) = &call.model
            {
                by_numbers.entry((total, output, bare_model(model))).or_default().push(call);
            }
        }
        let mut found = BTreeMap::new();
        for group in by_response.into_values() {
            self.mark_same(group, &mut found, |_, _| true);
        }
        for group in by_numbers.into_values() {
            self.mark_same(group, &mut found, |a, b| {
                (a.response_id.is_none() || b.response_id.is_none()) && self.overlap(a, b)
            });
        }
        found.into_iter().collect()
    }

    fn mark_same(
        &self,
        mut group: Vec<&'a Observation>,
        found: &mut BTreeMap<&'a ObservationId, &'a ObservationId>,
        is_same: impl Fn(&Observation, &Observation) -> bool,
    ) {
        group.sort_by_key(|o| (!o.has_content, o.start, &o.id));
        group.truncate(MAX_SAME_CALLS);
        let mut kept: Vec<&Observation> = Vec::new();
        for call in group {
            if found.contains_key(&call.id) {
                continue;
            }
            let original = kept
                .iter()
                .find(|other| other.scope_name != call.scope_name && is_same(other, call));
            match original {
                Some(original) => {
                    found.insert(&call.id, &original.id);
                }
                None => kept.push(call),
            }
        }
    }

    /// One is the ancestor of the other, or they are siblings and one's time lies within the other's.
    fn overlap(&self, a: &Observation, b: &Observation) -> bool {
        let within = |inner: &Observation, outer: &Observation| {
            outer.start <= inner.start
                && inner.end.unwrap_or(inner.start) <= outer.end.unwrap_or(outer.start)
        };
        let are_siblings = a.parent_id.is_some() && a.parent_id == b.parent_id;
        (are_siblings && (within(a, b) || within(b, a)))
            || self.is_ancestor(a, b)
            || self.is_ancestor(b, a)
    }

    fn is_ancestor(&self, ancestor: &Observation, of: &Observation) -> bool {
        let mut seen = HashSet::new();
        let mut above = self.parent(of);
        while let Some(observation) = above {
            if observation.id == ancestor.id {
                return true;
            }
            if !seen.insert(&observation.id) || seen.len() > MAX_SAME_CALLS {
                return false;
            }
            above = self.parent(observation);
        }
        false
    }
}

fn has_numbers(observation: &Observation) -> bool {
    !observation.usage.is_empty()
        || !observation.effective_cost().is_empty()
        || !observation.aggregate_usage.is_empty()
        || !observation.effective_aggregate_cost().is_empty()
}

fn uses_model(observation: &Observation) -> bool {
    observation.is_call() || observation.model.is_some() || has_numbers(observation)
}

fn add_usage(sum: &mut Usage, part: &Usage) {
    for (bucket, tokens) in part {
        match sum.get_mut(bucket) {
            Some(value) => *value = value.saturating_add(*tokens),
            None => {
                sum.insert(bucket.clone(), *tokens);
            }
        }
    }
}

/// Keeps the first buckets by name, and those that every usage has.
fn limit_buckets(usage: &mut Usage) {
    let mut n_left = MAX_BUCKETS;
    if n_left < usage.len() {
        usage.retain(|bucket, _| {
            let is_kept = 0 < n_left || matches!(bucket.as_str(), "input" | "output" | "total");
            n_left = n_left.saturating_sub(1);
            is_kept
        });
    }
}

/// Total tokens, and the sum of the output buckets.
fn token_sums(usage: &Usage) -> (Quantity, Quantity) {
    let output = usage
        .iter()
        .filter(|(bucket, _)| bucket.starts_with("output"))
        .map(|(_, tokens)| *tokens)
        .sum();
    (usage.get("total").copied().unwrap_or_default(), output)
}

/// A model's name without provider prefix and date suffix, lower-case.
fn bare_model(model: &str) -> String {
    let name = model.rsplit('/').next().unwrap_or(model);
    crate::pricing::strip_date(name).to_ascii_lowercase()
}

/// The observations without the record of the trace.
fn without_trace_record(observations: &[Observation]) -> impl Iterator<Item = &Observation> {
    let is_observation = |observation: &&Observation| !observation.is_trace_record();
    observations.iter().filter(is_observation)
}

/// Without those that a person removed.
fn union_of_tags(observations: &[Observation], record: Option<&Observation>) -> Vec<String> {
    let mut tags: BTreeSet<&String> = observations.iter().flat_map(|o| &o.tags).collect();
    let facts = record.and_then(|record| record.trace.as_deref());
    for removed in facts.iter().flat_map(|facts| &facts.removed_tags) {
        tags.remove(removed);
    }
    tags.into_iter().take(MAX_TAGS).cloned().collect()
}

fn observation_names(observations: &[Observation]) -> ObservationNames {
    fn named<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
        let names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
        let kept = names.into_iter().take(MAX_OBSERVATION_NAMES);
        kept.map(str::to_owned).collect()
    }
    ObservationNames {
        kinds: named(without_trace_record(observations).map(|o| o.kind.as_str())),
        models: named(without_trace_record(observations).filter_map(|o| o.model.as_deref())),
        prompts: named(
            without_trace_record(observations)
                .filter_map(|o| o.prompt.as_ref())
                .map(|prompt| prompt.name.as_str()),
        ),
    }
}

fn count_levels(observations: &[Observation]) -> [u32; 4] {
    let mut counts = [0_u32; 4];
    for observation in without_trace_record(observations) {
        let slot = match observation.level {
            Level::Debug => &mut counts[0],
            Level::Default => &mut counts[1],
            Level::Warning => &mut counts[2],
            Level::Error => &mut counts[3],
        };
        *slot = slot.saturating_add(1);
    }
    counts
}

pub(crate) fn merge_deep(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Object(inner)), Value::Object(more)) => merge_deep(inner, more),
            (Some(slot), _) => *slot = value.clone(),
            (None, _) => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;
