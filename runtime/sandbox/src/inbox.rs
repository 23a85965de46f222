//! The socket of a worker, which carries bytes and open files.
//!
//! A tokio socket registers for both directions, so that each read of the peer wakes the process. These halves register only
//! for the needed direction, so that a single call wakes the process once.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::cmsg_space;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, Interest, ReadBuf};

/// Maximum number of files in a message. The server sends one.
const MAX_FILES: usize = 4;

/// The receiving half. Queues received files. A file arrives no later than the first byte that was sent with it.
pub(crate) struct Inbox {
    socket: AsyncFd<UnixStream>,
    files: VecDeque<File>,
}

impl Inbox {
    /// Requires a nonblocking socket.
    pub(crate) fn new(socket: UnixStream) -> io::Result<Self> {
        Ok(Self { socket: wait_for(socket, Interest::READABLE)?, files: VecDeque::new() })
    }

    /// Takes the oldest queued file.
    pub(crate) fn next_file(&mut self) -> Option<File> {
        self.files.pop_front()
    }
}

impl AsyncRead for Inbox {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { socket, files } = self.get_mut();
        loop {
            let mut ready = ready!(socket.poll_read_ready(context))?;
            let space = into.initialize_unfilled();
            // A short read does not imply an empty socket, because a read also ends at a file.
            match ready.try_io(|socket| receive(socket.get_ref(), space, files)) {
                Ok(Ok(n)) => {
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

fn receive(socket: &UnixStream, space: &mut [u8], files: &mut VecDeque<File>) -> io::Result<usize> {
    let mut control = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut control);
    let mut space = [IoSliceMut::new(space)];
    let received = recvmsg(socket, &mut space, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            files.extend(descriptors.map(File::from));
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other("a message has too many files"));
    }
    Ok(received.bytes)
}

/// The sending half. Registered only while the socket is full.
pub(crate) struct Outbox(UnixStream);

impl Outbox {
    /// Requires a nonblocking socket.
    pub(crate) const fn new(socket: UnixStream) -> Self {
        Self(socket)
    }

    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            // Yields to other tasks even if the socket is never full.
            tokio::task::coop::consume_budget().await;
            match (&self.0).write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => bytes = &bytes[n..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let waiting = wait_for(self.0.as_fd(), Interest::WRITABLE)?;
                    drop(waiting.writable().await?);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe, for types that return changing descriptors; these do not"
)]
fn wait_for<S: AsRawFd>(socket: S, interest: Interest) -> io::Result<AsyncFd<S>> {
    AsyncFd::with_interest(socket, interest)
}
