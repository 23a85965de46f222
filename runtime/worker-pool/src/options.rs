//! Options of the pool, and the ports through which workers use the server.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::{Digest, EvaluationCall};
use perpend_worker_protocol::host_call::Allowance;
use perpend_worker_protocol::{Grants, HostReply, HostRequest, WorkerSettings};

/// Default of [`Options::max_in_flight`].
pub const MAX_IN_FLIGHT: usize = 3_072;

/// Options of the pool.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program of all child processes.
    pub program: PathBuf,
    /// Arguments of `program` for a worker.
    pub args: Vec<OsString>,
    /// Arguments of `program` for a compile process.
    pub compile_args: Vec<OsString>,
    /// Arguments of `program` for a check process.
    pub check_args: Vec<OsString>,
    /// Maximum number of worker processes; each starts on demand.
    pub n_workers: usize,
    /// Threads per worker that run guests.
    pub n_threads: u32,
    /// Maximum number of live instances per worker.
    pub max_live: u32,
    /// Maximum number of calls in a worker; default [`MAX_IN_FLIGHT`].
    pub max_in_flight: usize,
    /// The folder of compiled components.
    pub cache_dir: PathBuf,
    /// Maximum size of the folder in bytes, without files in use.
    pub max_cache_bytes: u64,
    /// Capabilities that a component may import in [`crate::Workers::inspect`]. Default: all, because evaluators have their own
    /// grants and host calls without a grant fail.
    pub grants: Grants,
    /// A worker with calls is ended when it sends nothing for so long.
    pub silence_limit: Duration,
    /// A worker is ended when it returns no result for this time in addition to the wall-clock limit of its calls. It ends itself
    /// when a call occupies its thread for this time.
    pub hang_grace: Duration,
    /// Wall-clock limit of one compilation and of one check. Both also have limits of CPU time; this limit is for processes
    /// that hang.
    pub compile_limit: Duration,
    /// A worker is ended when it uses more memory. It suspends calls before it reaches the limit.
    pub max_resident_bytes: u64,
    /// Processes end at once when the platform lacks a sandbox layer.
    pub require_all_layers: bool,
}

impl Options {
    /// The default options, with the arguments `worker`, `compile` and `check`.
    #[must_use]
    pub fn new(program: PathBuf, cache_dir: PathBuf) -> Self {
        Self {
            program,
            args: vec!["worker".into()],
            compile_args: vec!["compile".into()],
            check_args: vec!["check".into()],
            n_workers: 1,
            n_threads: 2,
            // Most of them wait for model calls.
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

/// The source of registered components, for artifacts that are missing or damaged.
pub trait ComponentSource: Send + Sync + 'static {
    /// The component with this digest, if it is registered.
    fn component(&self, digest: Digest) -> BoxFuture<'_, Option<Vec<u8>>>;

    /// The digests of all registered components, whose artifacts are kept; `None` when unknown.
    fn registered(&self) -> BoxFuture<'_, Option<Vec<Digest>>> {
        Box::pin(std::future::ready(None))
    }
}

/// Serves host calls of guests.
pub trait HostCalls: Send + Sync + 'static {
    /// Serves one host call. The implementation checks grants and budgets, because workers are not trusted.
    fn host_call(&self, caller: Caller, request: HostRequest) -> BoxFuture<'_, HostReply>;
}

/// The call that makes a host call.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The project of [`crate::Workers::evaluate_for`].
    pub project: Option<ProjectId>,
    pub call: Arc<EvaluationCall>,
    /// Counters of its host calls.
    pub allowance: Arc<Allowance>,
}

/// Denies all host calls.
#[derive(Clone, Copy, Debug)]
pub struct NoHostCalls;

impl HostCalls for NoHostCalls {
    fn host_call(&self, _: Caller, request: HostRequest) -> BoxFuture<'_, HostReply> {
        Box::pin(std::future::ready(request.not_granted()))
    }
}
