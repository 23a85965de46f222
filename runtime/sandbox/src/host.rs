//! The host: an engine, its linker, and the components it made ready.

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

/// How a host is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Calls with a live instance at a time; others wait.
    pub max_live: u32,
    /// The most memory any call may be allowed.
    pub max_memory_bytes: u64,
    /// What the whole process may have in memory: when it comes near, calls are held back. `None` where
    /// that is nobody's concern.
    pub max_resident_bytes: Option<u64>,
    /// Guests that run at a time: as many as there are processors for them.
    pub n_threads: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // Thousands of judges may wait for models at once. What each holds is small; 6 of the
            // 65,530 mappings that the kernel allows a process set the bound.
            max_live: 2_560,
            max_memory_bytes: Limits::default().memory_bytes,
            max_resident_bytes: None,
            n_threads: 2,
        }
    }
}

impl Settings {
    fn shape(&self) -> (Allocation, u32) {
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

/// The host cannot start.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The engine or its linker.
    #[error("the WebAssembly engine cannot start: {0}")]
    Engine(String),
    /// The ticking thread.
    #[error("the epoch thread cannot start: {0}")]
    Thread(#[from] std::io::Error),
    /// The process could not be confined as required.
    #[error("{0}")]
    Confinement(String),
    /// The folder of compiled components.
    #[error(transparent)]
    Artifacts(#[from] ArtifactError),
}

/// Runs guests. One per process.
pub struct Host {
    pub(crate) engine: Engine,
    linker: Linker<State>,
    pub(crate) ticker: Ticker,
    /// Who goes on when the memory of the process is short.
    pub(crate) pressure: Arc<Pressure>,
    /// Which of the calls run.
    pub(crate) processors: Processors,
    max_live: u32,
    artifacts: Artifacts,
    warnings: Vec<String>,
}

/// A component, ready to make instances of.
pub struct Plugin {
    pub(crate) pre: InstancePre<State>,
    pub(crate) exports: Exports,
    info: PluginInfo,
    /// Share of the pool an instance takes.
    pub(crate) weight: u32,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Plugin {
    /// What it says about itself.
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
    /// When the engine cannot start or the folder is not safe.
    pub fn new(settings: &Settings, cache_dir: &Path) -> Result<Self, HostError> {
        let mut host = Self::build(settings.shape(), settings.budget(), || Ok(()))?;
        host.artifacts = Artifacts::open(cache_dir, &host.engine)?;
        Ok(host)
    }

    /// As [`Self::new`], for a process that gives up its rights in `enter`: after the pool was made, which
    /// needs files of the kernel, and before there is a second thread. Components come as open files.
    pub(crate) fn confined(
        settings: &Settings,
        enter: impl FnOnce() -> Result<(), String>,
    ) -> Result<Self, HostError> {
        Self::build(settings.shape(), settings.budget(), enter)
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
        let wrong = |error: wasmtime::Error| HostError::Engine(format!("{error:#}"));
        let (engine, mut warnings) = engine::engine(allocation).map_err(wrong)?;
        let pressure = budget.map_or_else(|| Ok(Pressure::default()), Pressure::watching);
        let pressure = Arc::new(pressure.unwrap_or_else(|error| {
            warnings.push(format!(
                "the memory of the process cannot be looked at, and calls are not held back: {error}"
            ));
            Pressure::default()
        }));
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).map_err(wrong)?;
        Judge::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state).map_err(wrong)?;
        before_threads().map_err(HostError::Confinement)?;
        let max_live = match allocation {
            Allocation::Pool { max_live, .. } => max_live,
            Allocation::OnDemand => 16,
        };
        Ok(Self {
            ticker: Ticker::start(&engine, Arc::clone(&pressure))?,
            pressure,
            processors: Processors::new(n_threads as usize, max_live),
            artifacts: Artifacts::nowhere(&engine),
            max_live,
            engine,
            linker,
            warnings,
        })
    }

    /// What could not be set up as wished.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The folder of compiled components.
    #[must_use]
    pub fn artifacts(&self) -> &Artifacts {
        &self.artifacts
    }

    /// Whether calls are held back, or would be.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        self.pressure.is_short()
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
        self.plugin(&component, info).map_err(|error| ArtifactError::Refused(format!("{error:#}")))
    }

    /// A component in a sealed file whose sum the server checked.
    pub(crate) fn load_sealed(&self, file: &File) -> Result<Plugin, ArtifactError> {
        let (component, info) = artifact::load_sealed(&self.engine, file)?;
        self.plugin(&component, info).map_err(|error| ArtifactError::Refused(format!("{error:#}")))
    }

    fn plugin(&self, component: &Component, info: PluginInfo) -> wasmtime::Result<Plugin> {
        // The pool has two memories and four tables per live call; larger components count more.
        let weight = component.resources_required().map_or(1, |needs| {
            needs.num_memories.div_ceil(2).max(needs.num_tables.div_ceil(4)).max(1)
        });
        Ok(Plugin {
            pre: self.linker.instantiate_pre(component)?,
            exports: Exports::of(component)?,
            info,
            weight: weight.min(self.max_live),
        })
    }
}
