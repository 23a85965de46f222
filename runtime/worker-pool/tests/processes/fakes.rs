//! Programs that speak as workers do and do not behave: what a worker that was broken into could be.

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

/// The program of this name, where it is one of these.
pub(crate) fn program(arguments: &[String]) -> Option<ExitCode> {
    let name = arguments.first()?.as_str();
    let ended = match name {
        "worker-once" => return Some(worker_once(arguments.get(1)?)),
        "never-ends" => never_ends(),
        "is-killed" => rustix::process::kill_process(rustix::process::getpid(), Signal::KILL)
            .map_err(io::Error::from),
        "checks-nothing-and-says-who" => checks_nothing_and_says_who(),
        "asks-models-and-reads-nothing" => asks_and_reads_nothing(&model_request()),
        "asks-traces-and-reads-nothing" => asks_and_reads_nothing(&trace_request()),
        _ => return None,
    };
    Some(match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// A real worker for whoever comes first; nothing for all others.
fn worker_once(mark: &str) -> ExitCode {
    match OpenOptions::new().write(true).create_new(true).open(mark) {
        Ok(_) => perpend_sandbox::worker_main_with(faults::before_call),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Answers a check with the number of its process, as what is wrong with each value.
fn checks_nothing_and_says_who() -> io::Result<()> {
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
    let who = ValueReport {
        mismatches: vec![Mismatch::whole(std::process::id().to_string())],
        with_defaults: None,
    };
    let answer: SchemaAnswer = Ok(vec![who; check.values.len()]);
    let mut frame = Vec::new();
    perpend_worker_protocol::write_frame(&answer, &mut frame).map_err(io::Error::other)?;
    io::stdout().lock().write_all(&frame)
}

struct Socket(UnixStream);

impl Socket {
    fn open() -> io::Result<Self> {
        let mut socket = Self(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?));
        socket.say(&FromWorker::Ready(Ready::default()))?;
        Ok(socket)
    }

    fn say(&mut self, message: &FromWorker) -> io::Result<()> {
        let mut frame = Vec::new();
        perpend_worker_protocol::write_frame(message, &mut frame).map_err(io::Error::other)?;
        self.0.write_all(&frame)
    }

    fn hear(&mut self) -> io::Result<ToWorker> {
        let mut prefix = [0; PREFIX_BYTES];
        self.0.read_exact(&mut prefix)?;
        let mut frame =
            vec![0; perpend_worker_protocol::frame_length(prefix).map_err(io::Error::other)?];
        self.0.read_exact(&mut frame)?;
        perpend_worker_protocol::read_frame(&frame).map_err(io::Error::other)
    }

    fn first_call(&mut self) -> io::Result<CallId> {
        loop {
            if let ToWorker::Calls(calls) = self.hear()?
                && let Some((id, ..)) = calls.first()
            {
                return Ok(*id);
            }
        }
    }
}

/// As many as may be open at a time, about.
const N_QUESTIONS: u64 = 10_000;

/// Answers every call, and does not end when it is told to.
fn never_ends() -> io::Result<()> {
    let mut socket = Socket::open()?;
    loop {
        match socket.hear()? {
            ToWorker::Calls(calls) => {
                let answer = |(id, _, _)| (id, CallResult::empty());
                let answers = calls.into_iter().map(answer).collect();
                socket.say(&FromWorker::Results(answers))?;
            }
            ToWorker::Ping(number) => {
                let is_short = false;
                socket.say(&FromWorker::Pong { number, is_short })?;
            }
            _ => {}
        }
    }
}

fn asks_and_reads_nothing(request: &HostRequest) -> io::Result<()> {
    let mut socket = Socket::open()?;
    let call = socket.first_call()?;
    for id in 0..N_QUESTIONS {
        let request = request.clone();
        socket.say(&FromWorker::HostCall { id, call, request })?;
    }
    // Not silent meanwhile: what it does not do is read.
    let is_short = false;
    for number in 0.. {
        socket.say(&FromWorker::Pong { number, is_short })?;
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
