//! One worker process from start to end.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use perpend_domain::plugin::FailureClass;
use perpend_protocol::host_call::Allowance;
use perpend_protocol::{self, CallId, FromWorker, HostReply, HostRequest, PREFIX, ToWorker};
use tokio::io::{AsyncReadExt, BufReader};
use tokio::sync::watch as signal;
use tokio::sync::{Notify, OnceCell, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::check::Checker;
use crate::compile::Compiler;
use crate::feed;
use crate::lane::Starts;
use crate::options::{Caller, Components, HostCalls, Options};
use crate::process::{end, log_lines, spawn};
use crate::queue::{Duty, Job, Queue, lock, size};
use crate::socket::{self, Inbox};
use crate::watch::{Quarantine, resident_bytes};

/// How often the memory of a worker is looked at.
const MEMORY_STEP: Duration = Duration::from_millis(200);
/// Questions of one worker that may be open at a time.
const MAX_OPEN_QUESTIONS: usize = 16_384;

/// Questions about traces of one worker that are answered at a time: an answer is in memory until it is
/// on its way.
const MAX_READING: usize = 4;
/// Bytes for a worker that it has not read; with more it does not read at all.
const MAX_UNSENT_BYTES: usize = 256 << 20;

/// A worker that is short of memory for so long may be so for good: what calls left behind in it stays. It is
/// given no more calls for a moment, and replaced when that was enough for all of them to end.
const SHORT_FOR: Duration = Duration::from_secs(5);
const MOMENT: Duration = Duration::from_secs(2);
/// A moment becomes no longer than this, which is more than any call may take.
const MAX_MOMENT: Duration = Duration::from_secs(150);

/// What all lanes share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) components: Arc<dyn Components>,
    pub(crate) host_calls: Arc<dyn HostCalls>,
    pub(crate) compiler: Compiler,
    pub(crate) checker: Checker,
    pub(crate) queue: Queue,
    pub(crate) quarantine: Quarantine,
    pub(crate) starts: Starts,
    /// Which artifacts fit, once a worker has said so.
    pub(crate) engine_key: OnceCell<String>,
    pub(crate) pids: Mutex<Vec<u32>>,
}

/// A message to a worker, with the file that goes with it.
pub(crate) struct Outgoing {
    pub(crate) frame: Vec<u8>,
    pub(crate) file: Option<Arc<File>>,
    /// Given back when the message is on its way.
    _turn: Option<OwnedSemaphorePermit>,
}

/// What the feeder, the reader and the watch of one process share.
pub(crate) struct Session {
    pub(crate) duty: Duty,
    lane: usize,
    pub(crate) pending: Mutex<HashMap<CallId, Pending>>,
    /// About how long the items of those are.
    pub(crate) n_open_bytes: AtomicUsize,
    /// Answers came: there is room, or nothing is open any more.
    pub(crate) answered: Notify,
    /// It said that it is ready.
    pub(crate) ready: Notify,
    pub(crate) was_ready: AtomicBool,
    engine_key: Mutex<String>,
    told_to_end: Mutex<Option<Instant>>,
    /// It says that it is short of memory.
    is_short: AtomicBool,
    /// It is given no calls, and is to end when it has none.
    is_resting: AtomicBool,
    times: Mutex<Times>,
    to_worker: mpsc::UnboundedSender<Outgoing>,
    n_unsent_bytes: AtomicUsize,
    /// There are too many of those.
    flooded: Notify,
    reading: Arc<Semaphore>,
    /// Components that are fetched and compiled for it: its calls wait for the server, not for it.
    n_building: AtomicUsize,
}

impl Session {
    pub(crate) fn new(duty: Duty, lane: usize) -> (Arc<Self>, mpsc::UnboundedReceiver<Outgoing>) {
        let (to_worker, messages) = mpsc::unbounded_channel();
        let now = Instant::now();
        let session = Self {
            duty,
            lane,
            pending: Mutex::default(),
            n_open_bytes: AtomicUsize::new(0),
            answered: Notify::new(),
            ready: Notify::new(),
            was_ready: AtomicBool::new(false),
            engine_key: Mutex::default(),
            told_to_end: Mutex::default(),
            is_short: AtomicBool::new(false),
            is_resting: AtomicBool::new(false),
            times: Mutex::new(Times {
                heard: now,
                progress: now,
            }),
            to_worker,
            n_unsent_bytes: AtomicUsize::new(0),
            flooded: Notify::new(),
            reading: Arc::new(Semaphore::new(MAX_READING)),
            n_building: AtomicUsize::new(0),
        };
        (Arc::new(session), messages)
    }

    pub(crate) fn say(&self, message: &ToWorker) {
        self.send(message, None, None);
    }

    /// A reply that is too long for a frame becomes one that says so.
    fn send(
        &self,
        message: &ToWorker,
        file: Option<Arc<File>>,
        turn: Option<OwnedSemaphorePermit>,
    ) {
        let mut frame = Vec::new();
        if let Err(error) = perpend_protocol::write_frame(message, &mut frame) {
            tracing::warn!(%error, "an answer to a plug-in is too long");
            if let ToWorker::HostReply { id, .. } = message {
                // Of another kind than any question, so every guest is told that it is unavailable.
                let (id, reply) = (*id, HostReply::Complete(Vec::new()));
                drop(perpend_protocol::write_frame(
                    &ToWorker::HostReply { id, reply },
                    &mut frame,
                ));
            }
        }
        let n_bytes = frame.len();
        let n_before = self.n_unsent_bytes.fetch_add(n_bytes, Ordering::AcqRel);
        if MAX_UNSENT_BYTES < n_before + n_bytes {
            self.flooded.notify_one();
            return;
        }
        let outgoing = Outgoing {
            frame,
            file,
            _turn: turn,
        };
        drop(self.to_worker.send(outgoing));
    }

    /// Something is on its way, or about to be.
    pub(crate) fn sent(&self, n_bytes: usize) {
        self.n_unsent_bytes.fetch_sub(n_bytes, Ordering::AcqRel);
    }

    /// Takes out a call that has its answer.
    fn answered(&self, id: CallId) -> Option<Job> {
        let Pending { job, .. } = lock(&self.pending).remove(&id)?;
        self.n_open_bytes
            .fetch_sub(size(&job.call), Ordering::AcqRel);
        Some(job)
    }

    /// The first call after there were none.
    pub(crate) fn begins(&self) {
        let now = Instant::now();
        let mut times = lock(&self.times);
        (times.heard, times.progress) = (now, now);
    }

    pub(crate) fn told_to_end(&self) {
        *lock(&self.told_to_end) = Some(Instant::now());
    }

    pub(crate) fn is_resting(&self) -> bool {
        self.is_resting.load(Ordering::Acquire)
    }

    /// Lets it rest a moment when it has been short of memory for long.
    fn rest(&self, short_since: &mut Option<Instant>, moment: &mut Duration) {
        let is_short = self.is_short.load(Ordering::Acquire);
        *short_since = short_since.or_else(|| Some(Instant::now()));
        *short_since = short_since.filter(|_| is_short);
        let short_for = short_since.map_or(Duration::ZERO, |since| since.elapsed());
        if SHORT_FOR + *moment < short_for {
            *short_since = None;
            // Its calls take longer than that.
            *moment = (*moment * 2).min(MAX_MOMENT);
        }
        let rests = SHORT_FOR < short_for && short_since.is_some();
        if rests != self.is_resting.swap(rests, Ordering::AcqRel) {
            // The feeder looks.
            self.answered.notify_one();
        }
    }

    /// How long ago.
    pub(crate) fn since_told_to_end(&self) -> Option<Duration> {
        lock(&self.told_to_end).map(|told| told.elapsed())
    }
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
    /// Of this attempt: one that is made again may ask again.
    pub(crate) allowance: Arc<Allowance>,
}

/// When the process last gave a sign.
struct Times {
    /// Of any kind.
    heard: Instant,
    /// An answer, or the first call after there were none.
    progress: Instant,
}

/// Why a process ended before its time, and the class of a call that is to blame for it.
pub(crate) struct Loss {
    pub(crate) reason: String,
    pub(crate) class: FailureClass,
}

impl From<io::Error> for Loss {
    fn from(error: io::Error) -> Self {
        Self {
            reason: error.to_string(),
            class: FailureClass::PluginTrap,
        }
    }
}

/// From start to end of one process. An error says why it ended before its time.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    messages: mpsc::UnboundedReceiver<Outgoing>,
    stop: signal::Receiver<bool>,
) -> Result<(), Loss> {
    let (mut child, socket) = spawn(&shared.options)?;
    let pid = child.id();
    lock(&shared.pids).extend(pid);
    let last_line = Arc::new(Mutex::new(None));
    let mut chatter = JoinSet::new();
    if let Some(stderr) = child.stderr.take() {
        chatter.spawn(log_lines(stderr, Arc::clone(&last_line)));
    }
    let (reader, writer) = socket::split(socket)?;
    let ended = tokio::select! {
        ended = read(shared, session, reader) => ended.map_err(Loss::from),
        ended = feed::feed(shared, session, writer, messages, stop) => ended.map_err(Loss::from),
        loss = watch(shared, session, pid) => Err(loss),
    };
    let status = end(&mut child).await;
    lock(&shared.pids).retain(|other| Some(*other) != pid);
    let Some(status) = status.filter(|status| !status.success()) else {
        return ended;
    };
    // What it wrote last, which is there when its pipe is closed, says most.
    drop(tokio::time::timeout(Duration::from_millis(200), chatter.join_next()).await);
    let mut loss = ended.err().unwrap_or_else(|| Loss {
        reason: String::new(),
        class: FailureClass::PluginTrap,
    });
    let said = lock(&last_line).take();
    let reasons = [Some(loss.reason).filter(|reason| !reason.is_empty()), said];
    let reasons: Vec<String> = reasons.into_iter().flatten().collect();
    loss.reason = if reasons.is_empty() {
        status.to_string()
    } else {
        format!("{} ({status})", reasons.join(": "))
    };
    Err(loss)
}

async fn read(shared: &Arc<Shared>, session: &Arc<Session>, socket: Inbox) -> io::Result<()> {
    let mut socket = BufReader::with_capacity(64 << 10, socket);
    let mut frame = Vec::new();
    // Open questions; they end with the process that asked.
    let mut questions = JoinSet::new();
    loop {
        while questions.try_join_next().is_some() {}
        let mut prefix = [0; PREFIX];
        match socket.read_exact(&mut prefix).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        };
        frame.resize(
            perpend_protocol::frame_length(prefix).map_err(io::Error::other)?,
            0,
        );
        socket.read_exact(&mut frame).await?;
        lock(&session.times).heard = Instant::now();
        match perpend_protocol::read_frame(&frame).map_err(io::Error::other)? {
            FromWorker::Results(results) => {
                lock(&session.times).progress = Instant::now();
                for (id, result) in results {
                    // Unknown numbers are a broken worker's affair.
                    if let Some(job) = session.answered(id) {
                        shared.quarantine.answered(job.call.plugin);
                        job.answer(result);
                    }
                }
                session.answered.notify_one();
            }
            FromWorker::Ready(ready) => {
                for note in ready.notes {
                    tracing::warn!(note, "a worker process is limited");
                }
                let (shared_too, engine_key) = (Arc::clone(shared), ready.engine_key.clone());
                questions.spawn(async move {
                    let components = shared_too.components.as_ref();
                    shared_too.compiler.prune(&engine_key, components).await;
                });
                *lock(&session.engine_key) = ready.engine_key;
                shared.starts.succeeded(session.lane);
                session.was_ready.store(true, Ordering::Release);
                session.ready.notify_one();
            }
            FromWorker::Pong { is_short, .. } => {
                session.is_short.store(is_short, Ordering::Release);
            }
            question if questions.len() < MAX_OPEN_QUESTIONS => {
                questions.spawn(answer(Arc::clone(shared), Arc::clone(session), question));
            }
            _ => return Err(io::Error::other("it asks too much at a time")),
        }
    }
}

/// Answers a question of the worker. Nothing it says of itself is believed but the number of a call it has.
async fn answer(shared: Arc<Shared>, session: Arc<Session>, question: FromWorker) {
    match question {
        FromWorker::HostCall { id, call, request } => {
            let is_of_trace = !matches!(
                request,
                HostRequest::Complete(_) | HostRequest::Embed { .. }
            );
            let turn = match is_of_trace {
                true => Arc::clone(&session.reading).acquire_owned().await.ok(),
                false => None,
            };
            // It is being ended for what it left unread: nothing more is made for it.
            if MAX_UNSENT_BYTES < session.n_unsent_bytes.load(Ordering::Acquire) {
                return;
            }
            let caller = lock(&session.pending).get(&call).map(|pending| Caller {
                project: pending.job.project.clone(),
                call: Arc::clone(&pending.job.call),
                allowance: Arc::clone(&pending.allowance),
            });
            let reply = match caller {
                Some(caller) => shared.host_calls.host_call(caller, request).await,
                None => request.unavailable("the call is over"),
            };
            session.send(&ToWorker::HostReply { id, reply }, None, turn);
        }
        FromWorker::NeedsComponent { digest, refused } => {
            let _building = Building::new(&session);
            let key = lock(&session.engine_key).clone();
            let components = shared.components.as_ref();
            let artifact = shared
                .compiler
                .artifact(digest, &key, refused.as_deref(), components)
                .await;
            let (file, outcome) = match artifact {
                Ok(file) => (Some(file), Ok(())),
                Err(error) => (None, Err(error)),
            };
            session.send(&ToWorker::Component { digest, outcome }, file, None);
        }
        FromWorker::Ready(_) | FromWorker::Results(_) | FromWorker::Pong { .. } => {}
    }
}

/// Ends when the process has to be ended, with the reason.
async fn watch(shared: &Shared, session: &Session, pid: Option<u32>) -> Loss {
    let options = &shared.options;
    let ping_step = (options.silence_limit.min(options.hang_grace) / 4).min(Duration::from_secs(1));
    let step = ping_step.min(MEMORY_STEP);
    let mut number = 0;
    let mut pinged = Instant::now();
    let mut short_since = None;
    let mut moment = MOMENT;
    let hung = |reason| Loss {
        reason,
        class: FailureClass::PluginTrap,
    };
    loop {
        tokio::select! {
            () = tokio::time::sleep(step) => {}
            () = session.flooded.notified() => {
                let unsent = MAX_UNSENT_BYTES >> 20;
                return hung(format!("it left {unsent} MiB that it asked for unread"));
            }
        }
        let told = session.since_told_to_end();
        if told.is_some_and(|told| options.hang_grace < told) {
            return hung("it was told to end and did not".into());
        }
        let resident = pid.and_then(resident_bytes).unwrap_or(0);
        if options.max_resident_bytes < resident {
            let (resident, limit) = (resident >> 20, options.max_resident_bytes >> 20);
            return Loss {
                reason: format!("it had {resident} MiB of memory in use, the limit is {limit} MiB"),
                class: FailureClass::MemoryLimit,
            };
        }
        let longest = {
            let pending = lock(&session.pending);
            pending
                .values()
                .map(|pending| pending.job.call.limits.wall_ms)
                .max()
        };
        let was_ready = session.was_ready.load(Ordering::Acquire);
        session.rest(&mut short_since, &mut moment);
        if longest.is_none() && was_ready && short_since.is_none() {
            continue;
        }
        if was_ready && ping_step <= pinged.elapsed() {
            pinged = Instant::now();
            feed::cancel_abandoned(session);
            number += 1;
            session.say(&ToWorker::Ping(number));
        }
        if longest.is_none() && was_ready {
            // Pinged for its memory only.
            session.begins();
            continue;
        }
        let (silent, stuck) = {
            let times = lock(&session.times);
            (times.heard.elapsed(), times.progress.elapsed())
        };
        if options.silence_limit < silent {
            return hung(format!("it said nothing for {} ms", silent.as_millis()));
        }
        let is_building = 0 < session.n_building.load(Ordering::Acquire);
        let longest = Duration::from_millis(longest.unwrap_or(0).into());
        if was_ready && !is_building && longest + options.hang_grace < stuck {
            return hung(format!("it answered nothing for {} ms", stuck.as_millis()));
        }
    }
}
