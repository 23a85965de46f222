//! Targets of a part of a batch: each is read once, and each of its items built once, for all evaluators of the rule.

use std::collections::HashMap;
use std::sync::Arc;

use perpend_domain::evaluation::{Execution, Target};
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::mapping::MappingPlan;
use perpend_domain::observation::Observation;
use perpend_domain::plugin::{Item, ItemParts};

use crate::call::{Load, Loaded, NoCall};
use crate::catalog::PreparedAssignment;
use crate::parts::{Error, Inner};
use crate::work::Work;

/// What an item is built by. Assignments of one rule for which it is the same share the items of targets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe<'c> {
    plan: &'c MappingPlan,
    needs: ItemParts,
}

impl<'c> Recipe<'c> {
    /// None where the mapping cannot be used.
    pub(crate) fn of(assignment: &'c PreparedAssignment) -> Option<Self> {
        let plan = assignment.plan.as_ref().ok()?;
        Some(Self { plan, needs: assignment.evaluator.needs })
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.needs == other.needs && self.plan.is_same(other.plan)
    }

    pub(crate) const fn plan(&self) -> &'c MappingPlan {
        self.plan
    }
}

/// What a mapping reads of a trace or a session beside the row itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Reads {
    observations: bool,
    conversation: bool,
    session_metadata: bool,
}

impl Reads {
    fn of(target: &Target, assignment: &PreparedAssignment) -> Self {
        let plan = assignment.plan.as_ref();
        match (target, plan) {
            (Target::Observation(..), _) | (_, Err(_)) => Self::default(),
            (Target::Trace(_), Ok(plan)) => {
                Self { observations: plan.reads_observations(), ..Self::default() }
            }
            (Target::Session(_), Ok(plan)) => Self {
                conversation: plan.reads_conversation(),
                session_metadata: plan.reads_session_metadata(),
                ..Self::default()
            },
        }
    }
}

/// What was read of targets, and the items that were built of them.
#[derive(Debug, Default)]
pub(crate) struct Targets<'c> {
    /// Read together, and not used yet.
    observations: HashMap<(TraceId, ObservationId), Observation>,
    loaded: HashMap<(Target, Reads), Arc<Load>>,
    items: HashMap<Target, Vec<(Recipe<'c>, Result<Arc<Item>, NoCall>)>>,
}

impl<'c> Targets<'c> {
    /// The item of a target, built where no evaluator before needed the same.
    pub(crate) fn item(
        &mut self,
        target: &Target,
        assignment: &'c PreparedAssignment,
        build: impl FnOnce() -> Result<Item, NoCall>,
    ) -> Result<Arc<Item>, NoCall> {
        let build = || build().map(Arc::new);
        let Some(recipe) = Recipe::of(assignment) else {
            return build();
        };
        let known = self.items.entry(target.clone()).or_default();
        if let Some((_, item)) = known.iter().find(|(other, _)| other.is_same(&recipe)) {
            return item.clone();
        }
        let item = build();
        known.push((recipe, item.clone()));
        item
    }
}

impl Inner {
    /// Reads the observations that are targets; traces and sessions are read when their turn comes.
    pub(crate) async fn read_targets<'c>(&self, works: &[Work]) -> Result<Targets<'c>, Error> {
        let leased = || works.iter().flat_map(|work| &work.leased);
        let Some(first) = leased().next() else {
            return Ok(Targets::default());
        };
        let key = |each: &Execution| match &each.made.target {
            Target::Observation(trace, id) => Some((trace.clone(), id.clone())),
            Target::Trace(_) | Target::Session(_) => None,
        };
        let mut keys: Vec<_> = leased().filter_map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        if keys.is_empty() {
            return Ok(Targets::default());
        }
        // A batch is of one project.
        let telemetry = &self.deps.store.telemetry;
        let found = telemetry.target_observations(&first.project, &keys, true).await?;
        let found = found.into_iter().map(|own| ((own.trace_id.clone(), own.id.clone()), own));
        Ok(Targets { observations: found.collect(), ..Targets::default() })
    }

    /// The target of an execution with what the mapping reads of it.
    pub(crate) async fn loaded(
        &self,
        targets: &mut Targets<'_>,
        execution: &Execution,
        assignment: &PreparedAssignment,
    ) -> Result<Arc<Load>, Error> {
        let target = &execution.made.target;
        let key = (target.clone(), Reads::of(target, assignment));
        if let Some(known) = targets.loaded.get(&key) {
            return Ok(Arc::clone(known));
        }
        let load: Load = match target {
            Target::Observation(trace, id) => {
                let own = targets.observations.remove(&(trace.clone(), id.clone()));
                own.map(Loaded::of_observation).into()
            }
            Target::Trace(_) | Target::Session(_) => {
                self.load_target(&execution.project, target, &assignment.plan).await?
            }
        };
        let load = Arc::new(load);
        targets.loaded.insert(key, Arc::clone(&load));
        Ok(load)
    }
}
