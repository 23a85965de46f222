//! Runs one worker process from start to end.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use perpend_domain::plugin::FailureClass;
use perpend_worker_protocol::{self, FromWorker, PREFIX_BYTES, ToWorker};
use tokio::io::{AsyncReadExt, BufReader};
use tokio::sync::mpsc;
use tokio::sync::watch as signal;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::feed;
use crate::options::Caller;
use crate::process::{end, log_lines, spawn};
use crate::quarantine::resident_bytes;
use crate::queue::lock;
use crate::session::{
    ComponentWait, FIRST_REST, MAX_UNSENT_BYTES, ModelWait, Outgoing, Session, Shared, WorkerLoss,
};
use crate::socket::{self, Inbox};

/// Interval of memory checks.
const MEMORY_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of concurrent requests of one worker.
const MAX_OPEN_REQUESTS: usize = 16_384;

/// Runs one process. The error is the reason why it ended prematurely.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    messages: mpsc::UnboundedReceiver<Outgoing>,
    stop: signal::Receiver<bool>,
) -> Result<(), WorkerLoss> {
    let (mut child, socket) = spawn(&shared.options)?;
    let pid = child.id();
    lock(&shared.pids).extend(pid);
    measure_workers(shared);
    let last_line = Arc::new(Mutex::new(None));
    let mut log_tasks = JoinSet::new();
    if let Some(stderr) = child.stderr.take() {
        log_tasks.spawn(log_lines(stderr, Arc::clone(&last_line)));
    }
    let (reader, writer) = socket::split(socket)?;
    let ended = tokio::select! {
        ended = read(shared, session, reader) => ended.map_err(WorkerLoss::from),
        ended = feed::feed(shared, session, writer, messages, stop) => ended.map_err(WorkerLoss::from),
        loss = monitor(shared, session, pid) => Err(loss),
    };
    let status = end(&mut child).await;
    lock(&shared.pids).retain(|other| Some(*other) != pid);
    measure_workers(shared);
    let Some(status) = status.filter(|status| !status.success()) else {
        return ended;
    };
    // The last line of standard error is complete when the pipe is closed.
    drop(tokio::time::timeout(Duration::from_millis(200), log_tasks.join_next()).await);
    let mut loss = ended
        .err()
        .unwrap_or_else(|| WorkerLoss { reason: String::new(), class: FailureClass::PluginTrap });
    let stderr_text = lock(&last_line).take();
    let reasons = [Some(loss.reason).filter(|reason| !reason.is_empty()), stderr_text];
    let reasons: Vec<String> = reasons.into_iter().flatten().collect();
    loss.reason = if reasons.is_empty() {
        status.to_string()
    } else {
        format!("{} ({status})", reasons.join(": "))
    };
    Err(loss)
}

/// Reports the number of processes to the metrics.
fn measure_workers(shared: &Shared) {
    let n_workers = lock(&shared.pids).len();
    metrics::gauge!("perpend_workers").set(n_workers as f64);
}

async fn read(shared: &Arc<Shared>, session: &Arc<Session>, socket: Inbox) -> io::Result<()> {
    let mut socket = BufReader::with_capacity(64 << 10, socket);
    let mut frame = Vec::new();
    // Requests in flight; dropped with the process.
    let mut requests = JoinSet::new();
    loop {
        while requests.try_join_next().is_some() {}
        session.wait_to_read(&shared.results).await;
        let mut prefix = [0; PREFIX_BYTES];
        match socket.read_exact(&mut prefix).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        };
        frame.resize(perpend_worker_protocol::frame_length(prefix).map_err(io::Error::other)?, 0);
        socket.read_exact(&mut frame).await?;
        lock(&session.activity).last_message = Instant::now();
        match perpend_worker_protocol::read_frame(&frame).map_err(io::Error::other)? {
            FromWorker::Results(results) => {
                lock(&session.activity).last_progress = Instant::now();
                for (id, mut result) in results {
                    shared.results.charge(&mut result);
                    // Ignores unknown numbers.
                    if let Some(job) = session.take_answered(id) {
                        shared.quarantine.reset(job.call.plugin);
                        job.answer(result);
                    }
                }
                session.results_arrived.notify_one();
            }
            FromWorker::Ready(ready) => {
                for warning in ready.warnings {
                    tracing::warn!(warning, "a worker process lacks a feature of the platform");
                }
                let (task_shared, engine_key) = (Arc::clone(shared), ready.engine_key.clone());
                requests.spawn(async move {
                    let components = task_shared.components.as_ref();
                    task_shared.compiler.prune(&engine_key, components).await;
                });
                *lock(&session.engine_key) = ready.engine_key;
                shared.start_failures.reset(session.slot);
                session.was_ready.store(true, Ordering::Release);
                session.ready.notify_one();
            }
            FromWorker::Pong { is_short, .. } => {
                session.is_short.store(is_short, Ordering::Release);
            }
            request if requests.len() < MAX_OPEN_REQUESTS => {
                requests.spawn(answer(Arc::clone(shared), Arc::clone(session), request));
            }
            _ => return Err(io::Error::other("it has too many requests in flight")),
        }
    }
}

/// Serves a request of the worker. Trusts only that it refers to a pending call.
async fn answer(shared: Arc<Shared>, session: Arc<Session>, request: FromWorker) {
    match request {
        FromWorker::HostCall { id, call, request } => {
            let (permit, _wait) = match request.is_model_call() {
                true => (None, Some(ModelWait::new(&session, call))),
                false => {
                    let permit = Arc::clone(&session.reading).acquire_owned().await;
                    (permit.ok(), None)
                }
            };
            // The worker is being ended because of its unread replies.
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
                None => request.unavailable("the call has ended"),
            };
            session.send(&ToWorker::HostReply { id, reply }, None, permit);
        }
        FromWorker::NeedsComponent { digest, rejected } => {
            let _wait = ComponentWait::new(&session);
            let key = lock(&session.engine_key).clone();
            let components = shared.components.as_ref();
            let artifact =
                shared.compiler.artifact(digest, &key, rejected.as_deref(), components).await;
            let (file, outcome) = match artifact {
                Ok(file) => (Some(file), Ok(())),
                Err(error) => (None, Err(error)),
            };
            session.send(&ToWorker::Component { digest, outcome }, file, None);
        }
        FromWorker::Ready(_) | FromWorker::Results(_) | FromWorker::Pong { .. } => {}
    }
}

/// Completes when the process must be ended, with the reason.
async fn monitor(shared: &Shared, session: &Session, pid: Option<u32>) -> WorkerLoss {
    let options = &shared.options;
    let ping_interval =
        (options.silence_limit.min(options.hang_grace) / 4).min(Duration::from_secs(1));
    let interval = ping_interval.min(MEMORY_INTERVAL);
    let mut number = 0;
    let mut pinged = Instant::now();
    let mut short_since = None;
    let mut rest_limit = FIRST_REST;
    let unresponsive = |reason| WorkerLoss { reason, class: FailureClass::PluginTrap };
    loop {
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = session.overflowed.notified() => {
                let unsent = MAX_UNSENT_BYTES >> 20;
                return unresponsive(format!("it left {unsent} MiB of replies unread"));
            }
        }
        let since_shutdown = session.since_shutdown_sent();
        if since_shutdown.is_some_and(|elapsed| options.hang_grace < elapsed) {
            return unresponsive("it did not shut down".into());
        }
        let resident = pid.and_then(resident_bytes).unwrap_or(0);
        if options.max_resident_bytes < resident {
            let (resident, limit) = (resident >> 20, options.max_resident_bytes >> 20);
            return WorkerLoss {
                reason: format!("it used {resident} MiB of memory; the limit is {limit} MiB"),
                class: FailureClass::MemoryLimit,
            };
        }
        let (is_idle, longest) = {
            let pending = lock(&session.pending);
            // Waiting for models does not count towards the wall-clock limit.
            let running = pending.values().filter(|pending| pending.n_model_waits == 0);
            let longest = running.map(|pending| pending.job.call.limits.wall_ms).max();
            (pending.is_empty(), longest)
        };
        let was_ready = session.was_ready.load(Ordering::Acquire);
        session.rest(&mut short_since, &mut rest_limit);
        if is_idle && was_ready && short_since.is_none() {
            continue;
        }
        if was_ready && ping_interval <= pinged.elapsed() {
            pinged = Instant::now();
            feed::cancel_abandoned(session);
            number += 1;
            session.send_message(&ToWorker::Ping(number));
        }
        if is_idle && was_ready {
            // Pinged only to learn whether it is short of memory.
            session.reset_activity();
            continue;
        }
        if session.is_unread.load(Ordering::Acquire) {
            continue;
        }
        let (silent, stuck) = {
            let activity = lock(&session.activity);
            (activity.last_message.elapsed(), activity.last_progress.elapsed())
        };
        if options.silence_limit < silent {
            return unresponsive(format!("it sent nothing for {} ms", silent.as_millis()));
        }
        let is_building = 0 < session.n_component_waits.load(Ordering::Acquire);
        let longest = longest.map(|longest| Duration::from_millis(longest.into()));
        let is_stuck = longest.is_some_and(|longest| longest + options.hang_grace < stuck);
        if was_ready && !is_building && is_stuck {
            return unresponsive(format!("it returned no result for {} ms", stuck.as_millis()));
        }
    }
}
