//! Executions that are held while their rule or evaluator is paused: when they are checked, and how they resume.

use std::sync::atomic::Ordering;

use perpend_domain::time::Timestamp;
use perpend_executions::ResumeScope;

use crate::catalog::{Catalog, pause_of};
use crate::deps::{Error, Inner, NEVER};
use crate::reasons::{rule_deleted, uses};

impl Inner {
    /// Whether the check of held executions is due: for those that have waited too long and for probes of
    /// paused rules. They wait for minutes and days, so one check per second is enough.
    pub(crate) fn is_held_check_due(&self, now: Timestamp) -> bool {
        let last = self.held_checked_at.load(Ordering::Relaxed);
        // `NEVER` is earlier than any time.
        let is_time = 1_000_000 <= now.as_micros().saturating_sub(last);
        if is_time {
            self.held_checked_at.store(now.as_micros(), Ordering::Relaxed);
        }
        is_time
    }

    /// Resumes held executions whose rule and evaluator are no longer paused, once per catalog revision.
    pub(crate) async fn resume_held(&self, catalog: &Catalog, now: Timestamp) -> Result<(), Error> {
        if self.resumed_at.swap(catalog.revision(), Ordering::AcqRel) == catalog.revision() {
            return Ok(());
        }
        let done = self.resume_all_held(catalog, now).await;
        if done.is_err() {
            self.resumed_at.store(NEVER, Ordering::Release);
        }
        done
    }

    /// Executions were held under an older catalog after a newer one had resumed held executions. The newer
    /// one has to resume them again, or they would wait for the next change of a rule.
    pub(crate) async fn recheck_held(&self, used: &Catalog) -> Result<(), Error> {
        if self.deps.store.catalog.catalog_revision().await? != used.revision() {
            self.request_held_check();
        }
        Ok(())
    }

    /// Makes the check of held executions due.
    pub(crate) fn request_held_check(&self) {
        self.resumed_at.store(NEVER, Ordering::Release);
        self.woken.notify_one();
    }

    async fn resume_all_held(&self, catalog: &Catalog, now: Timestamp) -> Result<(), Error> {
        let store = &self.deps.store;
        for (project, rule_id, evaluator) in store.ledger.held().await? {
            let is_let_go = match catalog.rule(&project, &rule_id) {
                // Also if the rule no longer uses the evaluator: then they end as cancelled.
                Some(rule) => pause_of(rule, &evaluator).is_none(),
                None => match store.catalog.rule(&project, &rule_id).await? {
                    Some(rule) => !uses(&rule, &evaluator),
                    None => {
                        let why = rule_deleted();
                        let cancelled =
                            store.ledger.cancel_executions(&project, &rule_id, &why, now);
                        cancelled.await?;
                        false
                    }
                },
            };
            if is_let_go {
                let which = (&project, &rule_id, &evaluator);
                store.ledger.resume_executions(which, ResumeScope::All, now).await?;
            }
        }
        Ok(())
    }
}
