//! What the server and its worker processes say to each other over a Unix socket.
//!
//! A frame is a length (four bytes, little endian) and one message in postcard form. Calls and results
//! travel many to a frame. Neither side trusts the other's length: [`MAX_FRAME`] bounds it before any
//! memory is taken.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::plugin::{Call, CallResult, Digest, PluginInfo};

pub mod host_call;

pub use crate::plugin::Grants;
pub use host_call::{HostReply, HostRequest};

/// The largest frame either side reads or writes.
pub const MAX_FRAME: usize = 64 << 20;

/// Bytes of the length before each frame.
pub const PREFIX: usize = 4;

/// A call as one worker knows it; unique among the calls of that worker.
pub type CallId = u64;

/// What the server says to a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToWorker {
    /// The first message: how to work.
    Start(WorkerSettings),
    /// Calls to make; answers may come in any order.
    Calls(Vec<(CallId, Arc<Call>)>),
    /// Answer to [`FromWorker::HostCall`] of the same number.
    HostReply {
        /// Number the worker gave.
        id: u64,
        /// The answer.
        reply: HostReply,
    },
    /// Answer to [`FromWorker::NeedsComponent`]: the artifact is there now, or why it cannot be.
    Component {
        /// Which.
        digest: Digest,
        /// Nothing, or a text for people.
        outcome: Result<(), String>,
    },
    /// Stop these calls; they answer `cancelled`.
    Cancel(Vec<CallId>),
    /// Answer with [`FromWorker::Pong`].
    Ping(u64),
    /// End when the calls in flight are answered.
    Shutdown,
}

/// What a worker says to the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromWorker {
    /// Answer to `Start`: what could not be set up as wished.
    Ready {
        /// For the log, one line each.
        notes: Vec<String>,
    },
    /// Answers to calls.
    Results(Vec<(CallId, CallResult)>),
    /// A guest asks for something only the server has.
    HostCall {
        /// Number of this question.
        id: u64,
        /// The call it is asked from.
        call: CallId,
        /// The question.
        request: HostRequest,
    },
    /// The compiled form of a component is missing or damaged.
    NeedsComponent {
        /// Which.
        digest: Digest,
        /// For the log.
        reason: String,
    },
    /// Answer to `Ping`.
    Pong(u64),
}

/// How a worker works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerSettings {
    /// Where compiled components are.
    pub cache_dir: String,
    /// Threads that run guests.
    pub n_threads: u32,
    /// Calls with a live instance at a time.
    pub max_live: u32,
}

/// One reason why a component cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Where: `file`, `compile`, `import NAME`, `export NAME` or a path into the description.
    pub at: String,
    /// For people.
    pub message: String,
}

impl Problem {
    /// A problem at a place.
    pub fn new(at: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            at: at.into(),
            message: message.into(),
        }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}

/// What the compile process reads first, as one frame; the component's bytes follow to the end of input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileRequest {
    /// Where the artifact is put.
    pub cache_dir: String,
    /// Capabilities the component may import.
    pub grants: Grants,
    /// A sound artifact that is there already will do.
    pub reuse: bool,
}

/// What the compile process answers, as JSON on its standard output.
pub type CompileAnswer = Result<PluginInfo, Vec<Problem>>;

/// A frame that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Longer than [`MAX_FRAME`].
    #[error("a frame of {0} bytes is over the limit of {MAX_FRAME}")]
    TooLong(usize),
    /// Not a message, or not the whole of the frame.
    #[error("a frame does not hold a message: {0}")]
    Malformed(#[from] postcard::Error),
}

/// Appends the frame of `message` to `buffer`. On an error the buffer is as before.
///
/// # Errors
/// When the message is longer than [`MAX_FRAME`].
pub fn write_frame<T: Serialize>(message: &T, buffer: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = buffer.len();
    let mut frame = std::mem::take(buffer);
    frame.extend_from_slice(&[0; PREFIX]);
    // postcard extends what it is given and hands it back.
    let mut frame = postcard::to_extend(message, frame)?;
    let length = frame.len() - start - PREFIX;
    let fits = u32::try_from(length).ok().filter(|_| length <= MAX_FRAME);
    if let Some(prefix) = fits {
        frame[start..start + PREFIX].copy_from_slice(&prefix.to_le_bytes());
    } else {
        frame.truncate(start);
    }
    *buffer = frame;
    fits.map(|_| ()).ok_or(FrameError::TooLong(length))
}

/// The length a prefix announces.
///
/// # Errors
/// When it is over [`MAX_FRAME`].
pub fn frame_length(prefix: [u8; PREFIX]) -> Result<usize, FrameError> {
    let length = u32::from_le_bytes(prefix) as usize;
    if length <= MAX_FRAME {
        Ok(length)
    } else {
        Err(FrameError::TooLong(length))
    }
}

/// The message a frame holds, without its prefix.
///
/// # Errors
/// When the bytes are no message, or more than one.
pub fn read_frame<T: DeserializeOwned>(frame: &[u8]) -> Result<T, FrameError> {
    let (message, rest) = postcard::take_from_bytes(frame)?;
    if rest.is_empty() {
        Ok(message)
    } else {
        Err(FrameError::Malformed(
            postcard::Error::DeserializeBadEncoding,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_as_it_was_sent() {
        let message = ToWorker::Component {
            digest: Digest::of(b"x"),
            outcome: Err("no".into()),
        };
        let mut buffer = b"before".to_vec();
        write_frame(&message, &mut buffer).unwrap();
        let prefix = buffer[6..10].try_into().unwrap();
        assert_eq!(frame_length(prefix).unwrap(), buffer.len() - 10);
        assert_eq!(read_frame::<ToWorker>(&buffer[10..]).unwrap(), message);
    }

    #[test]
    fn a_frame_over_the_limit_is_refused_on_both_sides() {
        let long = ToWorker::Component {
            digest: Digest::of(b"x"),
            outcome: Err("x".repeat(MAX_FRAME + 1)),
        };
        let mut buffer = b"before".to_vec();
        assert!(matches!(
            write_frame(&long, &mut buffer),
            Err(FrameError::TooLong(_))
        ));
        assert_eq!(buffer, b"before");
        assert!(frame_length([0xff; 4]).is_err());
    }

    #[test]
    fn bytes_after_a_message_are_an_error() {
        let mut buffer = Vec::new();
        write_frame(&ToWorker::Ping(7), &mut buffer).unwrap();
        buffer.push(0);
        assert!(read_frame::<ToWorker>(&buffer[PREFIX..]).is_err());
    }
}
