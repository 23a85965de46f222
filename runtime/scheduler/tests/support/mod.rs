//! A project with rules on a temporary database, with a test clock, test ids, and evaluators that are
//! closures.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use perpend_catalog::{NewEvaluator, NewVersion};
use perpend_domain::batch::Batch;
use perpend_domain::evaluation::{
    Assignment, LatePolicy, OnMissing, Rule, TargetKind, Timing, VersionPolicy,
};
use perpend_domain::filter::WrittenFilter;
use perpend_domain::ids::{IdSource, ObservationId, ProjectId, RuleId, TraceId};
use perpend_domain::observation::{Content, Observation, ObservationKind};
use perpend_domain::payload::Payload;
use perpend_domain::plugin::{
    CallResult, Digest, EvaluationCall, EvaluatorInfo, Failure, FailureClass, Grants, ItemParts,
    PluginInfo, PluginScore, PluginScoreValue,
};
use perpend_domain::score::{NewScore, Score, ScoreSource, ScoreValue, Subject};
use perpend_domain::telemetry::ScoreQuery;
use perpend_domain::time::{Clock, Timestamp};
use perpend_scheduler::{Breakpoint, Breakpoints, Deps, Evaluate, Options, Scheduler};
use perpend_storage::Store;
use perpend_storage::testing::TempDatabase;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, Semaphore};

#[derive(Debug)]
pub struct TestClock(AtomicI64);

impl TestClock {
    pub fn advance(&self, ms: i64) {
        self.0.fetch_add(ms * 1_000, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}

/// Counts up in steps that no two sources share.
#[derive(Debug)]
pub struct TestIds(AtomicU64);

static N_SOURCES: AtomicU64 = AtomicU64::new(1);

impl TestIds {
    pub fn new() -> Arc<Self> {
        let source = N_SOURCES.fetch_add(1, Ordering::SeqCst);
        Arc::new(Self(AtomicU64::new(source << 40)))
    }
}

impl IdSource for TestIds {
    fn uuid(&self) -> uuid::Uuid {
        uuid::Uuid::from_u64_pair(self.0.fetch_add(16, Ordering::SeqCst), 0)
    }
}

type Answer = dyn Fn(&EvaluationCall, u32) -> Result<f64, FailureClass> + Send + Sync;

/// Returns one score per call, or a failure; counts calls by item.
pub struct FakeEvaluate {
    answer: Box<Answer>,
    pub calls: Mutex<BTreeMap<String, u32>>,
}

impl fmt::Debug for FakeEvaluate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FakeEvaluate")
    }
}

impl FakeEvaluate {
    /// `answer` gets the call and the number of earlier calls for this item.
    pub fn new(
        answer: impl Fn(&EvaluationCall, u32) -> Result<f64, FailureClass> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { answer: Box::new(answer), calls: Mutex::default() })
    }

    /// The length of the output as the score.
    pub fn length() -> Arc<Self> {
        Self::new(|call, _| {
            let output = call.item.output.as_ref().ok_or(FailureClass::InvalidInput)?;
            Ok(output.as_str().len() as f64)
        })
    }

    pub fn n_calls(&self) -> u32 {
        self.calls.lock().unwrap().values().sum()
    }
}

/// Results that arrive together, in the order of their calls. As with workers, polling after the last one
/// panics.
pub fn together<'r>(
    results: impl Future<Output = Vec<CallResult>> + Send + 'r,
) -> BoxStream<'r, (usize, CallResult)> {
    let each = |results: Vec<CallResult>| stream::iter(results.into_iter().enumerate());
    let all = Box::pin(stream::once(results).flat_map(each));
    stream::unfold(all, async |mut all| all.next().await.map(|next| (next, all))).boxed()
}

impl Evaluate for FakeEvaluate {
    fn evaluate(&self, calls: Vec<EvaluationCall>) -> BoxStream<'_, (usize, CallResult)> {
        together(self.results(calls))
    }
}

impl FakeEvaluate {
    pub async fn results(&self, calls: Vec<EvaluationCall>) -> Vec<CallResult> {
        // Lets other tasks run in between, as with real workers.
        tokio::task::yield_now().await;
        let answer = |call: EvaluationCall| {
            let n_before = {
                let mut calls = self.calls.lock().unwrap();
                let n = calls.entry(call.item.id.clone()).or_default();
                *n += 1;
                *n - 1
            };
            let outcome = (self.answer)(&call, n_before);
            CallResult {
                outcome: outcome
                    .map(|number| vec![score(number)])
                    .map_err(|class| Failure { class, message: "as the test wants".to_owned() }),
                cpu_us: 7,
                ..CallResult::empty()
            }
        };
        calls.into_iter().map(answer).collect()
    }
}

fn score(number: f64) -> PluginScore {
    PluginScore {
        name: "length".to_owned(),
        value: PluginScoreValue::Numeric(number),
        observation_id: None,
        comment: None,
        metadata: Some(r#"{"unit":"bytes","evaluator_id":"forged"}"#.to_owned()),
    }
}

/// Never answers.
#[derive(Debug)]
pub struct Hanging;

impl Evaluate for Hanging {
    fn evaluate(&self, _: Vec<EvaluationCall>) -> BoxStream<'_, (usize, CallResult)> {
        stream::pending().boxed()
    }
}

/// Answers as [`FakeEvaluate::length`] once it is opened.
#[derive(Debug)]
pub struct Gate {
    called: Semaphore,
    opened: Semaphore,
    answers: Arc<FakeEvaluate>,
}

impl Gate {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            called: Semaphore::new(0),
            opened: Semaphore::new(0),
            answers: FakeEvaluate::length(),
        })
    }

    /// Completes when the first calls have arrived.
    pub async fn called(&self) {
        drop(self.called.acquire().await.unwrap());
    }

    pub fn open(&self) {
        self.opened.add_permits(1_000);
    }

    pub fn n_calls(&self) -> u32 {
        self.answers.n_calls()
    }
}

impl Evaluate for Gate {
    fn evaluate(&self, calls: Vec<EvaluationCall>) -> BoxStream<'_, (usize, CallResult)> {
        together(async move {
            self.called.add_permits(1);
            drop(self.opened.acquire().await.unwrap());
            self.answers.results(calls).await
        })
    }
}

/// Stops at a breakpoint once, after it has been passed a number of times.
#[derive(Debug)]
pub struct StopOnce(Mutex<Option<(Breakpoint, u32)>>);

impl StopOnce {
    pub fn at(breakpoint: Breakpoint) -> Arc<Self> {
        Self::at_later(breakpoint, 0)
    }

    pub fn at_later(breakpoint: Breakpoint, n_before: u32) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some((breakpoint, n_before)))))
    }
}

impl Breakpoints for StopOnce {
    fn stops_at(&self, at: Breakpoint) -> bool {
        let mut left = self.0.lock().unwrap();
        match &mut *left {
            Some((place, 0)) if *place == at => left.take().is_some(),
            Some((place, n_before)) if *place == at => {
                *n_before -= 1;
                false
            }
            _ => false,
        }
    }
}

/// Ends a transaction once, at a named point inside it.
#[derive(Clone, Debug, Default)]
pub struct StopInside(Arc<Mutex<Option<&'static str>>>);

impl StopInside {
    /// The points, listed apart from the crates that define them: an unknown name is never reached, which the
    /// tests detect.
    pub const INGEST: [&'static str; 3] =
        ["ingest: numbered", "ingest: applied", "ingest: written"];
    pub const WORK: [&'static str; 5] = [
        "matching: taken",
        "matching: made",
        "finishing: ended",
        "finishing: scored",
        "finishing: counted",
    ];

    /// From now on the first transaction that reaches the point ends there.
    pub fn arm(&self, at: &'static str) {
        *self.0.lock().unwrap() = Some(at);
    }

    /// Whether a transaction has reached it.
    pub fn disarm(&self) -> bool {
        self.0.lock().unwrap().take().is_none()
    }

    /// A database with these breakpoints.
    pub async fn open(&self, database: &TempDatabase) -> Store {
        let armed = self.clone();
        let options = perpend_db::Options {
            breakpoints: perpend_db::Breakpoints::new(move |at| {
                let mut armed = armed.0.lock().unwrap();
                *armed == Some(at) && armed.take().is_some()
            }),
            ..perpend_db::testing::patient()
        };
        Store::open(database.url(), &options).await.unwrap()
    }
}

/// Delays the scheduler at a breakpoint until it is released.
#[derive(Debug)]
pub struct StayAt {
    place: Breakpoint,
    arrived: Notify,
    may_go: Semaphore,
}

impl StayAt {
    pub fn at(place: Breakpoint) -> Arc<Self> {
        Arc::new(Self { place, arrived: Notify::new(), may_go: Semaphore::new(0) })
    }

    /// Completes when the breakpoint is reached for the first time.
    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }

    pub fn let_go(&self) {
        self.may_go.add_permits(1_000);
    }
}

impl Breakpoints for StayAt {
    fn stops_at(&self, _: Breakpoint) -> bool {
        false
    }

    fn delay_at(&self, at: Breakpoint) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if at == self.place {
                self.arrived.notify_one();
                drop(self.may_go.acquire().await.unwrap());
            }
        })
    }
}

/// Name of the score of a thumb.
pub const THUMB: &str = "thumb";

pub struct World {
    pub store: Store,
    pub project: ProjectId,
    pub clock: Arc<TestClock>,
    plugin: Digest,
    info: PluginInfo,
}

/// Description of a plug-in whose only evaluator chooses the names of its scores.
fn info(name: &str) -> PluginInfo {
    let all = ItemParts {
        input: true,
        output: true,
        expected_output: true,
        metadata: true,
        trace: false,
    };
    PluginInfo {
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        description: String::new(),
        evaluators: vec![EvaluatorInfo {
            id: "length".to_owned(),
            title: "Length".to_owned(),
            description: String::new(),
            config_schema: "{}".to_owned(),
            needs: all,
            slots: Vec::new(),
            scores: Vec::new(),
            dynamic_scores: true,
            deterministic: true,
        }],
        capabilities: Grants::NONE,
        checks_config: false,
    }
}

impl World {
    pub async fn new(store: Store) -> Self {
        let clock = Arc::new(TestClock(AtomicI64::new(1_772_000_000_000_000)));
        let info = info("test/length");
        let plugin =
            store.catalog.put_plugin(None, &info, b"component", clock.now()).await.unwrap();
        Self { project: ProjectId::new("p1").unwrap(), store, clock, plugin, info }
    }

    pub fn scheduler(&self, evaluate: Arc<dyn Evaluate>) -> Scheduler {
        self.scheduler_with(evaluate, None, Options::default())
    }

    pub fn scheduler_with(
        &self,
        evaluate: Arc<dyn Evaluate>,
        breakpoints: Option<Arc<dyn Breakpoints>>,
        options: Options,
    ) -> Scheduler {
        Scheduler::new(Deps {
            store: self.store.clone(),
            evaluate,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            ids: TestIds::new(),
            options,
            breakpoints,
        })
    }

    /// From now on evaluators use this plug-in, `change`d.
    pub async fn use_plugin(&mut self, name: &str, change: impl FnOnce(&mut EvaluatorInfo)) {
        let mut info = info(name);
        change(&mut info.evaluators[0]);
        let made = self.store.catalog.put_plugin(None, &info, name.as_bytes(), self.clock.now());
        self.plugin = made.await.unwrap();
        self.info = info;
    }

    fn version(&self, id: &str) -> NewVersion {
        NewVersion {
            slots: Vec::new(),
            id: id.parse().unwrap(),
            plugin: self.plugin,
            plugin_name: self.info.name.clone(),
            plugin_version: "1.0.0".to_owned(),
            plugin_evaluator: self.info.evaluators[0].id.clone(),
            config: json!({}),
            mapping: Vec::new(),
            grants: Grants::NONE,
            fingerprint: Digest::of(id.as_bytes()),
        }
    }

    /// Adds a version to the evaluator that [`World::rule`] created for this rule.
    pub async fn add_version(&self, rule: &RuleId) {
        let (catalog, evaluator) = (&self.store.catalog, format!("ev-{rule}").parse().unwrap());
        let version = self.version(&TestIds::new().uuid().to_string());
        let added =
            catalog.add_evaluator_version(&self.project, &evaluator, &version, self.clock.now());
        added.await.unwrap();
    }

    /// A saved rule with its own evaluator, changed by `change`.
    pub async fn rule(&self, id: &str, target: TargetKind, change: impl FnOnce(&mut Rule)) -> Rule {
        let new = NewEvaluator {
            id: format!("ev-{id}").parse().unwrap(),
            name: format!("evaluator of {id}"),
            description: None,
            version: self.version(&format!("ver-{id}")),
        };
        let now = self.clock.now();
        let evaluator =
            self.store.catalog.create_evaluator(&self.project, &new, now).await.unwrap();
        let mut rule = Rule {
            id: id.parse().unwrap(),
            name: id.to_owned(),
            target,
            enabled: true,
            paused: None,
            sampling: 1.0,
            sampling_independent: false,
            filter: WrittenFilter::default(),
            assignments: vec![Assignment {
                id: format!("as-{id}").parse().unwrap(),
                evaluator_id: evaluator.id,
                mapping: None,
                version: VersionPolicy::Latest,
                skipped_until: None,
            }],
            schedule: None,
            timing: Timing::default(),
            on_missing: OnMissing::Fail,
            late: LatePolicy::Ignore,
            budget: Vec::new(),
            after: Vec::new(),
            audit: 0.0,
            created_at: now,
            updated_at: now,
        };
        change(&mut rule);
        self.store.catalog.create_rule(&self.project, &rule, &rule.created_at).await.unwrap();
        rule
    }

    pub async fn ingest(&self, observations: Vec<Observation>) {
        self.try_ingest(observations).await.unwrap();
    }

    pub async fn try_ingest(
        &self,
        observations: Vec<Observation>,
    ) -> Result<(), perpend_db::Error> {
        let batch = Batch { observations, ..Batch::default() };
        self.store.telemetry.write_batch(&self.project, batch, self.clock.now()).await
    }

    pub async fn scores(&self) -> Vec<Score> {
        let query = ScoreQuery::default();
        self.store.telemetry.scores(&self.project, &query, None, 100_000).await.unwrap().items
    }

    /// A user gives a thumbs-down.
    pub async fn thumb(&self, id: &str, subject: Subject) {
        let score = NewScore {
            id: id.parse().unwrap(),
            name: THUMB.to_owned(),
            value: ScoreValue::Boolean(false),
            subject,
            source: ScoreSource::Annotation,
            timestamp: self.clock.now(),
            environment: "default".to_owned(),
            comment: None,
            metadata: Map::new(),
            config_id: None,
            queue_id: None,
            author_user_id: None,
            origin: None,
        };
        let (telemetry, now) = (&self.store.telemetry, self.clock.now());
        let put = telemetry.put_scores(&self.project, &[score], now).await;
        put.unwrap();
    }

    pub async fn counts(&self, rule: &Rule) -> BTreeMap<String, u64> {
        let from = Timestamp::from_micros(0);
        let counts = self.store.ledger.rule_counts(&self.project, &rule.id, from).await.unwrap();
        // Each sampled target is counted under the outcomes of its evaluators too.
        let counts = counts.into_iter().filter(|count| count.reason != "sampled");
        counts.fold(BTreeMap::new(), |mut sums, count| {
            *sums.entry(count.reason).or_default() += count.n;
            sums
        })
    }
}

/// Conditions of an observation rule.
pub fn conditions(sent: Vec<Value>) -> WrittenFilter {
    WrittenFilter::parse(sent, TargetKind::Observation.filter_columns()).unwrap()
}

pub fn generations_only() -> WrittenFilter {
    conditions(vec![json!({
        "type": "stringOptions", "column": "type", "operator": "any of", "value": ["GENERATION"]
    })])
}

pub fn trace_id(n: u64) -> TraceId {
    format!("{n:032x}").parse().unwrap()
}

/// An ended span with input and output.
pub fn span(trace: u64, id: u64, kind: ObservationKind) -> Observation {
    let start = Timestamp::from_millis(1_771_000_000_000 + id as i64);
    let id: ObservationId = format!("{id:016x}").parse().unwrap();
    Observation {
        name: "answer".to_owned(),
        environment: "default".to_owned(),
        scope_name: "test".to_owned(),
        attribute_count: 1,
        has_content: true,
        content: Content {
            input: Some(Payload::Text("question".to_owned())),
            output: Some(Payload::Text("an answer".to_owned())),
            ..Content::default()
        },
        ..Observation::ended(trace_id(trace), id, kind, (start, start.plus_millis(5)))
    }
}

pub fn generation(trace: u64, id: u64) -> Observation {
    span(trace, id, ObservationKind::Generation)
}

pub fn child_of(parent: &Observation, id: u64, kind: ObservationKind) -> Observation {
    let mut child = span(0, id, kind);
    child.trace_id = parent.trace_id.clone();
    child.parent_id = Some(parent.id.clone());
    child
}
