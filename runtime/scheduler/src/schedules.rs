//! The record of the firings of cron schedules, and executions that wait for another firing after a change of their rule.
//!
//! No execution depends on the record: the matcher makes those of a rule with a schedule due at its next firing.

use std::collections::HashMap;

use perpend_domain::cron::Schedule;
use perpend_domain::evaluation::Rule;
use perpend_domain::ids::{ProjectId, RuleId};
use perpend_domain::time::Timestamp;
use perpend_executions::{RuleFiring, RuleSchedule};

use crate::Scheduler;
use crate::deps::Inner;
use crate::reasons::rule_deleted;

/// The name of the job that records firings.
pub const SCHEDULE_JOB: &str = "schedules";

/// The longest window: earlier firings are not counted as missed.
const MAX_WINDOW_MS: i64 = 31 * 86_400_000;

impl Scheduler {
    /// Records the firings until now, and moves executions of rules whose schedule was changed. Other nodes may do the same:
    /// each firing is recorded once. Crosses tenants. Returns the number of firings and moved executions.
    ///
    /// # Errors
    /// When the database fails. The other schedules have advanced, and the next call continues.
    pub async fn advance_schedules(&self) -> Result<u64, perpend_db::Error> {
        let inner = &self.inner;
        let (store, now) = (&inner.deps.store, inner.deps.clock.now());
        let all_known = store.ledger.rule_schedules().await?;
        let catalog = inner.catalog.current(store).await?;
        let scheduled = catalog.enabled().filter_map(|(project, rule)| {
            let schedule = rule.rule.schedule.as_ref()?;
            Some(((project, &rule.rule.id), (&rule.rule, schedule)))
        });
        let mut scheduled: HashMap<(&ProjectId, &RuleId), (&Rule, &Schedule)> = scheduled.collect();
        let (mut n_advanced, mut failure) = (0, None);
        for known in &all_known {
            let advanced = match scheduled.remove(&(&known.project, &known.rule)) {
                Some((_, schedule)) => Box::pin(inner.advance_schedule(known, schedule, now)).await,
                None => Box::pin(inner.end_schedule(known, now)).await,
            };
            match advanced {
                Ok(n) => n_advanced += n,
                Err(error) => failure = Some(error),
            }
        }
        for ((project, _), (rule, schedule)) in scheduled {
            match Box::pin(inner.start_schedule(project, rule, schedule, now)).await {
                Ok(n) => n_advanced += n,
                Err(error) => failure = Some(error),
            }
        }
        if 0 < n_advanced {
            self.wake();
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(n_advanced),
        }
    }

    /// Starts the executions of an enabled rule without a schedule that wait for a firing. To be called after a change of a
    /// rule: [`Scheduler::advance_schedules`] does not see that a disabled rule loses its schedule.
    ///
    /// # Errors
    /// When the database fails; some may have been started.
    pub async fn end_waits_for_firings(
        &self,
        project: &ProjectId,
        rule: &Rule,
    ) -> Result<(), perpend_db::Error> {
        if !rule.enabled || rule.schedule.is_some() {
            return Ok(());
        }
        let deps = &self.inner.deps;
        let n_moved =
            deps.store.ledger.reschedule(project, &rule.id, None, deps.clock.now()).await?;
        if 0 < n_moved {
            self.wake();
        }
        Ok(())
    }

    /// Cancels the executions of a deleted rule that have not started, and deletes the record of its firings. To be called
    /// after a deletion: [`Scheduler::advance_schedules`] does not see that of a disabled rule.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn end_deleted_rule(
        &self,
        project: &ProjectId,
        rule: &RuleId,
    ) -> Result<(), perpend_db::Error> {
        self.inner.end_deleted_rule(project, rule, self.inner.deps.clock.now()).await
    }
}

impl Inner {
    async fn end_deleted_rule(
        &self,
        project: &ProjectId,
        rule: &RuleId,
        now: Timestamp,
    ) -> Result<(), perpend_db::Error> {
        let ledger = &self.deps.store.ledger;
        ledger.cancel_executions(project, rule, &rule_deleted(), now).await?;
        ledger.forget_firings(project, rule).await
    }

    async fn start_schedule(
        &self,
        project: &ProjectId,
        rule: &Rule,
        schedule: &Schedule,
        now: Timestamp,
    ) -> Result<u64, perpend_db::Error> {
        let ledger = &self.deps.store.ledger;
        // It may have waited for another schedule before it was disabled.
        let n_moved = match schedule.next_after(now) {
            Some(next) => ledger.reschedule(project, &rule.id, Some(next), now).await?,
            None => 0,
        };
        let started_at = rule.updated_at.min(now);
        let new = RuleSchedule {
            project: project.clone(),
            rule: rule.id.clone(),
            cron: schedule.expression().to_owned(),
            timezone: schedule.timezone().to_owned(),
            window_from: started_at,
            counted_until: started_at,
        };
        ledger.start_schedule(&new).await?;
        Ok(n_moved)
    }

    async fn advance_schedule(
        &self,
        known: &RuleSchedule,
        schedule: &Schedule,
        now: Timestamp,
    ) -> Result<u64, perpend_db::Error> {
        let ledger = &self.deps.store.ledger;
        if !known.is(schedule) {
            let next = schedule.next_after(now);
            let n_moved = ledger.reschedule(&known.project, &known.rule, next, now).await?;
            ledger.change_schedule(known, schedule, now).await?;
            return Ok(n_moved);
        }
        let from = known.counted_until.max(now.plus_millis(-MAX_WINDOW_MS));
        let Some((fired_at, n_missed)) = schedule.last_until(from, now) else {
            return Ok(0);
        };
        let firing = RuleFiring { fired_at, from: known.window_from, noticed_at: now, n_missed };
        Ok(u64::from(ledger.fire(known, &firing).await?))
    }

    /// Ends the schedule of a rule that is not among the enabled rules with a schedule.
    async fn end_schedule(
        &self,
        known: &RuleSchedule,
        now: Timestamp,
    ) -> Result<u64, perpend_db::Error> {
        let (store, project, id) = (&self.deps.store, &known.project, &known.rule);
        let ledger = &store.ledger;
        let n_moved = match store.catalog.rule(project, id).await? {
            None => {
                self.end_deleted_rule(project, id, now).await?;
                0
            }
            // They are held at their firing.
            Some(rule) if !rule.enabled => 0,
            Some(rule) if rule.schedule.is_none() => {
                ledger.reschedule(project, id, None, now).await?
            }
            // The rule has been changed since the catalog was read.
            Some(_) => return Ok(0),
        };
        ledger.end_schedule(project, id).await?;
        Ok(n_moved)
    }
}
