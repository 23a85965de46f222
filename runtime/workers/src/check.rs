//! The check process: holds values against schemas that others wrote, and ends at its limits.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::Duration;

use assay_domain::protocol::{self, CheckHead, PREFIX, SchemaAnswer, SchemaCheck, Unchecked};
use tokio::io::AsyncReadExt;
use tokio::process::ChildStdout;
use tokio::sync::Semaphore;

use crate::Options;
use crate::child::{self, Ended};

/// Processes at a time: each may take what [`Unchecked::TooMuchWork`] names.
const N_AT_A_TIME: usize = 2;

pub(crate) struct Checker {
    program: PathBuf,
    args: Vec<OsString>,
    require_walls: bool,
    limit: Duration,
    turns: Semaphore,
}

impl Checker {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            program: options.program.clone(),
            args: options.check_args.clone(),
            require_walls: options.require_walls,
            limit: options.compile_limit,
            turns: Semaphore::new(N_AT_A_TIME),
        }
    }

    pub(crate) async fn hold(
        &self,
        checks: &[SchemaCheck],
    ) -> Result<Vec<SchemaAnswer>, Unchecked> {
        let failed = |why: String| Unchecked::Failed(why);
        let head = CheckHead {
            require_walls: self.require_walls,
        };
        let mut request = Vec::new();
        protocol::write_frame(&head, &mut request).map_err(|why| failed(why.to_string()))?;
        // More than a frame holds is more than a check may cost.
        protocol::write_frame(&checks, &mut request).map_err(|_| Unchecked::TooMuchWork)?;
        let turn = self.turns.acquire().await;
        let _turn = turn.map_err(|why| failed(why.to_string()))?;
        let input = [request.as_slice()];
        let run = child::run(&self.program, &self.args, &input, read_answer);
        // Its limit is CPU time. This one is for a process that does nothing at all.
        let ended = match tokio::time::timeout(self.limit, run).await {
            Ok(ended) => ended.map_err(|why| failed(why.to_string()))?,
            Err(_) => return Err(failed(format!("no answer in {} s", self.limit.as_secs()))),
        };
        let Ended {
            status,
            answer,
            last_words,
        } = ended;
        if asked_for_too_much(status.signal()) {
            return Err(Unchecked::TooMuchWork);
        }
        if !status.success() {
            return Err(failed(format!("it ended ({status}): {last_words}")));
        }
        let answers = answer.map_err(|why| failed(why.to_string()))?;
        match answers.len() == checks.len() {
            true => Ok(answers),
            false => Err(failed("it did not answer everything".to_owned())),
        }
    }
}

/// The signals of a process that had no more time, memory or stack.
fn asked_for_too_much(signal: Option<i32>) -> bool {
    const SIGABRT: i32 = 6;
    const SIGBUS: i32 = 7;
    const SIGSEGV: i32 = 11;
    const SIGXCPU: i32 = 24;
    signal.is_some_and(|signal| [SIGABRT, SIGBUS, SIGSEGV, SIGXCPU].contains(&signal))
}

async fn read_answer(mut stdout: ChildStdout) -> std::io::Result<Vec<SchemaAnswer>> {
    let other = std::io::Error::other::<protocol::FrameError>;
    let mut prefix = [0; PREFIX];
    stdout.read_exact(&mut prefix).await?;
    let mut frame = vec![0; protocol::frame_length(prefix).map_err(other)?];
    stdout.read_exact(&mut frame).await?;
    protocol::read_frame(&frame).map_err(other)
}
