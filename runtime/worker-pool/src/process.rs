//! How a worker process is started, asked what it is, and ended.

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

/// The process, and our end of its socket, which does not block.
pub(crate) fn spawn(options: &Options) -> io::Result<(Child, StdStream)> {
    let (ours, theirs) = StdStream::pair()?;
    ours.set_nonblocking(true)?;
    // The command holds the other end: it must go before the socket is read, or its end is never seen.
    let child = Command::new(&options.program)
        .args(&options.args)
        .env_clear()
        // A key that interrupts the server leaves it to the server to end its workers.
        .process_group(0)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    Ok((child, ours))
}

/// Starts a worker that is given no call, and gives what it says of itself.
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
            _ => Err(io::Error::other("its first message is another")),
        }
    };
    let ready = match tokio::time::timeout(options.silence_limit, ready).await {
        Ok(ready) => ready,
        Err(_) => Err(io::Error::other("it said nothing")),
    };
    // It ends when it finds its socket closed.
    drop(socket);
    match ready {
        Ok(ready) => {
            end(&mut child).await;
            Ok(ready)
        }
        Err(error) => {
            let mut said = String::new();
            if let Some(stderr) = child.stderr.take() {
                let read = stderr.take(64 << 10).read_to_string(&mut said).await;
                drop(read);
            }
            end(&mut child).await;
            let said = said.lines().last().map(str::to_owned);
            Err(said.map_or(error, io::Error::other))
        }
    }
}

/// Gives a process that closed its socket a moment to end by itself, so that its status tells why.
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
        tracing::warn!(line, "a worker process says");
        *lock(&last) = Some(line);
    }
}
