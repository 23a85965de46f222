//! Accepts connections and closes slow ones.
//!
//! Invariants:
//! - **A slow client does not affect others.** A connection is closed if the head of a request takes longer than the read timeout,
//!   or if the client reads a response below the minimum rate. An HTTP/1 connection that is idle for the read timeout is closed;
//!   HTTP/2 connections are checked with pings. Request bodies have limits of their own (`admission`).
//! - **The number of connections is limited**, so that descriptors remain for other purposes. At the limit, the connection that has
//!   been idle longest is closed; if none is idle, new connections wait in the accept queue.

mod connections;
mod stream;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::ConnectInfo;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use perpend_config::Answers;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower_service::Service as _;

use connections::{ActiveRequest, Connections, Slot};
use stream::TimedStream;

/// Delay after a failed accept; without file descriptors, immediate retries would only use CPU.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Interval of pings on an idle HTTP/2 connection.
const HTTP2_PING: Duration = Duration::from_secs(30);
/// Concurrent requests on one HTTP/2 connection; browsers and exporters use fewer.
const MAX_HTTP2_STREAMS: u32 = 100;
/// Bytes of a response passed to hyper at a time; hyper buffers them until the client reads them.
const PIECE_BYTES: usize = 16 << 10;
/// Buffer size for reading and writing; the head of a request must fit.
const MAX_BUFFER: usize = 64 << 10;

/// Limits on connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Timeout for the head of a request, including the time until it starts.
    pub(crate) head_timeout: Duration,
    /// Maximum number of open connections.
    pub(crate) max_connections: usize,
    /// Minimum rate at which clients read responses.
    pub(crate) answers: Answers,
}

/// Serves until `shutdown`, then waits for active requests. Dropping the future aborts them.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let builder = builder(limits.head_timeout);
    let graceful = GracefulShutdown::new();
    let connections = Connections::new(limits.max_connections, limits.answers);
    let mut tasks = tokio::task::JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener) => accepted,
            () = shutdown.cancelled() => break,
        };
        while tasks.try_join_next().is_some() {}
        let Some((stream, peer)) = accepted else {
            continue;
        };
        let slot = tokio::select! {
            slot = connections.acquire() => slot,
            () = shutdown.cancelled() => break,
        };
        // Responses are small, so Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        let stream =
            TimedStream::new(stream, Arc::clone(&slot), limits.head_timeout, limits.answers);
        let (router, request_slot) = (router.clone(), Arc::clone(&slot));
        let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            let mut active = Slot::activate(&request_slot);
            let has_body = !request.body().is_end_stream();
            let slot = Arc::clone(&request_slot);
            // A router is always ready.
            let response = router.clone().call(request);
            async move {
                let response = response.await?;
                active.record_passed();
                // A rejected request may have an unread body.
                slot.set_unread_body(has_body && !response.status().is_success());
                Ok::<_, Infallible>(response.map(|body| MeasuredBody {
                    body,
                    active,
                    rest: Bytes::new(),
                    n_passed: 0,
                }))
            }
        });
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
        let connection = graceful.watch(connection);
        tasks.spawn(async move {
            tokio::select! {
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(error, "connection ended");
                },
                () = slot.closed() => tracing::debug!("idle connection closed at the connection limit"),
                () = slot.stalled() => {
                    tracing::debug!("connection closed: the client read a response too slowly");
                }
            }
        });
    }
    drop(listener);
    graceful.shutdown().await;
}

fn builder(head_timeout: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .max_buf_size(MAX_BUFFER)
        .header_read_timeout(head_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_HTTP2_STREAMS)
        .max_send_buf_size(MAX_BUFFER)
        .keep_alive_interval(HTTP2_PING)
        .keep_alive_timeout(head_timeout);
    builder
}

/// A response body that measures the rate of the client. Its connection is active until the body is sent. hyper polls the next
/// piece when the client reads more. In HTTP/2 this is the only signal, because a closed window leaves nothing to write.
struct MeasuredBody {
    body: Body,
    active: ActiveRequest,
    /// Unsent part of the last frame.
    rest: Bytes,
    /// Bytes of the last piece passed to hyper.
    n_passed: usize,
}

impl HttpBody for MeasuredBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let n_read = std::mem::take(&mut self.n_passed);
        self.active.record_read(n_read);
        if self.rest.is_empty() {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let n = PIECE_BYTES.min(self.rest.len());
        let piece = self.rest.split_to(n);
        self.n_passed = n;
        self.active.record_passed();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (of_body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(of_body.lower() + rest);
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

/// The next connection with the address of the client; absent if accepting failed.
async fn accept(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok(accepted) => Some(accepted),
        // The client closed the connection before it was accepted.
        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => None,
        Err(error) => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "accepting a connection failed"
            );
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_body_sent_in_pieces_is_unchanged() {
        let whole: Vec<u8> = (0..=u8::MAX).cycle().take(5 * PIECE_BYTES / 2).collect();
        let slot = Connections::new(1, connections::tests::LIMITS).acquire().await;
        let mut measured = MeasuredBody {
            body: Body::from(whole.clone()),
            active: Slot::activate(&slot),
            rest: Bytes::new(),
            n_passed: 0,
        };
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        while !measured.is_end_stream() {
            let n_left = whole.len() - pieces.concat().len();
            assert_eq!(measured.size_hint().exact(), Some(n_left as u64));
            let frame = measured.frame().await.unwrap().unwrap();
            pieces.push(frame.into_data().unwrap().to_vec());
        }
        let lengths: Vec<usize> = pieces.iter().map(Vec::len).collect();
        assert_eq!(lengths, [PIECE_BYTES, PIECE_BYTES, PIECE_BYTES / 2]);
        assert_eq!(pieces.concat(), whole);
        assert!(measured.frame().await.is_none());
    }
}
