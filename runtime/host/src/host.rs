//! One call: a fresh instance, its limits, and what its end means.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use assay_domain::plugin::{
    Call, CallResult, Digest, EvaluatorInfo, Failure, FailureClass, Limits, LogLine, PluginInfo,
    PluginScore,
};
use tokio::sync::Semaphore;
use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Engine, Store, UpdateDeadline};

use crate::artifact::{ArtifactError, Artifacts};
use crate::bindings::{self, Judge, JudgePre, types::EvalError};
use crate::checks;
use crate::engine::{self, Allocation, Ticker};
use crate::meter::{Meter, Metered};
use crate::state::{NothingGranted, Port, State, failure};

/// How a host is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Calls with a live instance at a time; others wait.
    pub max_live: u32,
    /// The most memory any call may be allowed.
    pub max_memory_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_live: 256,
            max_memory_bytes: Limits::default().memory_bytes,
        }
    }
}

/// The host cannot start.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The engine or its linker.
    #[error("the WebAssembly engine cannot start: {0}")]
    Engine(String),
    /// The ticking thread.
    #[error("the epoch thread cannot start: {0}")]
    Thread(#[from] std::io::Error),
    /// The folder of compiled components.
    #[error(transparent)]
    Artifacts(#[from] ArtifactError),
}

/// Runs guests. One per process.
pub struct Host {
    engine: Engine,
    linker: Linker<State>,
    ticker: Ticker,
    live: Semaphore,
    max_live: u32,
    artifacts: Artifacts,
    notes: Vec<String>,
}

/// A component, ready to make instances of.
pub struct Plugin {
    pre: JudgePre<State>,
    info: PluginInfo,
    /// Share of the pool an instance takes.
    weight: u32,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

impl Plugin {
    /// What it says about itself.
    #[must_use]
    pub fn info(&self) -> &PluginInfo {
        &self.info
    }

    fn evaluator(&self, id: &str) -> Option<&EvaluatorInfo> {
        self.info
            .evaluators
            .iter()
            .find(|evaluator| evaluator.id == id)
    }
}

/// The CPU limit was reached.
#[derive(Debug, thiserror::Error)]
#[error("the CPU limit was reached")]
struct CpuLimit;

/// How a guest call ended, before it is put into words.
enum End<T> {
    Answer(T),
    Error(wasmtime::Error),
    WallLimit,
}

impl Host {
    /// A host with a pool of instances and a folder of compiled components.
    ///
    /// # Errors
    /// When the engine cannot start or the folder is not safe.
    pub fn new(settings: &Settings, cache_dir: &Path) -> Result<Self, HostError> {
        let Settings {
            max_live,
            max_memory_bytes: memory_bytes,
        } = *settings;
        let max_live = max_live.max(16);
        Self::with(
            Allocation::Pool {
                max_live,
                memory_bytes,
            },
            max_live,
            cache_dir,
        )
    }

    /// A host without a pool, for the compile process.
    pub(crate) fn on_demand(cache_dir: &Path) -> Result<Self, HostError> {
        Self::with(Allocation::OnDemand, 16, cache_dir)
    }

    fn with(allocation: Allocation, max_live: u32, cache_dir: &Path) -> Result<Self, HostError> {
        let wrong = |error: wasmtime::Error| HostError::Engine(format!("{error:#}"));
        let (engine, notes) = engine::engine(allocation).map_err(wrong)?;
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).map_err(wrong)?;
        Judge::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state).map_err(wrong)?;
        Ok(Self {
            ticker: Ticker::start(&engine)?,
            live: Semaphore::new(max_live as usize),
            artifacts: Artifacts::open(cache_dir, &engine)?,
            max_live,
            engine,
            linker,
            notes,
        })
    }

    /// What could not be set up as wished.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The folder of compiled components.
    #[must_use]
    pub fn artifacts(&self) -> &Artifacts {
        &self.artifacts
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn linker(&self) -> &Linker<State> {
        &self.linker
    }

    /// A component that was compiled before.
    ///
    /// # Errors
    /// When its artifact is missing or unusable: it has to be compiled again.
    pub fn load(&self, digest: Digest) -> Result<Plugin, ArtifactError> {
        let (component, info) = self.artifacts.load(&self.engine, digest)?;
        self.plugin(&component, info)
            .map_err(|error| ArtifactError::Refused(format!("{error:#}")))
    }

    fn plugin(&self, component: &Component, info: PluginInfo) -> wasmtime::Result<Plugin> {
        // The pool has two memories and four tables per live call; larger components count more.
        let weight = component.resources_required().map_or(1, |needs| {
            needs
                .num_memories
                .div_ceil(2)
                .max(needs.num_tables.div_ceil(4))
                .max(1)
        });
        let pre = JudgePre::new(self.linker.instantiate_pre(component)?)?;
        Ok(Plugin {
            pre,
            info,
            weight: weight.min(self.max_live),
        })
    }

    /// Makes one call in a fresh instance. Never fails as such: what goes wrong is in the outcome.
    pub async fn evaluate(&self, plugin: &Plugin, call: Call, port: Arc<dyn Port>) -> CallResult {
        let Some(evaluator) = plugin.evaluator(&call.evaluator_id) else {
            let message = format!("the plug-in has no evaluator {:?}", call.evaluator_id);
            return refused(failure(FailureClass::InvalidConfig, message));
        };
        let Ok(_live) = self.live.acquire_many(plugin.weight).await else {
            return refused(failure(FailureClass::Internal, "the host is shutting down"));
        };
        let meter = Meter::new();
        let Call {
            evaluator_id,
            config,
            item,
            seed,
            run_time_ms,
            limits,
            ..
        } = call;
        let state = State::new(seed, run_time_ms, limits.memory_bytes, port);
        let mut store = self.store(state, &limits, &meter);
        let (item, config) = (bindings::item(item), config.to_string());
        let running = self.ticker.running();
        let end = bounded(&meter, limits.wall_ms, async {
            let judge = plugin.pre.instantiate_async(&mut store).await?;
            let guest = judge.assay_evaluator_evaluator();
            guest
                .call_evaluate(&mut store, &evaluator_id, &item, &config)
                .await
        })
        .await;
        drop(running);
        let outcome = match end {
            End::Answer(Ok(scores)) => {
                let scores: Vec<PluginScore> = scores.into_iter().map(bindings::score).collect();
                checks::scores(scores, evaluator, &limits)
            }
            End::Answer(Err(error)) => Err(reported(error, store.data().last_upstream)),
            End::Error(error) => Err(stopped(&error, store.data().limits.refused, &limits)),
            End::WallLimit => Err(wall_limit(&limits)),
        };
        let cpu_us = u64::try_from(meter.spent().as_micros()).unwrap_or(u64::MAX);
        CallResult {
            outcome,
            cpu_us,
            log: store.into_data().into_log(),
        }
    }

    /// Asks a component what it is, with everything denied. The instance is made here, so each export
    /// of the contract was looked up with its type.
    pub(crate) async fn describe(
        &self,
        pre: &JudgePre<State>,
    ) -> Result<(PluginInfo, Vec<LogLine>), Failure> {
        let limits = Limits {
            wall_ms: 30_000,
            ..Limits::default()
        };
        let meter = Meter::new();
        let mut state = State::new(0, 0, limits.memory_bytes, Arc::new(NothingGranted));
        state.describing = true;
        let mut store = self.store(state, &limits, &meter);
        let running = self.ticker.running();
        let end = bounded(&meter, limits.wall_ms, async {
            let judge = pre.instantiate_async(&mut store).await?;
            judge
                .assay_evaluator_evaluator()
                .call_describe(&mut store)
                .await
        })
        .await;
        drop(running);
        match end {
            End::Answer(info) => Ok((bindings::plugin_info(info), store.into_data().into_log())),
            End::Error(error) => Err(stopped(&error, store.data().limits.refused, &limits)),
            End::WallLimit => Err(wall_limit(&limits)),
        }
    }

    fn store(&self, state: State, limits: &Limits, meter: &Arc<Meter>) -> Store<State> {
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| &mut state.limits);
        store.set_hostcall_fuel(limits.output_bytes as usize);
        store.set_epoch_deadline(1);
        let allowed = Duration::from_millis(limits.cpu_ms.into());
        let meter = Arc::clone(meter);
        store.epoch_deadline_callback(move |_| {
            if allowed < meter.spent_so_far() {
                return Err(CpuLimit.into());
            }
            // At each tick the others get their turn: beside endless loops short calls stay short.
            Ok(UpdateDeadline::YieldCustom(
                1,
                Box::pin(tokio::task::yield_now()),
            ))
        });
        store
    }
}

async fn bounded<T>(
    meter: &Arc<Meter>,
    wall_ms: u32,
    call: impl Future<Output = wasmtime::Result<T>>,
) -> End<T> {
    let metered = Metered {
        meter: Arc::clone(meter),
        inner: Box::pin(call),
    };
    match tokio::time::timeout(Duration::from_millis(wall_ms.into()), metered).await {
        Ok(Ok(answer)) => End::Answer(answer),
        Ok(Err(error)) => End::Error(error),
        Err(_) => End::WallLimit,
    }
}

fn refused(failure: Failure) -> CallResult {
    CallResult {
        outcome: Err(failure),
        cpu_us: 0,
        log: Vec::new(),
    }
}

fn wall_limit(limits: &Limits) -> Failure {
    let message = format!("no answer within {} ms", limits.wall_ms);
    failure(FailureClass::WallTimeout, message)
}

/// The plug-in itself says why there are no scores.
fn reported(error: EvalError, last_upstream: Option<FailureClass>) -> Failure {
    let (class, message) = match error {
        EvalError::InvalidConfig(text) => (FailureClass::InvalidConfig, text),
        EvalError::InvalidInput(text) => (FailureClass::InvalidInput, text),
        EvalError::NotApplicable(text) => (FailureClass::NotApplicable, text),
        // Without a failed host call there is no reason to believe it.
        EvalError::Upstream(text) => (last_upstream.unwrap_or(FailureClass::PluginError), text),
        EvalError::Transient(text) => (FailureClass::Transient, text),
        EvalError::Internal(text) => (FailureClass::PluginError, text),
    };
    failure(class, message)
}

/// The engine stopped the call.
fn stopped(error: &wasmtime::Error, memory_refused: bool, limits: &Limits) -> Failure {
    let names = innermost_functions(error);
    if error.downcast_ref::<CpuLimit>().is_some() {
        let message = format!("more than {} ms of CPU time{names}", limits.cpu_ms);
        return failure(FailureClass::FuelExhausted, message);
    }
    let text = error.root_cause().to_string();
    if text.contains("fuel allocated for hostcalls") {
        let limit = limits.output_bytes;
        let message = format!("more than {limit} bytes handed over in one call{names}");
        return failure(FailureClass::OutputLimit, message);
    }
    if memory_refused {
        let limit = limits.memory_bytes >> 20;
        let message = format!(
            "more than {limit} MiB of memory or too many table elements, then: {text}{names}"
        );
        return failure(FailureClass::MemoryLimit, message);
    }
    if let Some(trap) = error.downcast_ref::<wasmtime::Trap>() {
        return failure(FailureClass::PluginTrap, format!("{trap}{names}"));
    }
    if let Some(exit) = error.downcast_ref::<wasmtime_wasi::I32Exit>() {
        let message = format!("the plug-in ended itself with exit code {}{names}", exit.0);
        return failure(FailureClass::PluginTrap, message);
    }
    if error.is::<wasmtime::PoolConcurrencyLimitError>() {
        return failure(FailureClass::Internal, "the instance pool is exhausted");
    }
    if names.is_empty() && error.downcast_ref::<wasmtime::WasmBacktrace>().is_none() {
        let message = format!("the answer cannot be read: {error:#}");
        return failure(FailureClass::InvalidResult, message);
    }
    failure(FailureClass::PluginTrap, format!("{text}{names}"))
}

/// ` in a, called by b`, when the component has names.
fn innermost_functions(error: &wasmtime::Error) -> String {
    let Some(backtrace) = error.downcast_ref::<wasmtime::WasmBacktrace>() else {
        return String::new();
    };
    let text = backtrace.to_string();
    let names = text
        .lines()
        .filter_map(|line| line.split_once('!'))
        .map(|(_, name)| name.trim());
    let names: Vec<&str> = names
        .filter(|name| !name.starts_with("<wasm function"))
        .take(4)
        .collect();
    if names.is_empty() {
        String::new()
    } else {
        format!(" in {}", names.join(", called by "))
    }
}
