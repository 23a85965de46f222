//! Check processes: each validates the values of one request against one user-supplied JSON Schema, and ends.
//!
//! Invariants:
//! - **One process, one check.** A schema that breaks into its process finds data of its own project there,
//!   and nothing else. Processes start ahead of need, so that a check does not wait for one.
//! - **A project waits for itself.** One check of a project runs at a time, and projects take turns.
//! - **Bounded.** Each process has limits on CPU time and memory, and so many checks of a project may wait.

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

use crate::child::{self, Ended, Waiting};
use crate::options::Options;
use crate::queue;
use crate::verdicts::{Asked, Verdicts};

/// Checks that run at a time, each of another project: each may take what [`CheckError::TooMuchWork`] names.
const MAX_RUNNING: usize = 4;
/// Checks of one project that run or wait for their turn.
const MAX_WAITING: usize = 64;
/// Confined processes that wait for a check.
const N_SPARES: usize = 2;
/// Processes for checks at any time.
pub const MAX_CHECKS: usize = MAX_RUNNING + N_SPARES;
/// After this long a process gives way to others: to the check of somebody else, and to the server.
const AT_ONCE: Duration = Duration::from_millis(50);
/// The priority of one that took longer (`nice`). With a lower one it would hardly run on a busy machine, and come to
/// no end.
const LOW_PRIORITY: i32 = 5;

pub(crate) struct Checker {
    program: PathBuf,
    args: Vec<OsString>,
    require_all_layers: bool,
    limit: Duration,
    verdicts: Verdicts,
    spares: Mutex<Vec<Waiting>>,
    /// Fair: the first of each project's line waits here, and goes to the end for its next one.
    turns: Semaphore,
    /// One turn for each project.
    lines: Mutex<HashMap<ProjectId, Arc<Semaphore>>>,
}

impl Checker {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            program: options.program.clone(),
            args: options.check_args.clone(),
            require_all_layers: options.require_all_layers,
            limit: options.compile_limit,
            verdicts: Verdicts::default(),
            spares: Mutex::default(),
            turns: Semaphore::new(MAX_RUNNING),
            lines: Mutex::default(),
        }
    }

    /// The line of a project; none when it is full.
    fn line(&self, project: &ProjectId) -> Option<Arc<Semaphore>> {
        let mut lines = queue::lock(&self.lines);
        lines.retain(|_, line| 1 < Arc::strong_count(line));
        let line = lines.entry(project.clone());
        let line = line.or_insert_with(|| Arc::new(Semaphore::new(1)));
        // Who waits or runs holds a handle, and so does the map.
        (Arc::strong_count(line) <= MAX_WAITING).then(|| Arc::clone(line))
    }

    pub(crate) async fn check_schema(
        &self,
        project: &ProjectId,
        check: &SchemaCheck,
    ) -> Result<SchemaAnswer, CheckError> {
        let asked = Asked::new(project, check);
        if let Some(known) = self.verdicts.known(&asked, Instant::now()) {
            return known;
        }
        let closed = |why: AcquireError| failed(&why);
        let line = self.line(project).ok_or(CheckError::Busy)?;
        let _first_of_its_project = line.acquire().await.map_err(closed)?;
        // One that was before it in the line may have asked the same.
        if let Some(known) = self.verdicts.known(&asked, Instant::now()) {
            return known;
        }
        let _turn = self.turns.acquire().await.map_err(closed)?;
        let answer = self.check(check).await;
        self.verdicts.learn(&asked, &answer, Instant::now());
        answer
    }

    async fn check(&self, check: &SchemaCheck) -> Result<SchemaAnswer, CheckError> {
        let mut request = Vec::new();
        // More than a frame holds is more than a check may cost.
        perpend_worker_protocol::write_frame(check, &mut request)
            .map_err(|_| CheckError::TooMuchWork)?;
        let process = match self.spare() {
            Some(spare) => spare,
            None => self.start().await.map_err(|why| failed(&why))?,
        };
        // The request is on its way before other processes are started.
        let (ended, ()) = tokio::join!(self.ask(process, &request), self.refill());
        let Ended { status, answer, last_words } = ended?;
        if asked_for_too_much(status.signal()) {
            return Err(CheckError::TooMuchWork);
        }
        match status.success() {
            true => answer.map_err(|why| failed(&why)),
            false => Err(failed(&format!("it ended ({status}): {last_words}"))),
        }
    }

    async fn ask(
        &self,
        process: Waiting,
        request: &[u8],
    ) -> Result<Ended<SchemaAnswer>, CheckError> {
        let pid = process.pid();
        let input = [request];
        let mut asking = pin!(process.ask(&input, read_answer));
        let ended = match timeout(AT_ONCE, asking.as_mut()).await {
            Ok(ended) => ended,
            Err(_) => {
                lower_priority(pid);
                // Its limit is CPU time. This one is for a process that does nothing at all.
                let ended = timeout(self.limit, asking).await;
                ended.map_err(|_| failed(&format!("no answer in {} s", self.limit.as_secs())))?
            }
        };
        ended.map_err(|why| failed(&why))
    }

    /// A process that was started before and still waits.
    fn spare(&self) -> Option<Waiting> {
        let mut spares = queue::lock(&self.spares);
        spares.retain_mut(Waiting::is_alive);
        // The one that waits longest is surely confined by now.
        (!spares.is_empty()).then(|| spares.remove(0))
    }

    /// A process that confines itself, and then waits for its check.
    async fn start(&self) -> io::Result<Waiting> {
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
                    // Another check may have refilled them meanwhile.
                    if spares.len() < N_SPARES {
                        spares.push(spare);
                    }
                }
                // The check that needs one says so.
                Err(_) => return,
            }
        }
    }
}

/// While its child is being waited for, the number is of no other process.
fn lower_priority(pid: Option<u32>) {
    let pid = pid.and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
    if let Some(pid) = pid
        && let Err(error) = setpriority_process(Some(pid), LOW_PRIORITY)
    {
        tracing::debug!(%error, "the priority of a check process stays");
    }
}

fn failed(why: &impl ToString) -> CheckError {
    CheckError::Failed(why.to_string())
}

/// The signals of a process that had no more time, memory or stack.
fn asked_for_too_much(signal: Option<i32>) -> bool {
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
