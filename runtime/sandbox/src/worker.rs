//! The worker process: takes calls from its socket, answers in any order, asks the server for what
//! guests may not have here.
//!
//! The socket is the standard input: of all descriptors it is the one a parent can set without help.

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

/// Results are sent when no more are ready, or when so many bytes are.
const FRAME_BYTES: usize = 1 << 20;
/// Messages of one write at most.
const MAX_READY: usize = 1024;
/// Components kept loaded; over this the ones without calls are let go.
const MAX_LOADED: usize = 256;

/// Looks at every call before it is made, and answers it itself where it gives a result. For tests that
/// need a worker to crash, hang or grow at a call of their choice.
pub type BeforeCall = fn(&EvaluationCall) -> Option<CallResult>;

/// What `perpend worker` runs, until its socket closes or it is told to end.
#[must_use]
pub fn worker_main() -> ExitCode {
    worker_main_with(|_| None)
}

/// As [`worker_main`], with a look at every call.
#[must_use]
pub fn worker_main_with(before_call: BeforeCall) -> ExitCode {
    confine::close_inherited();
    match work(before_call) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(io::stderr(), "perpend worker: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn work(before_call: BeforeCall) -> io::Result<()> {
    let mut socket = StdStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // A confined process makes no second descriptor of one.
    let outbox = Outbox::new(socket.try_clone()?);
    let settings = first_message(&mut socket)?;
    let mut layers = Vec::new();
    let host = Settings {
        max_live: settings.max_live,
        max_resident_bytes: Some(settings.max_resident_bytes),
        n_threads: settings.n_threads,
        ..Settings::default()
    };
    // The server is told about no guest before this is done.
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
        // One more for the socket while guests run on the others.
        .worker_threads(settings.n_threads.max(1) as usize + 1)
        .enable_all()
        .build()?;
    // As a task: the thread that finds the socket readable then makes the call itself, and no other has to
    // be woken for a lone one.
    let stuck = Duration::from_millis(settings.stuck_ms);
    let served =
        runtime.block_on(runtime.spawn(serve((socket, outbox), host, ready, stuck, before_call)));
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
    stuck: Duration,
    before_call: BeforeCall,
) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let (out, messages) = mpsc::unbounded_channel();
    drop(out.send(FromWorker::Ready(ready)));
    let worker = Arc::new(Worker {
        host,
        before_call,
        stuck,
        began: Instant::now(),
        out,
        next_host_call: AtomicU64::new(0),
        loaded: Mutex::default(),
        running: Mutex::default(),
        asked: Mutex::default(),
        wanted: Mutex::default(),
    });
    let writing = tokio::spawn(write(outbox, messages, Arc::downgrade(&worker)));
    let inbox = BufReader::with_capacity(64 << 10, Inbox::new(socket)?);
    // What goes wrong here ends the process, whatever its threads do.
    read(inbox, &worker).await?;
    // The writer ends when the last sender, which a running call holds, is gone.
    drop(worker);
    writing.await.map_err(io::Error::other)?
}

struct Worker {
    host: Host,
    before_call: BeforeCall,
    /// A call that keeps its thread for so long never gives it back.
    stuck: Duration,
    began: Instant,
    out: mpsc::UnboundedSender<FromWorker>,
    next_host_call: AtomicU64,
    loaded: Mutex<HashMap<Digest, Arc<OnceCell<Plugin>>>>,
    /// Calls that have not answered. Who takes one out is the one who answers it, a cancelled one too:
    /// it stays until its guest is gone, so that one which keeps its thread is seen.
    running: Mutex<HashMap<CallId, Running>>,
    asked: Mutex<HashMap<u64, oneshot::Sender<HostReply>>>,
    wanted: Mutex<HashMap<Digest, oneshot::Sender<Result<File, String>>>>,
}

/// A call that has not answered.
struct Running {
    task: Option<AbortHandle>,
    on_thread_since: Arc<OnThread>,
    is_cancelled: bool,
}

/// When a call got the thread it has now, in milliseconds since the worker began; zero while it waits.
#[derive(Default)]
struct OnThread(AtomicU64);

async fn read(mut socket: BufReader<Inbox>, worker: &Arc<Worker>) -> io::Result<()> {
    let mut frame = Vec::new();
    loop {
        let mut prefix = [0; perpend_worker_protocol::PREFIX_BYTES];
        match socket.read_exact(&mut prefix).await {
            // The server is gone: nobody wants the answers.
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
                if let Some(asker) = lock(&worker.asked).remove(&id) {
                    drop(asker.send(reply));
                }
            }
            ToWorker::Component { digest, outcome } => {
                let outcome = outcome.and_then(|()| {
                    let file = socket.get_mut().next_file();
                    file.ok_or_else(|| "the server sent no artifact".to_owned())
                });
                if let Some(asker) = lock(&worker.wanted).remove(&digest) {
                    drop(asker.send(outcome));
                }
            }
            ToWorker::Cancel(ids) => ids.into_iter().for_each(|id| worker.cancel(id)),
            ToWorker::Ping(number) => {
                worker.look_for_stuck()?;
                let is_short = worker.host.is_short_of_memory();
                drop(worker.out.send(FromWorker::Pong { number, is_short }));
            }
            ToWorker::Shutdown => return Ok(()),
            ToWorker::Start(_) => return Err(io::Error::other("`Start` came twice")),
        }
        if FRAME_BYTES < frame.capacity() {
            frame = Vec::new();
        }
    }
}

impl Worker {
    fn start(self: &Arc<Self>, id: CallId, tenant: Tenant, call: Arc<EvaluationCall>) {
        let on_thread_since = Arc::new(OnThread::default());
        let running = Running {
            task: None,
            on_thread_since: Arc::clone(&on_thread_since),
            is_cancelled: false,
        };
        lock(&self.running).insert(id, running);
        let worker = Arc::clone(self);
        // Moved into the task: it answers also when the task is cancelled before it began.
        let open = Open { worker: Arc::clone(self), id };
        let task = tokio::spawn(async move {
            let mut evaluation = pin!(worker.evaluate(id, tenant, Arc::unwrap_or_clone(call)));
            let result = poll_fn(|context| {
                let now = worker.began.elapsed().as_millis() as u64;
                on_thread_since.0.store(now.max(1), Ordering::Relaxed);
                let polled = evaluation.as_mut().poll(context);
                on_thread_since.0.store(0, Ordering::Relaxed);
                polled
            });
            let result = result.await;
            open.worker.answer(id, result);
        });
        if let Some(running) = lock(&self.running).get_mut(&id) {
            running.task = Some(task.abort_handle());
        }
    }

    /// Guests give their thread back at each tick, so a call that keeps it hangs in the host. It cannot be
    /// stopped, and its neighbours would go on without the thread: the worker ends, and another is started.
    fn look_for_stuck(&self) -> io::Result<()> {
        let now = self.began.elapsed().as_millis() as u64;
        let longest = lock(&self.running)
            .values()
            .map(|running| running.on_thread_since.0.load(Ordering::Relaxed))
            .filter(|since| *since != 0)
            .map(|since| now.saturating_sub(since))
            .max();
        match longest {
            Some(longest) if self.stuck.as_millis() < longest.into() => {
                Err(io::Error::other(format!("a call has kept its thread for {longest} ms")))
            }
            _ => Ok(()),
        }
    }

    /// Answers a call that is open still.
    fn answer(&self, id: CallId, result: CallResult) {
        if lock(&self.running).remove(&id).is_some() {
            drop(self.out.send(FromWorker::Results(vec![(id, result)])));
        }
    }

    /// The answer comes when the guest has let go of its thread, which it does at its next tick.
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
            Err(why) => without_scores(FailureClass::Internal, &why),
        }
    }

    fn cell(&self, digest: Digest) -> Arc<OnceCell<Plugin>> {
        let mut loaded = lock(&self.loaded);
        if MAX_LOADED <= loaded.len() && !loaded.contains_key(&digest) {
            loaded.retain(|_, cell| 1 < Arc::strong_count(cell));
        }
        Arc::clone(loaded.entry(digest).or_default())
    }

    /// What the server sends; where that does not fit, what it sends after it had it compiled again.
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
        let (asker, answer) = oneshot::channel();
        lock(&self.wanted).insert(digest, asker);
        drop(self.out.send(FromWorker::NeedsComponent { digest, rejected }));
        answer.await.map_err(|_| "the server is gone".to_owned())?
    }
}

/// A call that has no answer yet. It gets one even when it is cancelled or the host panics under it.
struct Open {
    worker: Arc<Worker>,
    id: CallId,
}

impl Drop for Open {
    fn drop(&mut self) {
        // It was answered, which is nearly always so.
        let Some(running) = lock(&self.worker.running).remove(&self.id) else {
            return;
        };
        let (class, message) = match running.is_cancelled {
            true => (FailureClass::Cancelled, "the call was cancelled"),
            false => (
                FailureClass::Internal,
                "the host failed at this call; the log of the server says more",
            ),
        };
        let result = without_scores(class, message);
        drop(self.worker.out.send(FromWorker::Results(vec![(self.id, result)])));
    }
}

fn without_scores(class: FailureClass, message: &str) -> CallResult {
    CallResult { outcome: Err(failure(class, message)), ..CallResult::empty() }
}

/// Asks the server over the socket, in the name of one call.
struct SocketPort {
    worker: Arc<Worker>,
    call: CallId,
}

impl Port for SocketPort {
    fn call(&self, request: HostRequest) -> BoxFuture<'static, HostReply> {
        let (worker, call) = (Arc::clone(&self.worker), self.call);
        Box::pin(async move {
            let id = worker.next_host_call.fetch_add(1, Ordering::Relaxed);
            let unavailable = request.unavailable("the server is gone");
            let (asker, answer) = oneshot::channel();
            lock(&worker.asked).insert(id, asker);
            let _forget = Forget { worker: &worker, id };
            drop(worker.out.send(FromWorker::HostCall { id, call, request }));
            answer.await.unwrap_or(unavailable)
        })
    }
}

/// A call that ends while it waits takes its question along.
struct Forget<'a> {
    worker: &'a Worker,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        lock(&self.worker.asked).remove(&self.id);
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
            // The calls that can go on do so first: many answers are one write. A lone call has none to
            // wait for.
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

/// A panic elsewhere does not make a map unusable: each change of one is a single step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
