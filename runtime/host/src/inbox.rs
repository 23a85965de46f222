//! The reading end of a worker's socket: bytes, and the open files that come along with them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::cmsg_space;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;

/// Files in one message at most; the server sends one.
const MAX_FILES: usize = 4;

/// Reads like the socket it was made from, and keeps the files. A file arrives not later than the first
/// byte it was sent with.
pub(crate) struct Inbox {
    socket: OwnedReadHalf,
    files: VecDeque<File>,
}

impl Inbox {
    pub(crate) fn new(socket: OwnedReadHalf) -> Self {
        Self {
            socket,
            files: VecDeque::new(),
        }
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
        let socket: &UnixStream = socket.as_ref();
        loop {
            ready!(socket.poll_read_ready(context))?;
            let space = into.initialize_unfilled();
            match socket.try_io(Interest::READABLE, || receive(socket, space, files)) {
                Ok(n) => {
                    into.advance(n);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
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
