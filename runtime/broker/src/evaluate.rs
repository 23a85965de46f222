//! Runs evaluations in worker processes, or in a sandbox in the server's own process.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use perpend_catalog::Catalog;
use perpend_config::{Confinement, Evaluation};
use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::{CallResult, Digest, EvaluationCall, PluginInfo};
use perpend_scheduler::Evaluate;
use perpend_storage::Store;
use perpend_worker_pool::{ComponentSource, Workers, WorkersState};
use perpend_worker_protocol::{CheckError, ComponentProblem, SchemaAnswer, SchemaCheck};

use crate::broker::{Broker, Models};

/// A sandbox in the server's own process, for tests and single-user installations. This crate does not depend on a
/// WebAssembly engine: the program that links one implements it.
pub trait LocalSandbox: std::fmt::Debug + Send + Sync {
    /// Describes a component. Compiles it unless its compiled form exists.
    fn inspect<'a>(
        &'a self,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<PluginInfo, Vec<ComponentProblem>>>;

    /// Validates values against a schema.
    fn check_schema(&self, check: SchemaCheck) -> BoxFuture<'_, Result<SchemaAnswer, CheckError>>;

    /// Runs calls and yields their results, with their positions, in the order in which they finish.
    fn evaluate(&self, calls: Vec<EvaluationCall>) -> BoxStream<'_, (usize, CallResult)>;
}

/// Runs evaluators and inspects components.
#[derive(Debug)]
pub enum Engine {
    /// In child processes without access to database and keys.
    Processes(Workers),
    /// In this process.
    InProcess(Box<dyn LocalSandbox>),
}

/// The components in the catalog.
struct StoredComponents(Catalog);

impl ComponentSource for StoredComponents {
    fn component(&self, digest: Digest) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            match self.0.component(&digest).await {
                Ok(bytes) => bytes,
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(error, plugin.digest = %digest, "cannot read a component");
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
                    tracing::error!(error, "cannot list the registered components");
                })
                .ok()
        })
    }
}

/// Threads per worker, so that all workers together use each processor.
fn threads_per_worker(n_workers: usize) -> u32 {
    let n_all = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(n_all.div_ceil(n_workers.max(1))).unwrap_or(1)
}

impl Engine {
    /// Runs evaluations in worker processes of `program`.
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
        options.n_threads = threads_per_worker(settings.n_workers);
        options.max_resident_bytes = settings.worker_memory_bytes;
        options.require_all_layers = settings.confinement == Confinement::Required;
        let components = Arc::new(StoredComponents(store.catalog.clone()));
        let broker = Broker::new(store, models);
        Self::Processes(Workers::start(options, components, Arc::new(broker)))
    }

    /// Describes a component. Compiles it unless the folder of compiled components has it.
    ///
    /// # Errors
    /// With all problems of the component.
    pub async fn inspect(&self, bytes: &[u8]) -> Result<PluginInfo, Vec<ComponentProblem>> {
        match self {
            Self::Processes(workers) => workers.inspect_cached(bytes).await,
            Self::InProcess(sandbox) => sandbox.inspect(bytes).await,
        }
    }

    /// Validates values against a user-supplied schema of a project.
    ///
    /// # Errors
    /// When the check exceeds its resource limits or fails.
    pub async fn check_schema(
        &self,
        project: &ProjectId,
        check: SchemaCheck,
    ) -> Result<SchemaAnswer, CheckError> {
        match self {
            Self::Processes(workers) => workers.check_schema(project, &check).await,
            Self::InProcess(sandbox) => sandbox.check_schema(check).await,
        }
    }

    /// The state of the worker processes; absent without any.
    #[must_use]
    pub fn workers(&self) -> Option<WorkersState> {
        match self {
            Self::Processes(workers) => Some(workers.state()),
            Self::InProcess(_) => None,
        }
    }

    /// Shuts down after the calls in flight.
    pub async fn shutdown(&self) {
        if let Self::Processes(workers) = self {
            workers.shutdown().await;
        }
    }
}

impl Evaluate for Engine {
    fn evaluate(&self, calls: Vec<EvaluationCall>) -> BoxStream<'_, (usize, CallResult)> {
        match self {
            Self::Processes(workers) => workers.answers(calls).boxed(),
            Self::InProcess(sandbox) => sandbox.evaluate(calls),
        }
    }

    fn answer_withdrawn(&self) {
        match self {
            Self::Processes(workers) => workers.answer_withdrawn(),
            // No call waits: each starts immediately.
            Self::InProcess(_) => {}
        }
    }
}
