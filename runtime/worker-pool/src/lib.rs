//! Starts worker processes when there is work, feeds them, answers their host calls, replaces them.
//!
//! Invariants:
//! - **Every call is answered once.** When its worker ends under it, another makes it again. A call that ends
//!   two workers in a row, alone in the second, fails and is not run again; its neighbours are scored.
//! - **A worker gets nothing but its socket.** Its environment is empty, its other descriptors closed; it
//!   confines itself before it is told of a guest (`perpend-sandbox`), and compiled components come to it as
//!   open files that nobody can change any more.
//! - **Who asks is known here.** A worker numbers its calls; which project a number stands for never
//!   leaves this process, so a broken worker can ask only in the name of calls it was given.
//! - **Bounded.** A worker has so many calls, and so many bytes of items, at a time; the rest wait in one
//!   queue that all workers draw from. One that does not read what it asked for is ended. While results that the
//!   callers have not dropped have 32 MiB, nothing is read from workers.

mod cache;
mod check;
mod child;
mod compile;
mod failed;
mod feed;
mod lane;
mod options;
mod process;
mod prune;
mod queue;
mod results;
mod run;
mod session;
mod socket;
mod starts;
mod verdicts;
mod watch;

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
use crate::queue::{Duty, Group, Queue};
use crate::results::ResultMemory;
use crate::session::Shared;
use crate::starts::Starts;
use crate::watch::Quarantine;

pub use crate::check::MAX_CHECKS;

pub use crate::results::MAX_RESULT_BYTES;

pub use crate::options::{Caller, ComponentSource, HostCalls, MAX_IN_FLIGHT, NoHostCalls, Options};

/// The workers of a server. Dropping it ends them.
pub struct Workers {
    shared: Arc<Shared>,
    stop: signal::Sender<bool>,
    lanes: std::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Workers {
    /// Ready to work; processes start with the first calls. Needs a tokio runtime.
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
            starts: Starts::new(n_workers),
            engine_key: OnceCell::new(),
            pids: std::sync::Mutex::default(),
        });
        let (stop, stopped) = signal::channel(false);
        // One more for calls whose worker ended; it has a process only while there are any.
        let duties = std::iter::repeat_n(Duty::Calls, n_workers).chain([Duty::Suspects]);
        let lane = |(number, duty)| lane::lane(Arc::clone(&shared), duty, number, stopped.clone());
        let lanes = duties.enumerate().map(|which| tokio::spawn(lane(which)));
        let lanes = lanes.collect();
        Self { shared, stop, lanes: std::sync::Mutex::new(lanes) }
    }

    /// Makes the calls and gives their results as they come, each with the place of its call. Dropping the
    /// stream cancels what has not been answered.
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

    /// Answers calls that no worker has yet and that were withdrawn.
    pub fn answer_withdrawn(&self) {
        self.shared.queue.answer_withdrawn();
    }

    /// Makes the calls and gives their results in the same order. Dropping the future cancels what has
    /// not been answered.
    pub async fn evaluate(&self, calls: Vec<EvaluationCall>) -> Vec<CallResult> {
        self.evaluate_for(None, calls).await
    }

    /// As [`Self::evaluate`], in the name of a project: host calls of these calls carry it.
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

    fn begin(&self, project: Option<ProjectId>, calls: Vec<EvaluationCall>) -> queue::Answers<'_> {
        let (group, received) = Group::new();
        let queue = &self.shared.queue;
        let n_open = calls.len();
        queue.push(&group, project, calls, &self.shared.quarantine);
        queue::Answers { group, received, n_open, queue }
    }

    /// Compiles a component in a process of its own and asks it what it is, under the default grants.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub async fn inspect(&self, bytes: &[u8]) -> Result<PluginInfo, Vec<ComponentProblem>> {
        self.inspect_with(bytes, self.shared.options.grants).await
    }

    /// As [`Self::inspect`], under these grants.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub async fn inspect_with(
        &self,
        bytes: &[u8],
        grants: Grants,
    ) -> Result<PluginInfo, Vec<ComponentProblem>> {
        self.shared.compiler.compile(bytes, grants).await
    }

    /// As [`Self::inspect`] with every capability, content with what an earlier compilation of the same
    /// bytes left: for whoever opens one component again and again.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub async fn inspect_cached(&self, bytes: &[u8]) -> Result<PluginInfo, Vec<ComponentProblem>> {
        let probe = async || Ok(process::probe(&self.shared.options).await?.engine_key);
        let engine_key = self.shared.engine_key.get_or_try_init(probe).await;
        let engine_key = engine_key.map_err(|error: std::io::Error| {
            vec![ComponentProblem::new("host", error.to_string())]
        })?;
        let compiler = &self.shared.compiler;
        compiler.described(bytes, engine_key, Grants::ALL).await
    }

    /// Validates values against a user-supplied schema, in a process of its own unless the verdict is known.
    ///
    /// # Errors
    /// When the process ended at its limits, or failed, or too many checks of the project wait.
    pub async fn check_schema(
        &self,
        project: &ProjectId,
        check: &SchemaCheck,
    ) -> Result<SchemaAnswer, CheckError> {
        self.shared.checker.check_schema(project, check).await
    }

    /// The sandbox layers of a worker. Starts a worker without calls to find out.
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

    /// Process ids of the workers that run now.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        queue::lock(&self.shared.pids).clone()
    }

    /// Ends the workers when the calls in flight are answered; calls that wait are answered `cancelled`.
    pub async fn shutdown(&self) {
        self.shared.queue.close();
        self.stop.send_replace(true);
        let lanes = std::mem::take(&mut *queue::lock(&self.lanes));
        for lane in lanes {
            drop(lane.await);
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // The processes end with their socket, and are killed when their handle goes.
        for lane in std::mem::take(&mut *queue::lock(&self.lanes)) {
            lane.abort();
        }
    }
}
