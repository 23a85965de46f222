//! One worker process from start to end.

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
use crate::queue::lock;
use crate::session::{Asking, Building, Loss, MAX_UNSENT_BYTES, MOMENT, Outgoing, Session, Shared};
use crate::socket::{self, Inbox};
use crate::watch::resident_bytes;

/// How often the memory of a worker is looked at.
const MEMORY_STEP: Duration = Duration::from_millis(200);
/// Questions of one worker that may be open at a time.
const MAX_OPEN_QUESTIONS: usize = 16_384;

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
    let mut loss = ended
        .err()
        .unwrap_or_else(|| Loss { reason: String::new(), class: FailureClass::PluginTrap });
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
        session.wait_to_read(&shared.results).await;
        let mut prefix = [0; PREFIX_BYTES];
        match socket.read_exact(&mut prefix).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        };
        frame.resize(perpend_worker_protocol::frame_length(prefix).map_err(io::Error::other)?, 0);
        socket.read_exact(&mut frame).await?;
        lock(&session.times).heard = Instant::now();
        match perpend_worker_protocol::read_frame(&frame).map_err(io::Error::other)? {
            FromWorker::Results(results) => {
                lock(&session.times).progress = Instant::now();
                for (id, mut result) in results {
                    shared.results.charge(&mut result);
                    // Unknown numbers are a broken worker's affair.
                    if let Some(job) = session.answered(id) {
                        shared.quarantine.answered(job.call.plugin);
                        job.answer(result);
                    }
                }
                session.answered.notify_one();
            }
            FromWorker::Ready(ready) => {
                for warning in ready.warnings {
                    tracing::warn!(warning, "a worker process lacks a feature of the platform");
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
            let (turn, _asking) = match request.is_model_call() {
                true => (None, Some(Asking::new(&session, call))),
                false => {
                    let turn = Arc::clone(&session.reading).acquire_owned().await;
                    (turn.ok(), None)
                }
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
        FromWorker::NeedsComponent { digest, rejected } => {
            let _building = Building::new(&session);
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

/// Ends when the process has to be ended, with the reason.
async fn watch(shared: &Shared, session: &Session, pid: Option<u32>) -> Loss {
    let options = &shared.options;
    let ping_step = (options.silence_limit.min(options.hang_grace) / 4).min(Duration::from_secs(1));
    let step = ping_step.min(MEMORY_STEP);
    let mut number = 0;
    let mut pinged = Instant::now();
    let mut short_since = None;
    let mut moment = MOMENT;
    let hung = |reason| Loss { reason, class: FailureClass::PluginTrap };
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
        let (is_idle, longest) = {
            let pending = lock(&session.pending);
            // The wall clock of a call stands still while it asks models.
            let running = pending.values().filter(|pending| pending.n_asking == 0);
            let longest = running.map(|pending| pending.job.call.limits.wall_ms).max();
            (pending.is_empty(), longest)
        };
        let was_ready = session.was_ready.load(Ordering::Acquire);
        session.rest(&mut short_since, &mut moment);
        if is_idle && was_ready && short_since.is_none() {
            continue;
        }
        if was_ready && ping_step <= pinged.elapsed() {
            pinged = Instant::now();
            feed::cancel_abandoned(session);
            number += 1;
            session.say(&ToWorker::Ping(number));
        }
        if is_idle && was_ready {
            // Pinged for its memory only.
            session.begins();
            continue;
        }
        if session.is_unread.load(Ordering::Acquire) {
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
        let longest = longest.map(|longest| Duration::from_millis(longest.into()));
        let is_stuck = longest.is_some_and(|longest| longest + options.hang_grace < stuck);
        if was_ready && !is_building && is_stuck {
            return hung(format!("it answered nothing for {} ms", stuck.as_millis()));
        }
    }
}
