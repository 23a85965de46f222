//! Guests that wait for the server: many at a time, off the processor, under the wall-clock limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use assay_domain::plugin::{FailureClass, Limits};
use assay_domain::protocol::host_call::{HostReply, HostRequest};
use assay_host::{Host, Port, Settings};
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::cases::{MODEL, SIDE};
use crate::guest::Guest;
use crate::neighbours::{call, plugin};

/// Holds every question until it is opened; then answers that nothing was granted.
struct Gate {
    n_waiting: AtomicUsize,
    open: Semaphore,
}

/// The port of one call.
struct AtGate(Arc<Gate>);

impl Port for AtGate {
    fn ask(&self, request: HostRequest) -> BoxFuture<'static, HostReply> {
        let gate = Arc::clone(&self.0);
        Box::pin(async move {
            gate.n_waiting.fetch_add(1, Ordering::SeqCst);
            drop(gate.open.acquire().await);
            gate.n_waiting.fetch_sub(1, Ordering::SeqCst);
            request.not_granted()
        })
    }
}

/// Asks a model once.
fn judge() -> Vec<u8> {
    let imports = [SIDE, MODEL].concat();
    Guest {
        imports: &imports,
        with: r#"(with "host" (instance (export "complete" (func $complete))))"#,
        core_imports: r#"(import "host" "complete" (func $complete (param i32 i32)))"#,
        evaluate: "(call $complete (i32.const 0) (i32.const 256))",
        ..Guest::default()
    }
    .bytes()
}

#[test]
fn two_thousand_guests_wait_at_once_without_cpu_time_and_then_all_answer() {
    const N: usize = 2_000;
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        max_live: 2_048,
        ..Settings::default()
    };
    let host = Arc::new(Host::new(&settings, folder.path()).unwrap());
    let judge = Arc::new(plugin(&host, folder.path(), &judge()));
    let gate = Arc::new(Gate {
        n_waiting: AtomicUsize::new(0),
        open: Semaphore::new(0),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let calls: Vec<_> = (0..N)
            .map(|_| {
                let (host, judge) = (Arc::clone(&host), Arc::clone(&judge));
                let port = Arc::new(AtGate(Arc::clone(&gate)));
                tokio::spawn(
                    async move { host.evaluate(&judge, call(Limits::default()), port).await },
                )
            })
            .collect();
        let n_waiting = || gate.n_waiting.load(Ordering::SeqCst);
        let all_wait = async {
            // One that ended did so without asking.
            while n_waiting() < N && !calls.iter().any(JoinHandle::is_finished) {
                tokio::task::yield_now().await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(60), all_wait).await;
        assert!(in_time.is_ok(), "{} of {N} wait", n_waiting());
        gate.open.add_permits(Semaphore::MAX_PERMITS / 2);
        for call in calls {
            let result = call.await.unwrap();
            assert!(result.outcome.is_ok(), "{:?}", result.outcome);
        }
    });
}

#[test]
fn waiting_counts_against_the_wall_clock_and_not_as_cpu_time() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::new(&Settings::default(), folder.path()).unwrap();
    let judge = plugin(&host, folder.path(), &judge());
    let gate = Arc::new(Gate {
        n_waiting: AtomicUsize::new(0),
        open: Semaphore::new(0),
    });
    let limits = Limits {
        cpu_ms: 100,
        wall_ms: 400,
        ..Limits::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let result = runtime.block_on(host.evaluate(&judge, call(limits), Arc::new(AtGate(gate))));
    // Had waiting been counted, the CPU limit would have been met first.
    assert_eq!(result.outcome.unwrap_err().class, FailureClass::WallTimeout);
    assert!(result.cpu_us < 400_000, "{}", result.cpu_us);
}
