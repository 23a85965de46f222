//! A worker's ends of its socket: bytes, and the open files that come along with them.
//!
//! A socket of tokio waits for both directions at once, and is woken each time the other end has read
//! something; these wait for what is wanted only, so that a lone call wakes this process once.

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

/// Files in one message at most; the server sends one.
const MAX_FILES: usize = 4;

/// The reading end. Reads like the socket it was made from, and keeps the files. A file arrives not later
/// than the first byte it was sent with.
pub(crate) struct Inbox {
    socket: AsyncFd<UnixStream>,
    files: VecDeque<File>,
}

impl Inbox {
    /// The socket does not block.
    pub(crate) fn new(socket: UnixStream) -> io::Result<Self> {
        Ok(Self { socket: wait_for(socket, Interest::READABLE)?, files: VecDeque::new() })
    }

    /// The file that came first of those not taken yet.
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
            // A short read does not tell that there is no more: it ends at a file, too.
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
        return Err(io::Error::other("more files came with a message than fit"));
    }
    Ok(received.bytes)
}

/// The writing end. It is nowhere registered but while the socket is full.
pub(crate) struct Outbox(UnixStream);

impl Outbox {
    /// The socket does not block.
    pub(crate) const fn new(socket: UnixStream) -> Self {
        Self(socket)
    }

    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            // The other tasks have their turn also when the socket is never full.
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
    reason = "its successor is unsafe, for types that lie about their descriptor: these do not"
)]
fn wait_for<S: AsRawFd>(socket: S, wanted: Interest) -> io::Result<AsyncFd<S>> {
    AsyncFd::with_interest(socket, wanted)
}
