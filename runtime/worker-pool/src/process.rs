//! Starts, probes and ends worker processes.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use perpend_worker_protocol::{FromWorker, PREFIX_BYTES, Ready, ToWorker};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, Command};

use crate::options::Options;
use crate::queue::lock;

/// Starts a worker. Returns the process and the non-blocking local end of its socket.
pub(crate) fn spawn(options: &Options) -> io::Result<(Child, StdStream)> {
    let (ours, theirs) = StdStream::pair()?;
    ours.set_nonblocking(true)?;
    // The command owns the other end, and must be dropped before the socket is read: otherwise the end of file is not detected.
    let child = Command::new(&options.program)
        .args(&options.args)
        .env_clear()
        // An interrupt of the terminal reaches only the server, which ends its workers.
        .process_group(0)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    Ok((child, ours))
}

/// Time limit for the start of a worker, as a multiple of the silence limit: on a busy machine a start takes longer than the
/// interval between messages.
const START_LIMITS: u32 = 4;

/// Starts a worker without calls and returns its `Ready`.
pub(crate) async fn probe(options: &Options) -> io::Result<Ready> {
    let (mut child, socket) = spawn(options)?;
    let mut socket = UnixStream::from_std(socket)?;
    let mut frame = Vec::new();
    let start = ToWorker::Start(options.worker_settings());
    perpend_worker_protocol::write_frame(&start, &mut frame).map_err(io::Error::other)?;
    let ready = async {
        socket.write_all(&frame).await?;
        let mut prefix = [0; PREFIX_BYTES];
        socket.read_exact(&mut prefix).await?;
        let mut frame =
            vec![0; perpend_worker_protocol::frame_length(prefix).map_err(io::Error::other)?];
        socket.read_exact(&mut frame).await?;
        match perpend_worker_protocol::read_frame(&frame).map_err(io::Error::other)? {
            FromWorker::Ready(ready) => Ok(ready),
            _ => Err(io::Error::other("the first message of the worker must be `Ready`")),
        }
    };
    let ready = match tokio::time::timeout(START_LIMITS * options.silence_limit, ready).await {
        Ok(ready) => ready,
        Err(_) => Err(io::Error::other("the worker sent nothing")),
    };
    // The worker exits when its socket is closed.
    drop(socket);
    match ready {
        Ok(ready) => {
            end(&mut child).await;
            Ok(ready)
        }
        Err(error) => {
            let mut stderr_text = String::new();
            if let Some(stderr) = child.stderr.take() {
                let read = stderr.take(64 << 10).read_to_string(&mut stderr_text).await;
                drop(read);
            }
            end(&mut child).await;
            let stderr_text = stderr_text.lines().last().map(str::to_owned);
            Err(stderr_text.map_or(error, io::Error::other))
        }
    }
}

/// Waits briefly for a process that closed its socket, to get its exit status; then kills it.
pub(crate) async fn end(child: &mut Child) -> Option<std::process::ExitStatus> {
    if let Ok(status) = tokio::time::timeout(Duration::from_millis(200), child.wait()).await {
        return status.ok();
    }
    drop(child.kill().await);
    None
}

pub(crate) async fn log_lines(stderr: ChildStderr, last: Arc<Mutex<Option<String>>>) {
    let mut lines = BufReader::new(stderr.take(1 << 20)).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        tracing::warn!(line, "standard error of a worker process");
        *lock(&last) = Some(line);
    }
}
