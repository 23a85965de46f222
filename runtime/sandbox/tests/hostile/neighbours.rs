//! A hostile guest beside a well-behaved one: what became of it, what that cost, and that the neighbour got
//! its answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use perpend_domain::payload::Payload;
use perpend_domain::plugin::{
    CallResult, Digest, EvaluationCall, Grants, Item, Limits, PluginScoreValue, Purpose,
};
use perpend_sandbox::{DenyAllPort, Host, Plugin};

use crate::cases::Case;

/// What came of a case.
pub(crate) struct Seen {
    pub(crate) result: CallResult,
    /// From the call to its end.
    pub(crate) took: Duration,
    /// Right answers of the neighbour meanwhile.
    pub(crate) n_neighbours: usize,
    /// The longest a neighbour took.
    pub(crate) slowest_neighbour: Duration,
}

pub(crate) fn call(limits: Limits) -> EvaluationCall {
    EvaluationCall {
        plugin: Digest::of(b""),
        evaluator_id: "one".into(),
        config: "{}".into(),
        item: Item {
            id: "item".into(),
            output: Some(Payload::Text("hello".into())),
            ..Item::default()
        }
        .into(),
        seed: 7,
        run_time_ms: 1_000,
        limits,
        purpose: Purpose::Evaluate,
        origin: None,
    }
}

/// Compiles into the folder of the host.
pub(crate) fn plugin(host: &Host, folder: &std::path::Path, bytes: &[u8]) -> Plugin {
    perpend_sandbox::compile(bytes, folder, Grants::ALL).unwrap();
    host.load(Digest::of(bytes)).unwrap()
}

/// What a call of the neighbour may cost in CPU time: far over what it needs.
const MAX_NEIGHBOUR_US: u64 = 2_000_000;

/// Runs the case while a neighbour calls `good` again and again. A wrong answer of the neighbour panics, and one
/// that pays for the other.
pub(crate) async fn beside_a_neighbour(
    host: &Arc<Host>,
    good: &Arc<Plugin>,
    hostile: Plugin,
    case: &Case,
) -> Seen {
    let is_over = Arc::new(AtomicBool::new(false));
    let neighbour = {
        let (host, good, is_over) = (Arc::clone(host), Arc::clone(good), Arc::clone(&is_over));
        tokio::spawn(async move {
            let (mut n, mut slowest) = (0, Duration::ZERO);
            // At least one, however short the other is.
            while n == 0 || !is_over.load(Ordering::Acquire) {
                let began = Instant::now();
                let port = Arc::new(DenyAllPort);
                let result = host.evaluate(&good, call(Limits::default()), port).await;
                slowest = slowest.max(began.elapsed());
                assert!(result.cpu_us < MAX_NEIGHBOUR_US, "{} µs", result.cpu_us);
                let scores = result.outcome.unwrap();
                assert_eq!(scores[0].value, PluginScoreValue::Numeric(1.0));
                n += 1;
                tokio::task::yield_now().await;
            }
            (n, slowest)
        })
    };
    let (host, limits) = (Arc::clone(host), case.limits);
    // In a task of its own, so that another thread can have it.
    let hostile = tokio::spawn(async move {
        let began = Instant::now();
        let port = Arc::new(DenyAllPort);
        let result = host.evaluate(&hostile, call(limits), port).await;
        (result, began.elapsed())
    });
    let (result, took) = hostile.await.unwrap();
    is_over.store(true, Ordering::Release);
    let (n_neighbours, slowest_neighbour) = neighbour.await.unwrap();
    Seen { result, took, n_neighbours, slowest_neighbour }
}
