//! The state of one worker process, and the messages to it.

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
use crate::quarantine::Quarantine;
use crate::queue::{Duty, Job, Queue, lock, size};
use crate::results::ResultMemory;
use crate::start_failures::StartFailures;

/// Maximum number of concurrent trace queries of one worker: each reply is in memory until it is sent.
const MAX_CONCURRENT_READS: usize = 4;
/// Maximum number of bytes that a worker has not read. A worker with more does not read at all.
pub(crate) const MAX_UNSENT_BYTES: usize = 256 << 20;

/// A worker that is short of memory for so long may have leaked memory. It gets no calls for a rest, and is replaced when all
/// of its calls end within the rest.
const SHORT_LIMIT: Duration = Duration::from_secs(5);
pub(crate) const FIRST_REST: Duration = Duration::from_secs(2);
/// Maximum rest, which is longer than any call may take.
const MAX_REST: Duration = Duration::from_secs(150);

/// State shared by all slots.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) components: Arc<dyn ComponentSource>,
    pub(crate) host_calls: Arc<dyn HostCalls>,
    pub(crate) compiler: Compiler,
    pub(crate) checker: Checker,
    pub(crate) queue: Queue,
    pub(crate) results: ResultMemory,
    pub(crate) quarantine: Quarantine,
    pub(crate) start_failures: StartFailures,
    /// Identifies compatible artifacts; reported by the first worker.
    pub(crate) engine_key: OnceCell<String>,
    pub(crate) pids: Mutex<Vec<u32>>,
}

/// A message to a worker, with an optional file.
pub(crate) struct Outgoing {
    pub(crate) frame: Vec<u8>,
    pub(crate) file: Option<Arc<File>>,
    /// Released when the message is sent.
    _turn: Option<OwnedSemaphorePermit>,
}

/// State shared by the feeder, the reader and the monitor of one process.
pub(crate) struct Session {
    pub(crate) duty: Duty,
    pub(crate) slot: usize,
    pub(crate) pending: Mutex<HashMap<CallId, Pending>>,
    /// Approximate bytes of the items of pending calls.
    pub(crate) n_pending_bytes: AtomicUsize,
    /// Results arrived, so that further calls may be sent.
    pub(crate) results_arrived: Notify,
    /// The worker sent `Ready`.
    pub(crate) ready: Notify,
    pub(crate) was_ready: AtomicBool,
    pub(crate) engine_key: Mutex<String>,
    shutdown_sent_at: Mutex<Option<Instant>>,
    /// The worker reports that it is short of memory.
    pub(crate) is_short: AtomicBool,
    /// The worker gets no calls, and ends when it has none.
    is_resting: AtomicBool,
    pub(crate) activity: Mutex<Activity>,
    to_worker: mpsc::UnboundedSender<Outgoing>,
    pub(crate) n_unsent_bytes: AtomicUsize,
    /// `n_unsent_bytes` exceeds its limit.
    pub(crate) overflowed: Notify,
    pub(crate) reading: Arc<Semaphore>,
    /// Components that are being fetched or compiled for the worker, so that its calls wait for the server.
    pub(crate) n_component_waits: AtomicUsize,
    /// Nothing is read from it, because too many results are in memory.
    pub(crate) is_unread: AtomicBool,
}

impl Session {
    pub(crate) fn new(duty: Duty, slot: usize) -> (Arc<Self>, mpsc::UnboundedReceiver<Outgoing>) {
        let (to_worker, messages) = mpsc::unbounded_channel();
        let now = Instant::now();
        let session = Self {
            duty,
            slot,
            pending: Mutex::default(),
            n_pending_bytes: AtomicUsize::new(0),
            results_arrived: Notify::new(),
            ready: Notify::new(),
            was_ready: AtomicBool::new(false),
            engine_key: Mutex::default(),
            shutdown_sent_at: Mutex::default(),
            is_short: AtomicBool::new(false),
            is_resting: AtomicBool::new(false),
            activity: Mutex::new(Activity { last_message: now, last_progress: now }),
            to_worker,
            n_unsent_bytes: AtomicUsize::new(0),
            overflowed: Notify::new(),
            reading: Arc::new(Semaphore::new(MAX_CONCURRENT_READS)),
            n_component_waits: AtomicUsize::new(0),
            is_unread: AtomicBool::new(false),
        };
        (Arc::new(session), messages)
    }

    pub(crate) fn send_message(&self, message: &ToWorker) {
        self.send(message, None, None);
    }

    /// Queues a message. A host reply that is too long for a frame is replaced.
    pub(crate) fn send(
        &self,
        message: &ToWorker,
        file: Option<Arc<File>>,
        turn: Option<OwnedSemaphorePermit>,
    ) {
        let mut frame = Vec::new();
        if let Err(error) = perpend_worker_protocol::write_frame(message, &mut frame) {
            tracing::warn!(%error, "a host reply is too long for a frame");
            if let ToWorker::HostReply { id, .. } = message {
                // Does not match any pending request, so that the worker reports `unavailable`.
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
            self.overflowed.notify_one();
            return;
        }
        let outgoing = Outgoing { frame, file, _turn: turn };
        drop(self.to_worker.send(outgoing));
    }

    /// Bytes were sent, or are about to be.
    pub(crate) fn sent(&self, n_bytes: usize) {
        self.n_unsent_bytes.fetch_sub(n_bytes, Ordering::AcqRel);
    }

    /// Removes a call that has its result.
    pub(crate) fn take_answered(&self, id: CallId) -> Option<Job> {
        let Pending { job, .. } = lock(&self.pending).remove(&id)?;
        self.n_pending_bytes.fetch_sub(size(&job.call), Ordering::AcqRel);
        Some(job)
    }

    /// Waits while too many results are in memory; meanwhile, its silence is ignored.
    pub(crate) async fn wait_to_read(&self, results: &ResultMemory) {
        if !results.is_full() {
            return;
        }
        self.is_unread.store(true, Ordering::Release);
        results.not_full().await;
        self.reset_activity();
        self.is_unread.store(false, Ordering::Release);
    }

    /// Restarts the activity timers for the first call of an idle worker.
    pub(crate) fn reset_activity(&self) {
        let now = Instant::now();
        let mut activity = lock(&self.activity);
        (activity.last_message, activity.last_progress) = (now, now);
    }

    pub(crate) fn mark_shutdown_sent(&self) {
        *lock(&self.shutdown_sent_at) = Some(Instant::now());
    }

    pub(crate) fn is_resting(&self) -> bool {
        self.is_resting.load(Ordering::Acquire)
    }

    /// Starts or ends a rest, depending on how long the worker has been short of memory.
    pub(crate) fn rest(&self, short_since: &mut Option<Instant>, rest_limit: &mut Duration) {
        let is_short = self.is_short.load(Ordering::Acquire);
        *short_since = short_since.or_else(|| Some(Instant::now()));
        *short_since = short_since.filter(|_| is_short);
        let short_for = short_since.map_or(Duration::ZERO, |since| since.elapsed());
        if SHORT_LIMIT + *rest_limit < short_for {
            *short_since = None;
            // Its calls take longer than the rest.
            *rest_limit = (*rest_limit * 2).min(MAX_REST);
        }
        let rests = SHORT_LIMIT < short_for && short_since.is_some();
        if rests != self.is_resting.swap(rests, Ordering::AcqRel) {
            // Wakes the feeder.
            self.results_arrived.notify_one();
        }
    }

    /// Time since `Shutdown` was sent.
    pub(crate) fn since_shutdown_sent(&self) -> Option<Duration> {
        lock(&self.shutdown_sent_at).map(|sent_at| sent_at.elapsed())
    }
}

/// Marks that the worker waits for a component, until it is dropped.
pub(crate) struct ComponentWait<'s>(&'s Session);

impl<'s> ComponentWait<'s> {
    pub(crate) fn new(session: &'s Session) -> Self {
        session.n_component_waits.fetch_add(1, Ordering::AcqRel);
        Self(session)
    }
}

impl Drop for ComponentWait<'_> {
    fn drop(&mut self) {
        lock(&self.0.activity).last_progress = Instant::now();
        self.0.n_component_waits.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Marks that a call waits for models, until it is dropped.
pub(crate) struct ModelWait<'s> {
    session: &'s Session,
    call: CallId,
}

impl<'s> ModelWait<'s> {
    pub(crate) fn new(session: &'s Session, call: CallId) -> Self {
        if let Some(pending) = lock(&session.pending).get_mut(&call) {
            pending.n_model_waits += 1;
        }
        Self { session, call }
    }
}

impl Drop for ModelWait<'_> {
    fn drop(&mut self) {
        lock(&self.session.activity).last_progress = Instant::now();
        if let Some(pending) = lock(&self.session.pending).get_mut(&self.call) {
            pending.n_model_waits = pending.n_model_waits.saturating_sub(1);
        }
    }
}

pub(crate) struct Pending {
    pub(crate) job: Job,
    /// Model calls in flight.
    pub(crate) n_model_waits: usize,
    pub(crate) cancelled: bool,
    /// Per attempt: a repeated call starts with a new allowance.
    pub(crate) allowance: Arc<Allowance>,
}

/// The last signs of activity of a process.
pub(crate) struct Activity {
    /// Any message.
    pub(crate) last_message: Instant,
    /// A result, the end of a model call, or the first call of an idle worker.
    pub(crate) last_progress: Instant,
}

/// The reason why a process ended prematurely, and the class of the failure of a call that caused it.
pub(crate) struct WorkerLoss {
    pub(crate) reason: String,
    pub(crate) class: FailureClass,
}

impl From<io::Error> for WorkerLoss {
    fn from(error: io::Error) -> Self {
        Self { reason: error.to_string(), class: FailureClass::PluginTrap }
    }
}
