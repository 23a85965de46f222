//! Targets of a part of a batch. Each target is read once and each of its items is built once for all evaluators
//! of the rule.

use std::collections::HashMap;
use std::sync::Arc;

use perpend_domain::evaluation::{Execution, Target};
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::mapping::MappingPlan;
use perpend_domain::observation::Observation;
use perpend_domain::plugin::{Item, ItemParts};

use crate::call::{LoadResult, Loaded, NoCall};
use crate::catalog::PreparedAssignment;
use crate::deps::{Error, Inner};
use crate::work::Work;

/// The inputs from which an item is built. Assignments of one rule with the same recipe share the items of targets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe<'c> {
    plan: &'c MappingPlan,
    needs: ItemParts,
}

impl<'c> Recipe<'c> {
    /// `None` if the mapping cannot be used.
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

/// The parts of a trace or a session that a mapping reads in addition to the row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct TargetReads {
    observations: bool,
    conversation: bool,
    session_metadata: bool,
}

impl TargetReads {
    fn of(target: &Target, assignment: &PreparedAssignment) -> Self {
        let plan = assignment.plan.as_ref();
        match (target, plan) {
            (Target::Observation(..) | Target::Run(_), _) | (_, Err(_)) => Self::default(),
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

/// An item as it was built for a recipe, or the reason for not calling the evaluator.
#[derive(Debug)]
struct BuiltItem<'c> {
    recipe: Recipe<'c>,
    item: Result<Arc<Item>, NoCall>,
}

/// Cache of the targets that were read and of the items that were built from them.
#[derive(Debug, Default)]
pub(crate) struct Targets<'c> {
    /// Observations that were read in one statement and are not used yet.
    observations: HashMap<(TraceId, ObservationId), Observation>,
    loaded: HashMap<(Target, TargetReads), Arc<LoadResult>>,
    items: HashMap<Target, Vec<BuiltItem<'c>>>,
}

impl<'c> Targets<'c> {
    /// The item of a target; it is built if no earlier evaluator used the same recipe.
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
        let built_items = self.items.entry(target.clone()).or_default();
        if let Some(built) = built_items.iter().find(|built| built.recipe.is_same(&recipe)) {
            return built.item.clone();
        }
        let item = build();
        built_items.push(BuiltItem { recipe, item: item.clone() });
        item
    }
}

impl Inner {
    /// Reads the observations that are targets in one statement. Traces and sessions are read one at a time by
    /// [`Inner::loaded`].
    pub(crate) async fn read_targets<'c>(&self, works: &[Work]) -> Result<Targets<'c>, Error> {
        let leased = || works.iter().flat_map(|work| &work.leased);
        let Some(first) = leased().next() else {
            return Ok(Targets::default());
        };
        let key = |each: &Execution| match &each.made.target {
            Target::Observation(trace, id) => Some((trace.clone(), id.clone())),
            Target::Trace(_) | Target::Session(_) | Target::Run(_) => None,
        };
        let mut keys: Vec<_> = leased().filter_map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        if keys.is_empty() {
            return Ok(Targets::default());
        }
        // All executions of a batch belong to one project.
        let telemetry = &self.deps.store.telemetry;
        let mut found = telemetry.target_observations(&first.project, &keys, true).await?;
        self.attach_items(&first.project, found.iter_mut().collect()).await?;
        let found = found.into_iter().map(|own| ((own.trace_id.clone(), own.id.clone()), own));
        Ok(Targets { observations: found.collect(), ..Targets::default() })
    }

    /// The target of an execution with the parts that the mapping reads.
    pub(crate) async fn loaded(
        &self,
        targets: &mut Targets<'_>,
        execution: &Execution,
        assignment: &PreparedAssignment,
    ) -> Result<Arc<LoadResult>, Error> {
        let target = &execution.made.target;
        let key = (target.clone(), TargetReads::of(target, assignment));
        if let Some(load) = targets.loaded.get(&key) {
            return Ok(Arc::clone(load));
        }
        let load: LoadResult = match target {
            Target::Observation(trace, id) => {
                let own = targets.observations.remove(&(trace.clone(), id.clone()));
                own.map(Loaded::of_observation).into()
            }
            Target::Trace(_) | Target::Session(_) | Target::Run(_) => {
                self.load_target(&execution.project, target, &assignment.plan).await?
            }
        };
        let load = Arc::new(load);
        targets.loaded.insert(key, Arc::clone(&load));
        Ok(load)
    }
}
