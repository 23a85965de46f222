//! Waiting: what thousands of evaluations cost that wait for a model at once, in one confined worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use futures_util::future::BoxFuture;
use perpend_domain::payload::Payload;
use perpend_domain::plugin::{CallResult, Digest, EvaluationCall, Item, Limits, Purpose};
use perpend_plugin_cli::Language;
use perpend_worker_pool::{Caller, ComponentSource, HostCalls, Options, Workers};
use perpend_worker_protocol::{HostReply, HostRequest};
use tokio::sync::watch;

use crate::report::{Bar, Figure};
use crate::scenario::guests::build;
use crate::server::resident_kib;

const JUDGE: &str = include_str!("../../../../examples/plugin-judge-rust/src/lib.rs");
const N_WAITING: usize = 2_000;
const LIMIT: Duration = Duration::from_secs(60);

/// Starts the calls, waits until each of them has called its model, and reads the worker's memory.
///
/// # Errors
/// When the judge cannot be built though its tools are there, or not all calls come to wait.
pub(crate) async fn measure() -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let component = {
        let dir = folder.path().join("judge");
        tokio::task::spawn_blocking(move || build(Language::Rust, &dir, Some(JUDGE))).await??
    };
    let Some(component) = component else {
        return Ok(Vec::new());
    };
    let call = call(&component);
    let gate = Arc::new(Gate::new());
    let program = std::env::current_exe()?;
    let options = Options::new(program, folder.path().join("artifacts"));
    let judge = Arc::new(Judge(component));
    let workers = Arc::new(Workers::start(options, judge, Arc::clone(&gate) as _));
    // The first starts the process and loads the component.
    check(&workers.evaluate(vec![call.clone()]).await)?;
    let pid = *workers.pids().first().context("no worker runs")?;
    let before = resident_kib(pid).context("the worker is gone")?;
    gate.close();
    let waiting = {
        let workers = Arc::clone(&workers);
        tokio::spawn(async move { workers.evaluate(vec![call; N_WAITING]).await })
    };
    gate.all_wait().await?;
    let together = resident_kib(pid).context("the worker is gone")?;
    gate.open();
    check(&waiting.await?)?;
    workers.shutdown().await;
    let figure = |what: &str, value, unit, bar| Figure {
        scenario: "guests",
        what: format!("{N_WAITING} calls wait for a model: {what}"),
        value,
        unit,
        bar,
    };
    let each = together.saturating_sub(before) as f64 / N_WAITING as f64;
    Ok(vec![
        figure("resident, each", each, "KiB", Bar::AtMost(100.0)),
        figure("resident, the worker", together as f64 / 1024.0, "MiB", Bar::AtMost(1024.0)),
    ])
}

fn call(component: &[u8]) -> EvaluationCall {
    let text = |text: &str| Some(Payload::Text(text.to_owned()));
    EvaluationCall {
        plugin: Digest::of(component),
        evaluator_id: "answers".into(),
        config: "{}".into(),
        item: Item {
            id: "bench".to_owned(),
            input: text("What is the capital of France?"),
            output: text("Paris"),
            ..Item::default()
        }
        .into(),
        seed: 1,
        run_time_ms: 1_700_000_000_000,
        limits: Limits::default(),
        purpose: Purpose::Evaluate,
        origin: None,
    }
}

/// The model returns an error, with which each evaluation ends.
fn check(results: &[CallResult]) -> anyhow::Result<()> {
    for result in results {
        match &result.outcome {
            Err(failure) if failure.message.contains(SILENT) => {}
            other => anyhow::bail!("the judge gave {other:?}"),
        }
    }
    Ok(())
}

struct Judge(Vec<u8>);

impl ComponentSource for Judge {
    fn component(&self, _: Digest) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(std::future::ready(Some(self.0.clone())))
    }
}

const SILENT: &str = "the bench has no model";

/// Keeps questions while it is closed.
struct Gate {
    is_open: watch::Sender<bool>,
    n_waiting: AtomicUsize,
}

impl Gate {
    fn new() -> Self {
        Self { is_open: watch::Sender::new(true), n_waiting: AtomicUsize::new(0) }
    }

    fn open(&self) {
        self.is_open.send_replace(true);
    }

    fn close(&self) {
        self.n_waiting.store(0, Ordering::SeqCst);
        self.is_open.send_replace(false);
    }

    async fn all_wait(&self) -> anyhow::Result<()> {
        let all = async {
            while self.n_waiting.load(Ordering::SeqCst) < N_WAITING {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = tokio::time::timeout(LIMIT, all).await;
        waited.with_context(|| {
            let n = self.n_waiting.load(Ordering::SeqCst);
            format!("only {n} of {N_WAITING} calls wait")
        })
    }
}

impl HostCalls for Gate {
    fn host_call(&self, _: Caller, request: HostRequest) -> BoxFuture<'_, HostReply> {
        Box::pin(async move {
            self.n_waiting.fetch_add(1, Ordering::SeqCst);
            drop(self.is_open.subscribe().wait_for(|is_open| *is_open).await);
            request.unavailable(SILENT)
        })
    }
}
