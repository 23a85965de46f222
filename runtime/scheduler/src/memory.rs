//! Memory of targets and items: reserved before a target is read, and returned when its result is written.
//!
//! Invariant: **no part of a batch waits while it holds memory.** A batch is split into parts with one
//! reservation each. The reservation is returned when the results of the part are written, which needs no
//! more memory.
//!
//! A project has a share of the budget. Each rule waits in its own queue, and trials and previews in another
//! one, so that a rule with slow calls leaves a part of the share to the others.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use perpend_domain::evaluation::{Execution, Target};
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::mapping::MappingPlan;
use perpend_domain::observation::Observation;
use perpend_domain::plugin::Item;
use perpend_memory::Reservation;

use crate::catalog::{Catalog, PreparedRule};
use crate::deps::{Error, Inner};
use crate::holder::Holder;
use crate::targets::Recipe;
use crate::work::{Batch, Work};

/// A part ends when its reservation reaches this size per evaluator,
const PART_BYTES: usize = 4 << 20;
/// and at the latest at this size. The items of one target are built together up to this size.
const MAX_PART_BYTES: usize = 16 << 20;
/// Overhead of a target in addition to its content.
const TARGET_BYTES: usize = 16 << 10;
/// Copies of the content while a target is read and its parts are passed on as stored.
const N_COPIES: usize = 5;
/// Copies if a mapping parses the content: a JSON value takes several times its text.
const N_COPIES_PARSED: usize = 24;
/// Copies of an item until it is answered: the call, and the message to a worker.
const N_COPIES_ITEM: usize = 2;
/// Overhead of an item in addition to its texts.
const ITEM_BYTES: usize = 4 << 10;
/// Estimate for a session or a run. The parsed conversation of a session may have 64 MiB; most have little.
const SESSION_BYTES: usize = 8 << 20;
/// Content of observations that is read at a time if only the metadata is kept.
const FILTER_BYTES: usize = 8 << 20;

type ObservationKey = (TraceId, ObservationId);

/// A part of a batch, and the bytes to reserve for it.
#[derive(Debug, Default)]
pub(crate) struct BatchPart {
    pub(crate) works: Vec<Work>,
    pub(crate) n_bytes: usize,
}

/// Executions that share one read of a target, and the bytes to reserve for them.
struct TargetUnit {
    seqs: Vec<i64>,
    n_bytes: usize,
}

/// The executions of a batch over one target, by recipe of the item; `None` if the mapping is invalid.
struct TargetUses<'b> {
    target: &'b Target,
    by_item: Vec<(Option<Recipe<'b>>, Vec<i64>)>,
}

impl<'b> TargetUses<'b> {
    fn add(&mut self, recipe: Option<Recipe<'b>>, seq: i64) {
        let is_same = |other: &Option<Recipe<'b>>| match (other, &recipe) {
            (Some(other), Some(recipe)) => other.is_same(recipe),
            (None, None) => true,
            _ => false,
        };
        match self.by_item.iter_mut().find(|(other, _)| is_same(other)) {
            Some((_, seqs)) => seqs.push(seq),
            None => self.by_item.push((recipe, vec![seq])),
        }
    }

    fn any(&self, what: fn(&MappingPlan) -> bool) -> bool {
        let mut recipes = self.by_item.iter().filter_map(|(recipe, _)| recipe.as_ref());
        recipes.any(|recipe| what(recipe.plan()))
    }

    /// One unit if the items are small enough, else one unit per item.
    fn into_units(self, content_bytes: usize) -> Vec<TargetUnit> {
        let is_parsed = !is_estimated(self.target) && self.any(MappingPlan::parses);
        let read_bytes = read_bytes(content_bytes, is_parsed);
        let of_item = ITEM_BYTES.saturating_add(N_COPIES_ITEM.saturating_mul(content_bytes));
        let further = of_item.saturating_mul(self.by_item.len().saturating_sub(1));
        let unit = |seqs: Vec<i64>, further: usize| {
            let of_calls = ITEM_BYTES * seqs.len().saturating_sub(1);
            let n_bytes = read_bytes.saturating_add(further).saturating_add(of_calls);
            TargetUnit { seqs, n_bytes }
        };
        let by_item = self.by_item.into_iter().map(|(_, seqs)| seqs);
        match further <= MAX_PART_BYTES {
            true => vec![unit(by_item.flatten().collect(), further)],
            false => by_item.map(|seqs| unit(seqs, 0)).collect(),
        }
    }
}

/// Memory of the calls of these items until they are answered.
pub(crate) fn held_by<'i>(items: impl Iterator<Item = &'i Item>) -> usize {
    items.map(|item| ITEM_BYTES + N_COPIES_ITEM * item.n_bytes()).sum()
}

/// The most memory of this number of calls whose items have so many bytes together.
pub(crate) const fn max_held(n_calls: usize, item_bytes: usize) -> usize {
    n_calls.saturating_mul(ITEM_BYTES).saturating_add(N_COPIES_ITEM.saturating_mul(item_bytes))
}

/// Memory of the calls of some works until they are answered, with shared items counted once; and per work
/// the memory that is free when all its calls are answered.
pub(crate) fn held_by_works(works: &[Vec<Arc<Item>>]) -> (usize, Vec<usize>) {
    // The works that use an item: the first one, and whether there are others.
    let mut users: HashMap<*const Item, (usize, bool)> = HashMap::new();
    for (place, items) in works.iter().enumerate() {
        for item in items {
            let (first, has_others) = users.entry(Arc::as_ptr(item)).or_insert((place, false));
            *has_others |= *first != place;
        }
    }
    let mut counted = HashSet::new();
    let (mut all, mut own) = (0, Vec::with_capacity(works.len()));
    for items in works {
        let mut of_work = ITEM_BYTES * items.len();
        let mut of_several = 0;
        for item in items {
            let which = Arc::as_ptr(item);
            if counted.insert(which) {
                let has_others = users.get(&which).is_some_and(|(_, has_others)| *has_others);
                let sum = if has_others { &mut of_several } else { &mut of_work };
                *sum += N_COPIES_ITEM * item.n_bytes();
            }
        }
        all += of_work + of_several;
        own.push(of_work);
    }
    (all, own)
}

/// Memory for reading a target with content of this size.
pub(crate) const fn read_bytes(content_bytes: usize, is_parsed: bool) -> usize {
    let n_copies = if is_parsed { N_COPIES_PARSED } else { N_COPIES };
    content_bytes.saturating_mul(n_copies).saturating_add(TARGET_BYTES)
}

impl Inner {
    /// Splits a batch into parts by the content of their targets.
    pub(crate) async fn parts_of(
        &self,
        batch: Batch,
        catalog: &Catalog,
    ) -> Result<Vec<BatchPart>, Error> {
        let enough = PART_BYTES.saturating_mul(batch.works.len()).min(MAX_PART_BYTES);
        let mut parts: Vec<BatchPart> = Vec::new();
        let mut place_of: HashMap<i64, usize> = HashMap::new();
        for unit in self.units_of(&batch, catalog).await? {
            if parts.last().is_none_or(|part| enough <= part.n_bytes) {
                parts.push(BatchPart::default());
            }
            let place = parts.len() - 1;
            if let Some(part) = parts.last_mut() {
                part.n_bytes = part.n_bytes.saturating_add(unit.n_bytes);
            }
            place_of.extend(unit.seqs.into_iter().map(|seq| (seq, place)));
        }
        for work in batch.works {
            let Work { lease, leased, mut seats, revision } = work;
            let mut by_part: BTreeMap<usize, Vec<Execution>> = BTreeMap::new();
            for each in leased {
                let place = place_of.get(&each.seq).copied().unwrap_or_default();
                by_part.entry(place).or_default().push(each);
            }
            for (place, leased) in by_part {
                let seats = seats.split(leased.len());
                if let Some(part) = parts.get_mut(place) {
                    part.works.push(Work { lease, leased, seats, revision });
                }
            }
        }
        Ok(parts)
    }

    /// The executions of a batch by target, with the memory for reading it and building its items.
    async fn units_of(&self, batch: &Batch, catalog: &Catalog) -> Result<Vec<TargetUnit>, Error> {
        let leased = || batch.works.iter().flat_map(|work| &work.leased);
        let Some(first) = leased().next() else {
            return Ok(Vec::new());
        };
        // All executions of a batch belong to one project.
        let project = &first.project;
        let mut all: Vec<TargetUses<'_>> = Vec::new();
        let mut places: HashMap<&Target, usize> = HashMap::new();
        for each in leased() {
            let made = &each.made;
            let place = *places.entry(&made.target).or_insert(all.len());
            if place == all.len() {
                all.push(TargetUses { target: &made.target, by_item: Vec::new() });
            }
            let rule = catalog.rule(project, &made.rule_id);
            let assignment = rule.and_then(|rule| rule.assignment(&made.evaluator_id, made.shadow));
            if let Some(uses) = all.get_mut(place) {
                uses.add(assignment.and_then(Recipe::of), each.seq);
            }
        }
        let telemetry = &self.deps.store.telemetry;
        let key = |uses: &TargetUses<'_>| match uses.target {
            Target::Observation(trace, id) => Some((trace.clone(), id.clone())),
            Target::Trace(_) | Target::Session(_) | Target::Run(_) => None,
        };
        let keys: Vec<ObservationKey> = all.iter().filter_map(key).collect();
        let sizes = telemetry.content_sizes(project, &keys).await?;
        let of_observations: HashMap<ObservationKey, usize> = keys.into_iter().zip(sizes).collect();
        let mut units = Vec::with_capacity(all.len());
        for uses in all {
            let content_bytes = match uses.target {
                Target::Observation(trace, id) => {
                    let found = of_observations.get(&(trace.clone(), id.clone()));
                    found.copied().unwrap_or_default()
                }
                Target::Trace(id) => {
                    let is_whole = uses.any(MappingPlan::reads_observations);
                    self.trace_bytes(project, id, is_whole).await?
                }
                Target::Session(_) | Target::Run(_) => SESSION_BYTES / N_COPIES,
            };
            units.extend(uses.into_units(content_bytes));
        }
        Ok(units)
    }

    /// Reserves memory for a trial or a preview: at once if it is free, else in turn.
    pub(crate) async fn reserve_to_show(
        &self,
        project: &ProjectId,
        n_bytes: usize,
    ) -> Reservation<Holder> {
        let holder = Holder { project: project.clone(), rule: None };
        if n_bytes == 0 {
            return self.memory.open(holder);
        }
        match self.memory.try_reserve(holder.clone(), n_bytes) {
            Ok(reservation) => reservation,
            Err(_) => self.memory.reserve(holder, n_bytes).await,
        }
    }

    /// Maximum memory for reading a target for an assignment of a rule.
    pub(crate) async fn max_read_bytes(
        &self,
        project: &ProjectId,
        target: &Target,
        rule: &PreparedRule,
    ) -> Result<usize, perpend_db::Error> {
        let mut most = 0;
        for assignment in &rule.assignments {
            let n_bytes = self.target_bytes(project, target, &assignment.plan);
            most = most.max(n_bytes.await?);
        }
        Ok(most)
    }

    /// Memory for reading one target.
    pub(crate) async fn target_bytes(
        &self,
        project: &ProjectId,
        target: &Target,
        plan: &Result<MappingPlan, String>,
    ) -> Result<usize, perpend_db::Error> {
        let reads = |what: fn(&MappingPlan) -> bool| plan.as_ref().is_ok_and(what);
        let content_bytes = match target {
            Target::Observation(trace, id) => {
                let key = [(trace.clone(), id.clone())];
                let sizes = self.deps.store.telemetry.content_sizes(project, &key);
                sizes.await?.into_iter().sum()
            }
            Target::Trace(id) => {
                let is_whole = reads(MappingPlan::reads_observations);
                self.trace_bytes(project, id, is_whole).await?
            }
            Target::Session(_) | Target::Run(_) => return Ok(SESSION_BYTES),
        };
        Ok(read_bytes(content_bytes, reads(MappingPlan::parses)))
    }

    /// Size of the content of a trace: of all its observations, or of its root alone.
    pub(crate) async fn trace_bytes(
        &self,
        project: &ProjectId,
        id: &TraceId,
        is_whole: bool,
    ) -> Result<usize, perpend_db::Error> {
        let telemetry = &self.deps.store.telemetry;
        telemetry.trace_content_size(project, id, is_whole).await
    }

    /// Observations as filters read them: with metadata if filters read it, without input and output.
    pub(crate) async fn for_filters(
        &self,
        project: &ProjectId,
        keys: &[ObservationKey],
        reads_content: bool,
    ) -> Result<Vec<Observation>, perpend_db::Error> {
        let telemetry = &self.deps.store.telemetry;
        if !reads_content {
            return telemetry.target_observations(project, keys, false).await;
        }
        let sizes = telemetry.content_sizes(project, keys).await?;
        let mut found = Vec::with_capacity(keys.len());
        let mut rest = keys;
        let mut sizes = sizes.into_iter();
        while !rest.is_empty() {
            let mut n_bytes = 0_usize;
            let fits = |size: &usize| {
                let is_first = n_bytes == 0;
                n_bytes = n_bytes.saturating_add(1).saturating_add(*size);
                is_first || n_bytes <= FILTER_BYTES
            };
            let n = sizes.clone().take_while(fits).count().clamp(1, rest.len());
            let (some, later) = rest.split_at(n);
            let read = telemetry.target_observations(project, some, true).await?;
            found.extend(read.into_iter().map(|mut own| {
                own.content.input = None;
                own.content.output = None;
                own
            }));
            sizes.by_ref().take(n).for_each(drop);
            rest = later;
        }
        Ok(found)
    }
}

/// Whether the memory of the target is estimated rather than computed from its content.
const fn is_estimated(target: &Target) -> bool {
    matches!(target, Target::Session(_) | Target::Run(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_that_evaluators_share_is_charged_once_and_to_none_of_them_alone() {
        let item = |n| Arc::new(Item { metadata: Some("x".repeat(n)), ..Item::default() });
        let (shared, alone) = (item(1_000), item(10));
        let works = [vec![Arc::clone(&shared), alone], vec![shared]];
        let (all, own) = held_by_works(&works);
        assert_eq!(all, 3 * ITEM_BYTES + N_COPIES_ITEM * 1_010);
        assert_eq!(own, [2 * ITEM_BYTES + N_COPIES_ITEM * 10, ITEM_BYTES]);
    }
}
