//! Effects of failures beyond their own execution: failures as the server recorded them, and pauses.

use std::collections::BTreeSet;
use std::sync::{MutexGuard, PoisonError};

use perpend_catalog::PauseOutcome;
use perpend_domain::budget::{BudgetScope, OnReached};
use perpend_domain::evaluation::{EndReason, Pause};
use perpend_domain::ids::{ProjectId, RuleId};
use perpend_domain::plugin::{CallOrigin, Failure, FailureClass};
use perpend_domain::slots::{ModelFailure, pause_reason};
use perpend_domain::time::Timestamp;
use perpend_executions::{EndReport, ExecutionEnd, Outcome};

use crate::breaker::broken;
use crate::deps::{Error, Inner};
use crate::recent_outcomes::RecentOutcomes;
use crate::retry;

impl Inner {
    /// Pauses evaluators and rules of the catalog of this revision: an evaluator whose configuration is
    /// invalid, and a rule with too many consecutive failures.
    pub(crate) async fn pause(
        &self,
        revision: i64,
        finished: &[ExecutionEnd<'_>],
        ended: &EndReport,
    ) -> Result<(), Error> {
        let now = self.deps.clock.now();
        let store = &self.deps.store;
        for (project, rule, how) in self.broken_rules(finished, ended, now) {
            let last = finished.iter().rev().find_map(|each| match &each.outcome {
                Outcome::Failed(why, true) if each.execution.made.rule_id == *rule => {
                    Some((why, each.calls_models))
                }
                _ => None,
            });
            let reason = match last.map(|(why, calls_models)| (why.class, calls_models)) {
                Some((EndReason::Called(class), calls_models))
                    if retry::is_upstream(class)
                        || (calls_models && class == FailureClass::InvalidInput) =>
                {
                    Pause::UPSTREAM_FAILING
                }
                _ => Pause::PLUGIN_FAILING,
            };
            let last = last.map_or_else(String::new, |(why, _)| {
                format!(", the last one with {}: {}", why.class.as_str(), why.message)
            });
            let message = format!("{how} failed{last}");
            let pause = broken(reason, message, now);
            if store.catalog.pause_rule(project, rule, &pause, None).await?.is_new() {
                store.ledger.reset_failures(project, rule).await?;
                self.lock_recent().forget(project, rule);
                tracing::warn!(project.id = %project, rule.id = %rule, reason, "rule paused");
            }
        }
        self.note_spent(revision, finished, ended).await?;
        // Shadow versions pause nothing.
        let mut live = finished.iter().filter(|each| each.execution.made.shadow.is_none());
        let blocked = live.find_map(|each| {
            let (Outcome::Failed(why, _) | Outcome::Held(why, _)) = &each.outcome else {
                return None;
            };
            let EndReason::Called(class) = why.class else {
                return None;
            };
            let reason =
                pause_reason(class).filter(|_| ended.mine.contains(&each.execution.seq))?;
            Some((each, why, reason))
        });
        if let Some((each, why, reason)) = blocked {
            let pause = Pause {
                reason: reason.to_owned(),
                message: why.message.clone(),
                at: now,
                until: None,
            };
            let evaluator = &each.execution.made.evaluator_id;
            let project = &each.execution.project;
            let catalog = &store.catalog;
            let paused = catalog.pause_evaluator(project, evaluator, &pause, Some(revision));
            if self.is_new(paused.await?) {
                tracing::warn!(
                    project.id = %each.execution.project,
                    evaluator.id = %evaluator,
                    reason,
                    "evaluator paused"
                );
            }
        }
        Ok(())
    }
}

impl Inner {
    /// Rules that fail too often, and their number of failures: consecutive ones, or more than half of the
    /// recent ones.
    fn broken_rules<'f>(
        &self,
        finished: &'f [ExecutionEnd<'_>],
        ended: &'f EndReport,
        now: Timestamp,
    ) -> Vec<(&'f ProjectId, &'f RuleId, String)> {
        let least = self.deps.options.n_failures_to_pause;
        let in_a_row = ended.failures.iter().filter(|(.., n)| least <= *n);
        let mut broken: Vec<_> = in_a_row
            .map(|(project, rule, n)| (project, rule, format!("{n} evaluations in a row")))
            .collect();
        let mut recent = self.lock_recent();
        for each in finished {
            let made = &each.execution.made;
            let has_failed = match &each.outcome {
                Outcome::Completed(_) => false,
                Outcome::Failed(why, counts) => {
                    let class = match why.class {
                        EndReason::Called(class) => Some(class),
                        EndReason::Uncalled(_) => None,
                    };
                    *counts && class.is_some_and(retry::counts_against_evaluator)
                }
                _ => continue,
            };
            if made.shadow.is_some() || !ended.mine.contains(&each.execution.seq) {
                continue;
            }
            let which = (&each.execution.project, &made.rule_id);
            if let Some(n) = recent.note(which, has_failed, now) {
                broken.push((which.0, which.1, format!("{n} of the last 100 evaluations")));
            }
        }
        broken
    }

    fn lock_recent(&self) -> MutexGuard<'_, RecentOutcomes> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this call paused it. If the catalog changed during the call, nothing was paused, and the held
    /// executions are tried again under the current catalog.
    fn is_new(&self, paused: PauseOutcome) -> bool {
        if paused == PauseOutcome::Outdated {
            self.request_held_check();
        }
        paused.is_new()
    }

    /// Pauses for exhausted budgets: with `hold` the rule or the evaluator until the next window, with `skip`
    /// new executions of this evaluator in this rule.
    async fn note_spent(
        &self,
        revision: i64,
        finished: &[ExecutionEnd<'_>],
        ended: &EndReport,
    ) -> Result<(), Error> {
        let now = self.deps.clock.now();
        let seen = Some(revision);
        let catalog = &self.deps.store.catalog;
        let mut noted = BTreeSet::new();
        for each in finished {
            let (Some(spent), Some(why)) = (each.spent, each.outcome.no_scores()) else {
                continue;
            };
            let (project, made) = (&each.execution.project, &each.execution.made);
            let (rule, evaluator) = (&made.rule_id, &made.evaluator_id);
            if !ended.mine.contains(&each.execution.seq)
                || !noted.insert((project, rule, evaluator))
            {
                continue;
            }
            if spent.on_reached == OnReached::Skip {
                catalog.skip_targets(project, rule, evaluator, spent.until, revision).await?;
                continue;
            }
            let pause = Pause {
                reason: Pause::BUDGET_REACHED.to_owned(),
                message: why.message.clone(),
                at: now,
                until: spent.until,
            };
            let paused = match spent.scope {
                BudgetScope::Rule => catalog.pause_rule(project, rule, &pause, seen).await?,
                BudgetScope::Evaluator | BudgetScope::Project => {
                    let paused = catalog.pause_evaluator(project, evaluator, &pause, seen);
                    paused.await?
                }
            };
            if self.is_new(paused) {
                tracing::warn!(project.id = %project, rule.id = %rule, evaluator.id = %evaluator,
                               scope = %spent.scope, "budget exhausted");
            }
        }
        Ok(())
    }
}

/// A failure as the server recorded it. The worker only reports that a host call failed; the server has the
/// call and its cause.
pub(crate) fn as_noted(failure: Failure, origin: Option<&CallOrigin>) -> ModelFailure {
    if !is_of_model(failure.class) {
        return ModelFailure::new(failure.class, failure.message);
    }
    let noted = origin.and_then(|origin| origin.notes.failure());
    // The server has no better information, except if an evaluator found replies unusable.
    noted.unwrap_or_else(|| {
        let class = match failure.class {
            FailureClass::MalformedOutput => FailureClass::MalformedOutput,
            _ => FailureClass::UpstreamUnavailable,
        };
        ModelFailure::new(class, failure.message)
    })
}

/// Whether a failure of this class comes from a model or its provider.
fn is_of_model(class: FailureClass) -> bool {
    let is_held = class != FailureClass::InvalidConfig && pause_reason(class).is_some();
    is_held
        || retry::is_upstream(class)
        || matches!(
            class,
            FailureClass::RateLimited
                | FailureClass::Refused
                | FailureClass::ContextTooLong
                | FailureClass::BudgetExhausted
        )
}
