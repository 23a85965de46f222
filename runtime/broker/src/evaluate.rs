//! Where evaluations run: worker processes, or for tests and single-user use the server itself.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use perpend_catalog::Catalog;
use perpend_config::{Confinement, Evaluation};
use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::{Call, CallResult, Digest, Failure, FailureClass, PluginInfo};
use perpend_sandbox::{Host, HostError, Plugin};
use perpend_scheduler::Evaluate;
use perpend_storage::Store;
use perpend_worker_pool::{Components, Workers};
use perpend_worker_protocol::{Grants, Problem, SchemaAnswer, SchemaCheck, Unchecked};
use tokio::task::JoinSet;

use crate::broker::{Broker, Models};

/// Runs evaluators and looks into components.
#[derive(Debug)]
pub enum Engine {
    /// In child processes without access to database and keys.
    Processes(Workers),
    /// In this process.
    InProcess(Box<InProcess>),
}

/// The catalog as the place where components come from.
struct StoredComponents(Catalog);

impl Components for StoredComponents {
    fn component(&self, digest: Digest) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            match self.0.component(&digest).await {
                Ok(bytes) => bytes,
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(error, plugin.digest = %digest, "component not read");
                    None
                }
            }
        })
    }

    fn registered(&self) -> BoxFuture<'_, Option<Vec<Digest>>> {
        Box::pin(async move {
            let digests = self.0.component_digests().await;
            digests
                .inspect_err(|error| {
                    let error: &dyn std::error::Error = error;
                    tracing::error!(error, "the components are not known");
                })
                .ok()
        })
    }
}

/// Guests that run at a time in each of so many workers: together as many as there are processors.
fn n_processors(n_workers: usize) -> u32 {
    let n_all = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(n_all.div_ceil(n_workers.max(1))).unwrap_or(1)
}

impl Engine {
    /// Worker processes made from `program`.
    #[must_use]
    pub fn processes(
        store: &Store,
        program: PathBuf,
        cache_dir: PathBuf,
        settings: &Evaluation,
        models: Arc<dyn Models>,
    ) -> Self {
        let mut options = perpend_worker_pool::Options::new(program, cache_dir);
        options.n_workers = settings.n_workers;
        options.n_threads = n_processors(settings.n_workers);
        options.max_resident_bytes = settings.worker_memory_bytes;
        options.require_walls = settings.confinement == Confinement::Required;
        let components = Arc::new(StoredComponents(store.catalog.clone()));
        let broker = Broker::new(store, models);
        Self::Processes(Workers::start(options, components, Arc::new(broker)))
    }

    /// This process.
    ///
    /// # Errors
    /// When the WebAssembly engine cannot start.
    pub fn in_process(
        store: &Store,
        cache_dir: &Path,
        models: Arc<dyn Models>,
    ) -> Result<Self, HostError> {
        Ok(Self::InProcess(Box::new(InProcess {
            host: Arc::new(Host::new(
                &perpend_sandbox::Settings {
                    n_threads: n_processors(1),
                    ..perpend_sandbox::Settings::default()
                },
                cache_dir,
            )?),
            numbers: RandomState::new(),
            broker: Broker::new(store, models),
            catalog: store.catalog.clone(),
            cache_dir: cache_dir.into(),
            loaded: Arc::default(),
        })))
    }

    /// What a component is. It is compiled, unless this folder of compiled components has it already.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub async fn inspect(&self, bytes: &[u8]) -> Result<PluginInfo, Vec<Problem>> {
        match self {
            Self::Processes(workers) => workers.inspect_cached(bytes).await,
            Self::InProcess(own) => match own.host.load(Digest::of(bytes)) {
                // It was compiled and looked into before.
                Ok(plugin) => Ok(plugin.info().clone()),
                Err(_) => own.compile(bytes.to_vec()).await,
            },
        }
    }

    /// Holds values against a schema that somebody of a project wrote.
    ///
    /// # Errors
    /// When it asks for more than a check may cost, or the check failed.
    pub async fn hold(
        &self,
        project: &ProjectId,
        check: SchemaCheck,
    ) -> Result<SchemaAnswer, Unchecked> {
        match self {
            Self::Processes(workers) => workers.hold(project, &check).await,
            Self::InProcess(_) => {
                tokio::task::spawn_blocking(move || perpend_sandbox::hold(&check))
                    .await
                    .map_err(|error| Unchecked::Failed(error.to_string()))
            }
        }
    }

    /// Ends it when the calls in flight are answered.
    pub async fn shutdown(&self) {
        if let Self::Processes(workers) = self {
            workers.shutdown().await;
        }
    }
}

impl Evaluate for Engine {
    fn evaluate(&self, calls: Vec<Call>) -> BoxStream<'_, (usize, CallResult)> {
        match self {
            Self::Processes(workers) => workers.answers(calls).boxed(),
            Self::InProcess(own) => {
                // Tasks of their own: a call in a transaction must go on while whoever asked waits for the database.
                let mut running = JoinSet::new();
                for (place, call) in calls.into_iter().enumerate() {
                    let own = own.clone();
                    running.spawn(async move { (place, own.call(call).await) });
                }
                let answers = stream::unfold(running, async |mut running| {
                    loop {
                        match running.join_next().await? {
                            Ok(answer) => return Some((answer, running)),
                            Err(error) => tracing::error!(%error, "a call ended without an answer"),
                        }
                    }
                });
                answers.boxed()
            }
        }
    }

    fn answer_withdrawn(&self) {
        match self {
            Self::Processes(workers) => workers.answer_withdrawn(),
            // Each call begins when it is made.
            Self::InProcess(_) => {}
        }
    }
}

/// A host in the server's own process, cheap to clone.
#[derive(Clone)]
pub struct InProcess {
    host: Arc<Host>,
    broker: Broker,
    catalog: Catalog,
    cache_dir: Arc<Path>,
    loaded: Arc<Mutex<HashMap<Digest, Arc<Plugin>>>>,
    /// Numbers projects, which take turns on the processors.
    numbers: RandomState,
}

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcess")
            .field("cache_dir", &self.cache_dir)
            .finish_non_exhaustive()
    }
}

fn failed(class: FailureClass, message: String) -> CallResult {
    CallResult {
        outcome: Err(Failure { class, message }),
        cpu_us: 0,
        log: Vec::new(),
    }
}

impl InProcess {
    async fn compile(&self, bytes: Vec<u8>) -> Result<PluginInfo, Vec<Problem>> {
        let cache_dir = Arc::clone(&self.cache_dir);
        let work = move || perpend_sandbox::compile(&bytes, &cache_dir, Grants::ALL);
        let compiled = tokio::task::spawn_blocking(work).await;
        compiled.unwrap_or_else(|error| Err(vec![Problem::new("compile", error.to_string())]))
    }

    async fn plugin(&self, digest: Digest) -> Result<Arc<Plugin>, String> {
        let known = || self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plugin) = known().get(&digest) {
            return Ok(Arc::clone(plugin));
        }
        let load = || {
            let host = Arc::clone(&self.host);
            tokio::task::spawn_blocking(move || host.load(digest))
        };
        let plugin = match load().await.map_err(|error| error.to_string())? {
            Ok(plugin) => plugin,
            Err(missing) => {
                // A missing or damaged artifact is made again from the component.
                tracing::info!(plugin.digest = %digest, reason = %missing, "compiling");
                let bytes = self
                    .catalog
                    .component(&digest)
                    .await
                    .map_err(|error| error.to_string())?;
                let bytes = bytes.ok_or("the component is not registered")?;
                self.compile(bytes)
                    .await
                    .map_err(|problems| format!("{problems:?}"))?;
                let loaded = load().await.map_err(|error| error.to_string())?;
                loaded.map_err(|error| error.to_string())?
            }
        };
        let plugin = Arc::new(plugin);
        known().insert(digest, Arc::clone(&plugin));
        Ok(plugin)
    }

    async fn call(&self, call: Call) -> CallResult {
        match self.plugin(call.plugin).await {
            Ok(plugin) => {
                let port = self.broker.port(&call);
                let project = call.origin.as_ref().map(|origin| &origin.maker.project);
                let tenant = self.numbers.hash_one(project);
                self.host.evaluate_for(tenant, &plugin, call, port).await
            }
            Err(message) => failed(FailureClass::Internal, message),
        }
    }
}
