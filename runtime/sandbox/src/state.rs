//! The state of one instance: its context, log, host-call port and limits. Dropped with the instance.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_domain::plugin::{Failure, FailureClass, LogLine};
use perpend_worker_protocol::host_call::{Allowance, ModelError, TraceError};
use perpend_worker_protocol::{HostReply, HostRequest, Port};
use rand::SeedableRng;
use rand::rngs::StdRng;
use wasmtime::component::ResourceTable;
use wasmtime::{ResourceLimiter, Result, bail};
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxView, WasiView};

use crate::bindings::{self, context, log, trace_reader};
use crate::engine::{MAX_CORE_INSTANCES, MAX_MEMORIES, MAX_TABLE_ELEMENTS, MAX_TABLES};
use crate::handles::HandleBudget;
use crate::meter::{Meter, ModelCall};

const MAX_LOG_LINES: usize = 200;
const MAX_LOG_BYTES: usize = 8 << 10;
const MAX_STREAM_BYTES: usize = 16 << 10;
pub(crate) const MAX_HANDLES: usize = 1_000;
/// The Go runtime does not start with a clock at zero.
const MONOTONIC_NS: u64 = 1_000_000_000;

/// Denies every host call.
#[derive(Clone, Copy, Debug)]
pub struct DenyAllPort;

impl Port for DenyAllPort {
    fn call(&self, request: HostRequest) -> BoxFuture<'static, HostReply> {
        Box::pin(std::future::ready(request.not_granted()))
    }
}

/// Pauses the wall-clock limit of its call during model calls.
pub(crate) struct TimedPort {
    pub(crate) port: Arc<dyn Port>,
    pub(crate) meter: Arc<Meter>,
}

impl Port for TimedPort {
    fn call(&self, request: HostRequest) -> BoxFuture<'static, HostReply> {
        if !request.is_model_call() {
            return self.port.call(request);
        }
        let model_call = ModelCall::new(&self.meter);
        let reply = self.port.call(request);
        Box::pin(async move {
            let _model_call = model_call;
            reply.await
        })
    }
}

/// The data of a store.
pub(crate) struct State {
    pub(crate) seed: u64,
    pub(crate) run_time_ms: u64,
    /// The call is `describe`, which may not make host calls.
    pub(crate) is_describing: bool,
    pub(crate) limits: MemoryLimits,
    /// The class for the error `upstream`: of the last host call that failed; `malformed_output` when completions arrived
    /// and none failed.
    pub(crate) last_upstream: Option<FailureClass>,
    port: Arc<dyn Port>,
    log: Vec<LogLine>,
    n_log_dropped: usize,
    pub(crate) allowance: Allowance,
    pub(crate) table: ResourceTable,
    pub(crate) handles: HandleBudget,
    // Created on first use; most guests do not need it.
    wasi: Option<Box<Wasi>>,
}

struct Wasi {
    ctx: WasiCtx,
    stdout: MemoryOutputPipe,
    stderr: MemoryOutputPipe,
}

impl State {
    pub(crate) fn new(
        seed: u64,
        run_time_ms: u64,
        limits: MemoryLimits,
        port: Arc<dyn Port>,
    ) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_HANDLES);
        Self {
            seed,
            run_time_ms,
            is_describing: false,
            limits,
            last_upstream: None,
            port,
            log: Vec::new(),
            n_log_dropped: 0,
            allowance: Allowance::default(),
            table,
            handles: HandleBudget::default(),
            wasi: None,
        }
    }

    /// The log of the call: the logged lines, then the standard output and standard error.
    pub(crate) fn into_log(mut self) -> Vec<LogLine> {
        if let Some(wasi) = self.wasi.take() {
            for (name, pipe) in [("stdout", wasi.stdout), ("stderr", wasi.stderr)] {
                let text = pipe.contents();
                if !text.is_empty() {
                    let text = String::from_utf8_lossy(&text);
                    // A stream may hold two lines of maximum length.
                    for chunk in chunks(&text, MAX_LOG_BYTES) {
                        self.add_line("info", format!("{name}: {chunk}"), None);
                    }
                }
            }
        }
        if 0 < self.n_log_dropped {
            let note = format!("{} log lines over the limit were dropped", self.n_log_dropped);
            self.log.truncate(MAX_LOG_LINES - 1);
            self.log.push(LogLine { level: "warn".into(), message: note, fields: None });
        }
        self.log
    }

    fn add_line(&mut self, level: &str, mut message: String, fields: Option<String>) {
        if MAX_LOG_LINES <= self.log.len() {
            self.n_log_dropped += 1;
            return;
        }
        cut(&mut message, MAX_LOG_BYTES);
        let fields = fields.filter(|json| json.len() <= MAX_LOG_BYTES && is_object(json));
        self.log.push(LogLine { level: level.to_owned(), message, fields });
    }

    pub(crate) async fn host_call(&mut self, request: HostRequest) -> HostReply {
        if self.is_describing {
            return request.not_granted();
        }
        self.port.call(request).await
    }

    /// Records the class of a failed model call.
    pub(crate) fn record_model_error(&mut self, error: &ModelError) {
        self.last_upstream = Some(match error {
            ModelError::Cancelled => FailureClass::Cancelled,
            ModelError::NotGranted(_) => FailureClass::PluginError,
            ModelError::Refused(_) => FailureClass::Refused,
            _ => FailureClass::UpstreamUnavailable,
        });
    }

    /// Records the class of a failed read, and converts the error.
    pub(crate) fn record_trace_error(&mut self, error: TraceError) -> trace_reader::TraceError {
        self.last_upstream = Some(match error {
            TraceError::Unavailable(_) => FailureClass::UpstreamUnavailable,
            TraceError::Cancelled => FailureClass::Cancelled,
            _ => FailureClass::PluginError,
        });
        bindings::trace_error(error)
    }
}

impl context::Host for State {
    async fn seed(&mut self) -> Result<u64> {
        if self.is_describing {
            bail!("`describe` called `context.seed`: host calls are denied there");
        }
        Ok(self.seed)
    }

    async fn run_time(&mut self) -> Result<u64> {
        if self.is_describing {
            bail!("`describe` called `context.run-time`: host calls are denied there");
        }
        Ok(self.run_time_ms)
    }
}

impl log::Host for State {
    async fn log(
        &mut self,
        level: log::Level,
        message: String,
        fields: Option<String>,
    ) -> Result<()> {
        let level = match level {
            log::Level::Debug => "debug",
            log::Level::Info => "info",
            log::Level::Warn => "warn",
            log::Level::Error => "error",
        };
        self.add_line(level, message, fields);
        Ok(())
    }
}

impl bindings::types::Host for State {}

impl WasiView for State {
    /// An inert WASI: no environment, arguments, directories or network, constant clocks, and random numbers derived from the
    /// seed.
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let wasi = self.wasi.get_or_insert_with(|| Box::new(inert(self.seed, self.run_time_ms)));
        WasiCtxView { ctx: &mut wasi.ctx, table: &mut self.table }
    }
}

fn inert(seed: u64, run_time_ms: u64) -> Wasi {
    let stdout = MemoryOutputPipe::new(MAX_STREAM_BYTES);
    let stderr = MemoryOutputPipe::new(MAX_STREAM_BYTES);
    let ctx = WasiCtx::builder()
        .stdout(stdout.clone())
        .stderr(stderr.clone())
        .wall_clock(ConstantClock(Duration::from_millis(run_time_ms)))
        .monotonic_clock(ConstantClock(Duration::from_nanos(MONOTONIC_NS)))
        .secure_random(StdRng::seed_from_u64(seed))
        .insecure_random(StdRng::seed_from_u64(!seed))
        .insecure_random_seed(u128::from(seed))
        .socket_addr_check(|_, _| Box::pin(std::future::ready(false)))
        .allow_ip_name_lookup(false)
        .allow_tcp(false)
        .allow_udp(false)
        .build();
    Wasi { ctx, stdout, stderr }
}

struct ConstantClock(Duration);

impl HostWallClock for ConstantClock {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }
    fn now(&self) -> Duration {
        self.0
    }
}

impl HostMonotonicClock for ConstantClock {
    fn resolution(&self) -> u64 {
        1_000_000
    }
    fn now(&self) -> u64 {
        MONOTONIC_NS
    }
}

/// Limits the total memory and table elements of all instances in a store.
#[derive(Debug)]
pub(crate) struct MemoryLimits {
    bytes_left: usize,
    /// Total bytes of memory, shared with `pressure`.
    memory_bytes: Arc<AtomicU64>,
    elements_left: usize,
    pub(crate) was_refused: bool,
}

impl MemoryLimits {
    pub(crate) fn new(memory_bytes: u64) -> Self {
        Self {
            bytes_left: usize::try_from(memory_bytes).unwrap_or(usize::MAX),
            memory_bytes: Arc::default(),
            elements_left: MAX_TABLE_ELEMENTS,
            was_refused: false,
        }
    }

    pub(crate) fn memory_bytes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.memory_bytes)
    }

    fn take(left: &mut usize, was_refused: &mut bool, current: usize, desired: usize) -> bool {
        let rest = left.checked_sub(desired.saturating_sub(current));
        *was_refused |= rest.is_none();
        *left = rest.unwrap_or(*left);
        rest.is_some()
    }
}

impl ResourceLimiter for MemoryLimits {
    fn memory_growing(&mut self, now: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        let is_granted = Self::take(&mut self.bytes_left, &mut self.was_refused, now, desired);
        if is_granted {
            let n_bytes = desired.saturating_sub(now) as u64;
            self.memory_bytes.fetch_add(n_bytes, Ordering::Relaxed);
        }
        Ok(is_granted)
    }

    fn table_growing(&mut self, now: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        Ok(Self::take(&mut self.elements_left, &mut self.was_refused, now, desired))
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> Result<()> {
        self.was_refused = true;
        Ok(())
    }

    fn instances(&self) -> usize {
        MAX_CORE_INSTANCES as usize
    }

    fn memories(&self) -> usize {
        MAX_MEMORIES as usize
    }

    fn tables(&self) -> usize {
        MAX_TABLES as usize
    }
}

/// Truncates `text` to `max` bytes, and appends a mark.
pub(crate) fn cut(text: &mut String, max: usize) {
    const MARK: &str = "… [cut]";
    if max < text.len() {
        text.truncate(text.floor_char_boundary(max - MARK.len()));
        text.push_str(MARK);
    }
}

fn chunks(text: &str, max: usize) -> Vec<&str> {
    let mut rest = text;
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        let (chunk, tail) = rest.split_at(rest.floor_char_boundary(max - 16));
        chunks.push(chunk);
        rest = tail;
    }
    chunks
}

/// Whether `json` is an object of at most 128 levels, the limit of serde. The limit of the contract is 64.
pub(crate) fn is_object(json: &str) -> bool {
    serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(json).is_ok()
}

/// A failure with a truncated message.
pub(crate) fn failure(class: FailureClass, message: impl Into<String>) -> Failure {
    let mut message = message.into();
    cut(&mut message, 4 << 10);
    Failure { class, message }
}
