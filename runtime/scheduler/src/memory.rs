//! Memory of targets and items: reserved before a target is read, until its answer is written.
//!
//! Invariant: **no part of a batch waits while it holds memory.** A batch is split into parts that are read one
//! reservation each; what a part reserved is returned when its answers are written, which needs no more memory.
//!
//! A project has a share of the budget. Its rules wait in a queue each, its trials and previews in another one: a rule whose
//! calls take long leaves a part of the share to the others.

use std::collections::HashMap;

use perpend_domain::evaluation::{Execution, Target};
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::mapping::MappingPlan;
use perpend_domain::observation::Observation;
use perpend_domain::plugin::Item;
use perpend_memory::Reservation;

use crate::catalog::{Catalog, PreparedRule};
use crate::holder::Holder;
use crate::parts::{Error, Inner};
use crate::work::Work;

/// A part ends when its reservation reaches so many bytes.
const PART_BYTES: usize = 4 << 20;
/// What a target takes beside its content.
const TARGET_BYTES: usize = 16 << 10;
/// Copies of the content while a target is read and its parts are handed over as they are stored.
const N_COPIES: usize = 5;
/// The same, where a mapping parses the content: a JSON value takes several times its text.
const N_COPIES_PARSED: usize = 24;
/// Copies of an item until it is answered: the call, and on the way to a worker.
const N_COPIES_ITEM: usize = 2;
/// What an item takes beside its texts.
const ITEM_BYTES: usize = 4 << 10;
/// The conversation of a session may have 64 MiB, parsed; most have little.
const SESSION_BYTES: usize = 8 << 20;
/// Content of observations that is read at a time where only the metadata is kept.
const FILTER_BYTES: usize = 8 << 20;

type Key = (TraceId, ObservationId);

/// A part of a batch, of one rule, and the bytes to reserve for it.
pub(crate) struct Part {
    pub(crate) work: Work,
    pub(crate) n_bytes: usize,
}

/// What the calls of these items take until they are answered.
pub(crate) fn held_by<'i>(items: impl Iterator<Item = &'i Item>) -> usize {
    items.map(|item| ITEM_BYTES + N_COPIES_ITEM * item.n_bytes()).sum()
}

/// What reading a target of so much content takes.
pub(crate) const fn to_read(content_bytes: usize, is_parsed: bool) -> usize {
    let n_copies = if is_parsed { N_COPIES_PARSED } else { N_COPIES };
    content_bytes.saturating_mul(n_copies).saturating_add(TARGET_BYTES)
}

impl Inner {
    /// Splits a batch into parts, by the content of their targets.
    pub(crate) async fn parts_of(
        &self,
        mut work: Work,
        catalog: &Catalog,
    ) -> Result<Vec<Part>, Error> {
        let sizes = self.sizes_of(&work.leased, catalog).await?;
        let mut parts = Vec::new();
        let (mut n_executions, mut n_bytes) = (0, 0_usize);
        for size in sizes {
            n_executions += 1;
            n_bytes = n_bytes.saturating_add(size);
            if PART_BYTES <= n_bytes && n_executions < work.leased.len() {
                let rest = work.split_off(n_executions);
                parts.push(Part { work, n_bytes });
                work = rest;
                (n_executions, n_bytes) = (0, 0);
            }
        }
        parts.push(Part { work, n_bytes });
        Ok(parts)
    }

    /// What reading the target of each execution takes, in order.
    async fn sizes_of(&self, leased: &[Execution], catalog: &Catalog) -> Result<Vec<usize>, Error> {
        let Some(first) = leased.first() else {
            return Ok(Vec::new());
        };
        // A batch is of one project.
        let project = &first.project;
        let telemetry = &self.deps.store.telemetry;
        let key = |each: &Execution| match &each.made.target {
            Target::Observation(trace, id) => Some((trace.clone(), id.clone())),
            Target::Trace(_) | Target::Session(_) => None,
        };
        let keys: Vec<Key> = leased.iter().filter_map(key).collect();
        let sizes = telemetry.content_sizes(project, &keys).await?;
        let of_observations: HashMap<Key, usize> = keys.into_iter().zip(sizes).collect();
        let mut all = Vec::with_capacity(leased.len());
        for each in leased {
            let made = &each.made;
            let rule = catalog.rule(project, &made.rule_id);
            let assignment = rule.and_then(|rule| rule.assignment(&made.evaluator_id, made.shadow));
            let plan = assignment.and_then(|assignment| assignment.plan.as_ref().ok());
            let content_bytes = match &made.target {
                Target::Observation(trace, id) => {
                    let found = of_observations.get(&(trace.clone(), id.clone()));
                    found.copied().unwrap_or_default()
                }
                Target::Trace(id) => {
                    let is_whole = plan.is_some_and(MappingPlan::reads_observations);
                    self.trace_bytes(project, id, is_whole).await?
                }
                Target::Session(_) => SESSION_BYTES / N_COPIES,
            };
            let is_parsed = plan.is_some_and(MappingPlan::parses);
            all.push(to_read(content_bytes, is_parsed && !is_session(&made.target)));
        }
        Ok(all)
    }

    /// Reserves memory for a trial or a preview: at once where it is free, else in turn.
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

    /// The most that reading a target takes for an assignment of a rule.
    pub(crate) async fn most_bytes(
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

    /// What reading one target takes.
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
            Target::Session(_) => return Ok(SESSION_BYTES),
        };
        Ok(to_read(content_bytes, reads(MappingPlan::parses)))
    }

    /// Bytes of content of a trace: of all its observations, or of its root alone.
    pub(crate) async fn trace_bytes(
        &self,
        project: &ProjectId,
        id: &TraceId,
        is_whole: bool,
    ) -> Result<usize, perpend_db::Error> {
        let telemetry = &self.deps.store.telemetry;
        telemetry.trace_content_size(project, id, is_whole).await
    }

    /// Observations as filters see them: with their metadata where filters read it, without input and output.
    pub(crate) async fn for_filters(
        &self,
        project: &ProjectId,
        keys: &[Key],
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

const fn is_session(target: &Target) -> bool {
    matches!(target, Target::Session(_))
}
