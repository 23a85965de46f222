//! What is known of one worker process, and what is on its way to it.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use perpend_domain::plugin::FailureClass;
use perpend_worker_protocol::host_call::Allowance;
use perpend_worker_protocol::{self, CallId, HostReply, ToWorker};
use tokio::sync::{Notify, OnceCell, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

use crate::check::Checker;
use crate::compile::Compiler;
use crate::options::{ComponentSource, HostCalls, Options};
use crate::queue::{Duty, Job, Queue, lock, size};
use crate::results::ResultMemory;
use crate::starts::Starts;
use crate::watch::Quarantine;

/// Questions about traces of one worker that are answered at a time: an answer is in memory until it is
/// on its way.
const MAX_READING: usize = 4;
/// Bytes for a worker that it has not read; with more it does not read at all.
pub(crate) const MAX_UNSENT_BYTES: usize = 256 << 20;

/// A worker that is short of memory for so long may be so for good: what calls left behind in it stays. It is
/// given no more calls for a moment, and replaced when that was enough for all of them to end.
const SHORT_FOR: Duration = Duration::from_secs(5);
pub(crate) const MOMENT: Duration = Duration::from_secs(2);
/// A moment becomes no longer than this, which is more than any call may take.
const MAX_MOMENT: Duration = Duration::from_secs(150);

/// What all lanes share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) components: Arc<dyn ComponentSource>,
    pub(crate) host_calls: Arc<dyn HostCalls>,
    pub(crate) compiler: Compiler,
    pub(crate) checker: Checker,
    pub(crate) queue: Queue,
    pub(crate) results: ResultMemory,
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
    pub(crate) lane: usize,
    pub(crate) pending: Mutex<HashMap<CallId, Pending>>,
    /// About how long the items of those are.
    pub(crate) n_open_bytes: AtomicUsize,
    /// Answers came: there is room, or nothing is open any more.
    pub(crate) answered: Notify,
    /// It said that it is ready.
    pub(crate) ready: Notify,
    pub(crate) was_ready: AtomicBool,
    pub(crate) engine_key: Mutex<String>,
    told_to_end: Mutex<Option<Instant>>,
    /// It says that it is short of memory.
    pub(crate) is_short: AtomicBool,
    /// It is given no calls, and is to end when it has none.
    is_resting: AtomicBool,
    pub(crate) times: Mutex<Times>,
    to_worker: mpsc::UnboundedSender<Outgoing>,
    pub(crate) n_unsent_bytes: AtomicUsize,
    /// There are too many of those.
    pub(crate) flooded: Notify,
    pub(crate) reading: Arc<Semaphore>,
    /// Components that are fetched and compiled for it: its calls wait for the server, not for it.
    pub(crate) n_building: AtomicUsize,
    /// Nothing is read from it, because too many results are in memory.
    pub(crate) is_unread: AtomicBool,
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
            times: Mutex::new(Times { heard: now, progress: now }),
            to_worker,
            n_unsent_bytes: AtomicUsize::new(0),
            flooded: Notify::new(),
            reading: Arc::new(Semaphore::new(MAX_READING)),
            n_building: AtomicUsize::new(0),
            is_unread: AtomicBool::new(false),
        };
        (Arc::new(session), messages)
    }

    pub(crate) fn say(&self, message: &ToWorker) {
        self.send(message, None, None);
    }

    /// A reply that is too long for a frame becomes one that says so.
    pub(crate) fn send(
        &self,
        message: &ToWorker,
        file: Option<Arc<File>>,
        turn: Option<OwnedSemaphorePermit>,
    ) {
        let mut frame = Vec::new();
        if let Err(error) = perpend_worker_protocol::write_frame(message, &mut frame) {
            tracing::warn!(%error, "an answer to a plug-in is too long");
            if let ToWorker::HostReply { id, .. } = message {
                // Of another kind than any question, so every guest is told that it is unavailable.
                let (id, reply) = (*id, HostReply::Complete(Vec::new()));
                drop(perpend_worker_protocol::write_frame(
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
        let outgoing = Outgoing { frame, file, _turn: turn };
        drop(self.to_worker.send(outgoing));
    }

    /// Something is on its way, or about to be.
    pub(crate) fn sent(&self, n_bytes: usize) {
        self.n_unsent_bytes.fetch_sub(n_bytes, Ordering::AcqRel);
    }

    /// Takes out a call that has its answer.
    pub(crate) fn answered(&self, id: CallId) -> Option<Job> {
        let Pending { job, .. } = lock(&self.pending).remove(&id)?;
        self.n_open_bytes.fetch_sub(size(&job.call), Ordering::AcqRel);
        Some(job)
    }

    /// Waits while too many results are in memory; its silence meanwhile says nothing about it.
    pub(crate) async fn wait_to_read(&self, results: &ResultMemory) {
        if !results.is_full() {
            return;
        }
        self.is_unread.store(true, Ordering::Release);
        results.not_full().await;
        self.begins();
        self.is_unread.store(false, Ordering::Release);
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
    pub(crate) fn rest(&self, short_since: &mut Option<Instant>, moment: &mut Duration) {
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
pub(crate) struct Building<'s>(&'s Session);

impl<'s> Building<'s> {
    pub(crate) fn new(session: &'s Session) -> Self {
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

/// While it lives, a call waits for models.
pub(crate) struct Asking<'s> {
    session: &'s Session,
    call: CallId,
}

impl<'s> Asking<'s> {
    pub(crate) fn new(session: &'s Session, call: CallId) -> Self {
        if let Some(pending) = lock(&session.pending).get_mut(&call) {
            pending.n_asking += 1;
        }
        Self { session, call }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        lock(&self.session.times).progress = Instant::now();
        if let Some(pending) = lock(&self.session.pending).get_mut(&self.call) {
            pending.n_asking = pending.n_asking.saturating_sub(1);
        }
    }
}

pub(crate) struct Pending {
    pub(crate) job: Job,
    /// Open host calls that ask models.
    pub(crate) n_asking: usize,
    pub(crate) cancelled: bool,
    /// Of this attempt: one that is made again may ask again.
    pub(crate) allowance: Arc<Allowance>,
}

/// When the process last gave a sign.
pub(crate) struct Times {
    /// Of any kind.
    pub(crate) heard: Instant,
    /// An answer, the end of a host call that asked a model, or the first call after there were none.
    pub(crate) progress: Instant,
}

/// Why a process ended before its time, and the class of a call that is to blame for it.
pub(crate) struct Loss {
    pub(crate) reason: String,
    pub(crate) class: FailureClass,
}

impl From<io::Error> for Loss {
    fn from(error: io::Error) -> Self {
        Self { reason: error.to_string(), class: FailureClass::PluginTrap }
    }
}
