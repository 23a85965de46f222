//! State of the server, divided by interface.

use std::sync::Arc;

use perpend_api::DatasetImports;
use perpend_api::ingress::Decoders;
use perpend_broker::server_runs::{RunEngine, RunMemory};
use perpend_broker::{ComponentFolder, Engine, Models};
use perpend_catalog::Prices;
use perpend_config::Config;
use perpend_domain::bundle::Bundle;
use perpend_domain::ids::{IdSource, ProjectId};
use perpend_domain::time::Clock;
use perpend_http_client::{OutboundClient, Vault};
use perpend_http_kit::Web;
use perpend_jobs::expiry::{Checkpoints, Expiry};
use perpend_jobs::exports::{self, Exports};
use perpend_jobs::retention::Retention;
use perpend_jobs::runner::{Job, Jobs};
use perpend_llm::Llm;
use perpend_pages::InstanceState;
use perpend_scheduler::Scheduler;
use perpend_storage::Store;
use serde_json::Value;

use crate::backfills::Backfills;
use crate::backtests::Backtests;
use crate::instance::InstanceObserver;
use crate::key_uses::KeyUses;
use crate::operations;
use crate::prometheus::Gauges;
use crate::schedules::Schedules;
use crate::server_runs::ServerRuns;

/// Components of a server; cheap to clone.
#[derive(Clone, Debug)]
pub struct App {
    /// Authentication and settings, shared by all interfaces.
    pub web: Web,
    /// The database.
    pub store: Store,
    /// Runs evaluators.
    pub engine: Arc<Engine>,
    /// Client of model providers.
    pub llm: Llm,
    /// Schedules executions of evaluators.
    pub scheduler: Scheduler,
    /// State of the ingestion endpoints.
    pub ingress: perpend_api::ingress::App,
    /// State of the administration endpoints.
    pub admin: perpend_api::admin::App,
    /// State of the endpoints that read telemetry.
    pub records: perpend_api::records::App,
    /// State of the other API endpoints.
    pub api: perpend_api::App,
    /// State of the HTML pages.
    pub pages: perpend_pages::App,
    /// State of the exports.
    pub exports: exports::App,
    /// The project opened by the login link.
    pub home_project: ProjectId,
    /// Background jobs.
    pub jobs: Jobs,
}

/// Components of an [`App`].
#[derive(Debug)]
pub(crate) struct NewApp {
    pub(crate) store: Store,
    pub(crate) engine: Arc<Engine>,
    pub(crate) llm: Llm,
    pub(crate) models: Arc<dyn Models>,
    pub(crate) scheduler: Scheduler,
    pub(crate) config: Config,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) vault: Vault,
    pub(crate) outbound: OutboundClient,
    pub(crate) prices: Arc<Prices>,
    pub(crate) home_project: ProjectId,
    pub(crate) is_home_configured: bool,
    pub(crate) bundle: Bundle,
    pub(crate) components: ComponentFolder,
    pub(crate) decoders: Decoders,
    /// Generates the OpenAPI document for the API reference.
    pub(crate) document: fn() -> Value,
}

impl App {
    /// Builds the state of each interface.
    pub(crate) fn new(new: NewApp) -> Self {
        let (clock, ids) = (Arc::clone(&new.clock), Arc::clone(&new.ids));
        let web = Web::new(new.store.catalog.clone(), new.config, new.clock, new.ids);
        let (store, scheduler) = (&new.store, &new.scheduler);
        let exports = exports::App {
            store: store.clone(),
            clock,
            ids,
            prices: Arc::clone(&new.prices),
            vault: new.vault.clone(),
            outbound: new.outbound.clone(),
            max_file_bytes: web.config.exports.max_file_bytes,
        };
        let connections = (&new.models, &new.outbound, &new.vault);
        let runs = run_engine(&web, (store, scheduler), connections);
        let imports = DatasetImports::new(store.clone(), Arc::clone(&new.engine), web.clone());
        let instance = InstanceState::default();
        let observer = InstanceObserver::new((&web, store), &new.engine, scheduler, &instance);
        let jobs = jobs(&web, store, &exports, runs, (imports, observer));
        let outlines = Arc::default();
        let assets = new.components.folder().with_file_name("assets");
        let admin = perpend_api::admin::App::new(perpend_api::admin::NewApp {
            web: web.clone(),
            store: store.clone(),
            vault: new.vault.clone(),
            outbound: new.outbound,
            jobs: jobs.clone(),
        });
        let records = perpend_api::records::App::new(perpend_api::records::NewApp {
            web: web.clone(),
            store: store.clone(),
            outlines: Arc::clone(&outlines),
            scheduler: scheduler.clone(),
            prices: Arc::clone(&new.prices),
        });
        let api = perpend_api::App::new(perpend_api::NewApp {
            web: web.clone(),
            store: store.clone(),
            engine: Arc::clone(&new.engine),
            models: new.models,
            scheduler: scheduler.clone(),
            prices: Arc::clone(&new.prices),
            vault: new.vault.clone(),
            home_project: new.home_project.clone(),
            bundle: new.bundle,
            components: new.components,
            jobs: jobs.clone(),
        });
        Self {
            ingress: perpend_api::ingress::App::new(perpend_api::ingress::NewApp {
                web: web.clone(),
                store: store.clone(),
                scheduler: scheduler.clone(),
                prices: Arc::clone(&new.prices),
                decoders: new.decoders,
            }),
            pages: perpend_pages::App::new(perpend_pages::NewApp {
                web: web.clone(),
                store: store.clone(),
                assets,
                outlines,
                scheduler: scheduler.clone(),
                instance,
                home_project: new.home_project.clone(),
                is_home_configured: new.is_home_configured,
                document: new.document,
                operations: operations::router(&admin, &records, &api),
            }),
            exports,
            admin,
            records,
            api,
            web,
            store: new.store,
            engine: new.engine,
            llm: new.llm,
            scheduler: new.scheduler,
            home_project: new.home_project,
            jobs,
        }
    }
}

/// The engine of the runs that the server executes.
fn run_engine(
    web: &Web,
    (store, scheduler): (&Store, &Scheduler),
    (models, outbound, vault): (&Arc<dyn Models>, &OutboundClient, &Vault),
) -> RunEngine {
    RunEngine {
        store: store.clone(),
        models: Arc::clone(models),
        outbound: outbound.clone(),
        vault: vault.clone(),
        memory: RunMemory::new(web.config.evaluation.memory_bytes / 2),
        scheduler: scheduler.clone(),
        clock: Arc::clone(&web.clock),
    }
}

/// The background jobs of a server, one line each.
fn jobs(
    web: &Web,
    store: &Store,
    exports: &exports::App,
    runs: RunEngine,
    (imports, observer): (DatasetImports, InstanceObserver),
) -> Jobs {
    let (store, clock) = (store.clone(), Arc::clone(&web.clock));
    let evaluation = web.config.evaluation;
    let gauges = Gauges { web: web.clone(), store: store.clone(), clock: Arc::clone(&clock) };
    let mut jobs: Vec<Box<dyn Job>> = vec![
        Box::new(Retention { store: store.clone(), clock: Arc::clone(&clock) }),
        Box::new(Expiry {
            store,
            clock: Arc::clone(&clock),
            reply_lifetime_ms: evaluation.reply_lifetime_ms,
            max_reply_bytes: evaluation.max_reply_bytes,
            audit_keep_days: web.config.audit.keep_days,
            checkpoints: Checkpoints::default(),
        }),
        Box::new(KeyUses(web.clone())),
        Box::new(Exports(exports.clone())),
        Box::new(Backfills::new(runs.scheduler.clone())),
        Box::new(Schedules(runs.scheduler.clone())),
        Box::new(Backtests(runs.scheduler.clone())),
        Box::new(ServerRuns(runs)),
        Box::new(imports),
        Box::new(observer),
    ];
    if web.config.metrics.token.is_some() {
        jobs.push(Box::new(gauges));
    }
    Jobs::new(clock, jobs)
}
