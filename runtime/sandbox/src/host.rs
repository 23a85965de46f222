//! The host: an engine, its linker and its loaded components.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use perpend_domain::plugin::{Digest, EvaluatorInfo, Limits, PluginInfo};
use wasmtime::Engine;
use wasmtime::component::{Component, HasSelf, InstancePre, Linker};

use crate::artifact::{self, ArtifactError, Artifacts};
use crate::bindings::Judge;
use crate::engine::{self, Allocation, Ticker};
use crate::guest::Exports;
use crate::pressure::{Budget, Pressure};
use crate::processors::Processors;
use crate::state::State;

/// Settings of a host.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Maximum number of live instances. Further calls wait.
    pub max_live: u32,
    /// Maximum memory limit of a call.
    pub max_memory_bytes: u64,
    /// Memory limit of the process. Calls are paused when the process approaches it. `None` for no limit.
    pub max_resident_bytes: Option<u64>,
    /// Maximum number of guests that run at a time.
    pub n_threads: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // Thousands of judges may wait for models. The kernel limits a process to 65,530 mappings, and each instance
            // needs 6.
            max_live: 2_560,
            max_memory_bytes: Limits::default().memory_bytes,
            max_resident_bytes: None,
            n_threads: 2,
        }
    }
}

impl Settings {
    fn allocation(&self) -> (Allocation, u32) {
        let allocation = Allocation::Pool {
            max_live: self.max_live.max(16),
            memory_bytes: self.max_memory_bytes,
        };
        (allocation, self.n_threads)
    }

    fn budget(&self) -> Option<Budget> {
        Some(Budget {
            max_resident_bytes: self.max_resident_bytes?,
            max_call_bytes: self.max_memory_bytes,
            n_threads: self.n_threads,
        })
    }
}

/// Why a host cannot start.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The engine or its linker failed.
    #[error("the WebAssembly engine cannot start: {0}")]
    Engine(String),
    /// The epoch thread cannot start.
    #[error("the epoch thread cannot start: {0}")]
    Thread(#[from] std::io::Error),
    /// The process could not be confined as required.
    #[error("{0}")]
    Confinement(String),
    /// The folder of compiled components is unusable.
    #[error(transparent)]
    Artifacts(#[from] ArtifactError),
}

/// Runs guests. A process has one.
pub struct Host {
    pub(crate) engine: Engine,
    linker: Linker<State>,
    pub(crate) ticker: Ticker,
    /// Pauses calls when memory is short.
    pub(crate) pressure: Arc<Pressure>,
    /// Schedules the calls.
    pub(crate) processors: Processors,
    max_live: u32,
    artifacts: Artifacts,
    warnings: Vec<String>,
}

/// A loaded component.
pub struct Plugin {
    pub(crate) pre: InstancePre<State>,
    pub(crate) exports: Exports,
    info: PluginInfo,
    /// Number of places in the pool per instance.
    pub(crate) weight: u32,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Plugin {
    /// The description of the plug-in.
    #[must_use]
    pub fn info(&self) -> &PluginInfo {
        &self.info
    }

    pub(crate) fn evaluator(&self, id: &str) -> Option<&EvaluatorInfo> {
        self.info.evaluators.iter().find(|evaluator| evaluator.id == id)
    }
}

impl Host {
    /// A host with a pool of instances and a folder of compiled components.
    ///
    /// # Errors
    /// When the engine cannot start or the folder is unusable.
    pub fn new(settings: &Settings, cache_dir: &Path) -> Result<Self, HostError> {
        let mut host = Self::build(settings.allocation(), settings.budget(), || Ok(()))?;
        host.artifacts = Artifacts::open(cache_dir, &host.engine)?;
        Ok(host)
    }

    /// Like [`Self::new`], but without a folder. Calls `enter` to confine the process: after the creation of the pool, which
    /// reads files of the kernel, and before the first thread starts.
    pub(crate) fn confined(
        settings: &Settings,
        enter: impl FnOnce() -> Result<(), String>,
    ) -> Result<Self, HostError> {
        Self::build(settings.allocation(), settings.budget(), enter)
    }

    /// A host without a pool and a folder, for the compile process.
    pub(crate) fn on_demand() -> Result<Self, HostError> {
        Self::build((Allocation::OnDemand, 1), None, || Ok(()))
    }

    fn build(
        (allocation, n_threads): (Allocation, u32),
        budget: Option<Budget>,
        before_threads: impl FnOnce() -> Result<(), String>,
    ) -> Result<Self, HostError> {
        let engine_error = |error: wasmtime::Error| HostError::Engine(format!("{error:#}"));
        let (engine, mut warnings) = engine::engine(allocation).map_err(engine_error)?;
        let pressure = budget.map_or_else(|| Ok(Pressure::default()), Pressure::new);
        let pressure = Arc::new(pressure.unwrap_or_else(|error| {
            warnings.push(format!(
                "cannot measure the memory of the process, and does not pause calls when it is short: {error}"
            ));
            Pressure::default()
        }));
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).map_err(engine_error)?;
        Judge::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)
            .map_err(engine_error)?;
        before_threads().map_err(HostError::Confinement)?;
        let max_live = match allocation {
            Allocation::Pool { max_live, .. } => max_live,
            Allocation::OnDemand => 16,
        };
        Ok(Self {
            ticker: Ticker::start(&engine, Arc::clone(&pressure))?,
            pressure,
            processors: Processors::new(n_threads as usize, max_live),
            artifacts: Artifacts::without_folder(&engine),
            max_live,
            engine,
            linker,
            warnings,
        })
    }

    /// Features of the platform that are missing.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The folder of compiled components.
    #[must_use]
    pub fn artifacts(&self) -> &Artifacts {
        &self.artifacts
    }

    /// Whether memory is short, so that calls are paused.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        self.pressure.is_short()
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn linker(&self) -> &Linker<State> {
        &self.linker
    }

    /// Loads a compiled component from the folder.
    ///
    /// # Errors
    /// When its artifact is missing or unusable, and the component must be compiled.
    pub fn load(&self, digest: Digest) -> Result<Plugin, ArtifactError> {
        let (component, info) = self.artifacts.load(&self.engine, digest)?;
        self.plugin(&component, info).map_err(|error| ArtifactError::Refused(format!("{error:#}")))
    }

    /// Loads a component from a sealed file whose checksum the server verified.
    pub(crate) fn load_sealed(&self, file: &File) -> Result<Plugin, ArtifactError> {
        let (component, info) = artifact::load_sealed(&self.engine, file)?;
        self.plugin(&component, info).map_err(|error| ArtifactError::Refused(format!("{error:#}")))
    }

    fn plugin(&self, component: &Component, info: PluginInfo) -> wasmtime::Result<Plugin> {
        // The pool has two memories and four tables per place; larger components need more places.
        let weight = component.resources_required().map_or(1, |needs| {
            needs.num_memories.div_ceil(2).max(needs.num_tables.div_ceil(4)).max(1)
        });
        Ok(Plugin {
            pre: self.linker.instantiate_pre(component)?,
            exports: Exports::new(component)?,
            info,
            weight: weight.min(self.max_live),
        })
    }
}
