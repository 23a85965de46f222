//! Runs a hostile guest together with a valid one, the neighbour.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use perpend_domain::payload::Payload;
use perpend_domain::plugin::{
    CallResult, Digest, EvaluationCall, Grants, Item, Limits, PluginScoreValue, Purpose,
};
use perpend_sandbox::{DenyAllPort, Host, Plugin};

use crate::cases::Case;

/// The outcome of a case.
pub(crate) struct Outcome {
    pub(crate) result: CallResult,
    /// Duration of the call.
    pub(crate) elapsed: Duration,
    /// Number of calls of the neighbour that completed meanwhile.
    pub(crate) n_neighbour_calls: usize,
    /// Duration of the slowest call of the neighbour.
    pub(crate) slowest_neighbour_call: Duration,
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

/// Compiles a component into the folder of the host.
pub(crate) fn plugin(host: &Host, folder: &std::path::Path, bytes: &[u8]) -> Plugin {
    perpend_sandbox::compile(bytes, folder, Grants::ALL).unwrap();
    host.load(Digest::of(bytes)).unwrap()
}

/// Maximum CPU time of a call of the neighbour, far above its usual time.
const MAX_NEIGHBOUR_US: u64 = 2_000_000;

/// Runs the case while the neighbour calls `good` repeatedly. Panics if a call of the neighbour fails or is charged for the
/// hostile guest.
pub(crate) async fn run_with_neighbour(
    host: &Arc<Host>,
    good: &Arc<Plugin>,
    hostile: Plugin,
    case: &Case,
) -> Outcome {
    let is_finished = Arc::new(AtomicBool::new(false));
    let neighbour = {
        let (host, good, is_finished) =
            (Arc::clone(host), Arc::clone(good), Arc::clone(&is_finished));
        tokio::spawn(async move {
            let (mut n, mut slowest) = (0, Duration::ZERO);
            // At least once.
            while n == 0 || !is_finished.load(Ordering::Acquire) {
                let start = Instant::now();
                let port = Arc::new(DenyAllPort);
                let result = host.evaluate(&good, call(Limits::default()), port).await;
                slowest = slowest.max(start.elapsed());
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
    // In a task, so that it can run on another thread.
    let hostile = tokio::spawn(async move {
        let start = Instant::now();
        let port = Arc::new(DenyAllPort);
        let result = host.evaluate(&hostile, call(limits), port).await;
        (result, start.elapsed())
    });
    let (result, elapsed) = hostile.await.unwrap();
    is_finished.store(true, Ordering::Release);
    let (n_neighbour_calls, slowest_neighbour_call) = neighbour.await.unwrap();
    Outcome { result, elapsed, n_neighbour_calls, slowest_neighbour_call }
}
