//! Steps of backfills: count the ended executions, then queue executions for the next page of targets.

use perpend_domain::backfill::{Backfill, BackfillReason, BackfillState};
use perpend_domain::list::Cursor;
use perpend_domain::time::Timestamp;
use perpend_executions::BackfillStep;

use super::{BackfillScan, Preparation};
use crate::Scheduler;
use crate::deps::Inner;

/// Executions of a backfill that wait or run. A page is read when fewer than half of them are open.
const MAX_OPEN: u64 = 4_000;
/// Ended executions from which on their mean cost is used instead of the estimate.
const MIN_ENDED: u64 = 8;
/// Executions that are open while the cost of one is unknown.
const N_FIRST: u64 = 1;

/// The result of a round of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackfillAdvance {
    /// Examined targets and counted ends of executions.
    pub n_items: u64,
    /// A page was examined, and more may follow at once.
    pub may_continue: bool,
    /// A backfill waits for the end of its executions.
    pub is_waiting: bool,
}

impl BackfillAdvance {
    fn add(&mut self, more: Self) {
        self.n_items += more.n_items;
        self.may_continue |= more.may_continue;
        self.is_waiting |= more.is_waiting;
    }
}

/// The number of targets that a backfill may queue now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Capacity {
    /// Up to this number, at least one.
    Targets(u64),
    /// None until executions end.
    Full,
    /// None: a limit of the backfill is reached.
    Over(BackfillReason),
}

/// Targets that the limit of the cost allows; `None` if it allows any number.
fn affordable(backfill: &Backfill, n_evaluators: u64) -> Option<u64> {
    let max_usd = backfill.plan.max_usd?;
    let counts = &backfill.counts;
    let n_ended = counts.n_completed + counts.n_skipped + counts.n_failed;
    let mean = (0 < n_ended).then(|| counts.cost_usd / n_ended as f64);
    let usd = match backfill.plan.usd_per_execution {
        _ if MIN_ENDED <= n_ended => mean,
        Some(estimate) => Some(mean.unwrap_or_default().max(estimate)),
        // The first replies may have come from the cache.
        None => mean.filter(|mean| 0.0 < *mean),
    };
    let n_executions = match usd {
        None => N_FIRST.saturating_sub(counts.n_open()),
        Some(usd) if usd <= 0.0 => return None,
        Some(usd) => {
            let left = max_usd - counts.cost_usd - counts.n_open() as f64 * usd;
            // Negative numbers become 0.
            (left / usd) as u64
        }
    };
    Some(match usd {
        None => n_executions,
        Some(_) => n_executions / n_evaluators,
    })
}

fn capacity(backfill: &Backfill, n_evaluators: u64) -> Capacity {
    let (plan, counts) = (&backfill.plan, &backfill.counts);
    let n_open = counts.n_open();
    let left = plan.max_items.map_or(u64::MAX, |max| max.saturating_sub(counts.n_items));
    if left == 0 {
        return Capacity::Over(BackfillReason::MaxItems);
    }
    if MAX_OPEN / 2 < n_open {
        return Capacity::Full;
    }
    let n_targets = left.min(((MAX_OPEN - n_open) / n_evaluators).max(1));
    match affordable(backfill, n_evaluators) {
        None => Capacity::Targets(n_targets),
        Some(0) if 0 < n_open => Capacity::Full,
        Some(0) => Capacity::Over(BackfillReason::MaxUsd),
        Some(n) => Capacity::Targets(n_targets.min(n)),
    }
}

impl Scheduler {
    /// A step of each open backfill. Another node may take the same steps: one of each is written. Crosses tenants.
    ///
    /// # Errors
    /// When the database fails. The other backfills have advanced, and the next call continues.
    pub async fn advance_backfills(&self) -> Result<BackfillAdvance, perpend_db::Error> {
        let inner = &self.inner;
        let mut all = BackfillAdvance::default();
        let mut failure = None;
        let mut after: Option<Cursor> = None;
        loop {
            let open = inner.deps.store.ledger.open_backfills(after.as_ref()).await?;
            let Some(last) = open.last() else {
                break;
            };
            after = Some(Cursor::new(last.created_at, last.id.clone()));
            for backfill in open {
                match Box::pin(inner.advance_backfill(backfill)).await {
                    Ok(advance) => all.add(advance),
                    Err(error) => failure = Some(error),
                }
            }
        }
        if 0 < all.n_items {
            self.wake();
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(all),
        }
    }
}

impl Inner {
    async fn advance_backfill(
        &self,
        backfill: Backfill,
    ) -> Result<BackfillAdvance, perpend_db::Error> {
        let ledger = &self.deps.store.ledger;
        let (project, id) = (&backfill.project, backfill.id.as_str());
        let settled = ledger.settled_executions(project, id).await?;
        let mut step = BackfillStep {
            next: backfill.clone(),
            executions: Vec::new(),
            settled: settled.seqs,
            cancels_waiting: false,
        };
        step.next.counts.add(&settled.counts);
        let now = self.deps.clock.now();
        match backfill.state {
            BackfillState::Running => self.continue_backfill(&mut step, now).await?,
            BackfillState::Paused => ledger.set_backfill_aside(project, id).await?,
            // Those that ran when it ended may wait for another attempt now.
            BackfillState::Cancelled | BackfillState::Failed => {
                step.cancels_waiting = 0 < step.next.counts.n_open();
            }
            BackfillState::Completed => {}
        }
        let is_open = 0 < step.next.counts.n_open() || !step.executions.is_empty();
        let mut advance = BackfillAdvance {
            is_waiting: is_open
                && (backfill.state != BackfillState::Paused || !step.settled.is_empty()),
            ..BackfillAdvance::default()
        };
        let is_closed = backfill.state.is_final() && !is_open;
        if step.next == backfill && !is_closed && !step.cancels_waiting {
            return Ok(advance);
        }
        let n_examined = step.next.counts.n_examined - backfill.counts.n_examined;
        if ledger.advance_backfill(&step, now).await? {
            advance.n_items = n_examined + step.settled.len() as u64;
            advance.may_continue = 0 < n_examined && !step.next.is_scanned;
        }
        Ok(advance)
    }

    /// The next state of a running backfill, with executions over the next page.
    async fn continue_backfill(
        &self,
        step: &mut BackfillStep,
        now: Timestamp,
    ) -> Result<(), perpend_db::Error> {
        let next = &mut step.next;
        let is_over = next.is_scanned && next.counts.n_open() == 0;
        if !is_over && next.plan.max_usd.is_some_and(|max| max <= next.counts.cost_usd) {
            (next.is_scanned, next.reason) = (true, Some(BackfillReason::MaxUsd));
            step.cancels_waiting = 0 < next.counts.n_open();
        }
        if !next.is_scanned {
            let (project, plan) = (next.project.clone(), next.plan.clone());
            match self.prepare_backfill(&project, &plan).await? {
                Preparation::Ready(scan) => {
                    next.reason = None;
                    self.queue_page(step, &scan).await?;
                }
                Preparation::Waits(reason) => next.reason = Some(reason),
                Preparation::Fails(reason) => {
                    (next.state, next.reason) = (BackfillState::Failed, Some(reason));
                    next.ended_at = Some(now);
                    step.cancels_waiting = true;
                }
            }
        }
        let next = &mut step.next;
        let is_over = next.is_scanned && next.counts.n_open() == 0 && step.executions.is_empty();
        if is_over && next.state == BackfillState::Running {
            next.state = BackfillState::Completed;
            next.ended_at = Some(now);
        }
        Ok(())
    }

    async fn queue_page(
        &self,
        step: &mut BackfillStep,
        scan: &BackfillScan<'_>,
    ) -> Result<(), perpend_db::Error> {
        let next = &mut step.next;
        let n_evaluators = (scan.rule.assignments.len() as u64).max(1);
        let n_targets = match capacity(next, n_evaluators) {
            Capacity::Targets(n) => n,
            Capacity::Full => return Ok(()),
            Capacity::Over(reason) => {
                (next.is_scanned, next.reason) = (true, Some(reason));
                return Ok(());
            }
        };
        let page = self.backfill_page(scan, next.cursor.take(), n_targets).await?;
        next.counts.add(&page.counts);
        next.cursor = page.cursor;
        next.reached_at = page.reached_at.or(next.reached_at);
        next.is_scanned = page.is_end;
        step.executions = page.executions;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use perpend_domain::backfill::{BackfillCounts, BackfillMode, BackfillPlan};
    use perpend_domain::evaluation::TargetKind;
    use perpend_domain::filter::WrittenFilter;

    use super::*;

    fn backfill(plan: BackfillPlan, counts: BackfillCounts) -> Backfill {
        let at = Timestamp::from_micros(0);
        Backfill {
            project: "project".parse().unwrap(),
            id: "backfill".to_owned(),
            plan,
            state: BackfillState::Running,
            reason: None,
            revision: 0,
            cursor: None,
            reached_at: None,
            is_scanned: false,
            counts,
            created_at: at,
            updated_at: at,
            ended_at: None,
        }
    }

    fn plan() -> BackfillPlan {
        BackfillPlan {
            rule: "rule".parse().unwrap(),
            rule_name: "rule".to_owned(),
            target: TargetKind::Observation,
            mode: BackfillMode::Fill,
            from: Timestamp::from_micros(0),
            to: Timestamp::from_micros(1),
            filter: WrittenFilter::default(),
            max_items: None,
            max_usd: None,
            n_in_range: None,
            usd_per_execution: None,
        }
    }

    #[test]
    fn a_page_is_queued_only_when_half_of_the_open_executions_have_ended() {
        let open = |n_executions| BackfillCounts { n_executions, ..BackfillCounts::default() };
        let capacity_with =
            |n_open, n_evaluators| capacity(&backfill(plan(), open(n_open)), n_evaluators);
        assert_eq!(capacity_with(0, 1), Capacity::Targets(MAX_OPEN));
        assert_eq!(capacity_with(MAX_OPEN / 2, 20), Capacity::Targets(MAX_OPEN / 40));
        assert_eq!(capacity_with(MAX_OPEN / 2 + 1, 1), Capacity::Full);
    }

    #[test]
    fn the_limit_of_targets_is_exact() {
        let limited = BackfillPlan { max_items: Some(10), ..plan() };
        let counts = |n_items| BackfillCounts { n_items, ..BackfillCounts::default() };
        let at = |n_items| capacity(&backfill(limited.clone(), counts(n_items)), 2);
        assert_eq!(at(7), Capacity::Targets(3));
        assert_eq!(at(10), Capacity::Over(BackfillReason::MaxItems));
    }

    #[test]
    fn open_executions_use_up_the_limit_of_the_cost() {
        let limited =
            |usd_per_execution| BackfillPlan { max_usd: Some(1.0), usd_per_execution, ..plan() };
        let counts = |n_executions, n_completed, cost_usd| BackfillCounts {
            n_executions,
            n_completed,
            cost_usd,
            ..BackfillCounts::default()
        };
        let at = |estimate, counts| capacity(&backfill(limited(estimate), counts), 1);
        assert_eq!(at(None, counts(0, 0, 0.0)), Capacity::Targets(N_FIRST));
        assert_eq!(at(None, counts(N_FIRST, 0, 0.0)), Capacity::Full);
        assert_eq!(at(None, counts(N_FIRST, N_FIRST, 0.1)), Capacity::Targets(9));
        assert_eq!(at(Some(0.25), counts(0, 0, 0.0)), Capacity::Targets(4));
        assert_eq!(at(Some(0.25), counts(4, 0, 0.0)), Capacity::Full);
        // The mean of the ended executions replaces the estimate.
        assert_eq!(at(Some(0.25), counts(8, 8, 0.5)), Capacity::Targets(8));
        assert_eq!(at(Some(0.25), counts(16, 16, 1.0)), Capacity::Over(BackfillReason::MaxUsd));
        // Without costs, the limit does not apply.
        assert_eq!(at(None, counts(8, 8, 0.0)), Capacity::Targets(MAX_OPEN));
    }
}
