//! Steps of backtests: a version of an evaluator runs on the next stored targets that have a live score, and the pairs
//! of live scores and results are stored with the position after these targets.
//!
//! Invariants:
//! - **No live score.** The version runs as in a trial, so there is neither an execution nor a score.
//! - **One node at a time.** A step is prepared under a lease that is renewed while calls are open. After a kill another
//!   step starts at the same position when the lease has ended.

mod estimate;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use perpend_domain::backfill::{BackfillCounts, BackfillMode, BackfillPlan, BackfillState};
use perpend_domain::backtest::{
    Backtest, BacktestCounts, BacktestPlan, BacktestReason, CallTotals, PairedValue, ScorePair,
};
use perpend_domain::evaluation::{
    Assignment, AttemptFailure, Evaluator, ExecutionClass, LatePolicy, NoCallReason, OnMissing,
    Rule, Target, TargetKind, Timing, VersionPolicy,
};
use perpend_domain::filter::WrittenFilter;
use perpend_domain::ids::{
    AssignmentId, ExecutionId, ObservationId, ProjectId, RuleId, SessionId, TraceId,
};
use perpend_domain::observation::Observation;
use perpend_domain::plugin::{FailureClass, ReplyPolicy, ReplyReuse};
use perpend_domain::score::{Score, Subject};
use perpend_domain::time::Timestamp;
use perpend_executions::{BacktestStep, Lease};

use super::BackfillScan;
use super::pages::BackfillPage;
use crate::Scheduler;
use crate::catalog::{PreparedEvaluator, prepare_evaluator, prepare_with};
use crate::deps::Inner;
use crate::scores::TrialScore;
use crate::trial::{Trial, TrialResult, TrialSubject, items_too_large};

pub use estimate::BacktestEstimate;

/// The name of the job that advances backtests.
pub const BACKTEST_JOB: &str = "backtests";

/// Backtests that advance at the same time.
const N_AT_ONCE: u32 = 4;
/// Targets of a step without model calls.
const N_TARGETS: u64 = 256;
/// Targets of a step with model calls.
const N_JUDGED: u64 = 64;
/// Targets of the first step if its cost is estimated.
const N_ESTIMATED: u64 = 16;
/// Time limit of a call without the time for which its model calls wait to be sent.
const LIMIT: Duration = Duration::from_secs(95);
/// Further attempts on targets that failed for a passing reason.
const N_RETRIES: u32 = 2;
const LEASE_MS: i64 = 15_000;
const RENEW: Duration = Duration::from_secs(5);
/// The rule and assignment in the decisions about targets. No execution is made from them.
const NAME: &str = "backtest";

/// The result of a round of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BacktestAdvance {
    /// Examined targets.
    pub n_items: u64,
    /// A backtest is running, and the next step may start at once.
    pub may_continue: bool,
}

/// Live scores by target, newest first.
type LiveScores = HashMap<Target, Vec<Score>>;

/// The target of the execution that made a score.
fn target_of(score: &Score, kind: TargetKind) -> Option<Target> {
    let written = &score.written;
    let observation = written.metadata.get("target_observation_id");
    let observation = observation.and_then(|id| id.as_str());
    match (&written.subject, kind) {
        (Subject::Observation(trace, id), TargetKind::Observation | TargetKind::Experiment) => {
            (observation == Some(id.as_str()))
                .then(|| Target::Observation(trace.clone(), id.clone()))
        }
        (Subject::Trace(trace) | Subject::Observation(trace, _), TargetKind::Trace) => {
            observation.is_none().then(|| Target::Trace(trace.clone()))
        }
        (Subject::Session(session), TargetKind::Session) => {
            SessionId::new(session).ok().map(Target::Session)
        }
        _ => None,
    }
}

/// The observation of a score, if it is not the target.
fn other_observation(score: &Score, target: &Target) -> Option<ObservationId> {
    match &score.written.subject {
        Subject::Observation(_, id) if target.observation() != Some(id) => Some(id.clone()),
        _ => None,
    }
}

/// Whether an evaluated target counts as skipped rather than failed, as in live scoring.
fn is_skipped(why: &AttemptFailure, on_missing: OnMissing) -> bool {
    why.class == FailureClass::NotApplicable.into()
        || why.class == NoCallReason::TargetMissing.into()
        || (on_missing == OnMissing::Skip && why.class == NoCallReason::MissingVariable.into())
}

/// Whether another attempt may succeed.
fn is_passing(why: &AttemptFailure) -> bool {
    [
        FailureClass::UpstreamUnavailable,
        FailureClass::UpstreamTimeout,
        FailureClass::RateLimited,
        FailureClass::Transient,
        FailureClass::WorkerLost,
        FailureClass::WorkerFull,
        FailureClass::Internal,
    ]
    .into_iter()
    .any(|class| why.class == class.into())
}

/// Mean cost of a target so far, including what cached replies had cost.
fn mean_cost(counts: &BacktestCounts) -> f64 {
    counts.cost_usd.max(counts.after.cost_usd) / counts.n_items as f64
}

/// Cost of a target: the mean so far, or the estimate as long as no target had a cost.
fn usd_per_target(backtest: &Backtest) -> Option<f64> {
    let counts = &backtest.counts;
    let mean = (0 < counts.n_items).then(|| mean_cost(counts)).filter(|mean| 0.0 < *mean);
    mean.or(backtest.plan.usd_per_target.filter(|usd| 0.0 < *usd))
}

/// The number of targets of the next step, or the limit that is reached. With a limit of the cost, targets are evaluated
/// one by one until the cost of one is known or estimated.
fn capacity(backtest: &Backtest) -> Result<u64, BacktestReason> {
    let (plan, counts) = (&backtest.plan, &backtest.counts);
    let calls_models = plan.version.grants.model;
    let n = if calls_models { N_JUDGED } else { N_TARGETS };
    let left = plan.max_items.map_or(n, |max| max.saturating_sub(counts.n_items));
    if left == 0 {
        return Err(BacktestReason::MaxItems);
    }
    let n = n.min(left);
    let Some(max_usd) = plan.max_usd.filter(|_| calls_models) else {
        return Ok(n);
    };
    let Some(usd) = usd_per_target(backtest) else {
        // The first step ends after its first target with a live score.
        return Ok(if counts.n_items == 0 { n } else { 1 });
    };
    // Negative numbers become 0.
    match ((max_usd - counts.cost_usd) / usd) as u64 {
        // The estimate does not keep the first target from being evaluated, after which the first step ends.
        0 if counts.n_items == 0 => Ok(n),
        0 => Err(BacktestReason::MaxUsd),
        affordable if counts.n_items == 0 => Ok(n.min(affordable).min(N_ESTIMATED)),
        affordable => Ok(n.min(affordable)),
    }
}

/// Whether the first target has to show what the others may cost: its cost is unknown, or estimated above the limit.
fn is_cost_unknown(backtest: &Backtest) -> bool {
    let plan = &backtest.plan;
    let Some(max_usd) = plan.max_usd.filter(|_| plan.version.grants.model) else {
        return false;
    };
    backtest.counts.n_items == 0 && usd_per_target(backtest).is_none_or(|usd| max_usd < usd)
}

/// The rule that the matcher applies to the targets of a backtest.
fn rule_of(plan: &BacktestPlan, now: Timestamp) -> Option<Rule> {
    Some(Rule {
        id: RuleId::new(NAME).ok()?,
        name: NAME.to_owned(),
        target: plan.target,
        enabled: true,
        paused: None,
        sampling: 1.0,
        sampling_independent: false,
        filter: plan.filter.clone(),
        assignments: vec![Assignment {
            id: AssignmentId::new(NAME).ok()?,
            evaluator_id: plan.evaluator.clone(),
            version: VersionPolicy::Latest,
            mapping: None,
            skipped_until: None,
        }],
        // Targets with a live score were complete.
        timing: Timing { settle_ms: Some(0), quiet_ms: Some(0), max_wait_ms: Some(0) },
        schedule: None,
        on_missing: plan.on_missing,
        late: LatePolicy::Ignore,
        budget: Vec::new(),
        after: Vec::new(),
        audit: 0.0,
        created_at: now,
        updated_at: now,
    })
}

/// The part of the plan that pages of targets read.
fn range_of(plan: &BacktestPlan, rule: &Rule) -> BackfillPlan {
    BackfillPlan {
        rule: rule.id.clone(),
        rule_name: rule.name.clone(),
        target: plan.target,
        mode: BackfillMode::Rescore,
        from: plan.from,
        to: plan.to,
        filter: WrittenFilter::default(),
        max_items: None,
        max_usd: None,
        n_in_range: None,
        usd_per_execution: None,
    }
}

impl Scheduler {
    /// A step of each running backtest, of some at a time. Crosses tenants.
    ///
    /// # Errors
    /// When the database fails. The other backtests have advanced, and a later call continues.
    pub async fn advance_backtests(&self) -> Result<BacktestAdvance, perpend_db::Error> {
        let deps = &self.inner.deps;
        let due = deps.store.ledger.due_backtests(deps.clock.now(), N_AT_ONCE).await?;
        let steps = due.into_iter().map(|backtest| Box::pin(self.advance_backtest(backtest)));
        let mut all = BacktestAdvance::default();
        let mut failure = None;
        for step in join_all(steps).await {
            match step {
                Ok(Some(n_examined)) => {
                    all.n_items += n_examined;
                    all.may_continue = true;
                }
                Ok(None) => {}
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(all), Err)
    }

    /// The number of targets in the range of a backtest, whether they match or not; `None` if it is not cheap to count.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn targets_of_backtest(
        &self,
        project: &ProjectId,
        plan: &BacktestPlan,
    ) -> Result<Option<u64>, perpend_db::Error> {
        match rule_of(plan, self.inner.deps.clock.now()) {
            Some(rule) => self.targets_in_range(project, &range_of(plan, &rule)).await,
            None => Ok(None),
        }
    }

    /// Prepares and writes a step. The number of examined targets; `None` if another node has the backtest, or it was
    /// paused or cancelled meanwhile.
    async fn advance_backtest(&self, due: Backtest) -> Result<Option<u64>, perpend_db::Error> {
        let inner = &self.inner;
        let ledger = &inner.deps.store.ledger;
        let of = (&due.project, due.id.as_str());
        let now = inner.deps.clock.now();
        let lease = Lease { until: now.plus_millis(LEASE_MS), ..inner.new_lease(now) };
        if !ledger.claim_backtest(of, lease, now).await? {
            return Ok(None);
        }
        // Another node may have advanced it between the list and the claim.
        let found = ledger.backtest(&due.project, &due.id).await?;
        let Some(backtest) = found.filter(|found| found.state == BackfillState::Running) else {
            return Ok(None);
        };
        let mut step = Box::pin(self.backtest_step(&backtest));
        let step = loop {
            tokio::select! {
                step = &mut step => break step?,
                () = tokio::time::sleep(RENEW) => {
                    let until = inner.deps.clock.now().plus_millis(LEASE_MS);
                    // Dropping the step abandons its calls.
                    if !ledger.renew_backtest(of, Lease { until, ..lease }).await? {
                        return Ok(None);
                    }
                }
            }
        };
        let now = inner.deps.clock.now();
        let n_examined = step.next.counts.n_examined - backtest.counts.n_examined;
        let is_written = ledger.advance_backtest(&step, lease.fence, now).await?;
        Ok(is_written.then_some(n_examined))
    }

    async fn backtest_step(&self, backtest: &Backtest) -> Result<BacktestStep, perpend_db::Error> {
        let inner = &self.inner;
        let (store, now) = (&inner.deps.store, inner.deps.clock.now());
        let (project, plan) = (&backtest.project, &backtest.plan);
        let mut step = BacktestStep { next: backtest.clone(), pairs: Vec::new() };
        let found = store.catalog.evaluator(project, &plan.evaluator).await?;
        let (Some(found), Some(rule)) = (found, rule_of(plan, now)) else {
            end(&mut step.next, BackfillState::Failed, now);
            step.next.reason = Some(BacktestReason::EvaluatorDeleted);
            return Ok(step);
        };
        let evaluator = Evaluator { version: plan.version.clone(), paused: None, ..found };
        let n_targets = match capacity(backtest) {
            Ok(n) => n,
            Err(reason) => {
                end(&mut step.next, BackfillState::Completed, now);
                step.next.reason = Some(reason);
                return Ok(step);
            }
        };
        let prepared = Arc::new(prepare_evaluator(store, project, evaluator.clone()).await?);
        let rule = (rule, &prepared);
        let page = inner.scored_page(backtest, rule, n_targets).await?;
        let next = &mut step.next;
        next.cursor = page.cursor;
        next.reached_at = page.reached_at.or(next.reached_at);
        let counts = &mut next.counts;
        counts.n_examined += page.counts.n_examined;
        counts.n_refused += page.counts.n_refused;
        counts.n_left_out += page.counts.n_left_out;
        counts.n_unscored += page.n_unscored;
        counts.n_items += page.targets.len() as u64;
        let results = self.results(project, plan, &evaluator, &page.targets).await?;
        let properties = inner.properties(project, &page.targets).await?;
        let mut executions: HashSet<ExecutionId> = HashSet::new();
        for (target, result) in page.targets.iter().zip(results) {
            let live = page.live.get(target).map(Vec::as_slice).unwrap_or_default();
            executions.extend(note(&mut step, target, (live, &result), properties.get(target)));
        }
        let executions: Vec<ExecutionId> = executions.into_iter().collect();
        step.next.counts.before.add(store.ledger.call_totals(project, &executions).await?);
        if page.is_end {
            end(&mut step.next, BackfillState::Completed, now);
        }
        Ok(step)
    }

    /// The results of the version for these targets, in their order.
    async fn results(
        &self,
        project: &ProjectId,
        plan: &BacktestPlan,
        evaluator: &Evaluator,
        targets: &[Target],
    ) -> Result<Vec<TrialResult>, perpend_db::Error> {
        let mut results: Vec<Option<TrialResult>> = vec![None; targets.len()];
        let mut open: Vec<usize> = (0..targets.len()).collect();
        let (mut failed, mut n_retries) = (Vec::new(), 0);
        while !open.is_empty() {
            let on = open.iter().filter_map(|at| targets.get(*at)).cloned();
            let trial = Trial {
                evaluator: evaluator.clone(),
                mapping: plan.mapping.clone(),
                on_missing: plan.on_missing,
                on: on.map(TrialSubject::Target).collect(),
                reuse: ReplyReuse {
                    replies: match plan.is_fresh {
                        true => ReplyPolicy::Refresh,
                        false => ReplyPolicy::Any,
                    },
                    run: 0,
                },
                limit: LIMIT,
            };
            let tried = Box::pin(self.run_trial(project, trial, true)).await?;
            let mut left_out = Vec::new();
            for (place, (at, result)) in open.iter().copied().zip(tried).enumerate() {
                let why = result.outcome.as_ref().err();
                // The first item of a trial is alone if it is too large.
                if 0 < place && why == Some(&items_too_large()) {
                    left_out.push(at);
                    continue;
                }
                if why.is_some_and(is_passing) {
                    failed.push(at);
                }
                keep(&mut results[at], result);
            }
            open = left_out;
            // Each target is attempted before any is repeated.
            if open.is_empty() && n_retries < N_RETRIES {
                n_retries += 1;
                open = std::mem::take(&mut failed);
            }
        }
        Ok(results.into_iter().flatten().collect())
    }
}

/// Replaces the result of an earlier attempt, and keeps its model calls.
fn keep(place: &mut Option<TrialResult>, mut result: TrialResult) {
    if let Some(earlier) = place.take() {
        let mut calls = earlier.model_calls;
        calls.append(&mut result.model_calls);
        result.model_calls = calls;
    }
    // Items are not read any more.
    result.item = None;
    *place = Some(result);
}

fn end(backtest: &mut Backtest, state: BackfillState, now: Timestamp) {
    backtest.state = state;
    backtest.ended_at = Some(now);
}

/// The model and the prompt of an observation.
#[derive(Clone, Debug, Default)]
struct TargetProperties {
    model: Option<String>,
    prompt: Option<String>,
}

impl From<Observation> for TargetProperties {
    fn from(own: Observation) -> Self {
        let prompt = own.prompt.map(|link| match link.version {
            Some(version) => format!("{} v{version}", link.name),
            None => link.name,
        });
        Self { model: own.model, prompt }
    }
}

/// The observation of a result, if it is not the target.
fn other_of<'s>(tested: &'s TrialScore, target: &Target) -> Option<&'s ObservationId> {
    tested.observation.as_ref().filter(|id| target.observation() != Some(*id))
}

/// The name in the result of the plug-in that made a live score.
fn given_name(live: &Score) -> Option<&str> {
    live.written.origin.as_ref().map(|origin| origin.score_name.as_str())
}

/// The live score to compare with a result: the newest with its name. If it is absent, because the evaluator was renamed,
/// the newest to which the plug-in gave the same name.
fn counterpart<'s>(
    target: &Target,
    live: &'s [Score],
    (tested, all): (&TrialScore, &[TrialScore]),
) -> Option<&'s Score> {
    let other = other_of(tested, target);
    let mut on_same = live.iter().filter(|each| other_observation(each, target).as_ref() == other);
    let named = on_same.clone().find(|each| each.written.name == tested.name);
    named.or_else(|| {
        on_same.find(|each| {
            let is_of_other = all.iter().any(|result| result.name == each.written.name);
            !is_of_other && given_name(each) == Some(tested.given.as_str())
        })
    })
}

/// Counts the result for a target, and adds the pairs of its scores. The executions of the compared live scores.
fn note(
    step: &mut BacktestStep,
    target: &Target,
    (live, result): (&[Score], &TrialResult),
    properties: Option<&TargetProperties>,
) -> Vec<ExecutionId> {
    let (next, calls) = (&mut step.next, &result.model_calls);
    next.counts.cost_usd += calls.iter().filter_map(|call| call.cost).sum::<f64>();
    let scores = match &result.outcome {
        Ok(scores) => scores,
        Err(why) if is_skipped(why, next.plan.on_missing) => {
            next.counts.n_skipped += 1;
            return Vec::new();
        }
        Err(why) => {
            next.note_failure(why.class.as_str(), &why.message);
            return Vec::new();
        }
    };
    next.counts.n_completed += 1;
    next.counts.after.add(CallTotals::of(calls));
    let (mut seen, mut executions) = (HashSet::new(), Vec::new());
    for tested in scores {
        let observation = other_of(tested, target);
        // Of several scores of a name, the first counts.
        if !seen.insert((tested.name.as_str(), observation)) {
            continue;
        }
        let Some(score) = counterpart(target, live, (tested, scores)) else {
            next.counts.n_unpaired += 1;
            continue;
        };
        let written = &score.written;
        next.counts.n_pairs += 1;
        executions.extend(written.origin.as_ref().map(|origin| origin.execution_id.clone()));
        step.pairs.push(ScorePair {
            target: target.clone(),
            name: tested.name.clone(),
            live: PairedValue { value: written.value.clone(), comment: written.comment.clone() },
            tested: PairedValue { value: tested.value.clone(), comment: tested.comment.clone() },
            model: properties.and_then(|properties| properties.model.clone()),
            environment: written.environment.clone(),
            prompt: properties.and_then(|properties| properties.prompt.clone()),
            observation: observation.cloned(),
        });
    }
    next.counts.n_unpaired += n_live_only(target, live, scores);
    executions
}

/// The number of live scores without a result, each name once.
fn n_live_only(target: &Target, live: &[Score], scores: &[TrialScore]) -> u64 {
    let mut names = HashSet::new();
    for score in live {
        let observation = other_observation(score, target);
        let name = score.written.name.as_str();
        let has_result = scores.iter().any(|each| {
            let is_same = each.name == name || given_name(score) == Some(each.given.as_str());
            is_same && other_of(each, target) == observation.as_ref()
        });
        if !has_result {
            names.insert((name, observation));
        }
    }
    names.len() as u64
}

/// The next targets of a backtest.
#[derive(Debug)]
struct ScoredPage {
    /// Those with a live score.
    targets: Vec<Target>,
    live: LiveScores,
    n_unscored: u64,
    counts: BackfillCounts,
    cursor: Option<String>,
    reached_at: Option<Timestamp>,
    is_end: bool,
}

impl Inner {
    /// The next targets that the filter takes, at most `n_targets`, with their live scores.
    async fn scored_page(
        &self,
        backtest: &Backtest,
        (rule, evaluator): (Rule, &Arc<PreparedEvaluator>),
        n_targets: u64,
    ) -> Result<ScoredPage, perpend_db::Error> {
        let (project, plan) = (&backtest.project, &backtest.plan);
        let taken = |page: &mut BackfillPage| -> Vec<Target> {
            let planned = std::mem::take(&mut page.executions).into_iter();
            planned.map(|each| each.execution.target).collect()
        };
        let of_rule = (rule.clone(), evaluator);
        let mut page = self.backtest_page(backtest, of_rule, n_targets).await?;
        let mut targets = taken(&mut page);
        let live = self.live_scores(project, plan, &targets).await?;
        let first = targets.iter().position(|target| live.contains_key(target));
        if let Some(first) = first.filter(|first| first + 1 < targets.len())
            && is_cost_unknown(backtest)
        {
            page = self.backtest_page(backtest, (rule, evaluator), first as u64 + 1).await?;
            targets = taken(&mut page);
        }
        let n_taken = targets.len();
        targets.retain(|target| live.contains_key(target));
        Ok(ScoredPage {
            n_unscored: (n_taken - targets.len()) as u64,
            targets,
            live,
            counts: page.counts,
            cursor: page.cursor,
            reached_at: page.reached_at,
            is_end: page.is_end,
        })
    }

    /// The next targets that the filter takes, at most `n_targets`.
    async fn backtest_page(
        &self,
        backtest: &Backtest,
        (rule, evaluator): (Rule, &Arc<PreparedEvaluator>),
        n_targets: u64,
    ) -> Result<BackfillPage, perpend_db::Error> {
        let range = range_of(&backtest.plan, &rule);
        let scan = BackfillScan {
            project: &backtest.project,
            plan: &range,
            rule: Arc::new(prepare_with(rule, evaluator)),
            class: ExecutionClass::Backfill,
        };
        self.backfill_page(&scan, backtest.cursor.clone(), n_targets).await
    }

    async fn live_scores(
        &self,
        project: &ProjectId,
        plan: &BacktestPlan,
        targets: &[Target],
    ) -> Result<LiveScores, perpend_db::Error> {
        let of = (&plan.evaluator, plan.rule.as_ref());
        let telemetry = &self.deps.store.telemetry;
        let mut live = LiveScores::new();
        for score in telemetry.scores_of_evaluator(project, of, targets).await? {
            if let Some(target) = target_of(&score, plan.target) {
                live.entry(target).or_default().push(score);
            }
        }
        Ok(live)
    }

    /// Models and prompts of those of these targets that are observations.
    async fn properties(
        &self,
        project: &ProjectId,
        targets: &[Target],
    ) -> Result<HashMap<Target, TargetProperties>, perpend_db::Error> {
        let keys = targets
            .iter()
            .filter_map(|target| Some((target.trace()?.clone(), target.observation()?.clone())));
        let keys: Vec<(TraceId, ObservationId)> = keys.collect();
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        let found = self.deps.store.telemetry.target_observations(project, &keys, false).await?;
        let properties = found.into_iter().map(|own| {
            let target = Target::Observation(own.trace_id.clone(), own.id.clone());
            (target, own.into())
        });
        Ok(properties.collect())
    }
}

#[cfg(test)]
mod tests;
