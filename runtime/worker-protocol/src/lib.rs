//! What the server and its worker processes say to each other over a Unix socket.
//!
//! A frame is a length (four bytes, little endian) and one message in postcard form. Calls and results
//! travel many to a frame. Neither side trusts the other's length: [`MAX_FRAME`] bounds it before any
//! memory is taken.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use perpend_domain::plugin::{Call, CallResult, Digest, PluginInfo};

pub mod artifact;
pub mod check;
pub mod host_call;

pub use check::{
    CheckError, CheckHead, Mismatch, SchemaAnswer, SchemaCheck, SchemaKind, ValueReport,
};
pub use host_call::{HostReply, HostRequest, Port};
pub use perpend_domain::plugin::Grants;

/// The largest frame either side reads or writes.
pub const MAX_FRAME: usize = 64 << 20;

/// Bytes of the length before each frame.
pub const PREFIX: usize = 4;

/// A call as one worker knows it; unique among the calls of that worker.
pub type CallId = u64;

/// Whose call it is, as an opaque number: calls of one project have the same. Projects take turns on the processors.
pub type Tenant = u64;

/// What the server says to a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToWorker {
    /// The first message: how to work.
    Start(WorkerSettings),
    /// Calls to make; answers may come in any order.
    Calls(Vec<(CallId, Tenant, Arc<Call>)>),
    /// Answer to [`FromWorker::HostCall`] of the same number.
    HostReply {
        /// Number the worker gave.
        id: u64,
        /// The answer.
        reply: HostReply,
    },
    /// Answer to [`FromWorker::NeedsComponent`]: the artifact, as an open descriptor that travels with the
    /// first byte of this frame, or why it cannot be had.
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
    /// Answer to `Start`; calls come after it.
    Ready(Ready),
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
    /// The compiled form of a component is wanted.
    NeedsComponent {
        /// Which.
        digest: Digest,
        /// Why the artifact that was sent for it cannot be used: it has to be compiled again.
        refused: Option<String>,
    },
    /// Answer to `Ping`.
    Pong {
        /// Its number.
        number: u64,
        /// It has hardly any memory left, and holds calls back.
        is_short: bool,
    },
}

/// How a worker works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerSettings {
    /// Threads that run guests.
    pub n_threads: u32,
    /// Calls with a live instance at a time.
    pub max_live: u32,
    /// With more memory in use it is ended.
    pub max_resident_bytes: u64,
    /// A call that keeps its thread for so many milliseconds, without a pause, is stuck for ever.
    pub stuck_ms: u64,
    /// End at once when the platform lacks a sandbox layer.
    pub require_all_layers: bool,
}

/// The state of a worker before its first call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Which artifacts fit: engine version, settings, target and processor features. Part of file names.
    pub engine_key: String,
    /// In the order in which they were applied.
    pub layers: Vec<SandboxLayer>,
    /// What could not be set up as wished, one line each.
    pub notes: Vec<String>,
}

/// A measure of the operating system that confines a process which runs, compiles or checks untrusted input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLayer {
    /// Such as `seccomp` or `other user`.
    pub name: String,
    /// What it covers, or the reason why it could not be applied.
    pub status: Result<String, String>,
    /// The part that the platform does not support, when the layer was applied in part.
    pub missing: Option<String>,
}

impl SandboxLayer {
    /// The reason why the layer is missing or incomplete; `None` when it is complete.
    #[must_use]
    pub fn gap(&self) -> Option<&str> {
        self.status.as_ref().err().or(self.missing.as_ref()).map(String::as_str)
    }
}

/// One reason why a component cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentProblem {
    /// Where: `file`, `compile`, `import NAME`, `export NAME` or a path into the description.
    pub at: String,
    /// For people.
    pub message: String,
}

impl ComponentProblem {
    /// A problem at a place.
    pub fn new(at: impl Into<String>, message: impl Into<String>) -> Self {
        Self { at: at.into(), message: message.into() }
    }
}

impl std::fmt::Display for ComponentProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}

/// What the compile process reads first, as one frame; the component's bytes follow to the end of input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileRequest {
    /// Capabilities the component may import.
    pub grants: Grants,
    /// End at once when the platform lacks a sandbox layer.
    pub require_all_layers: bool,
}

/// What a compilation gives, in the same process or as the last part of what the compile process writes.
pub type CompileAnswer = Result<PluginInfo, Vec<ComponentProblem>>;

/// The first part of what the compile process writes, as one frame. The image follows, so many bytes,
/// then the [`CompileAnswer`] as JSON to the end: no guest code has run before the image was out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileHead {
    /// As in [`Ready`].
    pub engine_key: String,
    /// Zero when there is none, because there are problems.
    pub image_bytes: u64,
}

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
    if length <= MAX_FRAME { Ok(length) } else { Err(FrameError::TooLong(length)) }
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
        Err(FrameError::Malformed(postcard::Error::DeserializeBadEncoding))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_as_it_was_sent() {
        let message = ToWorker::Component { digest: Digest::of(b"x"), outcome: Err("no".into()) };
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
        assert!(matches!(write_frame(&long, &mut buffer), Err(FrameError::TooLong(_))));
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
