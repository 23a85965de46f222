//! The server's ends of a worker's socket. A tokio socket waits for both directions, and wakes each time the peer has read
//! something. These ends wait for one direction, so that a single call wakes each process once.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, Interest, ReadBuf};

/// Splits a non-blocking socket into a reading and a writing end.
pub(crate) fn split(socket: UnixStream) -> io::Result<(Inbox, Outbox)> {
    let outbox = Outbox(socket.try_clone()?);
    Ok((Inbox(wait_for(socket, Interest::READABLE)?), outbox))
}

#[expect(
    deprecated,
    reason = "its successor is unsafe, for types that return changing descriptors; these do not"
)]
fn wait_for<S: AsRawFd>(socket: S, interest: Interest) -> io::Result<AsyncFd<S>> {
    AsyncFd::with_interest(socket, interest)
}

/// The reading end.
pub(crate) struct Inbox(AsyncFd<UnixStream>);

impl AsyncRead for Inbox {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(context))?;
            let space = into.initialize_unfilled();
            match ready.try_io(|socket| socket.get_ref().read(space)) {
                Ok(Ok(n)) => {
                    if n < space.len() {
                        // All data was read: wait for the next readiness event.
                        ready.clear_ready();
                    }
                    into.advance(n);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

/// The writing end. Registered with the reactor only while the socket is full.
pub(crate) struct Outbox(UnixStream);

impl Outbox {
    /// Calls `write` until it does not block, and returns its result.
    pub(crate) async fn when_ready(
        &self,
        mut write: impl FnMut(&UnixStream) -> io::Result<usize>,
    ) -> io::Result<usize> {
        // Yields to other tasks even when the socket is never full.
        tokio::task::coop::consume_budget().await;
        loop {
            match write(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => return other,
            }
            let waiting = wait_for(self.0.as_fd(), Interest::WRITABLE)?;
            drop(waiting.writable().await?);
        }
    }

    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let n = self.when_ready(|mut socket| socket.write(bytes)).await?;
            if n == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[n..];
        }
        Ok(())
    }
}
