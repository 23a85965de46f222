//! Accepts connections, and ends those that do not get to the point.
//!
//! A connection that takes longer than the read timeout for the head of a request, or that is idle for as
//! long, is closed: otherwise a few slow senders could hold all of the process's file descriptors.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

/// Wait after a failure to accept: out of file descriptors, trying again at once would only burn CPU.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often an idle HTTP/2 connection is asked whether somebody is there.
const HTTP2_PING: Duration = Duration::from_secs(30);
/// What an HTTP/2 client sends first.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Serves until `shutdown`, then lets the requests under way finish. Dropping it cuts them off.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    head_timeout: Duration,
    shutdown: CancellationToken,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(HTTP2_PING)
        .keep_alive_timeout(head_timeout);
    let graceful = GracefulShutdown::new();
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = accept(&listener) => accepted,
            () = shutdown.cancelled() => break,
        };
        while connections.try_join_next().is_some() {}
        let Some(stream) = stream else { continue };
        // Answers are small: waiting to fill a packet would only delay them.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        let connection = builder
            .serve_connection(TokioIo::new(Opening::new(stream, head_timeout)), service)
            .into_owned();
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error, "connection ended");
            }
        });
    }
    drop(listener);
    graceful.shutdown().await;
}

/// A connection that must show in time which version of HTTP it speaks. From then on hyper minds the
/// time; before, it waits for the first bytes without end.
struct Opening {
    stream: TcpStream,
    /// While what came is the beginning of the preface, and nothing more.
    undecided: Option<Undecided>,
}

struct Undecided {
    n_seen: usize,
    deadline: Pin<Box<Sleep>>,
}

impl Opening {
    fn new(stream: TcpStream, timeout: Duration) -> Self {
        let deadline = Box::pin(tokio::time::sleep(timeout));
        Self {
            stream,
            undecided: Some(Undecided {
                n_seen: 0,
                deadline,
            }),
        }
    }
}

impl AsyncRead for Opening {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, undecided } = self.get_mut();
        let n_before = buf.filled().len();
        let polled = Pin::new(stream).poll_read(cx, buf);
        let Some(waiting) = undecided else {
            return polled;
        };
        if polled.is_pending() {
            ready!(waiting.deadline.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let came = buf.filled().get(n_before..).unwrap_or_default();
        let rest = HTTP2_PREFACE.get(waiting.n_seen..).unwrap_or_default();
        waiting.n_seen += came.len();
        if came.len() >= rest.len() || !rest.starts_with(came) {
            *undecided = None;
        }
        polled
    }
}

impl AsyncWrite for Opening {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The next connection; none when accepting failed.
async fn accept(listener: &TcpListener) -> Option<TcpStream> {
    match listener.accept().await {
        Ok((stream, _)) => Some(stream),
        // The caller went away before it was its turn.
        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => None,
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "cannot accept");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}
