//! Messages between the server and its worker processes over a Unix socket.
//!
//! A frame is a length (four bytes, little endian) and one message in postcard form. A frame holds many calls
//! or results. Neither side trusts the other's length: [`MAX_FRAME`] bounds it before memory is allocated.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use perpend_domain::plugin::{CallResult, Digest, EvaluationCall, PluginInfo};

pub mod artifact;
pub mod check;
pub mod host_call;

pub use check::{
    CheckError, CheckHead, Mismatch, SchemaAnswer, SchemaCheck, SchemaKind, ValueReport,
};
pub use host_call::{HostReply, HostRequest, Port};
pub use perpend_domain::plugin::Grants;

/// Maximum length of a frame without its prefix, in bytes.
pub const MAX_FRAME: usize = 64 << 20;

/// Bytes of the length prefix of a frame.
pub const PREFIX_BYTES: usize = 4;

/// Number of a call; unique among the calls of one worker.
pub type CallId = u64;

/// Opaque number of the project of a call. Projects take turns on the processors.
pub type Tenant = u64;

/// A message from the server to a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToWorker {
    /// The first message.
    Start(WorkerSettings),
    /// Calls to run. Results may come in any order.
    Calls(Vec<(CallId, Tenant, Arc<EvaluationCall>)>),
    /// Reply to a [`FromWorker::HostCall`].
    HostReply {
        /// The number of the host call.
        id: u64,
        /// The reply.
        reply: HostReply,
    },
    /// Reply to [`FromWorker::NeedsComponent`]. The artifact is an open file descriptor that is sent with the first byte
    /// of this frame.
    Component {
        /// The component.
        digest: Digest,
        /// The reason why there is no artifact, if any.
        outcome: Result<(), String>,
    },
    /// Cancel these calls; their result is `cancelled`.
    Cancel(Vec<CallId>),
    /// Answer with [`FromWorker::Pong`].
    Ping(u64),
    /// End after the calls in flight.
    Shutdown,
}

/// A message from a worker to the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromWorker {
    /// Reply to `Start`. The server sends calls afterwards.
    Ready(Ready),
    /// Results of calls.
    Results(Vec<(CallId, CallResult)>),
    /// A call of a guest that only the server can serve.
    HostCall {
        /// Number of the host call; unique in this worker.
        id: u64,
        /// The evaluation that makes it.
        call: CallId,
        /// The host call.
        request: HostRequest,
    },
    /// The worker needs the compiled form of a component.
    NeedsComponent {
        /// The component.
        digest: Digest,
        /// The reason why the previous artifact is unusable, if one was sent. It must be compiled again.
        rejected: Option<String>,
    },
    /// Reply to `Ping`.
    Pong {
        /// The number of the `Ping`.
        number: u64,
        /// The worker is short of memory and suspends calls.
        is_short: bool,
    },
}

/// Settings of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerSettings {
    /// Threads that run guests.
    pub n_threads: u32,
    /// Maximum number of live instances.
    pub max_live: u32,
    /// The server ends the worker when it has more memory in use.
    pub max_resident_bytes: u64,
    /// A call that occupies its thread for so many milliseconds without yielding is stuck.
    pub stuck_ms: u64,
    /// End at once when the platform lacks a sandbox layer.
    pub require_all_layers: bool,
}

/// The state of a worker before its first call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Identifies compatible artifacts: engine version, settings, target and processor features. Part of file names.
    pub engine_key: String,
    /// In the order in which they were applied.
    pub layers: Vec<SandboxLayer>,
    /// Settings that could not be applied, one line each.
    pub warnings: Vec<String>,
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

/// One defect of a component that prevents its registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentProblem {
    /// `file`, `compile`, `import NAME`, `export NAME` or a path into the description.
    pub at: String,
    pub message: String,
}

impl ComponentProblem {
    /// A problem at the given place.
    pub fn new(at: impl Into<String>, message: impl Into<String>) -> Self {
        Self { at: at.into(), message: message.into() }
    }
}

impl std::fmt::Display for ComponentProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}

/// The first frame that the compile process reads; the bytes of the component follow to the end of input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileRequest {
    /// Capabilities the component may import.
    pub grants: Grants,
    /// End at once when the platform lacks a sandbox layer.
    pub require_all_layers: bool,
}

/// The result of a compilation; the last part of the output of the compile process.
pub type CompileAnswer = Result<PluginInfo, Vec<ComponentProblem>>;

/// The first part of the output of the compile process, as one frame. The image follows, then the [`CompileAnswer`] as
/// JSON to the end of output. The image is written before any guest code runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileHead {
    /// As in [`Ready`].
    pub engine_key: String,
    /// Length of the image; zero when there are problems.
    pub image_bytes: u64,
}

/// A frame cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Longer than [`MAX_FRAME`].
    #[error("a frame must have at most {MAX_FRAME} bytes, got {0}")]
    TooLong(usize),
    /// Not exactly one message.
    #[error("invalid frame: {0}")]
    Malformed(#[from] postcard::Error),
}

/// Appends the frame of `message` to `buffer`, which is unchanged on an error.
///
/// # Errors
/// When the message is longer than [`MAX_FRAME`].
pub fn write_frame<T: Serialize>(message: &T, buffer: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = buffer.len();
    let mut frame = std::mem::take(buffer);
    frame.extend_from_slice(&[0; PREFIX_BYTES]);
    // `to_extend` takes the buffer by value and returns it.
    let mut frame = postcard::to_extend(message, frame)?;
    let length = frame.len() - start - PREFIX_BYTES;
    let fits = u32::try_from(length).ok().filter(|_| length <= MAX_FRAME);
    if let Some(prefix) = fits {
        frame[start..start + PREFIX_BYTES].copy_from_slice(&prefix.to_le_bytes());
    } else {
        frame.truncate(start);
    }
    *buffer = frame;
    fits.map(|_| ()).ok_or(FrameError::TooLong(length))
}

/// The length in a prefix.
///
/// # Errors
/// When it is over [`MAX_FRAME`].
pub fn frame_length(prefix: [u8; PREFIX_BYTES]) -> Result<usize, FrameError> {
    let length = u32::from_le_bytes(prefix) as usize;
    if length <= MAX_FRAME { Ok(length) } else { Err(FrameError::TooLong(length)) }
}

/// Reads the message of a frame, given without its prefix.
///
/// # Errors
/// When the bytes are not exactly one message.
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
    fn a_message_survives_writing_and_reading() {
        let message = ToWorker::Component { digest: Digest::of(b"x"), outcome: Err("no".into()) };
        let mut buffer = b"before".to_vec();
        write_frame(&message, &mut buffer).unwrap();
        let prefix = buffer[6..10].try_into().unwrap();
        assert_eq!(frame_length(prefix).unwrap(), buffer.len() - 10);
        assert_eq!(read_frame::<ToWorker>(&buffer[10..]).unwrap(), message);
    }

    #[test]
    fn a_frame_over_the_limit_is_an_error_on_both_sides() {
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
        assert!(read_frame::<ToWorker>(&buffer[PREFIX_BYTES..]).is_err());
    }
}
