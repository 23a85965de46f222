//! Accepts connections, and ends those that do not get to the point.
//!
//! Invariants:
//! - **A slow client costs time to nobody but itself.** A connection is closed that takes longer than the read timeout
//!   for the head of a request, or that falls behind the minimum rate at which answers are taken. One of HTTP/1 that is idle for the read
//!   timeout is closed, too; one of HTTP/2 is asked whether somebody is there. Bodies have their own pace
//!   (`admission`).
//! - **Connections leave descriptors for the rest.** There are at most so many. When another one comes, the one that
//!   has been idle longest is closed; when none is idle, the new one waits to be accepted.

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

use connections::{Busy, Connections, Seat};
use stream::Timed;

/// Wait after a failure to accept: out of file descriptors, trying again at once would only burn CPU.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often an idle HTTP/2 connection is asked whether somebody is there.
const HTTP2_PING: Duration = Duration::from_secs(30);
/// Requests under way on one HTTP/2 connection; more than browsers and exporters have.
const MAX_HTTP2_STREAMS: u32 = 100;
/// Bytes of an answer that hyper is given at a time: it holds what it was given until the client takes it.
const PIECE: usize = 16 << 10;
/// Bytes of a connection that may wait to be read or sent; the head of a request has to fit.
const MAX_BUFFER: usize = 64 << 10;

/// Limits on connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How long the head of a request may take, and the wait for it.
    pub(crate) head_timeout: Duration,
    /// Connections that are open at a time.
    pub(crate) max_connections: usize,
    /// How fast answers are taken.
    pub(crate) answers: Answers,
}

/// Serves until `shutdown`, then lets the requests under way finish. Dropping it cuts them off.
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
        let seat = tokio::select! {
            seat = connections.take() => seat,
            () = shutdown.cancelled() => break,
        };
        // Answers are small: waiting to fill a packet would only delay them.
        let _ = stream.set_nodelay(true);
        let stream = Timed::new(stream, Arc::clone(&seat), limits.head_timeout, limits.answers);
        let (router, of_requests) = (router.clone(), Arc::clone(&seat));
        let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            let mut busy = Seat::busy(&of_requests);
            let has_body = !request.body().is_end_stream();
            let seat = Arc::clone(&of_requests);
            // A router is always ready.
            let answer = router.clone().call(request);
            async move {
                let response = answer.await?;
                busy.given();
                // Whoever refuses a request may have left its body where it was.
                seat.leave_unread(has_body && !response.status().is_success());
                Ok::<_, Infallible>(response.map(|body| Answer {
                    body,
                    busy,
                    rest: Bytes::new(),
                    n_given: 0,
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
                () = seat.closed() => tracing::debug!("idle connection closed to make room"),
                () = seat.stalled() => {
                    tracing::debug!("connection closed that took an answer too slowly");
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

/// The body of an answer: while some of it is to be sent, its connection is busy. It is asked for the next piece when
/// the client takes more: in HTTP/2 nothing else tells, as a window that a client keeps shut leaves nothing to write.
struct Answer {
    body: Body,
    busy: Busy,
    /// Of the last frame of the body, what is not sent yet.
    rest: Bytes,
    /// Bytes of the piece that was given last.
    n_given: usize,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let n_taken = std::mem::take(&mut self.n_given);
        self.busy.taken(n_taken);
        if self.rest.is_empty() {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let n = PIECE.min(self.rest.len());
        let piece = self.rest.split_to(n);
        self.n_given = n;
        self.busy.given();
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

/// The next connection and its other end; none when accepting failed.
async fn accept(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok(accepted) => Some(accepted),
        // The caller went away before it was its turn.
        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => None,
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "cannot accept");
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
    async fn an_answer_in_pieces_is_the_same_answer() {
        let whole: Vec<u8> = (0..=u8::MAX).cycle().take(5 * PIECE / 2).collect();
        let seat = Connections::new(1, connections::tests::ANSWERS).take().await;
        let mut answer = Answer {
            body: Body::from(whole.clone()),
            busy: Seat::busy(&seat),
            rest: Bytes::new(),
            n_given: 0,
        };
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        while !answer.is_end_stream() {
            let n_left = whole.len() - pieces.concat().len();
            assert_eq!(answer.size_hint().exact(), Some(n_left as u64));
            let frame = answer.frame().await.unwrap().unwrap();
            pieces.push(frame.into_data().unwrap().to_vec());
        }
        let lengths: Vec<usize> = pieces.iter().map(Vec::len).collect();
        assert_eq!(lengths, [PIECE, PIECE, PIECE / 2]);
        assert_eq!(pieces.concat(), whole);
        assert!(answer.frame().await.is_none());
    }
}
