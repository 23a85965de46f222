//! A child that answers one request and ends: what is common to compiling and checking.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdout, Command};

/// Bytes of what a child says on standard error that are kept.
const MAX_SAID_BYTES: u64 = 64 << 10;

/// How a child ended, and what it answered.
pub(crate) struct Ended<T> {
    pub(crate) status: ExitStatus,
    pub(crate) answer: io::Result<T>,
    /// The last line on standard error.
    pub(crate) last_words: String,
}

/// Starts `program` with nothing but three pipes, feeds it these pieces, and reads its answer. Dropping the
/// future kills it.
pub(crate) async fn run<T>(
    program: &Path,
    args: &[OsString],
    input: &[&[u8]],
    read: impl AsyncFnOnce(ChildStdout) -> io::Result<T>,
) -> io::Result<Ended<T>> {
    let mut child = Command::new(program)
        .args(args)
        .env_clear()
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let missing = || io::Error::other("a pipe is missing");
    let mut stdin = child.stdin.take().ok_or_else(missing)?;
    let stdout = child.stdout.take().ok_or_else(missing)?;
    let stderr = child.stderr.take().ok_or_else(missing)?;
    let feed = async {
        for piece in input {
            // A child that ends early closes the pipe; its answer or status says more.
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
        status: child.wait().await?,
        answer,
        last_words: said.lines().last().unwrap_or_default().to_owned(),
    })
}
