//! What failures mean beyond their own execution: as the server saw them, and what they pause.

use perpend_domain::evaluation::{EndReason, Pause};
use perpend_domain::plugin::{Failure, FailureClass, Origin};
use perpend_domain::slots::pause_reason;
use perpend_domain::time::Timestamp;
use perpend_ledger::{Ended, Finished, Outcome};

use crate::parts::{Error, Inner};
use crate::retry;

impl Inner {
    /// Pauses what keeps failing: an evaluator whose configuration cannot be used, a rule after so many
    /// failures in a row.
    pub(crate) async fn pause(
        &self,
        finished: &[Finished<'_>],
        ended: &Ended,
        now: Timestamp,
    ) -> Result<(), Error> {
        let store = &self.deps.store;
        for (project, rule, n) in &ended.failures {
            if *n < self.deps.options.n_failures_to_pause {
                continue;
            }
            let last = finished.iter().rev().find_map(|each| match &each.outcome {
                Outcome::Failed(why, true) if each.execution.made.rule_id == *rule => {
                    Some(why.class)
                }
                _ => None,
            });
            let reason = match last {
                Some(EndReason::Called(class)) if retry::is_upstream(class) => "UPSTREAM_FAILING",
                _ => "PLUGIN_FAILING",
            };
            let pause = Pause {
                reason: reason.to_owned(),
                message: format!("{n} evaluations in a row failed; see the failed executions"),
                at: now,
            };
            if store.catalog.pause_rule(project, rule, &pause).await? {
                store.ledger.forget_failures(project, rule).await?;
                tracing::warn!(project.id = %project, rule.id = %rule, reason, "rule paused");
            }
        }
        let blocked = finished.iter().find_map(|each| {
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
            };
            let evaluator = &each.execution.made.evaluator_id;
            if store
                .catalog
                .pause_evaluator(&each.execution.project, evaluator, &pause)
                .await?
            {
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

/// A failure as the server saw it. A worker knows that a host call failed; which one and why, the server knows
/// better.
pub(crate) fn as_noted(failure: Failure, origin: Option<&Origin>) -> (Failure, Option<u64>) {
    if !is_of_model(failure.class) {
        return (failure, None);
    }
    match origin.and_then(|origin| origin.notes.last_failure()) {
        Some(noted) => {
            let class = noted.class;
            let message = noted.message;
            (Failure { class, message }, noted.retry_after_ms)
        }
        // The worker cannot know better than that.
        None => {
            let class = FailureClass::UpstreamUnavailable;
            (Failure { class, ..failure }, None)
        }
    }
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
