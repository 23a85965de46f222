//! Shared code of the short-lived child processes. They read a request from standard input, and lower their resource limits
//! before they process untrusted input.

use std::io::{self, Read, Write as _};
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::de::DeserializeOwned;

use crate::confine;

/// Runs a child process that answers one request. Writes an error to standard error.
pub(crate) fn main(name: &str, answer_request: fn() -> io::Result<()>) -> ExitCode {
    confine::close_inherited();
    match answer_request() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(io::stderr(), "{name}: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Reads one frame.
pub(crate) fn read_frame<T: DeserializeOwned>(stdin: &mut impl Read) -> io::Result<T> {
    let mut prefix = [0; perpend_worker_protocol::PREFIX_BYTES];
    stdin.read_exact(&mut prefix)?;
    let length = perpend_worker_protocol::frame_length(prefix).map_err(io::Error::other)?;
    let mut frame = vec![0; length];
    stdin.read_exact(&mut frame)?;
    perpend_worker_protocol::read_frame(&frame).map_err(io::Error::other)
}

/// Sets the soft and the hard limit, neither above the current hard limit.
pub(crate) fn limit(resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
    let hard_limit = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let maximum = maximum.min(hard_limit);
    let limit = Rlimit { current: Some(current.min(maximum)), maximum: Some(maximum) };
    Ok(setrlimit(resource, limit)?)
}

/// Limits CPU time. The soft limit is lower, because its signal identifies the cause; the hard limit sends `SIGKILL`.
pub(crate) fn limit_cpu(seconds: u64) -> io::Result<()> {
    limit(Resource::Cpu, seconds, seconds + 1)
}
