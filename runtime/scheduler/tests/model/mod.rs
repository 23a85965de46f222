//! Random histories compared with a model: in any order of events, each target of each rule ends in exactly
//! one explained state, with exactly its scores.
//!
//! A history ingests, delivers twice, edits rules, moves the clock, and runs schedulers that are killed at
//! named points, lose workers and release calls; providers fail in each way that is retried, holds or pauses,
//! and budgets are exhausted. The model tracks which rules have seen which observation, and so the expected
//! executions, scores and counters once everything is quiet.
//!
//! Configuration also changes between two reads of a scheduler, followed by new data.
//!
//! In every other history rules also wait for others, and scores of users start rules. Targets that are
//! examined again are decided by edited rules too: for these the model has only the executions that a rule
//! without edits must have made in the end.
//!
//! A history is determined by its seed: `PERPEND_MODEL_SEED=7 cargo test -p perpend-scheduler model` runs
//! that one alone.

mod check;
mod plant;
mod races;
mod thumbs;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::{Either, select};
use futures_util::stream::{self, StreamExt as _};
use perpend_catalog::RulePatch;
use perpend_domain::budget::{BudgetScope, ExhaustedBudget, OnReached};
use perpend_domain::evaluation::{LatePolicy, Pause, Rule, Target, TargetKind};
use perpend_domain::filter::WrittenFilter;
use perpend_domain::ids::{ExecutionId, ObservationId, RuleId, TraceId};
use perpend_domain::observation::{Observation, ObservationKind};
use perpend_domain::plugin::{EvaluationCall, FailureClass};
use perpend_domain::slots::ModelFailure;
use perpend_domain::time::{Clock as _, Timestamp};
use perpend_scheduler::{Breakpoint, Breakpoints, Error, Options, Scheduler};
use perpend_storage::testing::TempDatabase;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;

use crate::support::{
    FakeEvaluate, Gate, StopInside, StopOnce, THUMB, World, child_of, conditions, span,
};
use plant::Plant;

/// Histories of 250 steps each, on each of two databases, unless `PERPEND_MODEL_HISTORIES` has another number.
const N_HISTORIES: u64 = 10;
const N_STEPS: usize = 250;
const N_AT_A_TIME: usize = 4;
/// Maximum of change rows of one pass: after this number of requests the schedulers run.
const MAX_UNSEEN: usize = 30;
const MAX_RULES: usize = 8;
const N_SESSIONS: u64 = 6;
/// Until an exhausted budget is renewed.
const BUDGET_MS: i64 = 30 * 60_000;

/// Expectations about a rule.
#[derive(Debug)]
struct Known {
    rule: Rule,
    is_deleted: bool,
    /// Whether the rule was never edited and never paused.
    is_untouched: bool,
    /// Expected counters by reason.
    counted: BTreeMap<&'static str, u64>,
    /// Expected executions over observations.
    made: BTreeSet<(ObservationId, String)>,
    /// Traces that started after the rule was made.
    traces: BTreeSet<TraceId>,
}

/// The state of a history.
struct History<'d> {
    database: &'d TempDatabase,
    world: World,
    random: StdRng,
    evaluate: Arc<FakeEvaluate>,
    rules: BTreeMap<RuleId, Known>,
    /// Observations as they were last sent.
    observations: BTreeMap<ObservationId, Observation>,
    /// Every request, for repeated delivery.
    requests: Vec<Vec<Observation>>,
    /// Ended observations that no scheduler has seen since they arrived.
    unseen: BTreeSet<ObservationId>,
    n_unseen_requests: usize,
    n_made: u64,
    requeued: Vec<ExecutionId>,
    /// Whether rules wait for others, and users score.
    waits: bool,
    /// Targets with a thumbs-down by a user.
    thumbs: BTreeSet<Target>,
    stop: StopInside,
    /// Points inside transactions at which a process was killed.
    died_at: BTreeSet<&'static str>,
    plant: Option<Plant>,
    /// Log of the history, for the diagnosis of a failure.
    log: Vec<String>,
}

/// Result of the evaluator for the `n`-th call with an item.
fn answer(item: &str, n_before: u32) -> Result<f64, FailureClass> {
    let number = number_of(item);
    match number % 32 {
        0 => Err(FailureClass::InvalidInput),
        1 => Err(FailureClass::NotApplicable),
        2 if n_before < 2 => Err(FailureClass::Transient),
        3 if n_before < 1 => Err(FailureClass::WorkerLost),
        4 => Err(FailureClass::PluginTrap),
        5 if n_before < 1 => Err(FailureClass::WallTimeout),
        6 if n_before < 1 => Err(FailureClass::Cancelled),
        16 if n_before < 2 => Err(FailureClass::RateLimited),
        17 if n_before < 1 => Err(FailureClass::UpstreamTimeout),
        18 if n_before < 2 => Err(FailureClass::UpstreamUnavailable),
        19 => Err(FailureClass::Refused),
        20 => Err(FailureClass::MalformedOutput),
        21 if n_before < 1 => Err(FailureClass::AuthInvalid),
        22 if n_before < 1 => Err(FailureClass::BudgetExhausted),
        _ => Ok(number as f64),
    }
}

fn number_of(item: &str) -> u64 {
    u64::from_str_radix(&item[item.len() - 8..], 16).unwrap()
}

/// Whether a provider or a budget determines the outcome of this item.
fn asks_a_provider(item: &str) -> bool {
    (16..23).contains(&(number_of(item) % 32))
}

/// Fails as the server records it for a provider: a worker cannot report such a failure.
fn as_noted(call: &EvaluationCall, class: FailureClass, now: Timestamp) -> FailureClass {
    if asks_a_provider(&call.item.id)
        && let Some(origin) = &call.origin
    {
        let spent = ExhaustedBudget {
            scope: BudgetScope::Rule,
            on_reached: OnReached::Hold,
            until: Some(now.plus_millis(BUDGET_MS)),
        };
        origin.notes.failed(ModelFailure {
            spent: (class == FailureClass::BudgetExhausted).then_some(spent),
            ..ModelFailure::new(class, "as the test wants")
        });
    }
    class
}

fn type_is(kind: &str) -> WrittenFilter {
    conditions(vec![json!({
        "type": "stringOptions", "column": "type", "operator": "any of", "value": [kind]
    })])
}

impl<'d> History<'d> {
    async fn new(database: &'d TempDatabase, seed: u64, plant: Option<Plant>) -> Self {
        let stop = StopInside::default();
        let world = World::new(stop.open(database).await).await;
        let clock = Arc::clone(&world.clock);
        Self {
            database,
            world,
            stop,
            died_at: BTreeSet::new(),
            random: StdRng::seed_from_u64(seed),
            evaluate: FakeEvaluate::new(move |call, n_before| {
                let answered = answer(&call.item.id, n_before);
                answered.map_err(|class| as_noted(call, class, clock.now()))
            }),
            rules: BTreeMap::new(),
            observations: BTreeMap::new(),
            requests: Vec::new(),
            unseen: BTreeSet::new(),
            n_unseen_requests: 0,
            n_made: 0,
            requeued: Vec::new(),
            waits: seed.is_multiple_of(2),
            thumbs: BTreeSet::new(),
            plant,
            log: Vec::new(),
        }
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.random.random_range(0..n) == 0
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        let n = self.log.len();
        self.log.push(format!("{n}: {}", what()));
    }

    async fn step(&mut self) -> Result<(), String> {
        if MAX_UNSEEN <= self.n_unseen_requests {
            return self.work().await;
        }
        match self.random.random_range(0..100) {
            0..34 => self.ingest().await,
            34..42 => self.deliver_again().await,
            42..48 => self.make_rule().await,
            48..58 => self.edit_rule().await,
            58..60 => self.delete_rule().await,
            60..72 => self.move_clock(),
            72..74 => self.requeue().await,
            74..75 => self.save_connection().await,
            88..92 if self.waits => self.thumb().await,
            75..79 => self.die().await?,
            79..82 => self.die_inside().await?,
            82..84 => self.die_during_a_call().await,
            84..87 => self.race().await?,
            87..88 => self.work_on_two_nodes().await?,
            _ => self.work().await?,
        }
        Ok(())
    }

    async fn ingest(&mut self) {
        let request = self.request();
        self.send(request).await;
    }

    /// A few observations: new ones, and the ends of open ones.
    fn request(&mut self) -> Vec<Observation> {
        let n = self.random.random_range(1..5);
        let mut request: Vec<Observation> = Vec::new();
        for _ in 0..n {
            let open: Vec<_> = self.observations.values().filter(|own| own.end.is_none()).collect();
            let to_end = open.choose(&mut self.random).map(|own| (*own).clone());
            let next = match to_end {
                Some(mut own) if self.random.random_range(0..3) == 0 => {
                    own.end = Some(own.start.plus_millis(5));
                    own
                }
                _ => self.new_observation(),
            };
            if request.iter().all(|other| other.id != next.id) {
                self.observations.insert(next.id.clone(), next.clone());
                request.push(next);
            }
        }
        self.note(|| format!("ingest {}", shown(&request)));
        request
    }

    fn new_observation(&mut self) -> Observation {
        self.n_made += 1;
        let number = self.n_made;
        let kind = match self.random.random_range(0..3) {
            0 => ObservationKind::Tool,
            _ => ObservationKind::Generation,
        };
        let all: Vec<_> = self.observations.values().cloned().collect();
        let parent = all.choose(&mut self.random).filter(|_| !number.is_multiple_of(3));
        let mut own = match parent {
            Some(parent) => {
                let mut own = child_of(parent, number, kind);
                own.environment.clone_from(&parent.environment);
                own
            }
            None => {
                let mut own = span(number, number, kind);
                if self.one_in(8) {
                    "perpend-eval".clone_into(&mut own.environment);
                } else if self.one_in(2) {
                    own.session_id = Some(format!("{:032x}", number % N_SESSIONS));
                }
                own
            }
        };
        if self.one_in(5) {
            own.end = None;
        }
        own
    }

    /// A repetition does not cause another examination, whatever has arrived since.
    async fn deliver_again(&mut self) {
        let Some(request) = self.requests.choose(&mut self.random).cloned() else {
            return;
        };
        self.note(|| format!("deliver again {}", shown(&request)));
        self.world.ingest(request).await;
    }

    async fn send(&mut self, request: Vec<Observation>) {
        if self.one_in(10) {
            self.die_during_ingest(request.clone()).await;
        }
        self.arrive(request).await;
    }

    /// Without a kill of the server.
    async fn arrive(&mut self, request: Vec<Observation>) {
        for own in &request {
            let mut before = self.requests.iter().flatten();
            if before.all(|other| other.trace_id != own.trace_id) {
                let now = self.world.clock.now();
                let rules = self.rules.values_mut();
                for known in rules.filter(|known| known.rule.created_at <= now) {
                    known.traces.insert(own.trace_id.clone());
                }
            }
            if own.end.is_some() {
                self.unseen.insert(own.id.clone());
            }
        }
        self.requests.push(request.clone());
        self.n_unseen_requests += 1;
        self.world.ingest(request).await;
    }

    /// The server is killed inside the transaction: no part of the request is stored, and its client sends it
    /// again.
    async fn die_during_ingest(&mut self, request: Vec<Observation>) {
        let at = *StopInside::INGEST.choose(&mut self.random).unwrap();
        self.note(|| format!("die at {at}"));
        self.stop.arm(at);
        let sent = self.world.try_ingest(request).await;
        if self.stop.disarm() {
            sent.unwrap_err();
            self.died_at.insert(at);
        }
    }

    async fn make_rule(&mut self) {
        if MAX_RULES <= self.rules.len() {
            return;
        }
        let id = format!("r{}", self.rules.len());
        let target = match self.random.random_range(0..5) {
            0 => TargetKind::Trace,
            1 => TargetKind::Session,
            _ => TargetKind::Observation,
        };
        let after = self.others(target);
        let (rate, filter) = (self.rate(), self.filter(target));
        let late = match self.random.random() {
            true => LatePolicy::Rescore,
            false => LatePolicy::Ignore,
        };
        let is_independent = self.random.random();
        let rule = self.world.rule(&id, target, |rule| {
            rule.sampling = rate;
            rule.sampling_independent = is_independent;
            rule.filter = filter;
            rule.late = late;
            rule.after.clone_from(&after);
            rule.on_missing = perpend_domain::evaluation::OnMissing::Empty;
        });
        let rule = rule.await;
        self.note(|| {
            format!(
                "make {id}: {target:?} at {rate}, {late:?}, {:?} after {after:?}",
                rule.filter.sent()
            )
        });
        self.rules.insert(
            rule.id.clone(),
            Known {
                rule,
                is_deleted: false,
                is_untouched: true,
                counted: BTreeMap::new(),
                made: BTreeSet::new(),
                traces: BTreeSet::new(),
            },
        );
    }

    fn rate(&mut self) -> f64 {
        match self.random.random_range(0..4) {
            0 => 0.3,
            1 => 0.7,
            _ => 1.0,
        }
    }

    /// Rules for which a new one may wait: those that wait for none, with the same kind of target or its
    /// parts.
    fn others(&mut self, target: TargetKind) -> Vec<RuleId> {
        if !self.waits || self.one_in(2) {
            return Vec::new();
        }
        let is_one = |known: &&Known| {
            let rule = &known.rule;
            !known.is_deleted && rule.after.is_empty() && rule.target.size() <= target.size()
        };
        let others = self.rules.values().filter(is_one);
        let others: Vec<RuleId> = others.map(|known| known.rule.id.clone()).collect();
        others.sample(&mut self.random, 2).cloned().collect()
    }

    fn filter(&mut self, target: TargetKind) -> WrittenFilter {
        if self.waits && self.one_in(4) {
            let thumb = json!({
                "type": "booleanObject", "column": "score_booleans", "key": THUMB, "operator": "=",
                "value": false,
            });
            return WrittenFilter::parse(vec![thumb], target.filter_columns()).unwrap();
        }
        match (target, self.random.random_range(0..3)) {
            (TargetKind::Observation, 0) => type_is("GENERATION"),
            (TargetKind::Observation, 1) => type_is("TOOL"),
            _ => WrittenFilter::default(),
        }
    }

    /// An existing rule.
    fn any_rule(&mut self) -> Option<RuleId> {
        let existing = self.rules.iter().filter(|(_, known)| !known.is_deleted);
        let existing: Vec<_> = existing.map(|(id, _)| id.clone()).collect();
        existing.choose(&mut self.random).cloned()
    }

    async fn edit_rule(&mut self) {
        let Some(id) = self.any_rule() else { return };
        let target = self.rules[&id].rule.target;
        let now = self.world.clock.now();
        if self.one_in(4) {
            let pause = Pause {
                reason: "PLUGIN_FAILING".to_owned(),
                message: "as the test wants".to_owned(),
                at: now,
                until: None,
            };
            self.note(|| format!("pause {id}"));
            let (store, project) = (&self.world.store, &self.world.project);
            store.catalog.pause_rule(project, &id, &pause, None).await.unwrap();
        } else {
            let patch = match self.random.random_range(0..4) {
                0 => RulePatch { enabled: Some(false), ..RulePatch::default() },
                1 => RulePatch { sampling: Some(self.rate()), ..RulePatch::default() },
                2 => RulePatch { filter: Some(self.filter(target)), ..RulePatch::default() },
                _ => RulePatch { enabled: Some(true), ..RulePatch::default() },
            };
            self.patch(&id, &patch).await;
        }
        self.read_rule(&id).await;
    }

    async fn patch(&mut self, id: &RuleId, patch: &RulePatch) {
        self.note(|| format!("patch {id}: {patch:?}"));
        let (store, now) = (&self.world.store, self.world.clock.now());
        let patched = store.catalog.patch_rule(&self.world.project, id, patch, &now);
        patched.await.unwrap();
    }

    async fn read_rule(&mut self, id: &RuleId) {
        let store = &self.world.store;
        let rule = store.catalog.rule(&self.world.project, id).await.unwrap().unwrap();
        let known = self.rules.get_mut(id).unwrap();
        known.rule = rule;
        known.is_untouched = false;
    }

    async fn delete_rule(&mut self) {
        let Some(id) = self.any_rule() else { return };
        self.note(|| format!("delete {id}"));
        let store = &self.world.store;
        store.catalog.delete_rule(&self.world.project, &id).await.unwrap();
        self.rules.get_mut(&id).unwrap().is_deleted = true;
    }

    /// Mostly forward, by the length of a wait or a lease; sometimes backward, as after a clock correction.
    fn move_clock(&mut self) {
        let all = [1, 100, 10_000, 61_000, 200_000, 3_700_000, -1, -5_000];
        let ms = *all.choose(&mut self.random).unwrap();
        // Data with a future time is examined later by the rules of that time, which the model does not
        // cover.
        if ms < 0 && !self.unseen.is_empty() {
            return;
        }
        self.note(|| format!("move the clock by {ms} ms"));
        self.world.clock.advance(ms);
    }

    async fn requeue(&mut self) {
        let (store, project) = (&self.world.store, &self.world.project);
        let failed = store.ledger.failed_executions(project, None, 100).await.unwrap();
        let Some(row) = failed.items.choose(&mut self.random) else {
            return;
        };
        let id = row.made.id.clone();
        let now = self.world.clock.now();
        store.ledger.requeue_execution(project, &id, now).await.unwrap();
        self.note(|| format!("requeue {id}"));
        self.requeued.push(id);
    }

    /// A user saves the connection that a provider refused, which resumes the paused evaluators.
    async fn save_connection(&mut self) {
        self.note(|| "save the connection".to_owned());
        let (catalog, project) = (&self.world.store.catalog, &self.world.project);
        for evaluator in catalog.evaluators_in_use(project).await.unwrap() {
            if evaluator.paused.is_some() {
                let now = self.world.clock.now();
                catalog.unpause_evaluator(project, &evaluator.id, now).await.unwrap();
            }
        }
    }

    fn scheduler(&mut self, stop: Option<Breakpoint>) -> Scheduler {
        let stop = stop.map(|at| StopOnce::at(at) as Arc<dyn Breakpoints>);
        self.scheduler_with(stop)
    }

    fn scheduler_with(&mut self, breakpoints: Option<Arc<dyn Breakpoints>>) -> Scheduler {
        let options = Options {
            batch: self.random.random_range(1..20),
            n_places: self.random.random_range(0..80),
            n_failures_to_pause: u32::MAX,
            ..Options::default()
        };
        self.world.scheduler_with(self.evaluate.clone(), breakpoints, options)
    }

    /// A scheduler has examined everything that arrived.
    fn all_seen(&mut self) {
        let unseen = std::mem::take(&mut self.unseen);
        self.n_unseen_requests = 0;
        for known in self.rules.values_mut() {
            if known.rule.target == TargetKind::Observation {
                for id in &unseen {
                    known.sees(&self.observations[id]);
                }
            }
        }
    }

    /// Restarts the server. A killed one has examined all changes or none of them, in one transaction.
    /// Closing waits for a running transaction: it may still be committed.
    async fn start_again(&mut self) {
        self.world.store.close().await;
        self.world.store = self.stop.open(self.database).await;
        if self.world.store.telemetry.touched(1).await.unwrap().is_empty() {
            self.all_seen();
        }
    }

    async fn work(&mut self) -> Result<(), String> {
        self.note(|| "work".to_owned());
        if let Some(plant) = self.plant {
            plant.act(&self.world).await;
        }
        let scheduler = self.scheduler(None);
        scheduler.run_until_idle().await.map_err(|error| error.to_string())?;
        self.all_seen();
        Ok(())
    }

    async fn work_on_two_nodes(&mut self) -> Result<(), String> {
        self.note(|| "work on two nodes".to_owned());
        let (one, two) = (self.scheduler(None), self.scheduler(None));
        let (one, two) = tokio::join!(one.run_until_idle(), two.run_until_idle());
        one.and(two).map_err(|error| error.to_string())?;
        self.all_seen();
        Ok(())
    }

    /// A scheduler is killed at a named point, or does not reach it.
    async fn die(&mut self) -> Result<(), String> {
        let all = [
            Breakpoint::Read,
            Breakpoint::Decided,
            Breakpoint::Made,
            Breakpoint::Claimed,
            Breakpoint::Sorted,
            Breakpoint::Evaluated,
            Breakpoint::Finished,
        ];
        let at = *all.choose(&mut self.random).unwrap();
        self.note(|| format!("die at {at:?}"));
        match self.scheduler(Some(at)).run_until_idle().await {
            Ok(()) | Err(Error::Stopped(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
        self.start_again().await;
        Ok(())
    }

    /// A scheduler is killed inside a transaction, or does not reach the point.
    async fn die_inside(&mut self) -> Result<(), String> {
        let at = *StopInside::WORK.choose(&mut self.random).unwrap();
        self.note(|| format!("die at {at}"));
        self.stop.arm(at);
        let ended = self.scheduler(None).run_until_idle().await;
        match (self.stop.disarm(), ended) {
            (true, Err(Error::Store(perpend_db::Error::Stopped(_)))) => {
                self.died_at.insert(at);
            }
            (false, Ok(())) => {}
            (_, ended) => return Err(format!("died at {at} with {ended:?}")),
        }
        self.start_again().await;
        Ok(())
    }

    /// A scheduler is dropped while its workers have calls.
    async fn die_during_a_call(&mut self) {
        self.note(|| "die during a call".to_owned());
        let gate = Gate::new();
        let scheduler = self.world.scheduler(gate.clone());
        let called = std::pin::pin!(gate.called());
        match select(std::pin::pin!(scheduler.run_until_idle()), called).await {
            Either::Left((ended, _)) => ended.unwrap(),
            Either::Right(_) => {}
        }
        self.start_again().await;
    }
}

impl Known {
    /// The order of evaluation.md 1.5, implemented a second time.
    fn sees(&mut self, own: &Observation) {
        let rule = &self.rule;
        if self.is_deleted {
            return;
        }
        let kind = rule.filter.sent().first().map(|condition| &condition["value"][0]);
        let salt = match rule.sampling_independent {
            true => rule.id.as_str(),
            false => "",
        };
        let place = perpend_domain::sampling::value(salt, own.trace_id.as_str());
        let is_refusing = |pause: &Pause| pause.reason.starts_with("PLUGIN_");
        let refusal = if !rule.enabled {
            "rule_inactive"
        } else if rule.paused.as_ref().is_some_and(is_refusing) {
            "rule_paused"
        } else if own.environment.starts_with("perpend") {
            "internal_environment"
        } else if kind.is_some_and(|kind| kind != own.kind.as_str()) {
            "not_matched"
        } else if rule.sampling <= place {
            "sampled_out"
        } else {
            let evaluator = rule.assignments[0].evaluator_id.to_string();
            match self.made.insert((own.id.clone(), evaluator)) {
                true => "made",
                false => "duplicate",
            }
        };
        *self.counted.entry(refusal).or_default() += 1;
    }
}

fn shown(request: &[Observation]) -> String {
    let shown = request.iter().map(|own| {
        let state = match own.end {
            Some(_) => "",
            None => " open",
        };
        format!("{}/{}{state}", short(own.trace_id.as_str()), short(own.id.as_str()))
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn short(id: &str) -> &str {
    id.trim_start_matches('0')
}

/// Runs the history of this seed; returns what it found wrong.
async fn run(
    database: &TempDatabase,
    seed: u64,
    plant: Option<Plant>,
) -> Result<check::Seen, String> {
    let mut history = History::new(database, seed, plant).await;
    let mut ran = Ok(());
    for _ in 0..N_STEPS {
        ran = history.step().await;
        if ran.is_err() {
            break;
        }
    }
    let checked = match ran {
        Ok(()) => check::at_the_end(&mut history).await,
        Err(error) => Err(error),
    };
    let log = history.log.join("\n");
    checked.map_err(|wrong| format!("seed {seed}: {wrong}\n{log}"))
}

#[tokio::test]
async fn in_any_history_each_target_of_each_rule_ends_explained_and_scored_once() {
    let given = std::env::var("PERPEND_MODEL_SEED").ok();
    let given: Option<u64> = given.map(|seed| seed.parse().unwrap());
    let n_histories = std::env::var("PERPEND_MODEL_HISTORIES").ok();
    let n_histories = n_histories.map_or(N_HISTORIES, |n| n.parse().unwrap());
    let seeds = given.map_or(1..1 + n_histories, |seed| seed..seed + 1);
    // They wait for disks most of the time.
    let mut histories = stream::iter(seeds)
        .map(|seed| async move {
            let mut seen = check::Seen::default();
            for database in TempDatabase::each_migrated().await {
                let of_history = run(&database, seed, None).await;
                seen += of_history.map_err(|wrong| format!("on {}: {wrong}", database.url()))?;
            }
            Ok::<_, String>(seen)
        })
        .buffer_unordered(N_AT_A_TIME);
    let mut seen = check::Seen::default();
    while let Some(of_history) = histories.next().await {
        seen += of_history.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    eprintln!("{seen:?}");
    let is_alone = given.is_some();
    assert!(is_alone || seen.has_everything(), "a state was never reached: {seen:?}");
}

#[tokio::test]
async fn the_model_finds_each_planted_bug() {
    for plant in Plant::ALL {
        let mut found = None;
        for seed in 1..6 {
            let database = TempDatabase::sqlite();
            let wrong = run(&database, seed, Some(plant)).await.err();
            found = found.or(wrong);
        }
        assert!(found.is_some(), "{plant:?} was not found");
    }
}
