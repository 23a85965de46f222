//! Replay: 10,000 evaluations are stored with what came of them, and made again in other processes, in
//! another order and many at a time. Every byte of scores, comments, failures and log must be the same.
//!
//! What is stored stays below `target/guests/replay`, by component: a later run, of another build profile
//! too, is held to what the first one gave.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use perpend_domain::payload::Payload;
use perpend_domain::plugin::{CallResult, Digest, EvaluationCall, Item, Limits, Purpose};
use perpend_plugins_bundle::BUNDLE;
use perpend_sandbox::{DenyAllPort, Host, Settings};
use perpend_tests_guests::{
    Guest, Missing, Test, Tested, cache_of, component, guests, template, tests,
};
use perpend_worker_pool::{ComponentSource, NoHostCalls, Options, Workers};
use serde_json::{Value, json};

const N_EVALUATIONS: usize = 10_000;
const BATCH: usize = 64;

/// Draws numbers, reads the clock, and walks what has no order of its own.
const JAVASCRIPT: &str = "
export function evaluate(ctx) {
  const words = new Map(String(ctx.observation.output).split(' ').map((word) => [word, Math.random()]));
  const comment = [...words].join(';') + ' ' + Date.now() + ' ' + Math.sin(words.size) ** 0.3;
  return { scores: [{ name: 'drawn', value: Math.random(), dataType: 'NUMERIC', comment }] };
}";
const PYTHON: &str = "
import random, time, uuid, math
def evaluate(ctx):
    words = set(str(ctx.observation.output).split(' '))
    comment = f'{list(words)} {hash(str(words))} {time.time()} {uuid.uuid4()} {math.sin(len(words)) ** 2}'
    return EvaluationResult(scores=[Score(name='drawn', value=random.random(), data_type='NUMERIC', comment=comment)])
";

/// A component, an evaluator of it with its configuration, and its share of the evaluations.
struct Subject {
    component: Vec<u8>,
    evaluator: &'static str,
    config: Value,
    share: usize,
}

fn of_template(language: &'static str, share: usize) -> Result<Subject, Missing> {
    Ok(Subject {
        component: template(language)?.component.clone(),
        evaluator: "max-length",
        config: json!({ "max_chars": 40, "trim": true }),
        share,
    })
}

fn of_source(name: &str, source: &str, share: usize) -> Result<Subject, Missing> {
    Ok(Subject {
        component: component(name)?,
        evaluator: "code",
        config: json!({ "source": source }),
        share,
    })
}

fn of_bundle(evaluator: &'static str, config: Value, share: usize) -> Subject {
    Subject {
        component: BUNDLE.first_party("perpend/text").unwrap().bytes.to_vec(),
        evaluator,
        config,
        share,
    }
}

fn subjects() -> Result<Vec<Subject>, Missing> {
    Ok(vec![
        of_bundle("exact-match", json!({}), 20),
        of_bundle("levenshtein", json!({}), 20),
        of_bundle("length", json!({ "max": 40 }), 15),
        of_template("rust", 10)?,
        of_template("c", 5)?,
        of_template("go", 5)?,
        of_source("perpend/javascript", JAVASCRIPT, 15)?,
        of_source("perpend/python", PYTHON, 10)?,
    ])
}

/// A text that follows from `n` alone.
fn words(n: usize) -> String {
    const WORDS: [&str; 8] =
        ["Zürich", "refund", "order 🙂", "", "1e-7", "the", "\u{0301}a", "yes"];
    let mut state = n as u64;
    let mut next = || {
        // The constants of Knuth's MMIX generator.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let words: Vec<_> = (0..next() % 12).map(|_| WORDS[next() % 8]).collect();
    words.join(" ")
}

fn calls(subjects: &[Subject]) -> Vec<EvaluationCall> {
    let mut calls = Vec::with_capacity(N_EVALUATIONS);
    for subject in subjects {
        let plugin = Digest::of(&subject.component);
        let config: Arc<str> = subject.config.to_string().into();
        for n in 0..N_EVALUATIONS * subject.share / 100 {
            calls.push(EvaluationCall {
                plugin,
                evaluator_id: subject.evaluator.into(),
                config: Arc::clone(&config),
                item: Item {
                    id: format!("item {n}"),
                    // Some have no output: failures are replayed too.
                    output: (n % 50 != 0).then(|| Payload::Text(words(n))),
                    expected_output: Some(Payload::Text(words(n / 2))),
                    ..Item::default()
                }
                .into(),
                seed: n as u64,
                run_time_ms: 1_700_000_000_000 + n as u64,
                limits: Limits::default(),
                purpose: Purpose::Evaluate,
                origin: None,
            });
        }
    }
    assert_eq!(calls.len(), N_EVALUATIONS);
    calls
}

/// Everything that the guest decides; not the time that it took.
fn bytes(result: &CallResult) -> Vec<u8> {
    serde_json::to_vec(&(&result.outcome, &result.log)).unwrap()
}

/// One after the other in this process.
fn first_run(calls: &[EvaluationCall], cache: &Path) -> Vec<Vec<u8>> {
    let settings = Settings { max_live: 32, ..Settings::default() };
    let host = Host::new(&settings, cache).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut plugins = HashMap::new();
    let results = calls.iter().map(|call| {
        let plugin = plugins.entry(call.plugin).or_insert_with(|| host.load(call.plugin).unwrap());
        let port = Arc::new(DenyAllPort);
        bytes(&runtime.block_on(host.evaluate(plugin, call.clone(), port)))
    });
    results.collect()
}

struct Registered(HashMap<Digest, Vec<u8>>);

impl ComponentSource for Registered {
    fn component(&self, digest: Digest) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(std::future::ready(self.0.get(&digest).cloned()))
    }
}

/// Last first, in batches, by two confined processes with two threads each.
fn replay(calls: &[EvaluationCall], subjects: &[Subject], cache: &Path) -> Vec<Vec<u8>> {
    let components = subjects.iter().map(|subject| {
        let component = subject.component.clone();
        (Digest::of(&component), component)
    });
    let mut options = Options::new(std::env::current_exe().unwrap(), cache.to_owned());
    options.n_workers = 2;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let registered = Arc::new(Registered(components.collect()));
        let workers = Workers::start(options, registered, Arc::new(NoHostCalls));
        let mut results = Vec::with_capacity(calls.len());
        let backwards: Vec<EvaluationCall> = calls.iter().rev().cloned().collect();
        for pair in backwards.chunks(2 * BATCH) {
            let (some, others) = pair.split_at(pair.len().min(BATCH));
            let both = [some, others].map(|calls| workers.evaluate(calls.to_vec()));
            let both = futures_util::future::join_all(both).await;
            results.extend(both.iter().flatten().map(bytes));
        }
        workers.shutdown().await;
        results.reverse();
        results
    })
}

fn same(what: &str, calls: &[EvaluationCall], stored: &[Vec<u8>], again: &[Vec<u8>]) {
    assert_eq!(stored.len(), again.len());
    for ((call, stored), again) in calls.iter().zip(stored).zip(again) {
        assert_eq!(
            String::from_utf8_lossy(stored),
            String::from_utf8_lossy(again),
            "{what}: {} of {} for {:?}",
            call.evaluator_id,
            call.plugin,
            call.item
        );
    }
}

fn stored_evaluations_give_the_same_bytes_again_everywhere() -> Tested {
    let subjects = subjects()?;
    let calls = calls(&subjects);
    for subject in &subjects {
        let guest = Guest::new(&subject.component);
        assert_eq!(guest.info().capabilities.names(), [""; 0]);
    }
    let digests = subjects.iter().map(|subject| Digest::of(&subject.component));
    let cache = cache_of(digests);
    let first = first_run(&calls, &cache);
    let n_scored = first.iter().filter(|bytes| bytes.starts_with(b"[{\"Ok\":[{"));
    assert!(N_EVALUATIONS * 9 / 10 < n_scored.count(), "nearly all give scores");
    same("a confined worker", &calls, &first, &replay(&calls, &subjects, &cache));

    // Another run, perhaps of another build.
    let kept = guests("replay");
    let mut by_plugin: HashMap<Digest, Vec<usize>> = HashMap::new();
    for (at, call) in calls.iter().enumerate() {
        by_plugin.entry(call.plugin).or_default().push(at);
    }
    for (digest, places) in by_plugin {
        let file: PathBuf = kept.join(format!("{digest}.json"));
        let mine: Vec<Value> =
            places.iter().map(|at| serde_json::from_slice(&first[*at]).unwrap()).collect();
        let requests: Vec<Value> = places
            .iter()
            .map(|at| json!([calls[*at].evaluator_id, calls[*at].config, calls[*at].item]))
            .collect();
        let record = serde_json::to_vec(&json!([requests, mine])).unwrap();
        if let Ok(stored) = fs::read(&file) {
            let stored: Value = serde_json::from_slice(&stored).unwrap();
            // A changed test sends other requests: then there is nothing to compare.
            if stored[0] == json!(requests) {
                assert!(stored[1] == json!(mine), "another run gave something else: {digest}");
                continue;
            }
        }
        fs::write(&file, record).unwrap();
    }
    Ok(())
}

pub(crate) fn all() -> Vec<Test> {
    tests![stored_evaluations_give_the_same_bytes_again_everywhere]
}
