//! A rule applied to chosen targets at once.

use std::collections::HashSet;

use perpend_domain::backfill::{BackfillCounts, BackfillMode, BackfillPlan};
use perpend_domain::evaluation::{Execution, ExecutionClass, Rule, Target};
use perpend_domain::filter::WrittenFilter;
use perpend_domain::ids::{ExecutionId, ObservationId, ProjectId, TraceId};
use perpend_domain::time::Timestamp;

use super::BackfillScan;
use super::pages::{BackfillPage, by_target};
use crate::Scheduler;
use crate::deps::Inner;

/// The result for chosen targets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChosenTargets {
    /// The new executions, and those that waited for a firing of the rule.
    pub executions: Vec<ExecutionId>,
    /// Targets by result.
    pub counts: BackfillCounts,
    /// Targets that do not exist.
    pub n_missing: u64,
}

impl Scheduler {
    /// Makes executions of a rule over these targets, whether or not they match its filter and are in its sample. They
    /// get turns before those of live scoring.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn evaluate_chosen(
        &self,
        project: &ProjectId,
        rule: Rule,
        mode: BackfillMode,
        targets: &[Target],
    ) -> Result<ChosenTargets, perpend_db::Error> {
        let inner = &self.inner;
        let now = inner.deps.clock.now();
        let plan = BackfillPlan {
            rule: rule.id.clone(),
            rule_name: rule.name.clone(),
            target: rule.target,
            mode,
            from: now,
            to: now,
            filter: WrittenFilter::default(),
            max_items: None,
            max_usd: None,
            n_in_range: None,
            usd_per_execution: None,
        };
        let rule = Rule { filter: WrittenFilter::default(), sampling: 1.0, ..rule };
        let mut scan = inner.scan_of(project, &plan, rule).await?;
        scan.class = ExecutionClass::Manual;
        let mut page = BackfillPage::new(now, None, u64::MAX);
        let mut seen = HashSet::new();
        let unique: Vec<&Target> = targets.iter().filter(|target| seen.insert(*target)).collect();
        let n_found = match plan.target.is_of_observations() {
            true => Box::pin(inner.take_observations(&scan, &unique, &mut page)).await?,
            false => Box::pin(inner.take_wholes(&scan, &unique, &mut page)).await?,
        };
        let ledger = &inner.deps.store.ledger;
        let (seqs, hastened): (Vec<i64>, Vec<ExecutionId>) = page.hastened.into_iter().unzip();
        let made = page.executions;
        if !seqs.is_empty() {
            ledger.end_wait_for_firing(project, &seqs, now).await?;
        }
        if !made.is_empty() {
            ledger.make_chosen(project, &plan.rule, &made, now).await?;
        }
        let made = made.into_iter().map(|each| each.execution.id);
        let executions: Vec<ExecutionId> = made.chain(hastened).collect();
        if !executions.is_empty() {
            self.wake();
        }
        Ok(ChosenTargets {
            executions,
            counts: page.counts,
            n_missing: (unique.len() as u64).saturating_sub(n_found),
        })
    }
}

impl Inner {
    /// Returns the number of existing targets.
    async fn take_observations(
        &self,
        scan: &BackfillScan<'_>,
        targets: &[&Target],
        page: &mut BackfillPage,
    ) -> Result<u64, perpend_db::Error> {
        let (project, store) = (scan.project, &self.deps.store);
        let keys = targets.iter().filter_map(|target| match target {
            Target::Observation(trace, id) => Some((trace.clone(), id.clone())),
            Target::Trace(_) | Target::Session(_) | Target::Run(_) => None,
        });
        let keys: Vec<(TraceId, ObservationId)> = keys.collect();
        let mut found = store.telemetry.target_observations(project, &keys, false).await?;
        found.retain(|own| !own.is_trace_record());
        if scan.rule.reads_experiment {
            self.attach_links(project, found.iter_mut().collect()).await?;
        }
        let traces: HashSet<TraceId> = keys.into_iter().map(|(trace, _)| trace).collect();
        let traces: Vec<TraceId> = traces.into_iter().collect();
        let rule = &scan.rule.rule.id;
        let executions = store.ledger.rule_executions_in(project, rule, &traces).await?;
        let executions = by_target(&executions);
        for own in &found {
            let target = Target::Observation(own.trace_id.clone(), own.id.clone());
            let existing = executions.get(&target).map(Vec::as_slice).unwrap_or_default();
            // It need not have settled.
            page.take_observation(scan, (own, Timestamp::from_micros(0)), None, existing);
        }
        Ok(found.len() as u64)
    }

    /// As [`Inner::take_observations`], for traces and sessions.
    async fn take_wholes(
        &self,
        scan: &BackfillScan<'_>,
        targets: &[&Target],
        page: &mut BackfillPage,
    ) -> Result<u64, perpend_db::Error> {
        let (project, rule) = (scan.project, &scan.rule);
        let mut n_found = 0;
        for target in targets {
            let whole = self.whole(project, target, &[rule]).await?;
            let progress = self.progress(project, target).await?;
            let (Some(whole), Some(progress)) = (whole, progress) else {
                continue;
            };
            let all = self.deps.store.ledger.executions_over(project, target).await?;
            let existing = all
                .iter()
                .filter(|each| each.made.rule_id == rule.rule.id && each.made.target == **target);
            let existing: Vec<&Execution> = existing.collect();
            page.take_whole(scan, (target, &whole, &progress), &existing);
            n_found += 1;
        }
        Ok(n_found)
    }
}
