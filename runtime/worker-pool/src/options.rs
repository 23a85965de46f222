//! How workers are started and fed, and what they ask of the server.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::{Digest, EvaluationCall};
use perpend_worker_protocol::host_call::Allowance;
use perpend_worker_protocol::{Grants, HostReply, HostRequest, WorkerSettings};

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
    /// Guests that run in each at a time.
    pub n_threads: u32,
    /// Live instances of each.
    pub max_live: u32,
    /// Calls a worker is given before it has to answer some: [`MAX_IN_FLIGHT`].
    pub max_in_flight: usize,
    /// Where compiled components are.
    pub cache_dir: PathBuf,
    /// The most that they take on disk together, those in use apart.
    pub max_cache_bytes: u64,
    /// Capabilities a component may import when [`crate::Workers::inspect`] is asked: all of them, since each
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
    /// Processes end at once when the platform lacks a sandbox layer.
    pub require_all_layers: bool,
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
            // Of these few run; the others wait for the server, for models mostly.
            max_live: 2_560,
            max_in_flight: MAX_IN_FLIGHT,
            cache_dir,
            max_cache_bytes: 4 << 30,
            grants: Grants::ALL,
            silence_limit: Duration::from_secs(30),
            hang_grace: Duration::from_secs(15),
            compile_limit: Duration::from_secs(600),
            max_resident_bytes: 4 << 30,
            require_all_layers: false,
        }
    }

    pub(crate) fn worker_settings(&self) -> WorkerSettings {
        WorkerSettings {
            n_threads: self.n_threads,
            max_live: self.max_live,
            max_resident_bytes: self.max_resident_bytes,
            stuck_ms: u64::try_from(self.hang_grace.as_millis()).unwrap_or(u64::MAX),
            require_all_layers: self.require_all_layers,
        }
    }
}

/// Gives the bytes of registered components, for artifacts that are missing or damaged.
pub trait ComponentSource: Send + Sync + 'static {
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
    pub call: Arc<EvaluationCall>,
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
