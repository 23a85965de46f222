//! Circuit breaker: a rule that keeps failing is paused, and one execution at a time probes whether it works
//! again (evaluation.md 1.9).
//!
//! The process that moves the end of the pause may start a probe. So there is one probe at a time for any
//! number of schedulers, and a lost probe is followed by another one.

use perpend_domain::evaluation::{Execution, Pause};
use perpend_domain::ids::EvaluatorId;
use perpend_domain::time::Timestamp;
use perpend_executions::{ExecutionEnd, Outcome, ResumeScope};

use crate::catalog::{Catalog, PreparedRule, pause_of};
use crate::deps::{Error, Inner};

const FIRST_WAIT_MS: i64 = 15 * 60_000;
const MAX_WAIT_MS: i64 = 6 * 3_600_000;

/// The pause of a rule that starts now.
pub(crate) fn broken(reason: &str, message: String, now: Timestamp) -> Pause {
    Pause {
        reason: reason.to_owned(),
        message,
        at: now,
        until: Some(now.plus_millis(FIRST_WAIT_MS)),
    }
}

/// When the probe after the due one starts. Each wait is twice the previous one.
fn next_probe(pause: &Pause, due: Timestamp) -> Timestamp {
    let waited_ms = due.micros_since(pause.at) / 1_000;
    let wait_ms = (waited_ms + FIRST_WAIT_MS).clamp(FIRST_WAIT_MS, MAX_WAIT_MS);
    due.plus_millis(wait_ms)
}

/// The pause under which an execution of this evaluator may run now as a probe.
pub(crate) fn probe_of<'r>(
    rule: &'r PreparedRule,
    evaluator: &EvaluatorId,
    now: Timestamp,
) -> Option<&'r Pause> {
    let used = rule.assignment(evaluator, None)?;
    let is_alone = used.evaluator.evaluator.paused.is_none();
    pause_of(rule, evaluator).filter(|pause| is_alone && pause.is_probing(now))
}

impl Inner {
    /// Resumes one held execution of each rule and evaluator whose probe is due.
    pub(crate) async fn resume_probes(
        &self,
        catalog: &Catalog,
        now: Timestamp,
    ) -> Result<(), Error> {
        let ledger = &self.deps.store.ledger;
        for (project, rule, evaluator) in ledger.held().await? {
            let known = catalog.rule(&project, &rule);
            if known.is_some_and(|known| probe_of(known, &evaluator, now).is_some()) {
                let which = (&project, &rule, &evaluator);
                ledger.resume_executions(which, ResumeScope::Oldest, now).await?;
            }
        }
        Ok(())
    }

    /// Whether this execution is the probe.
    pub(crate) async fn begins_probe(
        &self,
        execution: &Execution,
        pause: &Pause,
    ) -> Result<bool, Error> {
        let Some(due) = pause.until else {
            return Ok(false);
        };
        let now = self.deps.clock.now();
        let next = next_probe(pause, due).max(now.plus_millis(FIRST_WAIT_MS));
        let catalog = &self.deps.store.catalog;
        let rule = &execution.made.rule_id;
        Ok(catalog.move_pause(&execution.project, rule, (due, next)).await?)
    }

    /// Resumes rules whose probe succeeded.
    pub(crate) async fn end_probes(
        &self,
        probing: &[i64],
        ended: &[ExecutionEnd<'_>],
    ) -> Result<(), Error> {
        let tried = ended.iter().filter(|each| probing.contains(&each.execution.seq));
        for each in tried {
            if !matches!(each.outcome, Outcome::Completed(_)) {
                continue;
            }
            let (project, rule) = (&each.execution.project, &each.execution.made.rule_id);
            let now = self.deps.clock.now();
            if self.deps.store.catalog.end_breaker(project, rule, now).await? {
                tracing::info!(project.id = %project, rule.id = %rule, "paused rule resumed after a successful probe");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_is_twice_the_one_before_and_none_is_longer_than_six_hours() {
        let start = Timestamp::from_millis(0);
        let mut pause = broken("PLUGIN_FAILING", String::new(), start);
        let mut waits = Vec::new();
        for _ in 0..6 {
            let due = pause.until.unwrap();
            let next = next_probe(&pause, due);
            waits.push(next.micros_since(due) / 60_000_000);
            pause.until = Some(next);
        }
        assert_eq!(waits, [30, 60, 120, 240, 360, 360]);
    }
}
