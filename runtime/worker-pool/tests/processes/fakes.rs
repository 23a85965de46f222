//! Programs that use the protocol of workers and violate it, like a compromised worker.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use perpend_domain::plugin::CallResult;
use perpend_worker_protocol::host_call::{CompletionRequest, ObservationPart};
use perpend_worker_protocol::{
    self, CallId, FromWorker, HostRequest, Mismatch, PREFIX_BYTES, Ready, SchemaAnswer,
    SchemaCheck, ToWorker, ValueReport,
};
use rustix::process::Signal;

use crate::faults;

/// Runs the program with this name, if it exists.
pub(crate) fn program(arguments: &[String]) -> Option<ExitCode> {
    let name = arguments.first()?.as_str();
    let ended = match name {
        "worker-once" => return Some(worker_once(arguments.get(1)?)),
        "ignore-shutdown" => ignore_shutdown(),
        "kill-itself" => rustix::process::kill_process(rustix::process::getpid(), Signal::KILL)
            .map_err(io::Error::from),
        "answer-check-with-process-id" => answer_check_with_process_id(),
        "request-completions-and-read-nothing" => send_requests_and_read_nothing(&model_request()),
        "request-traces-and-read-nothing" => send_requests_and_read_nothing(&trace_request()),
        _ => return None,
    };
    Some(match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// A real worker at the first start. All other starts fail.
fn worker_once(mark: &str) -> ExitCode {
    match OpenOptions::new().write(true).create_new(true).open(mark) {
        Ok(_) => perpend_sandbox::worker_main_with(faults::before_call),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Answers a check with its process id as the mismatch of each value.
fn answer_check_with_process_id() -> io::Result<()> {
    let mut stdin = io::stdin().lock();
    let mut frame = || {
        let mut prefix = [0; PREFIX_BYTES];
        stdin.read_exact(&mut prefix)?;
        let length = perpend_worker_protocol::frame_length(prefix).map_err(io::Error::other)?;
        let mut frame = vec![0; length];
        stdin.read_exact(&mut frame)?;
        Ok::<_, io::Error>(frame)
    };
    drop(frame()?);
    let check: SchemaCheck =
        perpend_worker_protocol::read_frame(&frame()?).map_err(io::Error::other)?;
    let report = ValueReport {
        mismatches: vec![Mismatch::whole(std::process::id().to_string())],
        with_defaults: None,
    };
    let answer: SchemaAnswer = Ok(vec![report; check.values.len()]);
    let mut frame = Vec::new();
    perpend_worker_protocol::write_frame(&answer, &mut frame).map_err(io::Error::other)?;
    io::stdout().lock().write_all(&frame)
}

struct Socket(UnixStream);

impl Socket {
    fn open() -> io::Result<Self> {
        let mut socket = Self(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?));
        socket.send(&FromWorker::Ready(Ready::default()))?;
        Ok(socket)
    }

    fn send(&mut self, message: &FromWorker) -> io::Result<()> {
        let mut frame = Vec::new();
        perpend_worker_protocol::write_frame(message, &mut frame).map_err(io::Error::other)?;
        self.0.write_all(&frame)
    }

    fn receive(&mut self) -> io::Result<ToWorker> {
        let mut prefix = [0; PREFIX_BYTES];
        self.0.read_exact(&mut prefix)?;
        let mut frame =
            vec![0; perpend_worker_protocol::frame_length(prefix).map_err(io::Error::other)?];
        self.0.read_exact(&mut frame)?;
        perpend_worker_protocol::read_frame(&frame).map_err(io::Error::other)
    }

    fn first_call(&mut self) -> io::Result<CallId> {
        loop {
            if let ToWorker::Calls(calls) = self.receive()?
                && let Some((id, ..)) = calls.first()
            {
                return Ok(*id);
            }
        }
    }
}

/// Approximately the maximum number of requests in flight.
const N_REQUESTS: u64 = 10_000;

/// Answers all calls, and ignores `Shutdown`.
fn ignore_shutdown() -> io::Result<()> {
    let mut socket = Socket::open()?;
    loop {
        match socket.receive()? {
            ToWorker::Calls(calls) => {
                let answer = |(id, _, _)| (id, CallResult::empty());
                let answers = calls.into_iter().map(answer).collect();
                socket.send(&FromWorker::Results(answers))?;
            }
            ToWorker::Ping(number) => {
                let is_short = false;
                socket.send(&FromWorker::Pong { number, is_short })?;
            }
            _ => {}
        }
    }
}

fn send_requests_and_read_nothing(request: &HostRequest) -> io::Result<()> {
    let mut socket = Socket::open()?;
    let call = socket.first_call()?;
    for id in 0..N_REQUESTS {
        let request = request.clone();
        socket.send(&FromWorker::HostCall { id, call, request })?;
    }
    // Sends messages but reads none.
    let is_short = false;
    for number in 0.. {
        socket.send(&FromWorker::Pong { number, is_short })?;
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn trace_request() -> HostRequest {
    HostRequest::Read {
        trace_id: "trace".into(),
        observation_id: "observation".into(),
        part: ObservationPart::Output,
    }
}

fn model_request() -> HostRequest {
    HostRequest::Complete(vec![CompletionRequest::new(Vec::new())])
}
