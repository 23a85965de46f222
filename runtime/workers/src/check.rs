//! The check process: holds values against schemas that others wrote, and ends at its limits.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use perpend_domain::ids::ProjectId;
use perpend_domain::protocol::{self, CheckHead, PREFIX, SchemaAnswer, SchemaCheck, Unchecked};
use tokio::io::AsyncReadExt;
use tokio::process::ChildStdout;
use tokio::sync::{AcquireError, Semaphore};

use crate::child::{self, Ended};
use crate::{Options, queue};

/// Processes at a time: each may take what [`Unchecked::TooMuchWork`] names.
const N_AT_A_TIME: usize = 2;
/// Checks of one project that run or wait for their turn.
const MAX_WAITING: usize = 64;

pub(crate) struct Checker {
    program: PathBuf,
    args: Vec<OsString>,
    require_walls: bool,
    limit: Duration,
    turns: Semaphore,
    /// One turn for each project: who asks for much keeps nobody else waiting for long.
    lines: Mutex<HashMap<ProjectId, Arc<Semaphore>>>,
}

impl Checker {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            program: options.program.clone(),
            args: options.check_args.clone(),
            require_walls: options.require_walls,
            limit: options.compile_limit,
            turns: Semaphore::new(N_AT_A_TIME),
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

    pub(crate) async fn hold(
        &self,
        project: &ProjectId,
        check: &SchemaCheck,
    ) -> Result<SchemaAnswer, Unchecked> {
        let closed = |why: AcquireError| failed(&why);
        let line = self.line(project).ok_or(Unchecked::Busy)?;
        let _first_of_its_project = line.acquire().await.map_err(closed)?;
        let _turn = self.turns.acquire().await.map_err(closed)?;
        let head = CheckHead {
            require_walls: self.require_walls,
        };
        let mut request = Vec::new();
        protocol::write_frame(&head, &mut request).map_err(|why| failed(&why))?;
        // More than a frame holds is more than a check may cost.
        protocol::write_frame(check, &mut request).map_err(|_| Unchecked::TooMuchWork)?;
        let input = [request.as_slice()];
        let run = child::run(&self.program, &self.args, &input, read_answer);
        // Its limit is CPU time. This one is for a process that does nothing at all.
        let Ok(ended) = tokio::time::timeout(self.limit, run).await else {
            return Err(failed(&format!("no answer in {} s", self.limit.as_secs())));
        };
        let Ended {
            status,
            answer,
            last_words,
        } = ended.map_err(|why| failed(&why))?;
        if asked_for_too_much(status.signal()) {
            return Err(Unchecked::TooMuchWork);
        }
        match status.success() {
            true => answer.map_err(|why| failed(&why)),
            false => Err(failed(&format!("it ended ({status}): {last_words}"))),
        }
    }
}

fn failed(why: &impl ToString) -> Unchecked {
    Unchecked::Failed(why.to_string())
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
    let other = std::io::Error::other::<protocol::FrameError>;
    let mut prefix = [0; PREFIX];
    stdout.read_exact(&mut prefix).await?;
    let mut frame = vec![0; protocol::frame_length(prefix).map_err(other)?];
    stdout.read_exact(&mut frame).await?;
    protocol::read_frame(&frame).map_err(other)
}
