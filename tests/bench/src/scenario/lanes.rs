//! Lanes: which executions wait for which. Store, scheduler and worker process are real; only the model is simulated.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use perpend_catalog::{NewEvaluator, NewVersion};
use perpend_db::DatabaseUrl;
use perpend_domain::batch::Batch;
use perpend_domain::evaluation::{
    Assignment, CompletionReason, ExecutionClass, ExecutionOrigin, Lane, LatePolicy, NewExecution,
    OnMissing, QueueKind, Rule, Target, TargetKind, Timing, VersionPolicy,
};
use perpend_domain::filter::WrittenFilter;
use perpend_domain::identity::ExecutionKey;
use perpend_domain::ids::{IdSource, ProjectId};
use perpend_domain::observation::{Content, Level, Observation, ObservationKind};
use perpend_domain::payload::Payload;
use perpend_domain::plugin::{CallResult, Digest, EvaluationCall, Grants, PluginInfo};
use perpend_domain::time::{Clock, Timestamp};
use perpend_executions::{Lease, MatchBatch, PlannedExecution};
use perpend_plugin_cli::Language;
use perpend_scheduler::{Deps, Evaluate, Scheduler};
use perpend_storage::Store;
use perpend_worker_pool::{Caller, ComponentSource, HostCalls, Options, Workers};
use perpend_worker_protocol::host_call::{Completion, FinishReason};
use perpend_worker_protocol::{HostReply, HostRequest};
use serde_json::{Value, json};
use sqlx::{ConnectOptions, Row};
use sqlx_sqlite::{SqliteConnectOptions, SqliteConnection};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::load::quantile;
use crate::report::{Bar, Figure};
use crate::scenario::evaluate::text_plugin;
use crate::scenario::guests::{build, cpu_time_of};

const JUDGE: &str = include_str!("../../../../examples/plugin-judge-rust/src/lib.rs");
/// The response time of the model for an output that requests a slow response.
const MODEL_TAKES: Duration = Duration::from_secs(30);
const WAIT: &str = "wait";
const N_WAITING: usize = 1_000;
const N_BACKLOG: u64 = 100_000;
const N_COUNTED: u64 = 20_000;
const N_LIVE: u64 = 500;
const PACE: Duration = Duration::from_millis(10);
const N_NEIGHBOURS: u64 = 64;
const N_ROUNDS: u64 = 10;
const PATIENCE: Duration = Duration::from_secs(60);

/// All three, each on a database of its own.
///
/// # Errors
/// When something does not come within a minute.
pub(crate) async fn measure() -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let judge = {
        let dir = folder.path().join("judge");
        tokio::task::spawn_blocking(move || build(Language::Rust, &dir, Some(JUDGE))).await??
    };
    let mut figures = Vec::new();
    let mut note = |what: String, value: f64, bar| {
        figures.push(Figure { scenario: "lanes", what, value, unit: "ms", bar: Bar::AtMost(bar) });
    };
    let millis = |took: &[Duration], share| quantile(took, share).as_secs_f64() * 1e3;
    if let Some(judge) = judge {
        let waits = with_waiting_models(&judge).await?;
        let what = format!("{N_WAITING} calls of another project wait for a model: p99 of code");
        note(what, millis(&waits, 0.99), 1_000.0);
        let waits = with_a_slow_project(&judge).await?;
        let what = "a call of the batch waits for a model: the others are seen after, worst";
        note(what.to_owned(), millis(&waits, 1.0), 100.0);
    }
    let waits = before_a_backlog().await?;
    let what = format!("{N_BACKLOG} of a backfill of the same project wait: p99 of live ones");
    note(what, millis(&waits, 0.99), 1_000.0);
    let (all, own) = per_execution().await?;
    for (what, took, bar) in [
        ("CPU of a code execution outside of its worker", all, Bar::None),
        ("of that, without the threads of the database", own, Bar::AtMost(50.0)),
    ] {
        figures.push(Figure {
            scenario: "lanes",
            what: what.to_owned(),
            value: took.as_secs_f64() * 1e6,
            unit: "µs",
            bar,
        });
    }
    Ok(figures)
}

/// CPU time of this process for each of many code executions, from matching to the stored score: all of it, and what
/// is not spent in the threads of the database.
async fn per_execution() -> anyhow::Result<(Duration, Duration)> {
    let world = World::new(&[]).await?;
    let project = ProjectId::new("cpu")?;
    world.rule(&project, text_plugin()?, "length", &json!({ "max": 2_000 })).await?;
    for first in (0..N_COUNTED).step_by(5_000) {
        let new = (first..first + 5_000).map(|n| generation(n, "an answer"));
        world.ingest(&project, new.collect::<anyhow::Result<_>>()?).await?;
    }
    let of_database = |name: &str| name.starts_with("sqlx-");
    let spent = || anyhow::Ok((cpu_time_of(|_| true)?, cpu_time_of(of_database)?));
    let before = spent()?;
    world.scheduler.run_until_idle().await?;
    let after = spent()?;
    let n_scores = n_scores(&mut world.reader().await?).await?;
    anyhow::ensure!(n_scores == N_COUNTED, "{n_scores} scores");
    world.workers.shutdown().await;
    world.store.close().await;
    let each = u32::try_from(N_COUNTED)?;
    let (all, database) = (after.0 - before.0, after.1 - before.1);
    Ok((all / each, all.saturating_sub(database) / each))
}

/// From ingest to score of code evaluations, while another project has a thousand calls that wait.
async fn with_waiting_models(judge: &[u8]) -> anyhow::Result<Vec<Duration>> {
    let world = World::new(&[judge]).await?;
    let (slow, quick) = (ProjectId::new("slow")?, ProjectId::new("quick")?);
    world.rule(&slow, judge, "answers", &json!({})).await?;
    world.rule(&quick, text_plugin()?, "length", &json!({ "max": 2_000 })).await?;
    let waiting = (0..N_WAITING as u64).map(|n| generation(n, WAIT));
    world.ingest(&slow, waiting.collect::<anyhow::Result<_>>()?).await?;
    let running = world.run();
    world.model.waiting(N_WAITING).await?;
    let sent = world.live(&quick).await?;
    let waits = world.waits(&quick, &sent).await?;
    let n_waiting = world.model.n_waiting.load(Ordering::SeqCst);
    anyhow::ensure!(n_waiting == N_WAITING, "only {n_waiting} waited to the end");
    world.stop(running).await?;
    Ok(waits)
}

/// From the last quick reply of a batch to the last of its scores, while one call of it waits.
async fn with_a_slow_project(judge: &[u8]) -> anyhow::Result<Vec<Duration>> {
    let world = World::new(&[judge]).await?;
    let project = ProjectId::new("slow")?;
    world.rule(&project, judge, "answers", &json!({})).await?;
    let running = world.run();
    let mut reader = world.reader().await?;
    let mut waits = Vec::new();
    for round in 0..N_ROUNDS {
        let first = round * N_NEIGHBOURS;
        let batch =
            (0..N_NEIGHBOURS).map(|n| generation(first + n, if n == 0 { WAIT } else { "go" }));
        world.ingest(&project, batch.collect::<anyhow::Result<_>>()?).await?;
        let wanted = (round + 1) * (N_NEIGHBOURS - 1);
        until(&mut reader, wanted, Duration::from_millis(1)).await?;
        let seen = Instant::now();
        let replied = *lock(&world.model.last_reply);
        waits.push(seen.saturating_duration_since(replied.context("no reply")?));
    }
    waits.sort_unstable();
    world.stop(running).await?;
    Ok(waits)
}

/// From ingest to score of live evaluations, while a backfill of the same rule has a hundred thousand.
async fn before_a_backlog() -> anyhow::Result<Vec<Duration>> {
    let world = World::new(&[]).await?;
    let project = ProjectId::new("busy")?;
    for first in (0..N_BACKLOG).step_by(5_000) {
        let old = (first..first + 5_000).map(|n| generation(n, "an old answer"));
        world.ingest(&project, old.collect::<anyhow::Result<_>>()?).await?;
    }
    // Nothing asks for them yet.
    world.scheduler.run_until_idle().await?;
    let rule = world.rule(&project, text_plugin()?, "length", &json!({ "max": 2_000 })).await?;
    for first in (0..N_BACKLOG).step_by(5_000) {
        world.backfill(&project, &rule, first..first + 5_000).await?;
    }
    let running = world.run();
    let sent = world.live(&project).await?;
    let waits = world.waits(&project, &sent).await?;
    let mut reader = world.reader().await?;
    let n_scores = n_scores(&mut reader).await?;
    anyhow::ensure!(n_scores < N_BACKLOG, "the backlog was done too soon");
    world.stop(running).await?;
    Ok(waits)
}

/// Store, scheduler and a worker process.
struct World {
    folder: TempDir,
    store: Store,
    workers: Arc<Workers>,
    model: Arc<Model>,
    scheduler: Scheduler,
    plugins: BTreeMap<Digest, PluginInfo>,
}

struct Running {
    task: tokio::task::JoinHandle<()>,
    shutdown: CancellationToken,
}

impl World {
    async fn new(more: &[&[u8]]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("lanes.db");
        let url: DatabaseUrl = format!("sqlite:{}", file.display()).parse()?;
        let store = Store::open(&url, &perpend_db::Options::default()).await?;
        let components = [&[text_plugin()?], more].concat();
        let known = components.iter().map(|bytes| (Digest::of(bytes), bytes.to_vec()));
        let known = Arc::new(Known(known.collect()));
        let model = Arc::new(Model::new());
        let options = Options::new(std::env::current_exe()?, folder.path().join("artifacts"));
        let workers = Arc::new(Workers::start(options, known, Arc::clone(&model) as _));
        let mut plugins = BTreeMap::new();
        for bytes in components {
            let info = workers.inspect_cached(bytes).await;
            let info = info.map_err(|problems| anyhow::anyhow!("{problems:?}"))?;
            let digest = store.catalog.put_plugin(None, &info, bytes, SystemClock.now()).await?;
            plugins.insert(digest, info);
        }
        let scheduler = Scheduler::new(Deps {
            store: store.clone(),
            evaluate: Arc::new(Real(Arc::clone(&workers))),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            options: perpend_scheduler::Options::default(),
            breakpoints: None,
        });
        Ok(Self { folder, store, workers, model, scheduler, plugins })
    }

    /// A rule that applies this evaluator to everything of a project.
    async fn rule(
        &self,
        project: &ProjectId,
        component: &[u8],
        evaluator: &str,
        config: &Value,
    ) -> anyhow::Result<Rule> {
        let plugin = Digest::of(component);
        let info = self.plugins.get(&plugin).context("the plug-in is not known")?;
        let now = SystemClock.now();
        let new = NewEvaluator {
            id: format!("ev-{project}").parse()?,
            name: format!("evaluator of {project}"),
            description: None,
            version: NewVersion {
                slots: Vec::new(),
                id: format!("ver-{project}").parse()?,
                plugin,
                plugin_name: info.name.clone(),
                plugin_version: info.version.clone(),
                plugin_evaluator: evaluator.to_owned(),
                config: config.clone(),
                mapping: Vec::new(),
                grants: Grants { model: info.capabilities.model, trace_reader: false },
                fingerprint: Digest::of(project.as_str().as_bytes()),
            },
        };
        let evaluator = self.store.catalog.create_evaluator(project, &new, now).await?;
        let rule = Rule {
            id: format!("rule-{project}").parse()?,
            name: "everything".to_owned(),
            target: TargetKind::Observation,
            enabled: true,
            paused: None,
            sampling: 1.0,
            sampling_independent: false,
            filter: WrittenFilter::default(),
            assignments: vec![Assignment {
                id: format!("as-{project}").parse()?,
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
        let catalog = &self.store.catalog;
        catalog.create_rule(project, &rule, &rule.created_at).await?;
        Ok(rule)
    }

    async fn ingest(
        &self,
        project: &ProjectId,
        observations: Vec<Observation>,
    ) -> anyhow::Result<()> {
        let batch = Batch { observations, ..Batch::default() };
        self.store.telemetry.write_batch(project, batch, SystemClock.now()).await?;
        self.scheduler.wake();
        Ok(())
    }

    /// Executions as a backfill makes them.
    async fn backfill(
        &self,
        project: &ProjectId,
        rule: &Rule,
        numbers: std::ops::Range<u64>,
    ) -> anyhow::Result<()> {
        let assignment = rule.assignments.first().context("an assignment")?;
        let making = |n: u64| {
            let own = generation(n, "")?;
            let target = Target::Observation(own.trace_id, own.id);
            let evaluator = &assignment.evaluator_id;
            let key = ExecutionKey::live(project, rule.id.as_str(), evaluator, &target, 1);
            Ok(PlannedExecution {
                project: project.clone(),
                kind: QueueKind { lane: Lane::Code, class: ExecutionClass::Backfill },
                is_leased: false,
                firing_at: None,
                execution: NewExecution {
                    id: key.execution_id(),
                    origin: ExecutionOrigin::Rule,
                    rule_id: rule.id.clone(),
                    assignment_id: assignment.id.clone(),
                    evaluator_id: evaluator.clone(),
                    target,
                    shadow: None,
                    generation: 1,
                    inclusion_probability: 1.0,
                    completion: CompletionReason::Ended,
                    n_observations: 1,
                    is_audit: false,
                },
            })
        };
        let batch = MatchBatch {
            executions: numbers.map(making).collect::<anyhow::Result<_>>()?,
            ..MatchBatch::default()
        };
        let now = SystemClock.now();
        let lease = Lease { fence: 0, until: now };
        self.store.commit_matches(&[], &batch, lease, now).await?;
        Ok(())
    }

    fn run(&self) -> Running {
        let shutdown = CancellationToken::new();
        let (scheduler, until) = (self.scheduler.clone(), shutdown.clone());
        Running { task: tokio::spawn(async move { scheduler.run(until).await }), shutdown }
    }

    /// Observations at a steady pace; for each when it was durable.
    async fn live(&self, project: &ProjectId) -> anyhow::Result<BTreeMap<String, Timestamp>> {
        let mut sent = BTreeMap::new();
        let mut pace = tokio::time::interval(PACE);
        for n in 0..N_LIVE {
            pace.tick().await;
            let own = generation(N_BACKLOG + n, "a live answer")?;
            let trace = own.trace_id.to_string();
            self.ingest(project, vec![own]).await?;
            sent.insert(trace, SystemClock.now());
        }
        Ok(sent)
    }

    /// For each of these how long its score took.
    async fn waits(
        &self,
        project: &ProjectId,
        sent: &BTreeMap<String, Timestamp>,
    ) -> anyhow::Result<Vec<Duration>> {
        const SCORES: &str = "SELECT trace_id, created_at FROM scores WHERE project_id = $1";
        let mut reader = self.reader().await?;
        let latest = Instant::now() + PATIENCE;
        loop {
            let rows = sqlx::query(SCORES).bind(project.as_str());
            let mut waits = Vec::new();
            for row in rows.fetch_all(&mut reader).await? {
                if let Some(sent) = sent.get(row.get::<&str, _>(0)) {
                    let micros = row.get::<i64, _>(1) - sent.as_micros();
                    waits.push(Duration::from_micros(u64::try_from(micros).unwrap_or(0)));
                }
            }
            if waits.len() == sent.len() {
                waits.sort_unstable();
                return Ok(waits);
            }
            anyhow::ensure!(
                Instant::now() < latest,
                "only {} of {} scores came",
                waits.len(),
                sent.len()
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn reader(&self) -> anyhow::Result<SqliteConnection> {
        let options = SqliteConnectOptions::new()
            .filename(self.folder.path().join("lanes.db"))
            .read_only(true)
            .busy_timeout(Duration::from_secs(5));
        Ok(options.connect().await?)
    }

    async fn stop(self, running: Running) -> anyhow::Result<()> {
        self.model.is_over.send_replace(true);
        running.shutdown.cancel();
        running.task.await?;
        self.workers.shutdown().await;
        self.store.close().await;
        Ok(())
    }
}

async fn n_scores(reader: &mut SqliteConnection) -> anyhow::Result<u64> {
    let row = sqlx::query("SELECT COUNT(*) FROM scores").fetch_one(reader);
    Ok(u64::try_from(row.await?.get::<i64, _>(0))?)
}

async fn until(reader: &mut SqliteConnection, wanted: u64, step: Duration) -> anyhow::Result<()> {
    let latest = Instant::now() + PATIENCE;
    while n_scores(reader).await? < wanted {
        anyhow::ensure!(Instant::now() < latest, "{wanted} scores did not come");
        tokio::time::sleep(step).await;
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Responds slowly if the output requests it.
struct Model {
    n_waiting: AtomicUsize,
    last_reply: Mutex<Option<Instant>>,
    is_over: watch::Sender<bool>,
}

impl Model {
    fn new() -> Self {
        Self {
            n_waiting: AtomicUsize::new(0),
            last_reply: Mutex::default(),
            is_over: watch::Sender::new(false),
        }
    }

    async fn waiting(&self, n: usize) -> anyhow::Result<()> {
        let latest = Instant::now() + PATIENCE;
        while self.n_waiting.load(Ordering::SeqCst) < n {
            let now = self.n_waiting.load(Ordering::SeqCst);
            anyhow::ensure!(Instant::now() < latest, "only {now} of {n} calls wait");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl HostCalls for Model {
    fn host_call(&self, caller: Caller, request: HostRequest) -> BoxFuture<'_, HostReply> {
        Box::pin(async move {
            let HostRequest::Complete(questions) = request else {
                return request.not_granted();
            };
            let output = caller.call.item.output.as_ref();
            if output.is_some_and(|output| output.as_str() == WAIT) {
                self.n_waiting.fetch_add(1, Ordering::SeqCst);
                let mut is_over = self.is_over.subscribe();
                drop(tokio::time::timeout(MODEL_TAKES, is_over.wait_for(|is_over| *is_over)).await);
            } else {
                *lock(&self.last_reply) = Some(Instant::now());
            }
            let vote = r#"{"reason":"it says so","answered":true}"#;
            let answer = |_| {
                Ok(Completion {
                    text: vote.to_owned(),
                    structured: Some(vote.to_owned()),
                    finish: FinishReason::Stop,
                    input_tokens: 1,
                    output_tokens: 1,
                    logprobs: Vec::new(),
                    tool_calls: Vec::new(),
                    model: "bench".to_owned(),
                    from_cache: false,
                })
            };
            HostReply::Complete(questions.into_iter().map(answer).collect())
        })
    }
}

struct Known(BTreeMap<Digest, Vec<u8>>);

impl ComponentSource for Known {
    fn component(&self, digest: Digest) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(std::future::ready(self.0.get(&digest).cloned()))
    }
}

struct Real(Arc<Workers>);

impl std::fmt::Debug for Real {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Real")
    }
}

impl Evaluate for Real {
    fn evaluate(&self, calls: Vec<EvaluationCall>) -> BoxStream<'_, (usize, CallResult)> {
        self.0.answers(calls).boxed()
    }
}

#[derive(Debug)]
struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let micros = since.map_or(0, |since| since.as_micros());
        Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
    }
}

#[derive(Debug)]
struct RandomIds;

impl IdSource for RandomIds {
    fn uuid(&self) -> uuid::Uuid {
        uuid::Uuid::new_v4()
    }
}

/// An ended generation, the only span of its trace.
fn generation(n: u64, output: &str) -> anyhow::Result<Observation> {
    let start = SystemClock.now();
    let id = |width: usize| format!("{n:0width$x}");
    Ok(Observation {
        trace_id: id(32).parse()?,
        id: id(16).parse()?,
        parent_id: None,
        kind: ObservationKind::Generation,
        name: "answer".to_owned(),
        start,
        end: Some(start),
        completion_start: None,
        level: Level::Default,
        status_message: None,
        environment: "default".to_owned(),
        release: None,
        version: None,
        user_id: None,
        session_id: None,
        tags: Vec::new(),
        model: None,
        provider: None,
        model_parameters: serde_json::Map::new(),
        prompt: None,
        usage: BTreeMap::new(),
        cost: BTreeMap::new(),
        computed_cost: BTreeMap::new(),
        price_id: None,
        aggregate_usage: BTreeMap::new(),
        aggregate_cost: BTreeMap::new(),
        aggregate_model: None,
        aggregate_computed_cost: BTreeMap::new(),
        response_id: None,
        scope_name: "bench".to_owned(),
        is_app_root: false,
        as_root: false,
        called_tools: Vec::new(),
        trace: None,
        is_complete_marker: false,
        is_in_parts: false,
        experiment: None,
        attribute_count: 1,
        has_content: true,
        content: Content {
            input: Some(Payload::Text("a question".to_owned())),
            output: Some(Payload::Text(output.to_owned())),
            ..Content::default()
        },
    })
}
