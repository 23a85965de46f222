//! Startup, operation and orderly shutdown of a server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use perpend_api::ingress::Decoders;
use perpend_broker::{
    ComponentFolder, ConnectedModels, Engine, EngineReplyValidator, Models, components, confinement,
};
use perpend_catalog::Prices;
use perpend_config::{Config, Evaluation, Isolation};
use perpend_db::{Breakpoints, DatabaseUrl};
use perpend_domain::bundle::Bundle;
use perpend_domain::evaluation::Lane;
use perpend_domain::ids::{IdSource, ProjectId};
use perpend_domain::time::{Clock, Timestamp};
use perpend_http_client::{OutboundClient, Vault};
use perpend_llm::Llm;
use perpend_scheduler::{Deps, Scheduler};
use perpend_storage::Store;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::app::NewApp;
use crate::first_start::{KeyPair, ensure_first_account, first_start, is_configured};
use crate::in_process::InProcess;
use crate::lock::Lock;
use crate::{App, descriptors, listen, paths, prometheus, router, secrets};

/// Inputs of a server.
#[derive(Debug)]
pub struct Setup {
    /// All settings.
    pub config: Config,
    /// Source of the time.
    pub clock: Arc<dyn Clock>,
    /// Source of new ids.
    pub ids: Arc<dyn IdSource>,
    /// Executable of the worker processes.
    pub program: PathBuf,
    /// Plug-ins embedded in the program.
    pub bundle: Bundle,
    /// Directory of optional plug-ins.
    pub components: ComponentFolder,
    /// Prints the key pair that the first start generates; it cannot be shown later.
    pub show: fn(&KeyPair),
    /// Breakpoints that abort transactions in tests.
    pub stops: Breakpoints,
}

/// A server that listens but does not accept connections yet.
#[derive(Debug)]
pub struct Server {
    /// State of the interfaces.
    pub app: App,
    address: SocketAddr,
    listener: TcpListener,
    lock: Option<Lock>,
}

fn make_private(dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir)
        .with_context(|| format!("cannot create the directory {}", dir.display()))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let owner_only = std::fs::Permissions::from_mode(0o700);
        // The permissions of a directory of another user cannot be changed; its owner is responsible for them.
        let _ = std::fs::set_permissions(dir, owner_only);
    }
    Ok(())
}

/// Listens on the configured address, and stores the port that the system chose in the settings, for links.
async fn bind(config: &mut Config) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on {} (--listen)", config.listen))?;
    config.listen = listener.local_addr()?;
    Ok(listener)
}

/// Creates the directory of a database file and locks the file.
fn lock_file(database: &Path) -> anyhow::Result<Lock> {
    let parent = database.parent();
    if let Some(parent) = parent.filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot create the directory {}", parent.display()))?;
    }
    Lock::take(database)
}

/// Locks a SQLite database; PostgreSQL can have several servers.
fn lock_database(url: &DatabaseUrl) -> anyhow::Result<Option<Lock>> {
    match url {
        DatabaseUrl::Sqlite(path) => lock_file(path).map(Some),
        DatabaseUrl::Postgres(_) => Ok(None),
    }
}

/// Error message with a remedy. The URL is shown without user and password.
fn open_error(url: &DatabaseUrl, wait: Duration) -> String {
    match url {
        DatabaseUrl::Sqlite(_) => format!("cannot open the database {url} (--database-url)"),
        DatabaseUrl::Postgres(_) => format!(
            "cannot open the database {url} (--database-url) within {} s; start PostgreSQL there, or correct the address, \
             user and password. Without this setting, a file in --data-dir is used",
            wait.as_secs()
        ),
    }
}

/// Releases leases and budget reservations of a server that was killed, so that its executions continue at once. Requires the
/// lock, because other servers may have leases. With in-process isolation, an evaluator may have crashed the server, so there
/// leases must expire, which counts as an attempt.
async fn release_leases(
    store: &Store,
    config: &Config,
    lock: Option<&Lock>,
    now: Timestamp,
) -> anyhow::Result<()> {
    if lock.is_none() {
        return Ok(());
    }
    store.ledger.end_all_reservations().await?;
    store.ledger.release_all_runs().await?;
    if config.evaluation.isolation == Isolation::InProcess {
        return Ok(());
    }
    let n_released = store.ledger.release_all_leases(now).await?;
    if n_released > 0 {
        tracing::info!(n_released, "leases of the previous run released");
    }
    Ok(())
}

async fn open_store(
    url: &DatabaseUrl,
    config: &Config,
    breakpoints: Breakpoints,
) -> anyhow::Result<Store> {
    let options = perpend_db::Options {
        n_readers: config.database_readers,
        wait: config.database_wait,
        read_timeout: config.answers.timeout,
        breakpoints,
    };
    let store = Store::open(url, &options).await;
    store.with_context(|| open_error(url, options.wait))
}

/// The model access of evaluators, and the validator of replies, which is connected to the engine later.
fn models(
    store: &Store,
    vault: &Vault,
    outbound: &OutboundClient,
    prices: &Arc<Prices>,
    (clock, reply_lifetime_ms): (&Arc<dyn Clock>, i64),
) -> (Arc<dyn Models>, Llm, EngineReplyValidator) {
    let reply_validator = EngineReplyValidator::default();
    let check = Arc::new(reply_validator.clone());
    let llm = Llm::new(outbound.clone(), Arc::clone(clock), check);
    let models = ConnectedModels {
        store: store.clone(),
        vault: vault.clone(),
        llm: llm.clone(),
        prices: Arc::clone(prices),
        clock: Arc::clone(clock),
        recent_costs: Arc::default(),
        settled: Arc::default(),
        budget_queues: Arc::default(),
        reply_lifetime_ms,
    };
    (Arc::new(models), llm, reply_validator)
}

/// Starts the engine with the configured isolation.
fn start_engine(
    store: &Store,
    program: PathBuf,
    cache_dir: PathBuf,
    settings: &Evaluation,
    models: &Arc<dyn Models>,
) -> anyhow::Result<Engine> {
    let models = Arc::clone(models);
    match settings.isolation {
        Isolation::Process => Ok(Engine::processes(store, program, cache_dir, settings, models)),
        Isolation::InProcess => {
            tracing::warn!(
                "evaluation.isolation is in-process: plug-ins run in the process with access to keys and database, and a crash \
                 of a plug-in ends the server; use it only with trusted plug-ins"
            );
            let sandbox = InProcess::new(store, &cache_dir, models)?;
            Ok(Engine::InProcess(Box::new(sandbox)))
        }
    }
}

/// Registers the embedded plug-ins that are not registered yet.
async fn register_first_party(app: &App, bundle: &Bundle, home: &ProjectId) -> anyhow::Result<()> {
    for component in bundle.first_party {
        let registered = app.store.catalog.plugin(home, &component.digest).await?;
        if registered.is_some_and(|plugin| plugin.owner.is_none()) {
            continue;
        }
        let inspected = components::inspect(&app.engine, component.bytes).await;
        let info =
            inspected.with_context(|| format!("the plug-in {} cannot be used", component.name))?;
        components::register(&app.store, &info, component.bytes, app.web.clock.now()).await?;
    }
    Ok(())
}

impl Server {
    /// Opens the database, initializes it on the first start, and starts to listen.
    ///
    /// # Errors
    /// If a resource is not available or a setting is invalid; the message is for the operator.
    pub async fn open(setup: Setup) -> anyhow::Result<Self> {
        let Setup { mut config, clock, ids, program, bundle, components, show, stops } = setup;
        descriptors::ensure(&config)?;
        if config.metrics.token.is_some() {
            prometheus::start()?;
        }
        make_private(&config.data_dir)?;
        let cache_dir = config.plugin_cache.clone();
        let cache_dir = cache_dir.unwrap_or_else(|| config.data_dir.join("plugin-cache"));
        make_private(&cache_dir)?;
        let url = config.database();
        let lock = lock_database(&url)?;
        let listener = bind(&mut config).await?;
        let address = config.listen;
        secrets::ensure_database_not_lost(&url, &config)?;
        let store = open_store(&url, &config, stops).await?;
        let vault = secrets::open(&store, &config, ids.as_ref()).await?;
        release_leases(&store, &config, lock.as_ref(), clock.now()).await?;
        let home = first_start(&store, &config.init, ids.as_ref(), clock.now(), show).await?;
        let organization = &home.organization.id;
        ensure_first_account(&store, &config.init, organization, (ids.as_ref(), clock.now()))
            .await?;
        let is_home_configured = is_configured(&store, &config.init, &home.id).await?;
        let outbound = OutboundClient::new(&config.exports.private_endpoints);
        let prices = Arc::new(Prices::default());
        let (models, llm, reply_validator) = models(
            &store,
            &vault,
            &outbound,
            &prices,
            (&clock, config.evaluation.reply_lifetime_ms),
        );
        let engine = start_engine(&store, program, cache_dir, &config.evaluation, &models)?;
        confinement::log_layers(&engine, &config.evaluation).await?;
        let engine = Arc::new(engine);
        reply_validator.bind(&engine);
        let scheduler = Scheduler::new(Deps {
            store: store.clone(),
            evaluate: Arc::clone(&engine) as Arc<dyn perpend_scheduler::Evaluate>,
            clock: Arc::clone(&clock),
            ids: Arc::clone(&ids),
            options: scheduling(&config.evaluation),
            breakpoints: None,
        });
        let home_project = home.id;
        let app = App::new(NewApp {
            vault,
            outbound,
            prices,
            store,
            engine,
            llm,
            models,
            scheduler,
            config,
            clock,
            ids,
            home_project: home_project.clone(),
            is_home_configured,
            bundle,
            components,
            decoders: Decoders::start()?,
            document: paths::document,
        });
        register_first_party(&app, &bundle, &home_project).await?;
        Ok(Self { app, address, listener, lock })
    }

    /// The listening address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Scheme, host and port for browsers.
    #[must_use]
    pub fn origin(&self) -> String {
        self.app.web.config.public_url.clone().unwrap_or_else(|| format!("http://{}", self.address))
    }

    /// The URL with the one-time login token.
    #[must_use]
    pub fn login_url(&self) -> String {
        perpend_pages::login_url(&self.app.web, &self.origin())
    }

    /// The URL that creates the first account; absent once there is one.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn setup_url(&self) -> anyhow::Result<Option<String>> {
        let has_accounts = self.app.store.catalog.has_accounts().await?;
        let url = || perpend_pages::setup_url(&self.app.web, &self.origin());
        Ok((!has_accounts).then(url))
    }

    /// Serves until `shutdown`, then waits for active requests and evaluations within the grace period, releases leases and closes
    /// the database.
    ///
    /// # Errors
    /// If the listener or a background task fails.
    pub async fn run(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let Self { app, listener, lock: _lock, .. } = self;
        let grace = app.web.config.shutdown_grace;
        let stop_scheduler = CancellationToken::new();
        let scheduler = app.scheduler.clone();
        let stopped = stop_scheduler.clone();
        let scheduling = tokio::spawn(async move { scheduler.run(stopped).await });
        let (jobs, stopped) = (app.jobs.clone(), stop_scheduler.clone());
        let jobs = tokio::spawn(async move { jobs.run(stopped).await });

        let serving = listen::serve(
            listener,
            router(&app),
            listen::Limits {
                head_timeout: app.web.config.ingest.read_timeout,
                max_connections: descriptors::max_connections(&app.web.config),
                answers: app.web.config.answers,
            },
            shutdown.clone(),
        );
        let mut serving = tokio::spawn(serving);
        let outcome = tokio::select! {
            ended = &mut serving => Some(ended),
            () = shutdown.cancelled() => tokio::time::timeout(grace, &mut serving).await.ok(),
        };
        if outcome.is_none() {
            tracing::warn!("active requests were aborted after the grace period");
            serving.abort();
        }
        stop_scheduler.cancel();
        let stopped = [
            scheduling.await.context("the scheduler panicked"),
            jobs.await.context("the jobs panicked"),
        ];
        if tokio::time::timeout(grace, app.engine.shutdown()).await.is_err() {
            tracing::warn!("workers did not exit within the grace period");
        }
        app.store.close().await;
        // Errors are returned after everything is closed, so that no task prevents the shutdown of the others.
        stopped.into_iter().collect::<anyhow::Result<()>>()?;
        match outcome {
            Some(ended) => Ok(ended.context("the listener panicked")?),
            None => Ok(()),
        }
    }
}

/// Scheduler options, with at most as many concurrent executions as the workers support.
fn scheduling(settings: &Evaluation) -> perpend_scheduler::Options {
    let options = perpend_scheduler::Options::default();
    let n_calls = settings.n_workers * perpend_worker_pool::MAX_IN_FLIGHT;
    perpend_scheduler::Options {
        n_places: options.n_places.min(n_calls / Lane::ALL.len()),
        max_memory_bytes: settings.memory_bytes,
        ..options
    }
}
