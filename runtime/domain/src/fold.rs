//! From a set of observations to their trace (otlp.md 3, 4.4, 4.5).
//!
//! Invariant: the result depends only on the set, never on the order in which it arrived. Every tie is
//! broken by start and id, and money is added in decimal, where addition has no order.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use serde_json::{Map, Value};

use crate::ids::ObservationId;
use crate::observation::{Content, Cost, Level, Observation, TraceFacts, Usage};
use crate::time::Timestamp;
use crate::trace::Trace;

/// Tags kept on one trace.
pub const MAX_TAGS: usize = 100;
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
    let facts = || {
        explicit
            .iter()
            .filter_map(|observation| observation.trace.as_deref())
    };
    let is_record = root.is_trace_record();
    let timed = || {
        observations
            .iter()
            .filter(|o| is_record || !o.is_trace_record())
    };
    let first_start = timed().map(|o| o.start).min()?;
    let last_end = timed().map(|o| o.end.unwrap_or(o.start)).max()?;
    let duplicates = set.duplicates();
    let (usage, total_cost) = set.totals(&duplicates);
    let pick = |field: fn(&Observation) -> &Option<String>| {
        explicit
            .iter()
            .find_map(|observation| field(observation).clone())
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
        version: record
            .and_then(|record| record.version.clone())
            .or_else(|| root.version.clone()),
        environment: facts()
            .find_map(|facts| facts.environment.clone())
            .unwrap_or_else(|| root.environment.clone()),
        public: facts().find_map(|facts| facts.public).unwrap_or(false),
        bookmarked: record
            .and_then(|record| record.trace.as_ref()?.bookmarked)
            .unwrap_or(false),
        tags: union_of_tags(observations, record),
        metadata: set.trace_metadata(root),
        root: Some(root.id.clone()),
        root_is_provisional: rank.is_provisional(),
        duplicates: duplicates
            .into_iter()
            .map(|(id, of)| (id.clone(), of.clone()))
            .collect(),
        usage,
        total_cost,
        latency_us: last_end.micros_since(first_start),
        n_observations: u32::try_from(steps(observations).count()).unwrap_or(u32::MAX),
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

/// What decides between two versions of one observation, ascending: a later end, then more attributes.
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

/// How well an observation serves as the root; lower wins (otlp.md 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Parentless,
    AppRoot,
    AsRoot,
    ParentMissing,
    InCycle,
    /// What a trace is told to be is no step of it: it stands in only where there is none.
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

    /// Where explicit values are looked up: the record of the trace, the root, then the others, latest
    /// start first, then by id.
    fn by_precedence(&self, root: &'a Observation) -> Vec<&'a Observation> {
        let mut ordered: Vec<&Observation> = self.observations.iter().collect();
        ordered.sort_by_key(|o| {
            let is_step = !o.is_trace_record();
            (is_step, o.id != root.id, Reverse(o.start), &o.id)
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
        merged
    }

    /// Usage and cost of the whole trace, without duplicates, with an aggregate only where nothing below
    /// it counts.
    fn totals(&self, duplicates: &[(&ObservationId, &ObservationId)]) -> (Usage, f64) {
        let left_out: HashSet<&ObservationId> = duplicates.iter().map(|(id, _)| *id).collect();
        let counted_below = self.with_usage_below();
        let mut usage = Usage::new();
        let mut costs: Vec<Decimal> = Vec::new();
        for observation in self.observations {
            if left_out.contains(&observation.id) {
                continue;
            }
            let own_cost = observation.effective_cost();
            let counts_aggregate = !counted_below.contains(&observation.id);
            add_usage(&mut usage, &observation.usage);
            costs.push(cost_total(own_cost));
            if counts_aggregate && observation.usage.is_empty() {
                add_usage(&mut usage, &observation.aggregate_usage);
            }
            if counts_aggregate && own_cost.is_empty() {
                costs.push(cost_total(observation.effective_aggregate_cost()));
            }
        }
        // Amounts that differ by more than 28 digits are rounded while adding, so the order is fixed.
        costs.sort_unstable();
        let total = costs
            .into_iter()
            .fold(Decimal::ZERO, Decimal::saturating_add);
        (usage, total.to_f64().unwrap_or(0.0))
    }

    /// Every observation that has usage or cost of any kind somewhere below it.
    fn with_usage_below(&self) -> HashSet<&'a ObservationId> {
        let mut marked = HashSet::new();
        for observation in self.observations.iter().filter(|o| has_numbers(o)) {
            let mut above = self.parent(observation);
            // A marked ancestor has marked all of its own ancestors.
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
        let n_scopes = calls
            .iter()
            .map(|call| call.scope_name.as_str())
            .collect::<BTreeSet<_>>()
            .len();
        if n_scopes < 2 {
            return Vec::new();
        }
        let mut by_response: BTreeMap<&str, Vec<&Observation>> = BTreeMap::new();
        let mut by_numbers: BTreeMap<(u64, u64, String), Vec<&Observation>> = BTreeMap::new();
        for call in calls {
            if let Some(response) = &call.response_id {
                by_response.entry(response).or_default().push(call);
            }
            let (total, output) = token_sums(&call.usage);
            if total > 0
                && output > 0
                && let Some(model) = &call.model
            {
                by_numbers
                    .entry((total, output, bare_model(model)))
                    .or_default()
                    .push(call);
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

/// The total of a cost map: as given, else the sum of its buckets.
#[must_use]
pub fn cost_total(cost: &Cost) -> Decimal {
    let decimal = |value: &f64| Decimal::try_from(*value).unwrap_or_default();
    match cost.get("total") {
        Some(total) => decimal(total),
        None => cost
            .values()
            .map(decimal)
            .fold(Decimal::ZERO, Decimal::saturating_add),
    }
}

/// Total tokens, and the sum of the output buckets.
fn token_sums(usage: &Usage) -> (u64, u64) {
    let output = usage
        .iter()
        .filter(|(bucket, _)| bucket.starts_with("output"))
        .fold(0_u64, |sum, (_, tokens)| sum.saturating_add(*tokens));
    (usage.get("total").copied().unwrap_or(0), output)
}

/// A model's name without provider prefix and date suffix, lower-case.
fn bare_model(model: &str) -> String {
    let name = model.rsplit('/').next().unwrap_or(model);
    crate::pricing::without_date(name).to_ascii_lowercase()
}

/// Without the record of the trace, which is no step of it.
fn steps(observations: &[Observation]) -> impl Iterator<Item = &Observation> {
    let is_step = |observation: &&Observation| !observation.is_trace_record();
    observations.iter().filter(is_step)
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

fn count_levels(observations: &[Observation]) -> [u32; 4] {
    let mut counts = [0_u32; 4];
    for observation in steps(observations) {
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
mod tests {
    use super::*;
    use crate::ids::TraceId;
    use crate::observation::{Observation, ObservationKind};
    use crate::patch::{About, Patch, merge};
    use crate::payload::Payload;
    use serde_json::json;

    /// An observation with nothing but ids and times; the rest comes from `change`.
    fn observation(
        id: &str,
        parent: Option<&str>,
        start: i64,
        change: impl FnOnce(&mut Observation),
    ) -> Observation {
        let mut observation = Observation {
            trace_id: TraceId::new("t").unwrap(),
            id: ObservationId::new(id).unwrap(),
            parent_id: parent.map(|parent| ObservationId::new(parent).unwrap()),
            kind: ObservationKind::Span,
            name: id.to_owned(),
            start: Timestamp::from_micros(start),
            end: Some(Timestamp::from_micros(start + 10)),
            completion_start: None,
            level: Level::Default,
            status_message: None,
            environment: "default".to_owned(),
            release: None,
            version: None,
            user_id: None,
            session_id: None,
            tags: Vec::new(),
            model: None,
            provider: None,
            model_parameters: Map::new(),
            prompt: None,
            usage: Usage::new(),
            cost: Cost::new(),
            computed_cost: Cost::new(),
            price_id: None,
            aggregate_usage: Usage::new(),
            aggregate_cost: Cost::new(),
            aggregate_model: None,
            aggregate_computed_cost: Cost::new(),
            response_id: None,
            scope_name: "app".to_owned(),
            is_app_root: false,
            as_root: false,
            called_tools: Vec::new(),
            trace: None,
            is_complete_marker: false,
            is_in_parts: false,
            experiment: None,
            attribute_count: 0,
            has_content: false,
            content: Content::default(),
        };
        change(&mut observation);
        observation
    }

    fn usage(total: u64) -> Usage {
        [("input", total - 10), ("output", 10), ("total", total)]
            .into_iter()
            .map(|(key, n)| (key.to_owned(), n))
            .collect()
    }

    /// A model call with these tokens.
    fn call(id: &str, parent: Option<&str>, scope: &str, total: u64) -> Observation {
        observation(id, parent, 1, |o| {
            o.kind = ObservationKind::Generation;
            o.scope_name = scope.to_owned();
            o.usage = usage(total);
            o.model = Some("openai/gpt-4o-2024-08-06".to_owned());
        })
    }

    /// The fold, which must not depend on the order.
    fn folded(mut set: Vec<Observation>) -> Trace {
        let trace = fold(&set).unwrap();
        set.reverse();
        assert_eq!(Some(&trace), fold(&set).as_ref());
        trace
    }

    #[test]
    fn the_record_of_a_trace_holds_for_what_it_says_and_the_root_for_the_rest() {
        let root = observation("a", None, 100, |o| {
            o.name = "root".to_owned();
            o.environment = "prod".to_owned();
            o.version = Some("7".to_owned());
            o.content.output = Some(Payload::Text("root's".to_owned()));
        });
        let about = || About::Trace(root.trace_id.clone());
        let mut patch = Patch::new(
            "e".to_owned(),
            Timestamp::from_millis(900_000),
            false,
            about(),
        );
        patch.user_id = Some("ann".to_owned());
        patch.input = Some(Payload::Text("told".to_owned()));
        let alone = fold(std::slice::from_ref(&root)).unwrap();
        let record = merge([&patch]).unwrap();
        let trace = fold(&[record.clone(), root.clone()]).unwrap();
        let mut expected = alone;
        expected.user_id = Some("ann".to_owned());
        expected.input = Some(Payload::Text("told".to_owned()));
        assert_eq!(trace, expected);

        patch.name = Some("told".to_owned());
        patch.start = Some(Timestamp::from_micros(1));
        patch.environment = Some("default".to_owned());
        patch.version = Some("8".to_owned());
        let said = merge([&patch]).unwrap();
        let trace = fold(&[root, said]).unwrap();
        assert_eq!(trace.name.as_deref(), Some("told"));
        assert_eq!(trace.timestamp, Timestamp::from_micros(1));
        assert_eq!(trace.environment, "default");
        assert_eq!(trace.version.as_deref(), Some("8"));

        let lonely = fold(&[record]).unwrap();
        assert_eq!((lonely.name, lonely.n_observations), (None, 0));
        assert_eq!(lonely.timestamp, Timestamp::from_millis(900_000));
    }

    #[test]
    fn the_root_is_the_best_ranked_and_provisional_without_its_parent() {
        let orphan = observation("a", Some("gone"), 1, |_| {});
        let as_root = observation("b", Some("gone"), 9, |o| o.as_root = true);
        let app_root = observation("c", Some("a"), 10, |o| o.is_app_root = true);
        let parentless = observation("d", None, 20, |_| {});
        let root = |set: &[&Observation]| {
            let trace = folded(set.iter().map(|o| (*o).clone()).collect());
            (
                trace.root.unwrap().to_string(),
                trace.root_is_provisional,
                trace.timestamp.as_micros(),
            )
        };
        assert_eq!(root(&[&orphan]), ("a".to_owned(), true, 1));
        assert_eq!(root(&[&orphan, &as_root]), ("b".to_owned(), false, 1));
        assert_eq!(
            root(&[&orphan, &as_root, &app_root]),
            ("c".to_owned(), false, 1)
        );
        assert_eq!(
            root(&[&orphan, &as_root, &app_root, &parentless]),
            ("d".to_owned(), false, 20)
        );
        assert_eq!(fold(&[]), None);
    }

    #[test]
    fn a_cycle_has_a_root_too() {
        let set = vec![
            observation("a", Some("b"), 2, |_| {}),
            observation("b", Some("a"), 1, |_| {}),
        ];
        let trace = folded(set);
        assert_eq!(
            (trace.root.unwrap().as_str(), trace.root_is_provisional),
            ("b", true)
        );
    }

    #[test]
    fn explicit_values_come_from_the_root_and_then_from_the_latest() {
        let set = vec![
            observation("root", None, 0, |o| o.version = Some("v".to_owned())),
            observation("old", Some("root"), 1, |o| {
                o.user_id = Some("old".to_owned());
                o.tags = vec!["b".to_owned()];
                o.trace = Some(Box::new(TraceFacts {
                    public: Some(true),
                    metadata: json!({ "a": { "x": 1, "y": 1 }, "k": "old" })
                        .as_object()
                        .unwrap()
                        .clone(),
                    ..TraceFacts::default()
                }));
            }),
            observation("new", Some("root"), 2, |o| {
                o.user_id = Some("new".to_owned());
                o.tags = vec!["a".to_owned(), "b".to_owned()];
                o.trace = Some(Box::new(TraceFacts {
                    name: Some("named".to_owned()),
                    metadata: json!({ "a": { "y": 2 } }).as_object().unwrap().clone(),
                    ..TraceFacts::default()
                }));
            }),
        ];
        let trace = folded(set);
        assert_eq!(trace.user_id.as_deref(), Some("new"));
        assert_eq!(trace.name.as_deref(), Some("named"));
        assert_eq!(trace.tags, ["a", "b"]);
        assert!(trace.public);
        assert_eq!(
            Value::Object(trace.metadata),
            json!({ "a": { "x": 1, "y": 2 }, "k": "old" })
        );
        assert_eq!(
            (trace.latency_us, trace.n_observations, trace.n_by_level),
            (12, 3, [0, 3, 0, 0])
        );
    }

    #[test]
    fn root_content_can_be_added_later_and_twice() {
        let content = Content {
            input: Some(crate::payload::Payload::Text("in".to_owned())),
            metadata: json!({ "own": 1, "scope": { "name": "s" } })
                .as_object()
                .unwrap()
                .clone(),
            ..Content::default()
        };
        let whole = fold(&[observation("a", None, 0, |o| o.content = content.clone())]).unwrap();
        let mut late = fold(&[observation("a", None, 0, |_| {})]).unwrap();
        late.add_root_content(&content);
        late.add_root_content(&content);
        assert_eq!(late, whole);
        assert!(!whole.metadata.contains_key("own"));
    }

    #[test]
    fn an_aggregate_counts_only_where_nothing_below_does() {
        let agent = observation("agent", None, 0, |o| o.aggregate_usage = usage(300));
        let step = observation("step", Some("agent"), 0, |o| o.aggregate_usage = usage(200));
        let plain = observation("plain", Some("step"), 0, |_| {});
        let total = |set: Vec<Observation>| folded(set).usage.get("total").copied();
        assert_eq!(total(vec![agent.clone(), plain.clone()]), Some(300));
        assert_eq!(total(vec![agent.clone(), step.clone()]), Some(200));
        let model = call("call", Some("plain"), "lib", 100);
        assert_eq!(total(vec![agent, step, plain, model]), Some(100));
    }

    #[test]
    fn tokens_and_money_of_an_aggregate_count_each_on_their_own() {
        let agent = observation("agent", None, 0, |o| {
            o.aggregate_usage = usage(300);
            o.cost.insert("total".to_owned(), 0.5);
        });
        let trace = folded(vec![agent]);
        assert_eq!((trace.usage["total"], trace.total_cost), (300, 0.5));
    }

    #[test]
    fn an_aggregate_in_a_cycle_counts_the_same_in_any_order() {
        let part = |id: &str, parent: &str| {
            observation(id, Some(parent), 0, |o| o.aggregate_usage = usage(50))
        };
        let set = [
            part("a", "b"),
            part("b", "a"),
            part("c", "b"),
            part("d", "d"),
        ];
        for first in 0..set.len() {
            let mut turned = set.to_vec();
            turned.rotate_left(first);
            assert_eq!(folded(turned).usage["total"], 150);
        }
    }

    #[test]
    fn one_call_seen_by_two_libraries_counts_once() {
        let outer = call("outer", None, "one", 100);
        let mut inner = call("inner", Some("outer"), "two", 100);
        inner.model = Some("gpt-4o".to_owned());
        inner.has_content = true;
        let trace = folded(vec![outer.clone(), inner.clone()]);
        assert_eq!(trace.usage["total"], 100);
        assert_eq!(trace.duplicates, [(outer.id.clone(), inner.id.clone())]);

        let mut same_library = inner.clone();
        same_library.scope_name = "one".to_owned();
        assert_eq!(
            folded(vec![outer.clone(), same_library]).usage["total"],
            200
        );

        let with_response = |o: &Observation, id: &str| {
            let mut o = o.clone();
            o.response_id = Some(id.to_owned());
            o
        };
        let differing = vec![with_response(&outer, "1"), with_response(&inner, "2")];
        assert_eq!(folded(differing).usage["total"], 200);
        let mut elsewhere = with_response(&inner, "1");
        elsewhere.usage = usage(40);
        elsewhere.parent_id = None;
        assert_eq!(
            folded(vec![with_response(&outer, "1"), elsewhere]).usage["total"],
            40
        );
    }

    #[test]
    fn money_is_added_in_decimal() {
        let priced = |id: &str, total: f64| {
            observation(id, None, 0, |o| {
                o.cost.insert("total".to_owned(), total);
            })
        };
        let trace = folded(vec![priced("a", 0.1), priced("b", 0.2), priced("c", 0.3)]);
        assert_eq!(trace.total_cost, 0.6);
    }

    #[test]
    fn of_two_versions_the_later_end_then_the_richer_one_stays() {
        let stored = observation("a", None, 0, |o| o.attribute_count = 2);
        let longer = observation("a", None, 1, |_| {});
        let poorer = observation("a", None, 0, |o| o.attribute_count = 1);
        let other = observation("a", None, 0, |o| {
            o.attribute_count = 2;
            o.name = "other".to_owned();
        });
        assert!(!replaces(&stored, &stored));
        assert!(replaces(&stored, &longer) && !replaces(&longer, &stored));
        assert!(!replaces(&stored, &poorer) && replaces(&poorer, &stored));
        assert!(replaces(&stored, &other));
    }
}
