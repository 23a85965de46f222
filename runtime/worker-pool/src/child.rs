//! A child that answers one request and ends: what is common to compiling and checking.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// Bytes of what a child says on standard error that are kept.
const MAX_SAID_BYTES: u64 = 64 << 10;

/// How a child ended, and what it answered.
pub(crate) struct Ended<T> {
    pub(crate) status: ExitStatus,
    pub(crate) answer: io::Result<T>,
    /// The last line on standard error.
    pub(crate) last_words: String,
}

/// A child that waits for its request. Dropping it kills it.
pub(crate) struct Waiting {
    process: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: ChildStderr,
}

/// Starts `program` with nothing but three pipes.
pub(crate) fn start(program: &Path, args: &[OsString]) -> io::Result<Waiting> {
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
    Ok(Waiting {
        stdin: process.stdin.take().ok_or_else(missing)?,
        stdout: process.stdout.take().ok_or_else(missing)?,
        stderr: process.stderr.take().ok_or_else(missing)?,
        process,
    })
}

impl Waiting {
    /// Sends the first part of the request, which the child reads before the rest exists.
    pub(crate) async fn send(&mut self, piece: &[u8]) {
        // A child that ends early closes the pipe; its answer or status says more.
        drop(self.stdin.write_all(piece).await);
    }

    /// Whether it still waits: one that ended meanwhile answers nothing.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// While it was not waited for, this number is of no other process.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// Sends these pieces, and reads the answer. Dropping the future kills the child.
    pub(crate) async fn ask<T>(
        self,
        input: &[&[u8]],
        read: impl AsyncFnOnce(ChildStdout) -> io::Result<T>,
    ) -> io::Result<Ended<T>> {
        let Self { mut process, mut stdin, stdout, stderr } = self;
        let feed = async {
            for piece in input {
                if stdin.write_all(piece).await.is_err() {
                    break;
                }
            }
            drop(stdin);
        };
        let listen = async {
            let mut said = Vec::new();
            let mut first = stderr.take(MAX_SAID_BYTES);
            drop(first.read_to_end(&mut said).await);
            // Who says more is heard out, or it would wait for ever.
            drop(tokio::io::copy(&mut first.into_inner(), &mut tokio::io::sink()).await);
            said
        };
        let ((), answer, said) = tokio::join!(feed, read(stdout), listen);
        let said = String::from_utf8_lossy(&said);
        Ok(Ended {
            status: process.wait().await?,
            answer,
            last_words: said.lines().last().unwrap_or_default().to_owned(),
        })
    }
}
