//! Starts worker processes on demand, sends them calls, serves their host calls, and replaces them.
//!
//! Invariants:
//! - **Every call gets one result.** When its worker ends, another worker repeats it. A call that ends two workers in a
//!   row, alone in the second, fails and is not run again; the other calls are scored.
//! - **A worker has only its socket.** Its environment is empty and its other descriptors are closed. It confines itself
//!   before it receives a guest (`perpend-sandbox`), and receives compiled components as sealed files.
//! - **The project of a call is known only here.** A worker refers to calls by number, so that a compromised worker can make
//!   host calls only for calls that it received.
//! - **Bounded.** The calls and bytes of items in a worker are limited; the rest wait in a queue shared by all workers. A
//!   worker that does not read its replies is ended. While the results that callers have not dropped take 32 MiB, no more
//!   results are read from workers.

mod cache;
mod call_failure;
mod check;
mod child;
mod compile;
mod feed;
mod options;
mod process;
mod prune;
mod quarantine;
mod queue;
mod results;
mod run;
mod session;
mod slot;
mod socket;
mod start_failures;
mod verdict_cache;

use std::sync::Arc;

use futures_util::stream::{self, Stream};
use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::{CallResult, EvaluationCall, PluginInfo, ResultPermit};
use perpend_worker_protocol::{
    CheckError, ComponentProblem, Grants, SandboxLayer, SchemaAnswer, SchemaCheck,
};
use tokio::sync::{OnceCell, watch as signal};
use tokio::task::JoinHandle;

use crate::check::Checker;
use crate::compile::Compiler;
use crate::quarantine::Quarantine;
use crate::queue::{Duty, Group, Queue};
use crate::results::ResultMemory;
use crate::session::Shared;
use crate::start_failures::StartFailures;

pub use crate::check::MAX_CHECKS;

pub use crate::results::MAX_RESULT_BYTES;

pub use crate::options::{Caller, ComponentSource, HostCalls, MAX_IN_FLIGHT, NoHostCalls, Options};

/// The state of the worker processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkersState {
    /// Configured number of processes. A process starts with the first calls.
    pub n_workers: usize,
    /// Process ids of the running ones.
    pub pids: Vec<u32>,
    /// Number of processes whose last start failed.
    pub n_failing: usize,
    /// Whether calls are no longer run: the pool was shut down, or its tasks have ended.
    pub has_stopped: bool,
}

impl WorkersState {
    /// Whether no process could be started.
    #[must_use]
    pub const fn cannot_start(&self) -> bool {
        self.pids.is_empty() && self.n_workers <= self.n_failing
    }
}

/// The worker processes of a server. Dropping it ends them.
pub struct Workers {
    shared: Arc<Shared>,
    stop: signal::Sender<bool>,
    slots: std::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Workers {
    /// Creates the pool. Processes start with the first calls. Must be called in a tokio runtime.
    #[must_use]
    pub fn start(
        options: Options,
        components: Arc<dyn ComponentSource>,
        host_calls: Arc<dyn HostCalls>,
    ) -> Self {
        let n_workers = options.n_workers.max(1);
        let compiler = Compiler::new(&options);
        let checker = Checker::new(&options);
        let shared = Arc::new(Shared {
            options,
            components,
            host_calls,
            compiler,
            checker,
            queue: Queue::new(n_workers),
            results: ResultMemory::default(),
            quarantine: Quarantine::default(),
            start_failures: StartFailures::new(n_workers),
            engine_key: OnceCell::new(),
            pids: std::sync::Mutex::default(),
        });
        let (stop, stopped) = signal::channel(false);
        // One more for calls whose worker ended; it has a process only while there are such calls.
        let duties = std::iter::repeat_n(Duty::Calls, n_workers).chain([Duty::Suspects]);
        let run =
            |(number, duty)| slot::run_slot(Arc::clone(&shared), duty, number, stopped.clone());
        let slots = duties.enumerate().map(|numbered| tokio::spawn(run(numbered)));
        let slots = slots.collect();
        Self { shared, stop, slots: std::sync::Mutex::new(slots) }
    }

    /// Runs calls and yields the results as they complete, each with the index of its call. Dropping the stream cancels the
    /// remaining calls.
    ///
    /// Drop results, or their permits, before waiting for many more: while those in memory have
    /// [`MAX_RESULT_BYTES`], no further results come.
    pub fn answers(
        &self,
        calls: Vec<EvaluationCall>,
    ) -> impl Stream<Item = (usize, CallResult)> + Send + '_ {
        let answers = self.begin(None, calls);
        stream::unfold(answers, async |mut answers| {
            answers.next().await.map(|next| (next, answers))
        })
    }

    /// Ends queued calls that were withdrawn, with the result `cancelled`.
    pub fn answer_withdrawn(&self) {
        self.shared.queue.answer_withdrawn();
    }

    /// Runs calls and returns the results in the order of the calls. Dropping the future cancels the remaining calls.
    pub async fn evaluate(&self, calls: Vec<EvaluationCall>) -> Vec<CallResult> {
        self.evaluate_for(None, calls).await
    }

    /// Like [`Self::evaluate`]; host calls carry the project.
    pub async fn evaluate_for(
        &self,
        project: Option<ProjectId>,
        calls: Vec<EvaluationCall>,
    ) -> Vec<CallResult> {
        let mut answers = self.begin(project, calls);
        let mut results = Vec::new();
        while let Some((place, mut result)) = answers.next().await {
            // All results are in memory at the end: a charge would keep the last from being read.
            result.permit = ResultPermit::default();
            results.push((place, result));
        }
        results.sort_unstable_by_key(|(place, _)| *place);
        results.into_iter().map(|(_, result)| result).collect()
    }

    fn begin(
        &self,
        project: Option<ProjectId>,
        calls: Vec<EvaluationCall>,
    ) -> queue::GroupResults<'_> {
        let (group, received) = Group::new();
        let queue = &self.shared.queue;
        let n_open = calls.len();
        queue.push(&group, project, calls, &self.shared.quarantine);
        queue::GroupResults { group, received, n_open, queue }
    }

    /// Compiles and describes a component in a separate process, with the default grants.
    ///
    /// # Errors
    /// With all problems of the component.
    pub async fn inspect(&self, bytes: &[u8]) -> Result<PluginInfo, Vec<ComponentProblem>> {
        self.inspect_with(bytes, self.shared.options.grants).await
    }

    /// Like [`Self::inspect`], with these grants.
    ///
    /// # Errors
    /// With all problems of the component.
    pub async fn inspect_with(
        &self,
        bytes: &[u8],
        grants: Grants,
    ) -> Result<PluginInfo, Vec<ComponentProblem>> {
        self.shared.compiler.compile(bytes, grants).await
    }

    /// Like [`Self::inspect`] with all capabilities, but uses the result of an earlier compilation of the same bytes.
    ///
    /// # Errors
    /// With all problems of the component.
    pub async fn inspect_cached(&self, bytes: &[u8]) -> Result<PluginInfo, Vec<ComponentProblem>> {
        let probe = async || Ok(process::probe(&self.shared.options).await?.engine_key);
        let engine_key = self.shared.engine_key.get_or_try_init(probe).await;
        let engine_key = engine_key.map_err(|error: std::io::Error| {
            vec![ComponentProblem::new("host", error.to_string())]
        })?;
        let compiler = &self.shared.compiler;
        compiler.described(bytes, engine_key, Grants::ALL).await
    }

    /// Validates values against a user-supplied schema, in a separate process unless the result is cached.
    ///
    /// # Errors
    /// When the process reached its limits or failed, or when too many checks of the project are waiting.
    pub async fn check_schema(
        &self,
        project: &ProjectId,
        check: &SchemaCheck,
    ) -> Result<SchemaAnswer, CheckError> {
        self.shared.checker.check_schema(project, check).await
    }

    /// The sandbox layers of a worker. StartFailures a worker without calls to find out.
    ///
    /// # Errors
    /// When no worker can be started, or a layer is missing and all are required.
    pub async fn sandbox_layers(&self) -> std::io::Result<Vec<SandboxLayer>> {
        let ready = process::probe(&self.shared.options).await?;
        let (compiler, components) = (&self.shared.compiler, self.shared.components.as_ref());
        compiler.prune(&ready.engine_key, components).await;
        let _ = self.shared.engine_key.set(ready.engine_key);
        Ok(ready.layers)
    }

    /// Bytes of the results that callers have not dropped.
    #[must_use]
    pub fn result_bytes(&self) -> usize {
        self.shared.results.n_bytes()
    }

    /// Process ids of the running workers.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        queue::lock(&self.shared.pids).clone()
    }

    /// The state of the processes.
    #[must_use]
    pub fn state(&self) -> WorkersState {
        WorkersState {
            n_workers: self.shared.options.n_workers.max(1),
            pids: self.pids(),
            n_failing: self.shared.start_failures.n_failing(),
            has_stopped: queue::lock(&self.slots).iter().all(JoinHandle::is_finished),
        }
    }

    /// Ends the workers after the calls in flight. Queued calls get the result `cancelled`.
    pub async fn shutdown(&self) {
        self.shared.queue.close();
        self.stop.send_replace(true);
        let slots = std::mem::take(&mut *queue::lock(&self.slots));
        for slot in slots {
            drop(slot.await);
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // The processes end with their socket, and are killed when their handles are dropped.
        for slot in std::mem::take(&mut *queue::lock(&self.slots)) {
            slot.abort();
        }
    }
}
