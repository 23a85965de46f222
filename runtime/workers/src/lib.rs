//! Starts worker processes when there is work, feeds them, answers their host calls, replaces them.
//!
//! Invariants:
//! - **Every call is answered once.** When its worker ends under it, another makes it again. A call that ends
//!   two workers in a row, alone in the second, fails and is not run again; its neighbours are scored.
//! - **A worker gets nothing but its socket.** Its environment is empty, its other descriptors closed; it
//!   confines itself before it is told of a guest (`perpend-host`), and compiled components come to it as
//!   open files that nobody can change any more.
//! - **Who asks is known here.** A worker numbers its calls; which project a number stands for never
//!   leaves this process, so a broken worker can ask only in the name of calls it was given.
//! - **Bounded.** A worker has so many calls, and so many bytes of items, at a time; the rest wait in one
//!   queue that all workers draw from. One that does not read what it asked for is ended.

mod cache;
mod check;
mod child;
mod compile;
mod feed;
mod lane;
mod process;
mod prune;
mod queue;
mod session;
mod socket;
mod verdicts;
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, Stream};
use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::{Call, CallResult, Digest, PluginInfo};
use perpend_protocol::host_call::Allowance;
use perpend_protocol::{
    Grants, HostReply, HostRequest, Problem, SchemaAnswer, SchemaCheck, Unchecked, Wall,
    WorkerSettings,
};
use tokio::sync::{OnceCell, watch as signal};
use tokio::task::JoinHandle;

use crate::check::Checker;
pub use crate::check::MAX_CHECKS;
use crate::compile::Compiler;
use crate::lane::Starts;
use crate::queue::{Duty, Group, Queue};
use crate::session::Shared;
use crate::watch::Quarantine;

/// Calls that a worker is given at a time unless told otherwise.
pub const MAX_IN_FLIGHT: usize = 3_072;

/// How workers are started and fed.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program of all its processes.
    pub program: PathBuf,
    /// Its arguments that make it a worker.
    pub args: Vec<OsString>,
    /// Its arguments that make it a compiler.
    pub compile_args: Vec<OsString>,
    /// Its arguments that make it hold values against schemas.
    pub check_args: Vec<OsString>,
    /// Processes at most; each starts when there is work for it.
    pub n_workers: usize,
    /// Threads of each that run guests.
    pub n_threads: u32,
    /// Live instances of each.
    pub max_live: u32,
    /// Calls a worker is given before it has to answer some: [`MAX_IN_FLIGHT`].
    pub max_in_flight: usize,
    /// Where compiled components are.
    pub cache_dir: PathBuf,
    /// The most that they take on disk together, those in use apart.
    pub max_cache_bytes: u64,
    /// Capabilities a component may import when [`Workers::inspect`] is asked: all of them, since each
    /// evaluator is granted its own and a host call without a grant is refused.
    pub grants: Grants,
    /// A worker with calls that says nothing for so long is ended.
    pub silence_limit: Duration,
    /// A worker that answers nothing for the wall-clock limit of its calls and so long is ended; one with a
    /// call that keeps its thread for so long ends itself.
    pub hang_grace: Duration,
    /// Wall-clock limit of one compilation, and of one check. Both have limits on CPU time: this one is for a
    /// process that does nothing at all, and far from what a busy machine needs.
    pub compile_limit: Duration,
    /// A worker with more memory in use is ended. It holds calls back before it comes to that.
    pub max_resident_bytes: u64,
    /// Processes end at once where the platform lacks one of the walls around them.
    pub require_walls: bool,
}

impl Options {
    /// The usual settings: `program worker`, `program compile` and `program check`.
    #[must_use]
    pub fn new(program: PathBuf, cache_dir: PathBuf) -> Self {
        Self {
            program,
            args: vec!["worker".into()],
            compile_args: vec!["compile".into()],
            check_args: vec!["check".into()],
            n_workers: 1,
            n_threads: 2,
            // Of these 64 run; the others wait for the server, for models mostly.
            max_live: 2_560,
            max_in_flight: MAX_IN_FLIGHT,
            cache_dir,
            max_cache_bytes: 4 << 30,
            grants: Grants::ALL,
            silence_limit: Duration::from_secs(30),
            hang_grace: Duration::from_secs(15),
            compile_limit: Duration::from_secs(600),
            max_resident_bytes: 4 << 30,
            require_walls: false,
        }
    }

    fn worker_settings(&self) -> WorkerSettings {
        WorkerSettings {
            n_threads: self.n_threads,
            max_live: self.max_live,
            max_resident_bytes: self.max_resident_bytes,
            stuck_ms: u64::try_from(self.hang_grace.as_millis()).unwrap_or(u64::MAX),
            require_walls: self.require_walls,
        }
    }
}

/// Gives the bytes of registered components, for artifacts that are missing or damaged.
pub trait Components: Send + Sync + 'static {
    /// The component, where it is registered.
    fn component(&self, digest: Digest) -> BoxFuture<'_, Option<Vec<u8>>>;

    /// All that are registered, where that can be told: what was compiled of others need not stay.
    fn registered(&self) -> BoxFuture<'_, Option<Vec<Digest>>> {
        Box::pin(std::future::ready(None))
    }
}

/// Answers what guests ask of the server.
pub trait HostCalls: Send + Sync + 'static {
    /// The answer to `request`. Grants and budgets are checked here: the worker is not believed.
    fn host_call(&self, caller: Caller, request: HostRequest) -> BoxFuture<'_, HostReply>;
}

/// In whose name a host call is made.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The project, where the call was made for one.
    pub project: Option<ProjectId>,
    /// The call itself.
    pub call: Arc<Call>,
    /// What it asked for so far: the worker's own count is not believed.
    pub allowance: Arc<Allowance>,
}

/// Grants nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoHostCalls;

impl HostCalls for NoHostCalls {
    fn host_call(&self, _: Caller, request: HostRequest) -> BoxFuture<'_, HostReply> {
        Box::pin(std::future::ready(request.not_granted()))
    }
}

/// The workers of a server. Dropping it ends them.
pub struct Workers {
    shared: Arc<Shared>,
    stop: signal::Sender<bool>,
    lanes: std::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers")
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

impl Workers {
    /// Ready to work; processes start with the first calls. Needs a tokio runtime.
    #[must_use]
    pub fn start(
        options: Options,
        components: Arc<dyn Components>,
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
        Self {
            shared,
            stop,
            lanes: std::sync::Mutex::new(lanes),
        }
    }

    /// Makes the calls and gives their results as they come, each with the place of its call. Dropping the
    /// stream cancels what has not been answered.
    pub fn answers(&self, calls: Vec<Call>) -> impl Stream<Item = (usize, CallResult)> + Send + '_ {
        let answers = self.begin(None, calls);
        stream::unfold(answers, async |mut answers| {
            answers.next().await.map(|next| (next, answers))
        })
    }

    /// Makes the calls and gives their results in the same order. Dropping the future cancels what has
    /// not been answered.
    pub async fn evaluate(&self, calls: Vec<Call>) -> Vec<CallResult> {
        self.evaluate_for(None, calls).await
    }

    /// As [`Self::evaluate`], in the name of a project: host calls of these calls carry it.
    pub async fn evaluate_for(
        &self,
        project: Option<ProjectId>,
        calls: Vec<Call>,
    ) -> Vec<CallResult> {
        let mut answers = self.begin(project, calls);
        let mut results = Vec::new();
        while let Some(next) = answers.next().await {
            results.push(next);
        }
        results.sort_unstable_by_key(|(place, _)| *place);
        results.into_iter().map(|(_, result)| result).collect()
    }

    fn begin(&self, project: Option<ProjectId>, calls: Vec<Call>) -> queue::Answers<'_> {
        let (group, received) = Group::new();
        let queue = &self.shared.queue;
        let n_open = calls.len();
        queue.push(&group, project, calls, &self.shared.quarantine);
        queue::Answers {
            group,
            received,
            n_open,
            queue,
        }
    }

    /// Compiles a component in a process of its own and asks it what it is, under the default grants.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub async fn inspect(&self, bytes: &[u8]) -> Result<PluginInfo, Vec<Problem>> {
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
    ) -> Result<PluginInfo, Vec<Problem>> {
        self.shared.compiler.compile(bytes, grants).await
    }

    /// As [`Self::inspect`] with every capability, content with what an earlier compilation of the same
    /// bytes left: for whoever opens one component again and again.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub async fn inspect_cached(&self, bytes: &[u8]) -> Result<PluginInfo, Vec<Problem>> {
        let probe = async || Ok(process::probe(&self.shared.options).await?.engine_key);
        let engine_key = self.shared.engine_key.get_or_try_init(probe).await;
        let engine_key = engine_key
            .map_err(|error: std::io::Error| vec![Problem::new("host", error.to_string())])?;
        let compiler = &self.shared.compiler;
        compiler.described(bytes, engine_key, Grants::ALL).await
    }

    /// Validates values against a user-supplied schema, in a process of its own unless the verdict is known.
    ///
    /// # Errors
    /// When the process ended at its limits, or failed, or too many checks of the project wait.
    pub async fn hold(
        &self,
        project: &ProjectId,
        check: &SchemaCheck,
    ) -> Result<SchemaAnswer, Unchecked> {
        self.shared.checker.hold(project, check).await
    }

    /// Which walls the platform puts around a worker: starts one that is given no call.
    ///
    /// # Errors
    /// When no worker can be started, or a wall is missing and all are required.
    pub async fn walls(&self) -> std::io::Result<Vec<Wall>> {
        let ready = process::probe(&self.shared.options).await?;
        let (compiler, components) = (&self.shared.compiler, self.shared.components.as_ref());
        compiler.prune(&ready.engine_key, components).await;
        let _ = self.shared.engine_key.set(ready.engine_key);
        Ok(ready.walls)
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
