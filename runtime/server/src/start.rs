//! Puts a server together, runs it, and takes it apart in order.

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
use crate::first_start::{KeyPair, first_start};
use crate::in_process::InProcess;
use crate::lock::Lock;
use crate::{App, descriptors, listen, paths, router, secrets};

/// What a server is made from.
#[derive(Debug)]
pub struct Setup {
    /// Every setting.
    pub config: Config,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where fresh ids come from.
    pub ids: Arc<dyn IdSource>,
    /// The program that becomes a worker.
    pub program: PathBuf,
    /// The plug-ins that come with the program.
    pub bundle: Bundle,
    /// Where its optional plug-ins are.
    pub components: ComponentFolder,
    /// Shows the key pair that the first start makes, the only time that it can be seen.
    pub show: fn(&KeyPair),
    /// Where transactions end before their time: nowhere, but in tests.
    pub stops: Breakpoints,
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct Server {
    /// Its parts.
    pub app: App,
    address: SocketAddr,
    listener: TcpListener,
    lock: Option<Lock>,
}

fn make_private(dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir)
        .with_context(|| format!("cannot make the directory {}", dir.display()))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let owner_only = std::fs::Permissions::from_mode(0o700);
        // A directory of somebody else is used as it is: then its owner answers for it.
        let _ = std::fs::set_permissions(dir, owner_only);
    }
    Ok(())
}

/// Listens on the address of the settings, which gets the port that the system chose: links name it.
async fn bind(config: &mut Config) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on {} (--listen)", config.listen))?;
    config.listen = listener.local_addr()?;
    Ok(listener)
}

/// Makes the directory of a database file, and this process its only server.
fn own(database: &Path) -> anyhow::Result<Lock> {
    let parent = database.parent();
    if let Some(parent) = parent.filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot make the directory {}", parent.display()))?;
    }
    Lock::take(database)
}

/// One server at a time uses a database file; PostgreSQL may have several.
fn lock(url: &DatabaseUrl) -> anyhow::Result<Option<Lock>> {
    match url {
        DatabaseUrl::Sqlite(path) => own(path).map(Some),
        DatabaseUrl::Postgres(_) => Ok(None),
    }
}

/// What was tried and the way out. The address is shown without user and password.
fn unopened(url: &DatabaseUrl, wait: Duration) -> String {
    match url {
        DatabaseUrl::Sqlite(_) => format!("cannot open the database {url} (--database-url)"),
        DatabaseUrl::Postgres(_) => format!(
            "cannot open the database {url} (--database-url), tried for {} s: start PostgreSQL there, or \
             correct the address, user and password; without the setting a file below --data-dir is used",
            wait.as_secs()
        ),
    }
}

/// What a server that was killed had leased goes on at once instead of when the leases run out, and what it had reserved
/// in budgets is free. Sound only under the lock: no other server can have leases. Where evaluators run in the server's own process
/// they may be what killed it, so there a lost lease counts as an attempt, and has to run out.
async fn give_back_leases(
    store: &Store,
    config: &Config,
    lock: Option<&Lock>,
    now: Timestamp,
) -> anyhow::Result<()> {
    if lock.is_none() {
        return Ok(());
    }
    store.ledger.end_all_reservations().await?;
    if config.evaluation.isolation == Isolation::InProcess {
        return Ok(());
    }
    let n_given_back = store.ledger.give_back_all_leases(now).await?;
    if n_given_back > 0 {
        tracing::info!(n_given_back, "evaluations of the former run go on");
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
    store.with_context(|| unopened(url, options.wait))
}

/// What evaluators reach models through, and the check of replies that waits for the engine.
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

/// Starts the engine in the isolation that the settings choose.
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
                "evaluation.isolation is in-process: plug-ins run in the process that holds keys and database, and \
                 one that ends it ends the server; use it with plug-ins that you trust"
            );
            let sandbox = InProcess::new(store, &cache_dir, models)?;
            Ok(Engine::InProcess(Box::new(sandbox)))
        }
    }
}

/// Registers the plug-ins that come with the server; those that are there already cost one look-up.
async fn register_first_party(app: &App, bundle: &Bundle, home: &ProjectId) -> anyhow::Result<()> {
    for component in bundle.first_party {
        let known = app.store.catalog.plugin(home, &component.digest).await?;
        if known.is_some_and(|plugin| plugin.owner.is_none()) {
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
    /// Opens the database, makes what the first start makes, and begins to listen.
    ///
    /// # Errors
    /// Whatever stands in the way, in words for the operator.
    pub async fn open(setup: Setup) -> anyhow::Result<Self> {
        let Setup { mut config, clock, ids, program, bundle, components, show, stops } = setup;
        descriptors::ensure(&config)?;
        make_private(&config.data_dir)?;
        let cache_dir = config.plugin_cache.clone();
        let cache_dir = cache_dir.unwrap_or_else(|| config.data_dir.join("plugin-cache"));
        make_private(&cache_dir)?;
        let url = config.database();
        let lock = lock(&url)?;
        let listener = bind(&mut config).await?;
        let address = config.listen;
        secrets::ensure_database_not_lost(&url, &config)?;
        let store = open_store(&url, &config, stops).await?;
        let vault = secrets::open(&store, &config, ids.as_ref()).await?;
        give_back_leases(&store, &config, lock.as_ref(), clock.now()).await?;
        let home = first_start(&store, &config.init, ids.as_ref(), clock.now(), show).await?;
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
            bundle,
            components,
            decoders: Decoders::start()?,
            document: paths::document,
        });
        register_first_party(&app, &bundle, &home_project).await?;
        Ok(Self { app, address, listener, lock })
    }

    /// The address it listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// How browsers reach it.
    #[must_use]
    pub fn origin(&self) -> String {
        self.app.web.config.public_url.clone().unwrap_or_else(|| format!("http://{}", self.address))
    }

    /// The address that logs in.
    #[must_use]
    pub fn login_url(&self) -> String {
        perpend_pages::login_url(&self.app.web, &self.origin())
    }

    /// Answers until `shutdown`, then lets requests and evaluations under way finish within the grace,
    /// gives leases back and closes the database.
    ///
    /// # Errors
    /// When the listener fails.
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
            tracing::warn!("requests under way were cut off after the grace");
            serving.abort();
        }
        stop_scheduler.cancel();
        let stopped = [
            scheduling.await.context("the scheduler ended in a panic"),
            jobs.await.context("the jobs ended in a panic"),
        ];
        if tokio::time::timeout(grace, app.engine.shutdown()).await.is_err() {
            tracing::warn!("workers did not end within the grace");
        }
        app.store.close().await;
        // Said when all is closed: what one of them left undone keeps nothing else from its end.
        stopped.into_iter().collect::<anyhow::Result<()>>()?;
        match outcome {
            Some(ended) => Ok(ended.context("the listener ended in a panic")?),
            None => Ok(()),
        }
    }
}

/// With no more places than there is room for in the workers.
fn scheduling(settings: &Evaluation) -> perpend_scheduler::Options {
    let options = perpend_scheduler::Options::default();
    let n_calls = settings.n_workers * perpend_worker_pool::MAX_IN_FLIGHT;
    perpend_scheduler::Options {
        n_places: options.n_places.min(n_calls / Lane::ALL.len()),
        max_memory_bytes: settings.memory_bytes,
        ..options
    }
}
