//! The byte stream of a connection, with timeouts.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use perpend_config::Answers;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use super::connections::{ActiveRequest, Pace, Slot};

/// The connection preface of HTTP/2.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long data of the client is read and discarded after a response to an unread body. Closing immediately would reset the
/// connection, and the client could lose the response.
const LINGER: Duration = Duration::from_secs(5);

/// A connection with a timeout for detecting the HTTP version and for writing. hyper has a timeout for heads only.
pub(super) struct TimedStream {
    stream: TcpStream,
    slot: Arc<Slot>,
    answers: Answers,
    /// Present while the received bytes may be the HTTP/2 preface.
    detection: Option<VersionDetection>,
    /// Present while a write is blocked.
    blocked_write: Option<BlockedWrite>,
    /// Present after the last response while the client may still send.
    lingering: Option<Pin<Box<Sleep>>>,
}

struct VersionDetection {
    n_seen: usize,
    deadline: Pin<Box<Sleep>>,
}

/// A blocked write keeps the connection from being idle.
struct BlockedWrite {
    pace: Pace,
    since: Instant,
    deadline: Pin<Box<Sleep>>,
    _active: ActiveRequest,
}

impl TimedStream {
    pub(super) fn new(
        stream: TcpStream,
        slot: Arc<Slot>,
        head_timeout: Duration,
        answers: Answers,
    ) -> Self {
        let deadline = Box::pin(tokio::time::sleep(head_timeout));
        Self {
            stream,
            slot,
            answers,
            detection: Some(VersionDetection { n_seen: 0, deadline }),
            blocked_write: None,
            lingering: None,
        }
    }

    /// Applies the timeout to the result of a write.
    fn time_write(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = &polled {
            if let (Some(blocked_write), Ok(n_bytes)) = (&mut self.blocked_write, written) {
                let now = Instant::now();
                blocked_write.pace.record_read(*n_bytes, now - blocked_write.since);
                blocked_write.since = now;
                blocked_write.deadline.as_mut().reset(blocked_write.pace.deadline(now));
            }
            return polled;
        }
        let blocked_write = self.blocked_write.get_or_insert_with(|| {
            let (pace, now) = (Pace::new(self.answers), Instant::now());
            BlockedWrite {
                pace,
                since: now,
                deadline: Box::pin(tokio::time::sleep_until(pace.deadline(now))),
                _active: Slot::activate(&self.slot),
            }
        });
        ready!(blocked_write.deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, detection, .. } = self.get_mut();
        let n_before = buf.filled().len();
        let polled = Pin::new(stream).poll_read(cx, buf);
        let Some(waiting) = detection else {
            return polled;
        };
        if polled.is_pending() {
            ready!(waiting.deadline.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let received = buf.filled().get(n_before..).unwrap_or_default();
        let rest = HTTP2_PREFACE.get(waiting.n_seen..).unwrap_or_default();
        waiting.n_seen += received.len();
        if received.len() >= rest.len() || !rest.starts_with(received) {
            *detection = None;
        }
        polled
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.time_write(cx, polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.time_write(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes after it has written all data.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_flush(cx);
        if polled.is_ready() {
            this.blocked_write = None;
        }
        polled
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.lingering.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        if !this.slot.has_unread_body() {
            return Poll::Ready(Ok(()));
        }
        let deadline = this.lingering.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        let mut unread = [0; 16 << 10];
        // Until the client stops sending or the deadline.
        while deadline.as_mut().poll(cx).is_pending() {
            let mut unread = ReadBuf::new(&mut unread);
            let read = ready!(Pin::new(&mut this.stream).poll_read(cx, &mut unread));
            if read.is_err() || unread.filled().is_empty() {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::super::connections::Connections;
    use super::super::connections::tests::LIMITS;
    use super::*;

    #[tokio::test]
    async fn an_unread_response_keeps_its_connection_active_until_the_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (silent, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let _silent = silent.unwrap();
        let connections = Connections::new(1, LIMITS);
        let slot = connections.acquire().await;
        let timeout = Duration::from_millis(1);
        let answers = Answers { pause: timeout, ..LIMITS };
        let mut timed = TimedStream::new(accepted.unwrap().0, Arc::clone(&slot), timeout, answers);
        let piece = vec![0; 1 << 20];
        let error = loop {
            if let Err(error) = timed.write_all(&piece).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(!connections.close_idle());
        drop(timed);
        assert!(connections.close_idle());
    }
}
