//! The bytes of one connection, and how long they may take.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use perpend_config::Answers;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use super::connections::{Busy, Pace, Seat};

/// What an HTTP/2 client sends first.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long what a client still sends is read and forgotten after an answer to a body that was not read. Closed at
/// once, the connection would be reset, and the client's system might forget the answer before the client reads it.
const LINGER: Duration = Duration::from_secs(5);

/// A connection that must show in time which version of HTTP it speaks, and must take what it is sent. hyper minds
/// the time of heads; before them, and for answers that nobody reads, it waits without end.
pub(super) struct Timed {
    stream: TcpStream,
    seat: Arc<Seat>,
    answers: Answers,
    /// While what came is the beginning of the preface, and nothing more.
    undecided: Option<Undecided>,
    /// While the client does not take what is sent.
    unsent: Option<Unsent>,
    /// Once the last answer is sent, while the client may still send.
    lingering: Option<Pin<Box<Sleep>>>,
}

struct Undecided {
    n_seen: usize,
    deadline: Pin<Box<Sleep>>,
}

/// An answer on its way keeps its connection from being idle.
struct Unsent {
    pace: Pace,
    since: Instant,
    deadline: Pin<Box<Sleep>>,
    _busy: Busy,
}

impl Timed {
    pub(super) fn new(
        stream: TcpStream,
        seat: Arc<Seat>,
        head_timeout: Duration,
        answers: Answers,
    ) -> Self {
        let deadline = Box::pin(tokio::time::sleep(head_timeout));
        Self {
            stream,
            seat,
            answers,
            undecided: Some(Undecided { n_seen: 0, deadline }),
            unsent: None,
            lingering: None,
        }
    }

    /// Minds the time of a write.
    fn written(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = &polled {
            if let (Some(unsent), Ok(n_bytes)) = (&mut self.unsent, written) {
                let now = Instant::now();
                unsent.pace.took(*n_bytes, now - unsent.since);
                unsent.since = now;
                unsent.deadline.as_mut().reset(unsent.pace.due(now));
            }
            return polled;
        }
        let unsent = self.unsent.get_or_insert_with(|| {
            let (pace, now) = (Pace::new(self.answers), Instant::now());
            Unsent {
                pace,
                since: now,
                deadline: Box::pin(tokio::time::sleep_until(pace.due(now))),
                _busy: Seat::busy(&self.seat),
            }
        });
        ready!(unsent.deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Timed {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, undecided, .. } = self.get_mut();
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

impl AsyncWrite for Timed {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.written(cx, polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.written(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes when it has written all it has.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_flush(cx);
        if polled.is_ready() {
            this.unsent = None;
        }
        polled
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.lingering.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        if !this.seat.leaves_unread() {
            return Poll::Ready(Ok(()));
        }
        let deadline = this.lingering.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        let mut unread = [0; 16 << 10];
        // As long as the client sends; it ends when the client does.
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
    use super::super::connections::tests::ANSWERS;
    use super::*;

    #[tokio::test]
    async fn an_answer_that_nobody_reads_keeps_its_connection_busy_and_ends_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (silent, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let _silent = silent.unwrap();
        let connections = Connections::new(1, ANSWERS);
        let seat = connections.take().await;
        let timeout = Duration::from_millis(1);
        let answers = Answers { pause: timeout, ..ANSWERS };
        let mut timed = Timed::new(accepted.unwrap().0, Arc::clone(&seat), timeout, answers);
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
