//! Check processes: each validates the values of one request against one user-supplied JSON Schema, and exits.
//!
//! Invariants:
//! - **One process per check.** A schema that compromises its process finds only data of its own project. Processes are
//!   started in advance, so that a check does not wait for one.
//! - **Projects do not delay each other.** One check of a project runs at a time, and projects take turns.
//! - **Bounded.** Each process has limits of CPU time and memory, and the number of waiting checks per project is limited.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use perpend_domain::ids::ProjectId;
use perpend_worker_protocol::{CheckError, CheckHead, PREFIX_BYTES, SchemaAnswer, SchemaCheck};
use rustix::process::{Pid, setpriority_process};
use tokio::io::AsyncReadExt;
use tokio::process::ChildStdout;
use tokio::sync::{AcquireError, Semaphore};
use tokio::time::{Instant, timeout};

use crate::child::{self, ChildOutput, PendingChild};
use crate::options::Options;
use crate::queue;
use crate::verdict_cache::{CheckKeys, VerdictCache};

/// Maximum number of concurrent checks, each of another project. Each may use the resources in [`CheckError::TooMuchWork`].
const MAX_RUNNING: usize = 4;
/// Maximum number of running and waiting checks of one project.
const MAX_WAITING: usize = 64;
/// Number of confined processes that are started in advance.
const N_SPARES: usize = 2;
/// Maximum number of check processes.
pub const MAX_CHECKS: usize = MAX_RUNNING + N_SPARES;
/// After this time the priority of a check process is lowered in favor of other checks and the server.
const FAST_LIMIT: Duration = Duration::from_millis(50);
/// The lowered priority (`nice`). With a lower one the process might not complete on a busy machine.
const LOW_PRIORITY: i32 = 5;

pub(crate) struct Checker {
    program: PathBuf,
    args: Vec<OsString>,
    require_all_layers: bool,
    limit: Duration,
    verdicts: VerdictCache,
    spares: Mutex<Vec<PendingChild>>,
    /// Fair: the first check of each project waits here.
    permits: Semaphore,
    /// One permit for each project.
    queues: Mutex<HashMap<ProjectId, Arc<Semaphore>>>,
}

impl Checker {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            program: options.program.clone(),
            args: options.check_args.clone(),
            require_all_layers: options.require_all_layers,
            limit: options.compile_limit,
            verdicts: VerdictCache::default(),
            spares: Mutex::default(),
            permits: Semaphore::new(MAX_RUNNING),
            queues: Mutex::default(),
        }
    }

    /// The queue of a project; `None` when it is full.
    fn queue(&self, project: &ProjectId) -> Option<Arc<Semaphore>> {
        let mut queues = queue::lock(&self.queues);
        queues.retain(|_, queue| 1 < Arc::strong_count(queue));
        let queue = queues.entry(project.clone());
        let queue = queue.or_insert_with(|| Arc::new(Semaphore::new(1)));
        // Each running or waiting check has a handle, and so does the map.
        (Arc::strong_count(queue) <= MAX_WAITING).then(|| Arc::clone(queue))
    }

    pub(crate) async fn check_schema(
        &self,
        project: &ProjectId,
        check: &SchemaCheck,
    ) -> Result<SchemaAnswer, CheckError> {
        let keys = CheckKeys::new(project, check);
        if let Some(known) = self.verdicts.get(&keys, Instant::now()) {
            return known;
        }
        let closed = |error: AcquireError| failed(&error);
        let queue = self.queue(project).ok_or(CheckError::Busy)?;
        let _project_permit = queue.acquire().await.map_err(closed)?;
        // An earlier check in the queue may have been equal.
        if let Some(known) = self.verdicts.get(&keys, Instant::now()) {
            return known;
        }
        let _permit = self.permits.acquire().await.map_err(closed)?;
        let answer = self.check(check).await;
        self.verdicts.insert(&keys, &answer, Instant::now());
        answer
    }

    async fn check(&self, check: &SchemaCheck) -> Result<SchemaAnswer, CheckError> {
        let mut request = Vec::new();
        // A request that exceeds a frame also exceeds the limits of a check.
        perpend_worker_protocol::write_frame(check, &mut request)
            .map_err(|_| CheckError::TooMuchWork)?;
        let process = match self.spare() {
            Some(spare) => spare,
            None => self.start().await.map_err(|error| failed(&error))?,
        };
        // The request is sent while spare processes are started.
        let (ended, ()) = tokio::join!(self.exchange(process, &request), self.refill());
        let ChildOutput { status, answer, stderr_line } = ended?;
        if is_resource_limit(status.signal()) {
            return Err(CheckError::TooMuchWork);
        }
        match status.success() {
            true => answer.map_err(|error| failed(&error)),
            false => Err(failed(&format!("the process ended ({status}): {stderr_line}"))),
        }
    }

    async fn exchange(
        &self,
        process: PendingChild,
        request: &[u8],
    ) -> Result<ChildOutput<SchemaAnswer>, CheckError> {
        let pid = process.pid();
        let input = [request];
        let mut exchange = pin!(process.exchange(&input, read_answer));
        let ended = match timeout(FAST_LIMIT, exchange.as_mut()).await {
            Ok(ended) => ended,
            Err(_) => {
                lower_priority(pid);
                // The process limits its own CPU time. This limit is for a process that hangs.
                let ended = timeout(self.limit, exchange).await;
                ended.map_err(|_| failed(&format!("no answer in {} s", self.limit.as_secs())))?
            }
        };
        ended.map_err(|error| failed(&error))
    }

    /// Takes a spare process that is alive.
    fn spare(&self) -> Option<PendingChild> {
        let mut spares = queue::lock(&self.spares);
        spares.retain_mut(PendingChild::is_alive);
        // The oldest process has most likely confined itself already.
        (!spares.is_empty()).then(|| spares.remove(0))
    }

    /// Starts a process, which confines itself and then waits for its check.
    async fn start(&self) -> io::Result<PendingChild> {
        let head = CheckHead { require_all_layers: self.require_all_layers };
        let mut frame = Vec::new();
        perpend_worker_protocol::write_frame(&head, &mut frame).map_err(io::Error::other)?;
        let mut process = child::start(&self.program, &self.args)?;
        process.send(&frame).await;
        Ok(process)
    }

    async fn refill(&self) {
        while queue::lock(&self.spares).len() < N_SPARES {
            match self.start().await {
                Ok(spare) => {
                    let mut spares = queue::lock(&self.spares);
                    // Another check may have added spares meanwhile.
                    if spares.len() < N_SPARES {
                        spares.push(spare);
                    }
                }
                // The next check that needs a process reports the error.
                Err(_) => return,
            }
        }
    }
}

/// The id cannot be reused before the process is waited for.
fn lower_priority(pid: Option<u32>) {
    let pid = pid.and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
    if let Some(pid) = pid
        && let Err(error) = setpriority_process(Some(pid), LOW_PRIORITY)
    {
        tracing::debug!(%error, "cannot lower the priority of a check process");
    }
}

fn failed(error: &impl ToString) -> CheckError {
    CheckError::Failed(error.to_string())
}

/// Whether the signal means that CPU time, memory or stack is exhausted.
fn is_resource_limit(signal: Option<i32>) -> bool {
    const SIGABRT: i32 = 6;
    const SIGBUS: i32 = 7;
    const SIGSEGV: i32 = 11;
    const SIGXCPU: i32 = 24;
    signal.is_some_and(|signal| [SIGABRT, SIGBUS, SIGSEGV, SIGXCPU].contains(&signal))
}

async fn read_answer(mut stdout: ChildStdout) -> std::io::Result<SchemaAnswer> {
    let other = std::io::Error::other::<perpend_worker_protocol::FrameError>;
    let mut prefix = [0; PREFIX_BYTES];
    stdout.read_exact(&mut prefix).await?;
    let mut frame = vec![0; perpend_worker_protocol::frame_length(prefix).map_err(other)?];
    stdout.read_exact(&mut frame).await?;
    perpend_worker_protocol::read_frame(&frame).map_err(other)
}
