//! One worker process from start to end, and the lane that starts the next one.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assay_domain::plugin::FailureClass;
use assay_domain::protocol::{self, CallId, FromWorker, ToWorker, WorkerSettings};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::watch as signal;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::compile::Compiler;
use crate::queue::{Job, Queue, failed, lock, stopped};
use crate::watch::Quarantine;
use crate::{Caller, Components, HostCalls, Options, feed};

const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// Questions of one worker that may be open at a time.
const MAX_OPEN_QUESTIONS: usize = 16_384;

/// What all lanes share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) components: Arc<dyn Components>,
    pub(crate) host_calls: Arc<dyn HostCalls>,
    pub(crate) compiler: Compiler,
    pub(crate) queue: Queue,
    pub(crate) quarantine: Quarantine,
    pub(crate) pids: Mutex<Vec<u32>>,
}

/// What the feeder, the reader and the watch of one process share.
pub(crate) struct Session {
    pub(crate) pending: Mutex<HashMap<CallId, Pending>>,
    /// Answers came: there is room, or nothing is open any more.
    pub(crate) answered: Notify,
    pub(crate) times: Mutex<Times>,
    pub(crate) to_worker: mpsc::UnboundedSender<ToWorker>,
    has_answered: AtomicBool,
    /// Components that are fetched and compiled for it: its calls wait for the server, not for it.
    n_building: AtomicUsize,
}

/// While it lives, the worker waits for a component.
struct Building<'s>(&'s Session);

impl<'s> Building<'s> {
    fn new(session: &'s Session) -> Self {
        session.n_building.fetch_add(1, Ordering::AcqRel);
        Self(session)
    }
}

impl Drop for Building<'_> {
    fn drop(&mut self) {
        lock(&self.0.times).progress = Instant::now();
        self.0.n_building.fetch_sub(1, Ordering::AcqRel);
    }
}

pub(crate) struct Pending {
    pub(crate) job: Job,
    pub(crate) cancelled: bool,
}

/// When the process last gave a sign.
pub(crate) struct Times {
    /// Of any kind.
    pub(crate) heard: Instant,
    /// An answer, or the first call after there were none.
    pub(crate) progress: Instant,
}

/// Keeps one worker process running while there is work.
pub(crate) async fn lane(shared: Arc<Shared>, mut stop: signal::Receiver<bool>) {
    let mut backoff = FIRST_BACKOFF;
    loop {
        while shared.queue.is_empty() {
            tokio::select! {
                () = shared.queue.filled.notified() => {}
                () = stopped(&mut stop) => return,
            }
        }
        let (to_worker, messages) = mpsc::unbounded_channel();
        let now = Instant::now();
        let session = Arc::new(Session {
            pending: Mutex::default(),
            answered: Notify::new(),
            times: Mutex::new(Times {
                heard: now,
                progress: now,
            }),
            to_worker,
            has_answered: AtomicBool::new(false),
            n_building: AtomicUsize::new(0),
        });
        let ended = run(&shared, &session, messages, stop.clone()).await;
        let lost = std::mem::take(&mut *lock(&session.pending));
        let reason = match ended {
            Ok(()) if lost.is_empty() && *stop.borrow() => return,
            Ok(()) => "it ended by itself".to_owned(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(n_calls = lost.len(), reason, "a worker process ended");
        if session.has_answered.load(Ordering::Acquire) {
            backoff = FIRST_BACKOFF;
        } else if lost.is_empty() {
            // It never took a call: nobody would answer those that wait.
            let reason = format!("no worker process can be started: {reason}");
            for job in shared.queue.take(usize::MAX, usize::MAX) {
                job.answer(failed(FailureClass::WorkerLost, &reason));
            }
        }
        lose(&shared, lost, &reason);
        if tokio::time::timeout(backoff, stopped(&mut stop))
            .await
            .is_ok()
        {
            return;
        }
        backoff = MAX_BACKOFF.min(backoff * 2);
    }
}

fn lose(shared: &Shared, lost: HashMap<CallId, Pending>, reason: &str) {
    let digests: HashSet<_> = lost
        .values()
        .map(|pending| pending.job.call.plugin)
        .collect();
    shared.quarantine.died(digests);
    for Pending { job, .. } in lost.into_values() {
        let message = format!("the worker process ended under the call: {reason}");
        job.answer(failed(FailureClass::WorkerLost, message));
    }
}

/// From start to end of one process. An error says why it ended before its time.
async fn run(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    messages: mpsc::UnboundedReceiver<ToWorker>,
    stop: signal::Receiver<bool>,
) -> io::Result<()> {
    let (mut child, socket) = spawn(&shared.options)?;
    let pid = child.id();
    lock(&shared.pids).extend(pid);
    let mut chatter = JoinSet::new();
    if let Some(stderr) = child.stderr.take() {
        chatter.spawn(log_lines(stderr));
    }
    let (reader, writer) = socket.into_split();
    let options = &shared.options;
    let settings = WorkerSettings {
        cache_dir: options.cache_dir.to_string_lossy().into_owned(),
        n_threads: options.n_threads,
        max_live: options.max_live,
    };
    drop(session.to_worker.send(ToWorker::Start(settings)));
    let ended = tokio::select! {
        ended = read(shared, session, reader) => ended,
        ended = feed::feed(shared, session, writer, messages, stop) => ended,
        reason = watch(shared, session) => Err(io::Error::other(reason)),
    };
    let status = end(&mut child).await;
    lock(&shared.pids).retain(|other| Some(*other) != pid);
    match (ended, status) {
        (Ok(()), Some(status)) if !status.success() => Err(io::Error::other(status.to_string())),
        (Err(error), Some(status)) if !status.success() => {
            Err(io::Error::other(format!("{error} ({status})")))
        }
        (ended, _) => ended,
    }
}

fn spawn(options: &Options) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = StdStream::pair()?;
    ours.set_nonblocking(true)?;
    // The command holds the other end: it must go before the socket is read, or its end is never seen.
    let child = Command::new(&options.program)
        .args(&options.args)
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    Ok((child, UnixStream::from_std(ours)?))
}

/// Gives a process that closed its socket a moment to end by itself, so that its status tells why.
async fn end(child: &mut Child) -> Option<std::process::ExitStatus> {
    if let Ok(status) = tokio::time::timeout(Duration::from_millis(200), child.wait()).await {
        return status.ok();
    }
    drop(child.kill().await);
    None
}

async fn log_lines(stderr: ChildStderr) {
    let mut lines = BufReader::new(stderr.take(1 << 20)).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        tracing::warn!(line, "a worker process says");
    }
}

async fn read(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    socket: OwnedReadHalf,
) -> io::Result<()> {
    let mut socket = BufReader::with_capacity(64 << 10, socket);
    let mut frame = Vec::new();
    // Open questions; they end with the process that asked.
    let mut questions = JoinSet::new();
    loop {
        while questions.try_join_next().is_some() {}
        let mut prefix = [0; protocol::PREFIX];
        match socket.read_exact(&mut prefix).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        };
        frame.resize(protocol::frame_length(prefix).map_err(io::Error::other)?, 0);
        socket.read_exact(&mut frame).await?;
        lock(&session.times).heard = Instant::now();
        match protocol::read_frame(&frame).map_err(io::Error::other)? {
            FromWorker::Results(results) => {
                session.has_answered.store(true, Ordering::Release);
                lock(&session.times).progress = Instant::now();
                for (id, result) in results {
                    // Unknown numbers are a broken worker's affair.
                    if let Some(Pending { job, .. }) = lock(&session.pending).remove(&id) {
                        shared.quarantine.answered(job.call.plugin);
                        job.answer(result);
                    }
                }
                session.answered.notify_one();
            }
            FromWorker::Ready { notes } => {
                notes
                    .iter()
                    .for_each(|note| tracing::warn!(note, "a worker process is limited"));
            }
            FromWorker::Pong(_) => {}
            question if questions.len() < MAX_OPEN_QUESTIONS => {
                questions.spawn(answer(Arc::clone(shared), Arc::clone(session), question));
            }
            _ => return Err(io::Error::other("it asks too much at a time")),
        }
    }
}

/// Answers a question of the worker. Nothing it says of itself is believed but the number of a call it has.
async fn answer(shared: Arc<Shared>, session: Arc<Session>, question: FromWorker) {
    let reply = match question {
        FromWorker::HostCall { id, call, request } => {
            let caller = lock(&session.pending).get(&call).map(|pending| Caller {
                project: pending.job.project.clone(),
                call: Arc::clone(&pending.job.call),
            });
            let reply = match caller {
                Some(caller) => shared.host_calls.host_call(caller, request).await,
                None => request.unavailable("the call is over"),
            };
            ToWorker::HostReply { id, reply }
        }
        FromWorker::NeedsComponent { digest, reason } => {
            tracing::info!(plugin.digest = %digest, reason, "a component is compiled");
            let _building = Building::new(&session);
            let outcome = match shared.components.component(digest).await {
                Some(bytes) => shared.compiler.rebuild(digest, &bytes).await,
                None => Err(format!("the plug-in {digest} is not registered")),
            };
            ToWorker::Component { digest, outcome }
        }
        FromWorker::Ready { .. } | FromWorker::Results(_) | FromWorker::Pong(_) => return,
    };
    drop(session.to_worker.send(reply));
}

/// Ends when the process has to be ended, with the reason.
async fn watch(shared: &Shared, session: &Session) -> String {
    let options = &shared.options;
    let step = (options.silence_limit.min(options.hang_grace) / 4).min(Duration::from_secs(1));
    let mut number = 0;
    loop {
        tokio::time::sleep(step).await;
        let longest = {
            let pending = lock(&session.pending);
            pending
                .values()
                .map(|pending| pending.job.call.limits.wall_ms)
                .max()
        };
        let Some(longest) = longest else { continue };
        feed::cancel_abandoned(session);
        number += 1;
        drop(session.to_worker.send(ToWorker::Ping(number)));
        let (silent, stuck) = {
            let times = lock(&session.times);
            (times.heard.elapsed(), times.progress.elapsed())
        };
        if options.silence_limit < silent {
            return format!("it said nothing for {} ms", silent.as_millis());
        }
        let is_building = 0 < session.n_building.load(Ordering::Acquire);
        if !is_building && Duration::from_millis(longest.into()) + options.hang_grace < stuck {
            return format!("it answered nothing for {} ms", stuck.as_millis());
        }
    }
}
