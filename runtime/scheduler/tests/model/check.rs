//! Conditions that must hold when everything is quiet.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

use perpend_catalog::RulePatch;
use perpend_domain::evaluation::{
    EndReason, Execution, ExecutionState, LatePolicy, Rule, Target, TargetKind,
};
use perpend_domain::identity::{self, ExecutionKey};
use perpend_domain::ids::{ExecutionId, RuleId};
use perpend_domain::observation::Observation;
use perpend_domain::sampling;
use perpend_domain::score::{ScoreSource, ScoreValue};
use perpend_domain::time::Clock as _;
use perpend_scheduler::ExplanationStep;

use super::{History, Known, answer, asks_a_provider};
use crate::support::{StopInside, THUMB};

/// Longer than any retry waits.
const ROUND_MS: i64 = 15 * 60_000;
const MAX_ROUNDS: usize = 100;
const EXPLAINED_EACH: usize = 17;

/// Coverage of a history.
#[derive(Debug, Default)]
pub(super) struct Seen {
    observations: usize,
    completed: usize,
    skipped: usize,
    failed: usize,
    cancelled: usize,
    rescored: usize,
    /// Executions over sessions, of rules that wait for others, and of rules that a score of a user starts.
    of_sessions: usize,
    waited: usize,
    started: usize,
    by_provider: BTreeSet<&'static str>,
    died_at: BTreeSet<&'static str>,
}

impl Seen {
    /// Whether each outcome occurred: otherwise the histories cover too little.
    pub(super) fn has_everything(&self) -> bool {
        let all = [
            self.observations,
            self.completed,
            self.skipped,
            self.failed,
            self.cancelled,
            self.rescored,
            self.of_sessions,
            self.waited,
            self.started,
        ];
        let mut places = StopInside::INGEST.iter().chain(&StopInside::WORK);
        let mut ends = ["", "refused", "malformed_output"].iter();
        all.iter().all(|n| 0 < *n)
            && places.all(|at| self.died_at.contains(at))
            && ends.all(|class| self.by_provider.contains(class))
    }
}

impl AddAssign for Seen {
    fn add_assign(&mut self, other: Self) {
        self.observations += other.observations;
        self.completed += other.completed;
        self.skipped += other.skipped;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.rescored += other.rescored;
        self.of_sessions += other.of_sessions;
        self.waited += other.waited;
        self.started += other.started;
        self.by_provider.extend(other.by_provider);
        self.died_at.extend(other.died_at);
    }
}

fn ensure(is_true: bool, wrong: impl FnOnce() -> String) -> Result<(), String> {
    match is_true {
        true => Ok(()),
        false => Err(wrong()),
    }
}

/// Runs everything to its end, then compares the stored state with the model.
pub(super) async fn at_the_end(history: &mut History<'_>) -> Result<Seen, String> {
    let executions = quiet(history).await?;
    let mut seen = Seen {
        observations: history.observations.len(),
        died_at: history.died_at.clone(),
        ..Seen::default()
    };
    for execution in &executions {
        explained(execution)?;
        match execution.state {
            ExecutionState::Completed => seen.completed += 1,
            ExecutionState::Skipped => seen.skipped += 1,
            ExecutionState::Failed => seen.failed += 1,
            _ => seen.cancelled += 1,
        }
        seen.rescored += usize::from(0 < execution.made.generation);
        seen.of_sessions += usize::from(execution.made.target.session().is_some());
        if let Some(known) = history.rules.get(&execution.made.rule_id) {
            seen.waited += usize::from(!known.rule.after.is_empty());
            seen.started += usize::from(reads_thumbs(&known.rule));
        }
        if asks_a_provider(item(&execution.made.target)) {
            let class = execution.error_class.map_or("", EndReason::as_str);
            seen.by_provider.insert(class);
        }
    }
    identities(history, &executions)?;
    scores(history, &executions).await?;
    for known in history.rules.values() {
        let of_rule = executions.iter().filter(|each| each.made.rule_id == known.rule.id);
        let of_rule: Vec<&Execution> = of_rule.collect();
        match known.rule.target {
            TargetKind::Observation if !history.waits => of_observations(known, &of_rule)?,
            _ => of_untouched(history, known, &of_rule)?,
        }
        counters(history, known, &of_rule).await?;
        explanations(history, known, &of_rule).await?;
    }
    Ok(seen)
}

/// Runs until nothing waits: paused rules resume, and the clock passes every wait.
async fn quiet(history: &mut History<'_>) -> Result<Vec<Execution>, String> {
    history.work().await?;
    let existing = history.rules.iter().filter(|(_, known)| !known.is_deleted);
    let existing: Vec<RuleId> = existing.map(|(id, _)| id.clone()).collect();
    for id in existing {
        if history.rules[&id].rule.enabled && history.rules[&id].rule.paused.is_none() {
            continue;
        }
        let patch = RulePatch { enabled: Some(true), ..RulePatch::default() };
        history.patch(&id, &patch).await;
        history.read_rule(&id).await;
    }
    let mut open = Vec::new();
    for _ in 0..MAX_ROUNDS {
        history.world.clock.advance(ROUND_MS);
        history.save_connection().await;
        // With places for batches: a scheduler without places only makes executions.
        let options = perpend_scheduler::Options {
            n_failures_to_pause: u32::MAX,
            ..perpend_scheduler::Options::default()
        };
        let scheduler = history.world.scheduler_with(history.evaluate.clone(), None, options);
        scheduler.run_until_idle().await.map_err(|error| error.to_string())?;
        let all = all_executions(history).await;
        open = all.iter().filter(|each| !each.state.is_final()).cloned().collect();
        let (store, now) = (&history.world.store, history.world.clock.now());
        let later = now.plus_millis(100 * ROUND_MS);
        let watched = store.ledger.due_watches(later, 1).await.unwrap();
        let touched = store.telemetry.touched(1).await.unwrap();
        if open.is_empty() && watched.is_empty() && touched.is_empty() {
            return Ok(all);
        }
    }
    Err(format!("never ends: {open:?}"))
}

async fn all_executions(history: &History<'_>) -> Vec<Execution> {
    let traces: BTreeSet<_> = history.observations.values().map(|own| &own.trace_id).collect();
    let mut all = Vec::new();
    for trace in traces {
        let (store, project) = (&history.world.store, &history.world.project);
        let rows = store.ledger.trace_executions(project, trace).await.unwrap();
        all.extend(rows);
    }
    let traces = history.observations.values().map(|own| &own.trace_id);
    let sessions: BTreeSet<_> = traces.filter_map(|id| history.session_of(id)).collect();
    for session in sessions {
        let (store, project) = (&history.world.store, &history.world.project);
        let rows = store.ledger.session_executions(project, &session).await;
        all.extend(rows.unwrap());
    }
    all
}

/// The part of a target that the evaluator uses.
fn item(target: &Target) -> &str {
    match target {
        Target::Observation(_, id) => id.as_str(),
        whole => whole.sampled_by(),
    }
}

/// The outcome follows from the item, or from the events of the execution.
fn explained(execution: &Execution) -> Result<(), String> {
    use ExecutionState::{Cancelled, Completed, Failed, Skipped};
    let class = execution.error_class.map_or("", EndReason::as_str);
    let of_item = answer(item(&execution.made.target), u32::MAX);
    let is_explained = match execution.state {
        Completed => of_item.is_ok() && class.is_empty(),
        Skipped => class == "not_applicable" && of_item.is_err(),
        Failed => match class {
            "invalid_input" | "plugin_trap" | "refused" | "malformed_output" => of_item.is_err(),
            "worker_lost"
            | "held_too_long"
            | "transient"
            | "wall_timeout"
            | "rate_limited"
            | "upstream_timeout"
            | "upstream_unavailable" => true,
            _ => false,
        },
        Cancelled => class == "rule_deleted" || class == "loop_guard",
        _ => false,
    };
    let is_told = execution.state == Completed || execution.error_message.is_some();
    ensure(is_explained && is_told, || format!("not explained: {execution:?}"))
}

/// Each target has one execution for each rule, evaluator and generation, under its derived id.
fn identities(history: &History<'_>, executions: &[Execution]) -> Result<(), String> {
    let mut ids: BTreeSet<&ExecutionId> = BTreeSet::new();
    for execution in executions {
        let made = &execution.made;
        let project = &history.world.project;
        let key = ExecutionKey::live(
            project,
            made.rule_id.as_str(),
            &made.evaluator_id,
            &made.target,
            made.generation,
        );
        ensure(key.execution_id() == made.id, || format!("another id: {execution:?}"))?;
        ensure(ids.insert(&made.id), || format!("made twice: {execution:?}"))?;
    }
    Ok(())
}

/// The newest completed generation has exactly its score, and no other execution has one.
async fn scores(history: &History<'_>, executions: &[Execution]) -> Result<(), String> {
    let mut newest: BTreeMap<_, &Execution> = BTreeMap::new();
    // An evaluator without scores supersedes its earlier scores too.
    let judged = |each: &&Execution| {
        matches!(each.state, ExecutionState::Completed | ExecutionState::Skipped)
    };
    for execution in executions.iter().filter(judged) {
        let made = &execution.made;
        let place =
            newest.entry((&made.rule_id, &made.evaluator_id, &made.target)).or_insert(execution);
        if place.made.generation < made.generation {
            *place = execution;
        }
    }
    let mut expected: BTreeMap<String, f64> = BTreeMap::new();
    for execution in newest.values() {
        if let Ok(value) = answer(item(&execution.made.target), u32::MAX) {
            let id = identity::score_id(&execution.made.id, "length", 0);
            expected.insert(id.to_string(), value);
        }
    }
    let mut found: BTreeMap<String, f64> = BTreeMap::new();
    let of_people = |source| source == ScoreSource::Annotation;
    let all = history.world.scores().await.into_iter();
    for score in all.filter(|score| !of_people(score.written.source)) {
        let ScoreValue::Numeric(value) = score.written.value else {
            return Err(format!("not a number: {score:?}"));
        };
        found.insert(score.written.id.to_string(), value);
    }
    ensure(found == expected, || {
        let missing = expected.iter().filter(|each| found.get(each.0) != Some(each.1));
        let surplus = found.iter().filter(|each| expected.get(each.0) != Some(each.1));
        format!(
            "missing {:?}, not expected {:?}",
            missing.collect::<Vec<_>>(),
            surplus.collect::<Vec<_>>()
        )
    })
}

fn of_observations(known: &Known, executions: &[&Execution]) -> Result<(), String> {
    let made = executions.iter().map(|each| {
        let observation = each.made.target.observation().cloned().unwrap();
        (observation, each.made.evaluator_id.to_string())
    });
    let made: BTreeSet<_> = made.collect();
    ensure(made == known.made, || {
        format!(
            "{}: must be made {:?}, was made {:?}: {executions:?}",
            known.rule.id,
            known.made.difference(&made).collect::<Vec<_>>(),
            made.difference(&known.made).collect::<Vec<_>>(),
        )
    })
}

/// Whether a score of a user starts it.
fn reads_thumbs(rule: &Rule) -> bool {
    let mut sent = rule.filter.sent().iter();
    sent.any(|condition| condition["key"] == THUMB)
}

/// The target of the rule that an observation is, or belongs to.
fn target_of(history: &History<'_>, rule: &Rule, own: &Observation) -> Option<Target> {
    match rule.target {
        TargetKind::Trace => Some(Target::Trace(own.trace_id.clone())),
        TargetKind::Session => history.session_of(&own.trace_id).map(Target::Session),
        _ => Some(Target::Observation(own.trace_id.clone(), own.id.clone())),
    }
}

/// Whether the target has a thumbs-down: for a trace, any of its observations.
fn is_thumbed(history: &History<'_>, target: &Target) -> bool {
    history.thumbs.iter().any(|thumbed| match target {
        Target::Trace(trace) => thumbed.trace() == Some(trace),
        other => thumbed == other,
    })
}

/// Whether the rule finally takes the target.
fn takes(history: &History<'_>, rule: &Rule, target: &Target, own: &Observation) -> bool {
    let salt = match rule.sampling_independent {
        true => rule.id.as_str(),
        false => "",
    };
    let is_in_sample = sampling::value(salt, target.sampled_by()) < rule.sampling;
    let is_own = own.environment.starts_with("perpend");
    let is_matched = match rule.filter.sent().first() {
        None => true,
        Some(_) if reads_thumbs(rule) => is_thumbed(history, target),
        Some(condition) => condition["value"][0] == own.kind.as_str(),
    };
    is_in_sample && !is_own && is_matched
}

/// Generations are consecutive, and one for late spans is made only if the rule is configured so. A rule that
/// was never edited has taken all later targets, and none that it refuses.
fn of_untouched(
    history: &History<'_>,
    known: &Known,
    executions: &[&Execution],
) -> Result<(), String> {
    let rule = &known.rule;
    let mut generations: BTreeMap<&Target, BTreeSet<u32>> = BTreeMap::new();
    for execution in executions {
        let made = &execution.made;
        let of_target = generations.entry(&made.target).or_default();
        of_target.insert(made.generation);
    }
    for (target, all) in &generations {
        let is_whole = all.iter().copied().eq(0..all.len() as u32);
        ensure(is_whole, || format!("{}: {target:?} has generations {all:?}", rule.id))?;
        let may_again = rule.late == LatePolicy::Rescore && target.is_whole();
        ensure(may_again || all.len() == 1, || {
            format!("{}: {target:?} was scored again", rule.id)
        })?;
    }
    if !known.is_untouched || known.is_deleted {
        return Ok(());
    }
    let observations = history.observations.values();
    // The root of a trace has its session: its observations count where they arrived first.
    let is_new = |own: &&Observation| known.traces.contains(&own.trace_id);
    let old: BTreeSet<Target> = observations
        .clone()
        .filter(|own| !is_new(own))
        .filter_map(|own| target_of(history, rule, own))
        .collect();
    for own in observations.filter(is_new) {
        let Some(target) = target_of(history, rule, own) else {
            continue;
        };
        let is_ended = own.end.is_some() || target.is_whole();
        if old.contains(&target) || !is_ended {
            continue;
        }
        let is_taken = takes(history, rule, &target, own);
        ensure(is_taken == generations.contains_key(&target), || {
            let what = if is_taken { "was never made" } else { "must not be made" };
            format!("{}: {target:?} {what}", rule.id)
        })?;
    }
    Ok(())
}

/// Seen targets are the sum of counted refusals, existing executions and made executions; made executions
/// have ended.
async fn counters(
    history: &History<'_>,
    known: &Known,
    executions: &[&Execution],
) -> Result<(), String> {
    let mut counted = history.world.counts(&known.rule).await;
    let mut take = |reason: &str| counted.remove(reason).unwrap_or_default();
    let made = take("made");
    ensure(made == executions.len() as u64, || {
        format!("{}: {made} counted as made of {}", known.rule.id, executions.len())
    })?;
    let requeued = history.requeued.iter();
    let requeued = requeued.filter(|id| executions.iter().any(|each| each.made.id == **id));
    let n_ends = executions.len() + requeued.count();
    let ends = ["completed", "skipped", "failed", "cancelled"].map(&mut take);
    ensure(ends.iter().sum::<u64>() == n_ends as u64, || {
        format!("{}: {ends:?} counted of {n_ends} ends", known.rule.id)
    })?;
    // Retries and waits are counted too, and are no outcome.
    take("delayed");
    take("held");
    if known.rule.target == TargetKind::Observation && !history.waits {
        let mut expected = known.counted.clone();
        expected.remove("made");
        let same = counted.iter().map(|(reason, n)| (reason.as_str(), *n));
        ensure(same.eq(expected.iter().map(|(reason, n)| (*reason, *n))), || {
            format!("{}: counted {counted:?}, not {expected:?}", known.rule.id)
        })?;
    }
    Ok(())
}

/// `explain` returns the executions of a target.
async fn explanations(
    history: &History<'_>,
    known: &Known,
    executions: &[&Execution],
) -> Result<(), String> {
    if known.is_deleted {
        return Ok(());
    }
    let world = &history.world;
    let scheduler = world.scheduler(history.evaluate.clone());
    // Each call takes about ten statements: only a sample of all pairs is checked.
    for own in history.observations.values().step_by(EXPLAINED_EACH) {
        let Some(target) = target_of(history, &known.rule, own) else {
            continue;
        };
        let explained = scheduler.explain(&world.project, &known.rule, &target);
        let explained = explained.await.map_err(|error| error.to_string())?;
        let n = executions.iter().filter(|each| each.made.target == target).count();
        ensure(explained.executions.len() == n, || {
            format!("{}: explain shows another number for {target:?}", known.rule.id)
        })?;
        ensure(!explained.step.sentence().is_empty(), || format!("no sentence for {target:?}"))?;
        let is_own = known.is_untouched && known.traces.contains(&own.trace_id);
        let is_without = matches!(&explained.step, ExplanationStep::Taken { assignments, .. }
            if assignments.iter().any(|each| each.execution.is_none()));
        ensure(!(is_own && is_without), || {
            format!("{}: no reason for {target:?}: {:?}", known.rule.id, explained.step)
        })?;
    }
    Ok(())
}
