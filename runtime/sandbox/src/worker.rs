//! The worker process: receives calls on its socket, returns results in any order, and forwards host calls to the server.
//!
//! The socket is the standard input, which a parent can set without unsafe code.

use std::collections::HashMap;
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as StdStream;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use perpend_domain::plugin::{CallResult, Digest, EvaluationCall, FailureClass};
use perpend_worker_protocol::{
    self, CallId, FromWorker, HostReply, HostRequest, Port, Ready, Tenant, ToWorker, WorkerSettings,
};
use tokio::io::{AsyncReadExt, BufReader};
use tokio::sync::{OnceCell, mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::confine::{self, Role, confine};
use crate::host::{Host, Plugin, Settings};
use crate::inbox::{Inbox, Outbox};
use crate::state::failure;

/// Maximum size of a frame of results, approximately.
const FRAME_BYTES: usize = 1 << 20;
/// Maximum number of messages in a write.
const MAX_READY: usize = 1024;
/// Number of loaded components from which those without calls are dropped.
const MAX_LOADED: usize = 256;

/// Runs before each call, and may return its result. For tests in which a worker crashes, hangs or grows at a specific call.
pub type BeforeCall = fn(&EvaluationCall) -> Option<CallResult>;

/// The command `perpend worker`. Runs until its socket closes or it receives `Shutdown`.
#[must_use]
pub fn worker_main() -> ExitCode {
    worker_main_with(|_| None)
}

/// Like [`worker_main`], with a hook that runs before each call.
#[must_use]
pub fn worker_main_with(before_call: BeforeCall) -> ExitCode {
    confine::close_inherited();
    match run(before_call) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(io::stderr(), "perpend worker: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(before_call: BeforeCall) -> io::Result<()> {
    let mut socket = StdStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // A confined process cannot duplicate descriptors.
    let outbox = Outbox::new(socket.try_clone()?);
    let settings = first_message(&mut socket)?;
    let mut layers = Vec::new();
    let host = Settings {
        max_live: settings.max_live,
        max_resident_bytes: Some(settings.max_resident_bytes),
        n_threads: settings.n_threads,
        ..Settings::default()
    };
    // The server sends calls only after `Ready`.
    let host = Host::confined(&host, || {
        layers = confine(Role::Worker, settings.require_all_layers)?;
        Ok(())
    });
    let host = host.map_err(io::Error::other)?;
    let ready = Ready {
        engine_key: host.artifacts().engine_key().to_owned(),
        layers,
        warnings: host.warnings().to_vec(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // One more, for the socket while guests run.
        .worker_threads(settings.n_threads.max(1) as usize + 1)
        .enable_all()
        .build()?;
    // As a task, so that the thread that reads a single call also runs it, without waking another thread.
    let stuck_limit = Duration::from_millis(settings.stuck_ms);
    let served = runtime.block_on(runtime.spawn(serve(
        (socket, outbox),
        host,
        ready,
        stuck_limit,
        before_call,
    )));
    runtime.shutdown_background();
    served.map_err(io::Error::other)?
}

fn first_message(socket: &mut StdStream) -> io::Result<WorkerSettings> {
    let mut prefix = [0; perpend_worker_protocol::PREFIX_BYTES];
    socket.read_exact(&mut prefix)?;
    let mut frame =
        vec![0; perpend_worker_protocol::frame_length(prefix).map_err(io::Error::other)?];
    socket.read_exact(&mut frame)?;
    match perpend_worker_protocol::read_frame(&frame).map_err(io::Error::other)? {
        ToWorker::Start(settings) => Ok(settings),
        _ => Err(io::Error::other("the first message was not `Start`")),
    }
}

async fn serve(
    (socket, outbox): (StdStream, Outbox),
    host: Host,
    ready: Ready,
    stuck_limit: Duration,
    before_call: BeforeCall,
) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let (out, messages) = mpsc::unbounded_channel();
    drop(out.send(FromWorker::Ready(ready)));
    let worker = Arc::new(Worker {
        host,
        before_call,
        stuck_limit,
        started_at: Instant::now(),
        out,
        next_host_call: AtomicU64::new(0),
        loaded: Mutex::default(),
        running: Mutex::default(),
        host_replies: Mutex::default(),
        component_waits: Mutex::default(),
    });
    let writing = tokio::spawn(write(outbox, messages, Arc::downgrade(&worker)));
    let inbox = BufReader::with_capacity(64 << 10, Inbox::new(socket)?);
    // An error ends the process, even if its threads are busy.
    read(inbox, &worker).await?;
    // The writer ends with the last sender. Each running call has one.
    drop(worker);
    writing.await.map_err(io::Error::other)?
}

struct Worker {
    host: Host,
    before_call: BeforeCall,
    /// Time after which a call that occupies its thread is stuck.
    stuck_limit: Duration,
    started_at: Instant,
    out: mpsc::UnboundedSender<FromWorker>,
    next_host_call: AtomicU64,
    loaded: Mutex<HashMap<Digest, Arc<OnceCell<Plugin>>>>,
    /// Calls without a result. Removing one entitles to send its result. A cancelled call stays until its guest is dropped, so
    /// that a stuck one is detected.
    running: Mutex<HashMap<CallId, Running>>,
    /// Destinations of host replies.
    host_replies: Mutex<HashMap<u64, oneshot::Sender<HostReply>>>,
    /// Destinations of components.
    component_waits: Mutex<HashMap<Digest, oneshot::Sender<Result<File, String>>>>,
}

/// A call without a result.
struct Running {
    task: Option<AbortHandle>,
    poll_start: Arc<PollStart>,
    is_cancelled: bool,
}

/// When the current poll of a call started, in milliseconds since the start of the worker; zero between polls.
#[derive(Default)]
struct PollStart(AtomicU64);

async fn read(mut socket: BufReader<Inbox>, worker: &Arc<Worker>) -> io::Result<()> {
    let mut frame = Vec::new();
    loop {
        let mut prefix = [0; perpend_worker_protocol::PREFIX_BYTES];
        match socket.read_exact(&mut prefix).await {
            // The server has ended.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => std::process::exit(0),
            other => other?,
        };
        frame.resize(perpend_worker_protocol::frame_length(prefix).map_err(io::Error::other)?, 0);
        socket.read_exact(&mut frame).await?;
        match perpend_worker_protocol::read_frame(&frame).map_err(io::Error::other)? {
            ToWorker::Calls(calls) => {
                calls.into_iter().for_each(|(id, tenant, call)| worker.start(id, tenant, call))
            }
            ToWorker::HostReply { id, reply } => {
                if let Some(sender) = lock(&worker.host_replies).remove(&id) {
                    drop(sender.send(reply));
                }
            }
            ToWorker::Component { digest, outcome } => {
                let outcome = outcome.and_then(|()| {
                    let file = socket.get_mut().next_file();
                    file.ok_or_else(|| "the server sent no artifact".to_owned())
                });
                if let Some(sender) = lock(&worker.component_waits).remove(&digest) {
                    drop(sender.send(outcome));
                }
            }
            ToWorker::Cancel(ids) => ids.into_iter().for_each(|id| worker.cancel(id)),
            ToWorker::Ping(number) => {
                worker.check_stuck()?;
                let is_short = worker.host.is_short_of_memory();
                drop(worker.out.send(FromWorker::Pong { number, is_short }));
            }
            ToWorker::Shutdown => return Ok(()),
            ToWorker::Start(_) => return Err(io::Error::other("`Start` was received twice")),
        }
        if FRAME_BYTES < frame.capacity() {
            frame = Vec::new();
        }
    }
}

impl Worker {
    fn start(self: &Arc<Self>, id: CallId, tenant: Tenant, call: Arc<EvaluationCall>) {
        let poll_start = Arc::new(PollStart::default());
        let running =
            Running { task: None, poll_start: Arc::clone(&poll_start), is_cancelled: false };
        lock(&self.running).insert(id, running);
        let worker = Arc::clone(self);
        // Moved into the task, so that it sends a result even if the task is cancelled before its first poll.
        let pending = PendingCall { worker: Arc::clone(self), id };
        let task = tokio::spawn(async move {
            let mut evaluation = pin!(worker.evaluate(id, tenant, Arc::unwrap_or_clone(call)));
            let result = poll_fn(|context| {
                let now = worker.started_at.elapsed().as_millis() as u64;
                poll_start.0.store(now.max(1), Ordering::Relaxed);
                let polled = evaluation.as_mut().poll(context);
                poll_start.0.store(0, Ordering::Relaxed);
                polled
            });
            let result = result.await;
            pending.worker.answer(id, result);
        });
        if let Some(running) = lock(&self.running).get_mut(&id) {
            running.task = Some(task.abort_handle());
        }
    }

    /// Fails when a call is stuck, so that the worker ends and is replaced. Guests yield at each tick, so a call that occupies
    /// its thread hangs in the host and cannot be stopped.
    fn check_stuck(&self) -> io::Result<()> {
        let now = self.started_at.elapsed().as_millis() as u64;
        let longest = lock(&self.running)
            .values()
            .map(|running| running.poll_start.0.load(Ordering::Relaxed))
            .filter(|since| *since != 0)
            .map(|since| now.saturating_sub(since))
            .max();
        match longest {
            Some(longest) if self.stuck_limit.as_millis() < longest.into() => {
                Err(io::Error::other(format!("a call has kept its thread for {longest} ms")))
            }
            _ => Ok(()),
        }
    }

    /// Sends the result unless one was sent.
    fn answer(&self, id: CallId, result: CallResult) {
        if lock(&self.running).remove(&id).is_some() {
            drop(self.out.send(FromWorker::Results(vec![(id, result)])));
        }
    }

    /// Cancels a call. Its result is sent when the guest yields, which it does at its next tick.
    fn cancel(&self, id: CallId) {
        let task = lock(&self.running).get_mut(&id).and_then(|running| {
            running.is_cancelled = true;
            running.task.clone()
        });
        if let Some(task) = task {
            task.abort();
        }
    }

    async fn evaluate(
        self: &Arc<Self>,
        id: CallId,
        tenant: Tenant,
        call: EvaluationCall,
    ) -> CallResult {
        if let Some(result) = (self.before_call)(&call) {
            return result;
        }
        let cell = self.cell(call.plugin);
        match cell.get_or_try_init(|| self.load(call.plugin)).await {
            Ok(plugin) => {
                let port = Arc::new(SocketPort { worker: Arc::clone(self), call: id });
                self.host.evaluate_for(tenant, plugin, call, port).await
            }
            Err(error) => failed_result(FailureClass::Internal, &error),
        }
    }

    fn cell(&self, digest: Digest) -> Arc<OnceCell<Plugin>> {
        let mut loaded = lock(&self.loaded);
        if MAX_LOADED <= loaded.len() && !loaded.contains_key(&digest) {
            loaded.retain(|_, cell| 1 < Arc::strong_count(cell));
        }
        Arc::clone(loaded.entry(digest).or_default())
    }

    /// Loads a component that the server sends. If it is unusable, the server compiles it again.
    async fn load(&self, digest: Digest) -> Result<Plugin, String> {
        let file = self.fetch(digest, None).await?;
        let rejected = match self.host.load_sealed(&file) {
            Ok(plugin) => return Ok(plugin),
            Err(error) => error.to_string(),
        };
        let file = self.fetch(digest, Some(rejected)).await?;
        self.host.load_sealed(&file).map_err(|error| error.to_string())
    }

    async fn fetch(&self, digest: Digest, rejected: Option<String>) -> Result<File, String> {
        let (sender, receiver) = oneshot::channel();
        lock(&self.component_waits).insert(digest, sender);
        drop(self.out.send(FromWorker::NeedsComponent { digest, rejected }));
        receiver.await.map_err(|_| "the server has ended".to_owned())?
    }
}

/// Sends a failed result when it is dropped before the call has one: after a cancellation or a panic.
struct PendingCall {
    worker: Arc<Worker>,
    id: CallId,
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        let Some(running) = lock(&self.worker.running).remove(&self.id) else {
            return;
        };
        let (class, message) = match running.is_cancelled {
            true => (FailureClass::Cancelled, "the call was cancelled"),
            false => {
                (FailureClass::Internal, "the host failed at this call; see the log of the server")
            }
        };
        let result = failed_result(class, message);
        drop(self.worker.out.send(FromWorker::Results(vec![(self.id, result)])));
    }
}

fn failed_result(class: FailureClass, message: &str) -> CallResult {
    CallResult { outcome: Err(failure(class, message)), ..CallResult::empty() }
}

/// Forwards the host calls of one call to the server.
struct SocketPort {
    worker: Arc<Worker>,
    call: CallId,
}

impl Port for SocketPort {
    fn call(&self, request: HostRequest) -> BoxFuture<'static, HostReply> {
        let (worker, call) = (Arc::clone(&self.worker), self.call);
        Box::pin(async move {
            let id = worker.next_host_call.fetch_add(1, Ordering::Relaxed);
            let unavailable = request.unavailable("the server has ended");
            let (sender, receiver) = oneshot::channel();
            lock(&worker.host_replies).insert(id, sender);
            let _entry = HostCallEntry { worker: &worker, id };
            drop(worker.out.send(FromWorker::HostCall { id, call, request }));
            receiver.await.unwrap_or(unavailable)
        })
    }
}

/// Removes the destination of a host reply when the wait ends.
struct HostCallEntry<'a> {
    worker: &'a Worker,
    id: u64,
}

impl Drop for HostCallEntry<'_> {
    fn drop(&mut self) {
        lock(&self.worker.host_replies).remove(&self.id);
    }
}

async fn write(
    socket: Outbox,
    mut messages: mpsc::UnboundedReceiver<FromWorker>,
    worker: Weak<Worker>,
) -> io::Result<()> {
    let is_busy = || {
        let worker = worker.upgrade();
        worker.is_some_and(|worker| !lock(&worker.running).is_empty())
    };
    let mut buffer = Vec::new();
    let mut ready = Vec::new();
    while 0 < messages.recv_many(&mut ready, MAX_READY).await {
        if is_busy() {
            // Lets other calls run first, so that their results are sent in one write.
            tokio::task::yield_now().await;
            while ready.len() < MAX_READY
                && let Ok(message) = messages.try_recv()
            {
                ready.push(message);
            }
        }
        let mut results = Vec::new();
        let mut n_bytes = 0;
        for message in ready.drain(..) {
            match message {
                FromWorker::Results(more) => {
                    let sizes = more.iter().map(|(_, result)| result.n_bytes());
                    n_bytes += sizes.sum::<usize>();
                    results.extend(more);
                }
                other => perpend_worker_protocol::write_frame(&other, &mut buffer)
                    .map_err(io::Error::other)?,
            }
            if FRAME_BYTES < n_bytes {
                flush_results(&mut results, &mut buffer)?;
                n_bytes = 0;
                socket.write_all(&buffer).await?;
                buffer.clear();
            }
        }
        flush_results(&mut results, &mut buffer)?;
        socket.write_all(&buffer).await?;
        buffer.clear();
        buffer.shrink_to(FRAME_BYTES);
    }
    Ok(())
}

fn flush_results(results: &mut Vec<(CallId, CallResult)>, buffer: &mut Vec<u8>) -> io::Result<()> {
    if results.is_empty() {
        return Ok(());
    }
    let message = FromWorker::Results(std::mem::take(results));
    perpend_worker_protocol::write_frame(&message, buffer).map_err(io::Error::other)
}

/// Ignores poisoning, because each change is a single step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
