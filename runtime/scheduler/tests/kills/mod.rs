//! Processes that are killed repeatedly inside their transactions, on one database.
//!
//! The test starts itself as another process, which ingests, matches, evaluates and finishes, and aborts at a
//! named point: no transaction is rolled back explicitly, and no destructor runs. Acknowledged data must
//! exist afterwards, and at the end each target has one execution and one score.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use perpend_db::DatabaseUrl;
use perpend_domain::evaluation::{ExecutionState, TargetKind};
use perpend_domain::observation::Observation;
use perpend_domain::score::ScoreValue;
use perpend_scheduler::{Breakpoint, Breakpoints, Options};
use perpend_storage::Store;
use perpend_storage::testing::TempDatabase;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use crate::support::{FakeEvaluate, StopInside, World, child_of, generation, generations_only};

/// Unless `PERPEND_TEST_KILLS` has another number.
const N_KILLS: u32 = 60;
/// Requests that a process sends before it runs the scheduler.
const N_REQUESTS: u32 = 2;
/// Set for the process to be killed: its number, the point, how often that is passed before, the database.
const ORDER: &str = "PERPEND_TEST_KILL";
const NAME: &str = "kills::kills_at_each_point_lose_nothing_and_score_nothing_twice";
/// Longer than a lease.
const BETWEEN_MS: i64 = 600_000;
const OUTSIDE: [(&str, Breakpoint); 6] = [
    ("decided", Breakpoint::Decided),
    ("made", Breakpoint::Made),
    ("claimed", Breakpoint::Claimed),
    ("sorted", Breakpoint::Sorted),
    ("evaluated", Breakpoint::Evaluated),
    ("finished", Breakpoint::Finished),
];

/// Ends the process when the point is reached for the given time.
#[derive(Debug)]
struct Abort {
    at: String,
    n_left: AtomicU32,
}

impl Abort {
    fn reach(&self, at: &str) -> bool {
        if self.at == at && self.n_left.fetch_sub(1, Ordering::SeqCst) == 0 {
            std::process::abort();
        }
        false
    }
}

impl Breakpoints for Abort {
    fn stops_at(&self, at: Breakpoint) -> bool {
        let mut named = OUTSIDE.iter();
        let named = named.find(|(_, place)| *place == at);
        named.is_some_and(|(name, _)| self.reach(name))
    }
}

/// The requests of the process with this number.
fn requests(process: u32) -> Vec<Vec<Observation>> {
    let first = u64::from(process * N_REQUESTS) + 1;
    let request = |n: u64| {
        let root = generation(n, 2 * n);
        let child = child_of(&root, 2 * n + 1, root.kind);
        vec![root, child]
    };
    (first..first + u64::from(N_REQUESTS)).map(request).collect()
}

async fn world(store: Store, process: u32) -> World {
    let world = World::new(store).await;
    world.clock.advance(i64::from(process) * BETWEEN_MS);
    world
}

/// Sends its requests, reports the acknowledged ones, repeats those of the previous process, and runs the
/// scheduler.
async fn process(order: &str) {
    let mut parts = order.splitn(4, '|');
    let mut part = || parts.next().unwrap();
    let number: u32 = part().parse().unwrap();
    let abort =
        Arc::new(Abort { at: part().to_owned(), n_left: AtomicU32::new(part().parse().unwrap()) });
    let url: DatabaseUrl = part().parse().unwrap();
    let inside = Arc::clone(&abort);
    let options = perpend_db::Options {
        breakpoints: perpend_db::Breakpoints::new(move |at| inside.reach(at)),
        ..perpend_db::testing::patient()
    };
    let world = world(Store::open(&url, &options).await.unwrap(), number).await;
    let before = number.checked_sub(1).map(requests).unwrap_or_default();
    for request in before {
        world.ingest(request).await;
    }
    for (n, request) in requests(number).into_iter().enumerate() {
        world.ingest(request).await;
        let mut out = std::io::stdout().lock();
        write!(out, "\nacknowledged {n}\n").unwrap();
        out.flush().unwrap();
    }
    let options = Options { batch: 3, ..Options::default() };
    let scheduler = world.scheduler_with(FakeEvaluate::length(), Some(abort), options);
    scheduler.run_until_idle().await.unwrap();
}

/// Runs the process of this order; returns the acknowledged requests, and whether it was killed.
fn run(number: u32, at: &str, n_before: u32, url: &str) -> (Vec<usize>, bool) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([NAME, "--exact", "--nocapture"])
        .env(ORDER, format!("{number}|{at}|{n_before}|{url}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let acknowledged = lines.filter_map(|line| {
        let line = line.unwrap();
        line.strip_prefix("acknowledged ")?.parse().ok()
    });
    let acknowledged = acknowledged.collect();
    (acknowledged, !child.wait().unwrap().success())
}

/// Acknowledged observations exist before they are sent again.
async fn ensure_kept(world: &World, acknowledged: &[Observation]) {
    for own in acknowledged {
        let found = world
            .store
            .telemetry
            .observation_of(&world.project, &own.trace_id, &own.id)
            .await
            .unwrap();
        assert!(found.is_some(), "{} of {} is lost", own.id, own.trace_id);
    }
}

/// Each observation has one execution with one score.
async fn ensure_once(world: &World, sent: &[Observation]) {
    let mut expected = BTreeSet::new();
    let traces: BTreeSet<_> = sent.iter().map(|own| &own.trace_id).collect();
    for trace in traces {
        let (store, project) = (&world.store, &world.project);
        let rows = store.ledger.trace_executions(project, trace).await.unwrap();
        let mut per_target: BTreeMap<_, u32> = BTreeMap::new();
        for execution in rows {
            assert_eq!(execution.state, ExecutionState::Completed, "{execution:?}");
            expected.insert(execution.made.id.to_string());
            *per_target.entry(execution.made.target.observation().cloned()).or_default() += 1;
        }
        let of_trace = sent.iter().filter(|own| own.trace_id == *trace);
        let once = of_trace.map(|own| (Some(own.id.clone()), 1)).collect();
        assert_eq!(per_target, once, "{trace}");
    }
    let scores = world.scores().await;
    let of = scores.iter().map(|score| {
        assert_eq!(score.written.value, ScoreValue::Numeric(9.0));
        score.written.origin.as_ref().unwrap().execution_id.to_string()
    });
    assert_eq!(of.collect::<BTreeSet<_>>(), expected);
    assert_eq!(scores.len(), expected.len(), "a score exists twice");
}

async fn kill_and_check(database: TempDatabase, seed: u64) {
    let url = match database.url() {
        DatabaseUrl::Sqlite(path) => format!("sqlite:{}", path.display()),
        DatabaseUrl::Postgres(raw) => raw.clone(),
    };
    let mut random = StdRng::seed_from_u64(seed);
    let inside = StopInside::INGEST.iter().chain(&StopInside::WORK);
    let outside = OUTSIDE.iter().map(|(name, _)| name);
    let mut places: Vec<&'static str> = inside.chain(outside).copied().collect();
    places.shuffle(&mut random);
    let places = places;
    let min_kills = std::env::var("PERPEND_TEST_KILLS").ok();
    let min_kills = min_kills.map_or(N_KILLS, |n| n.parse().unwrap());
    let options = perpend_db::testing::patient();
    let first = world(Store::open(database.url(), &options).await.unwrap(), 0).await;
    let rule =
        first.rule("r", TargetKind::Observation, |rule| rule.filter = generations_only()).await;
    first.store.close().await;
    let (mut n_kills, mut number) = (0, 0);
    let mut killed_at: BTreeMap<&str, u32> = BTreeMap::new();
    let mut acknowledged = Vec::new();
    for &at in places.iter().cycle() {
        if min_kills <= n_kills && killed_at.len() == places.len() {
            break;
        }
        let n_before = random.random_range(0..2);
        let order = (number, url.clone());
        let ran = tokio::task::spawn_blocking(move || run(order.0, at, n_before, &order.1));
        let (n_acknowledged, is_killed) = ran.await.unwrap();
        let mut sent = requests(number);
        acknowledged.extend(n_acknowledged.into_iter().flat_map(|n| std::mem::take(&mut sent[n])));
        n_kills += u32::from(is_killed);
        if is_killed {
            *killed_at.entry(at).or_default() += 1;
        }
        number += 1;
        assert!(number < 20 * min_kills, "a point is never reached: {killed_at:?}");
    }
    eprintln!("seed {seed}, {url}: {killed_at:?} in {number} processes");
    let world = world(Store::open(database.url(), &options).await.unwrap(), number).await;
    ensure_kept(&world, &acknowledged).await;
    let all: Vec<_> = (0..number).flat_map(requests).collect();
    for request in &all {
        world.ingest(request.clone()).await;
    }
    for _ in 0..4 {
        let scheduler = world.scheduler(FakeEvaluate::length());
        scheduler.run_until_idle().await.unwrap();
        world.clock.advance(BETWEEN_MS);
    }
    ensure_once(&world, &all.concat()).await;
    let counts = world.counts(&rule).await;
    let n = all.len() as u64 * 2;
    assert_eq!((counts["made"], counts["completed"]), (n, n), "{counts:?}");
    world.store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_at_each_point_lose_nothing_and_score_nothing_twice() {
    if let Ok(order) = std::env::var(ORDER) {
        return process(&order).await;
    }
    let given = std::env::var("PERPEND_MODEL_SEED").ok();
    let seed = given.map_or(1, |seed| seed.parse().unwrap());
    let on_each = TempDatabase::each_migrated().await.into_iter();
    let on_each = on_each.map(|database| tokio::spawn(kill_and_check(database, seed)));
    for checked in futures_util::future::join_all(on_each).await {
        checked.unwrap();
    }
}
