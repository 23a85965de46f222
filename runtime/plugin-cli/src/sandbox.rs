//! The execution of components: in worker processes as on a server, or in this process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{BoxFuture, join_all};
use perpend_domain::plugin::{
    CallResult, Digest, EvaluationCall, Failure, FailureClass, Grants, PluginInfo,
};
use perpend_sandbox::{Host, Plugin, Settings};
use perpend_worker_pool::{ComponentSource, Workers};
use perpend_worker_protocol::ComponentProblem;
use tokio::runtime::Runtime;

use crate::answers::{Broker, CallPort, Script};
use crate::error::Error;

/// The number of calls in a batch.
const BATCH: usize = 64;

/// Compiles components and makes calls. It blocks the caller and must not be used inside an async runtime.
pub struct Sandbox {
    // Declared before the runtime, so that it is dropped first.
    engine: Engine,
    runtime: Runtime,
    script: Arc<Script>,
}

enum Engine {
    Processes { workers: Workers, held: Arc<ComponentStore> },
    InProcess { host: Arc<Host>, cache_dir: PathBuf, loaded: Mutex<HashMap<Digest, Arc<Plugin>>> },
}

/// The bytes of open components, for workers that do not have them.
#[derive(Debug, Default)]
struct ComponentStore(Mutex<HashMap<Digest, Vec<u8>>>);

impl ComponentSource for ComponentStore {
    fn component(&self, digest: Digest) -> BoxFuture<'_, Option<Vec<u8>>> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Box::pin(std::future::ready(held.get(&digest).cloned()))
    }
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").finish_non_exhaustive()
    }
}

fn runtime() -> Result<Runtime, Error> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Error::Sandbox(error.to_string()))
}

impl Sandbox {
    /// Worker processes of `program`, as on a server; compiled components are kept in `cache_dir`.
    ///
    /// # Errors
    /// When the platform cannot start threads.
    pub fn processes(program: PathBuf, cache_dir: PathBuf) -> Result<Self, Error> {
        let runtime = runtime()?;
        let held = Arc::new(ComponentStore::default());
        let options = perpend_worker_pool::Options::new(program, cache_dir);
        let components = Arc::clone(&held) as Arc<dyn ComponentSource>;
        let script = Arc::new(Script::default());
        let broker = Arc::new(Broker(Arc::clone(&script)));
        let workers = {
            let _entered = runtime.enter();
            Workers::start(options, components, broker)
        };
        let engine = Engine::Processes { workers, held };
        Ok(Self { engine, runtime, script })
    }

    /// Execution in this process.
    ///
    /// # Errors
    /// When the WebAssembly engine cannot start.
    pub fn in_process(cache_dir: PathBuf) -> Result<Self, Error> {
        let host = Host::new(&Settings::default(), &cache_dir)
            .map_err(|error| Error::Sandbox(error.to_string()))?;
        let engine =
            Engine::InProcess { host: Arc::new(host), cache_dir, loaded: Mutex::default() };
        Ok(Self { engine, runtime: runtime()?, script: Arc::default() })
    }

    /// The answers of the model.
    pub(crate) fn script(&self) -> &Arc<Script> {
        &self.script
    }

    /// The description of a component.
    ///
    /// # Errors
    /// All problems of the component.
    pub fn inspect(&self, bytes: &[u8]) -> Result<PluginInfo, Vec<ComponentProblem>> {
        match &self.engine {
            Engine::Processes { workers, held } => {
                let info = self.runtime.block_on(workers.inspect_cached(bytes))?;
                let mut held = held.0.lock().unwrap_or_else(PoisonError::into_inner);
                held.insert(Digest::of(bytes), bytes.to_vec());
                Ok(info)
            }
            Engine::InProcess { host, cache_dir, loaded } => {
                let plugin = load(host, bytes, cache_dir)?;
                let info = plugin.info().clone();
                let mut loaded = loaded.lock().unwrap_or_else(PoisonError::into_inner);
                loaded.insert(Digest::of(bytes), Arc::new(plugin));
                Ok(info)
            }
        }
    }

    /// Makes the calls in batches and returns the results in order; `done` gets the number of finished calls.
    pub(crate) fn evaluate(
        &self,
        calls: Vec<EvaluationCall>,
        done: &dyn Fn(usize),
    ) -> Vec<CallResult> {
        let mut results = Vec::with_capacity(calls.len());
        let mut calls = calls.into_iter();
        loop {
            let batch: Vec<EvaluationCall> = calls.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                return results;
            }
            results.extend(match &self.engine {
                Engine::Processes { workers, .. } => self.runtime.block_on(workers.evaluate(batch)),
                Engine::InProcess { host, loaded, .. } => {
                    let loaded = loaded.lock().unwrap_or_else(PoisonError::into_inner);
                    let calls =
                        batch.into_iter().map(|call| one(host, &loaded, call, &self.script));
                    self.runtime.block_on(join_all(calls))
                }
            });
            done(results.len());
        }
    }

    /// The host of this process and a loaded component, for measurements.
    pub(crate) fn loaded(&self, digest: Digest) -> Option<(Arc<Host>, Arc<Plugin>)> {
        let Engine::InProcess { host, loaded, .. } = &self.engine else {
            return None;
        };
        let loaded = loaded.lock().unwrap_or_else(PoisonError::into_inner);
        Some((Arc::clone(host), Arc::clone(loaded.get(&digest)?)))
    }
}

fn load(host: &Host, bytes: &[u8], cache_dir: &Path) -> Result<Plugin, Vec<ComponentProblem>> {
    let digest = Digest::of(bytes);
    if let Ok(plugin) = host.load(digest) {
        return Ok(plugin);
    }
    perpend_sandbox::compile(bytes, cache_dir, Grants::ALL)?;
    host.load(digest).map_err(|error| vec![ComponentProblem::new("cache", error.to_string())])
}

async fn one(
    host: &Host,
    loaded: &HashMap<Digest, Arc<Plugin>>,
    call: EvaluationCall,
    script: &Arc<Script>,
) -> CallResult {
    let port = CallPort { script: Arc::clone(script), item: call.item.id.clone() };
    match loaded.get(&call.plugin) {
        Some(plugin) => host.evaluate(plugin, call, Arc::new(port)).await,
        None => CallResult {
            outcome: Err(Failure {
                class: FailureClass::Internal,
                message: "the component was not opened".to_owned(),
            }),
            ..CallResult::empty()
        },
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if let Engine::Processes { workers, .. } = &self.engine {
            self.runtime.block_on(workers.shutdown());
        }
    }
}
