//! The sandbox within the server process, for `evaluation.isolation = "in-process"`.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use perpend_broker::{Broker, LocalSandbox, Models};
use perpend_catalog::Catalog;
use perpend_domain::plugin::{
    CallResult, Digest, EvaluationCall, Failure, FailureClass, PluginInfo,
};
use perpend_sandbox::{Host, HostError, Plugin, Settings};
use perpend_storage::Store;
use perpend_worker_protocol::{CheckError, ComponentProblem, Grants, SchemaAnswer, SchemaCheck};
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinSet;

/// One component is compiled at a time, which bounds the memory, as with worker processes. Servers of one process share
/// it: they may have one cache.
static COMPILING: AsyncMutex<()> = AsyncMutex::const_new(());

/// Runs guests on threads of this process; cheap to clone.
#[derive(Clone)]
pub(crate) struct InProcess {
    host: Arc<Host>,
    broker: Broker,
    catalog: Catalog,
    cache_dir: Arc<Path>,
    loaded: Arc<Mutex<HashMap<Digest, Arc<Plugin>>>>,
    /// Hashes projects to tenant numbers for fair scheduling on the CPU cores.
    numbers: RandomState,
}

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcess").field("cache_dir", &self.cache_dir).finish_non_exhaustive()
    }
}

fn failed(class: FailureClass, message: String) -> CallResult {
    CallResult { outcome: Err(Failure { class, message }), ..CallResult::empty() }
}

impl InProcess {
    /// # Errors
    /// If the WebAssembly engine cannot start.
    pub(crate) fn new(
        store: &Store,
        cache_dir: &Path,
        models: Arc<dyn Models>,
    ) -> Result<Self, HostError> {
        let n_processors = std::thread::available_parallelism().map_or(1, usize::from);
        let settings =
            Settings { n_threads: u32::try_from(n_processors).unwrap_or(1), ..Settings::default() };
        Ok(Self {
            host: Arc::new(Host::new(&settings, cache_dir)?),
            numbers: RandomState::new(),
            broker: Broker::new(store, models),
            catalog: store.catalog.clone(),
            cache_dir: cache_dir.into(),
            loaded: Arc::default(),
        })
    }

    /// Compiles a component, unless another task did while this one waited.
    async fn compile(&self, bytes: Vec<u8>) -> Result<PluginInfo, Vec<ComponentProblem>> {
        let _guard = COMPILING.lock().await;
        if let Ok(plugin) = self.host.load(Digest::of(&bytes)) {
            return Ok(plugin.info().clone());
        }
        let cache_dir = Arc::clone(&self.cache_dir);
        let work = move || perpend_sandbox::compile(&bytes, &cache_dir, Grants::ALL);
        let compiled = tokio::task::spawn_blocking(work).await;
        compiled
            .unwrap_or_else(|error| Err(vec![ComponentProblem::new("compile", error.to_string())]))
    }

    async fn plugin(&self, digest: Digest) -> Result<Arc<Plugin>, String> {
        let loaded = || self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plugin) = loaded().get(&digest) {
            return Ok(Arc::clone(plugin));
        }
        let load = || {
            let host = Arc::clone(&self.host);
            tokio::task::spawn_blocking(move || host.load(digest))
        };
        let plugin = match load().await.map_err(|error| error.to_string())? {
            Ok(plugin) => plugin,
            Err(missing) => {
                // A missing or damaged artifact is compiled again from the component.
                tracing::info!(plugin.digest = %digest, reason = %missing, "compiling");
                let bytes =
                    self.catalog.component(&digest).await.map_err(|error| error.to_string())?;
                let bytes = bytes.ok_or("the component is not registered")?;
                self.compile(bytes).await.map_err(|problems| format!("{problems:?}"))?;
                let loaded = load().await.map_err(|error| error.to_string())?;
                loaded.map_err(|error| error.to_string())?
            }
        };
        let plugin = Arc::new(plugin);
        loaded().insert(digest, Arc::clone(&plugin));
        Ok(plugin)
    }

    async fn call(&self, call: EvaluationCall) -> CallResult {
        match self.plugin(call.plugin).await {
            Ok(plugin) => {
                let port = self.broker.port(&call);
                let project = call.origin.as_ref().map(|origin| &origin.context.project);
                let tenant = self.numbers.hash_one(project);
                self.host.evaluate_for(tenant, &plugin, call, port).await
            }
            Err(message) => failed(FailureClass::Internal, message),
        }
    }
}

impl LocalSandbox for InProcess {
    fn inspect<'a>(
        &'a self,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<PluginInfo, Vec<ComponentProblem>>> {
        Box::pin(async move {
            match self.host.load(Digest::of(bytes)) {
                Ok(plugin) => Ok(plugin.info().clone()),
                Err(_) => self.compile(bytes.to_vec()).await,
            }
        })
    }

    fn check_schema(&self, check: SchemaCheck) -> BoxFuture<'_, Result<SchemaAnswer, CheckError>> {
        Box::pin(async move {
            tokio::task::spawn_blocking(move || perpend_sandbox::check_schema(&check))
                .await
                .map_err(|error| CheckError::Failed(error.to_string()))
        })
    }

    fn evaluate(&self, calls: Vec<EvaluationCall>) -> BoxStream<'_, (usize, CallResult)> {
        // Separate tasks, because a call must make progress while its caller waits for the database.
        let mut running = JoinSet::new();
        for (position, call) in calls.into_iter().enumerate() {
            let own = self.clone();
            running.spawn(async move { (position, own.call(call).await) });
        }
        let results = stream::unfold(running, async |mut running| {
            loop {
                match running.join_next().await? {
                    Ok(result) => return Some((result, running)),
                    Err(error) => {
                        tracing::error!(%error, "an evaluation task ended without a result")
                    }
                }
            }
        });
        results.boxed()
    }
}
