//! Calls in progress, which are withdrawn when their rule or evaluator no longer runs.
//!
//! A call that is withdrawn before it starts ends as `cancelled`: its execution returns to the queue, and the
//! next process that claims it holds or cancels it. A call that has started continues.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perpend_domain::evaluation::Execution;
use perpend_domain::ids::{EvaluatorId, ProjectId, RuleId};
use perpend_domain::plugin::{CallOrigin, EvaluationCall};

use crate::catalog::{Catalog, pause_of};

/// A rule of a project, and one of its evaluators.
pub(crate) type StoppedEvaluator = (ProjectId, RuleId, EvaluatorId);

/// The calls in progress of this process, and the catalog by which they were last checked.
#[derive(Debug, Default)]
pub(crate) struct OpenCalls(Mutex<OpenCallsState>);

#[derive(Debug, Default)]
struct OpenCallsState {
    catalog: Arc<Catalog>,
    batches: HashMap<u64, Vec<OpenCall>>,
    n_batches: u64,
    /// Rules and evaluators that no longer run and whose executions may still wait for their next attempt.
    stopped: BTreeSet<StoppedEvaluator>,
}

#[derive(Debug)]
struct OpenCall {
    project: ProjectId,
    rule: RuleId,
    evaluator: EvaluatorId,
    shadow: Option<u32>,
    /// Whether the call is the probe of a paused rule.
    is_probe: bool,
    origin: Arc<CallOrigin>,
}

/// The calls of a batch; they count as in progress until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenBatch<'c> {
    calls: &'c OpenCalls,
    number: u64,
}

impl Drop for OpenBatch<'_> {
    fn drop(&mut self) {
        self.calls.lock().batches.remove(&self.number);
    }
}

impl OpenCall {
    fn withdraw_unless_runs(&self, catalog: &Catalog) {
        let runs = runs(catalog, (&self.project, &self.rule), &self.evaluator, self.shadow);
        let is_paused = || {
            let rule = catalog.rule(&self.project, &self.rule);
            rule.is_some_and(|rule| pause_of(rule, &self.evaluator).is_some())
        };
        if !runs || (!self.is_probe && is_paused()) {
            self.origin.withdrawal.withdraw();
        }
    }
}

/// Whether a rule is enabled and uses this evaluator, paused or not.
fn runs(
    catalog: &Catalog,
    (project, rule): (&ProjectId, &RuleId),
    evaluator: &EvaluatorId,
    shadow: Option<u32>,
) -> bool {
    let rule = catalog.rule(project, rule);
    rule.is_some_and(|rule| rule.assignment(evaluator, shadow).is_some())
}

impl OpenCalls {
    fn lock(&self) -> MutexGuard<'_, OpenCallsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the calls of a batch that was decided by this revision of the catalog. Calls that a newer
    /// catalog does not allow are withdrawn.
    pub(crate) fn begin<'a>(
        &self,
        calls: impl Iterator<Item = (&'a Execution, &'a EvaluationCall, bool)>,
        revision: i64,
    ) -> OpenBatch<'_> {
        let calls = calls.filter_map(|(execution, call, is_probe)| {
            Some(OpenCall {
                project: execution.project.clone(),
                rule: execution.made.rule_id.clone(),
                evaluator: execution.made.evaluator_id.clone(),
                shadow: execution.made.shadow,
                is_probe,
                origin: call.origin.clone()?,
            })
        });
        let calls: Vec<OpenCall> = calls.collect();
        let mut open = self.lock();
        if revision < open.catalog.revision() {
            for call in &calls {
                call.withdraw_unless_runs(&open.catalog);
            }
        }
        open.n_batches += 1;
        let number = open.n_batches;
        open.batches.insert(number, calls);
        OpenBatch { calls: self, number }
    }

    /// Withdraws the calls that a newer catalog does not allow, and records what no longer runs. Returns
    /// whether the catalog is newer.
    pub(crate) fn check(&self, catalog: &Arc<Catalog>) -> bool {
        let mut open = self.lock();
        if catalog.revision() <= open.catalog.revision() {
            return false;
        }
        for call in open.batches.values().flatten() {
            call.withdraw_unless_runs(catalog);
        }
        let before = std::mem::replace(&mut open.catalog, Arc::clone(catalog));
        let running = catalog.running();
        for (project, rule, evaluator) in before.running() {
            if !running.contains(&(project, rule, evaluator)) {
                let stopped = (project.clone(), rule.clone(), evaluator.clone());
                open.stopped.insert(stopped);
            }
        }
        open.stopped
            .retain(|(project, rule, evaluator)| !running.contains(&(project, rule, evaluator)));
        true
    }

    /// Rules and evaluators that no longer run and were not [ended](Self::end_stopped).
    pub(crate) fn stopped(&self) -> Vec<StoppedEvaluator> {
        self.lock().stopped.iter().cloned().collect()
    }

    /// Records that none of its executions waits for a next attempt.
    pub(crate) fn end_stopped(&self, stopped: &StoppedEvaluator) {
        self.lock().stopped.remove(stopped);
    }
}
