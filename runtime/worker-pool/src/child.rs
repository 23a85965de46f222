//! A child process that serves one request and exits: the common part of compiling and checking.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// Maximum number of bytes of standard error that are kept.
const MAX_STDERR_BYTES: u64 = 64 << 10;

/// The exit status and the answer of a child.
pub(crate) struct ChildOutput<T> {
    pub(crate) status: ExitStatus,
    pub(crate) answer: io::Result<T>,
    /// The last line on standard error.
    pub(crate) stderr_line: String,
}

/// A child that waits for its request. Dropping it kills the process.
pub(crate) struct PendingChild {
    process: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: ChildStderr,
}

/// Starts `program` with three pipes and an empty environment.
pub(crate) fn start(program: &Path, args: &[OsString]) -> io::Result<PendingChild> {
    let mut process = Command::new(program)
        .args(args)
        .env_clear()
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let missing = || io::Error::other("a pipe is missing");
    Ok(PendingChild {
        stdin: process.stdin.take().ok_or_else(missing)?,
        stdout: process.stdout.take().ok_or_else(missing)?,
        stderr: process.stderr.take().ok_or_else(missing)?,
        process,
    })
}

impl PendingChild {
    /// Sends the first part of the request.
    pub(crate) async fn send(&mut self, piece: &[u8]) {
        // A child that ends early closes the pipe; its answer or status has the cause.
        drop(self.stdin.write_all(piece).await);
    }

    /// Whether the process is still running.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// The process id, which cannot be reused before the process is waited for.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// Sends the request and reads the answer. Dropping the future kills the child.
    pub(crate) async fn exchange<T>(
        self,
        input: &[&[u8]],
        read: impl AsyncFnOnce(ChildStdout) -> io::Result<T>,
    ) -> io::Result<ChildOutput<T>> {
        let Self { mut process, mut stdin, stdout, stderr } = self;
        let feed = async {
            for piece in input {
                if stdin.write_all(piece).await.is_err() {
                    break;
                }
            }
            drop(stdin);
        };
        let collect = async {
            let mut stderr_text = Vec::new();
            let mut first = stderr.take(MAX_STDERR_BYTES);
            drop(first.read_to_end(&mut stderr_text).await);
            // The rest is discarded; otherwise the child would block.
            drop(tokio::io::copy(&mut first.into_inner(), &mut tokio::io::sink()).await);
            stderr_text
        };
        let ((), answer, stderr_text) = tokio::join!(feed, read(stdout), collect);
        let stderr_text = String::from_utf8_lossy(&stderr_text);
        Ok(ChildOutput {
            status: process.wait().await?,
            answer,
            stderr_line: stderr_text.lines().last().unwrap_or_default().to_owned(),
        })
    }
}
