//! What every handler can reach.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use perpend_domain::bundle::Bundle;
use perpend_domain::ids::{IdSource, ProjectId};
use perpend_domain::time::Clock;
use perpend_scheduler::Scheduler;
use perpend_store::Store;
use tokio::sync::{Notify, OnceCell};

use crate::admission::Admission;
use crate::api::media::Signer;
use crate::api::plugins::Turns;
use crate::auth::{KeyCache, Sessions, Throttle};
use crate::components::Components;
use perpend_config::Config;
use crate::engine::Engine;
use perpend_outbound::Outbound;
use crate::ingress::Decoders;
use crate::limits::Limits;
use perpend_outbound::Vault;
use perpend_catalog::Prices;

/// The server's parts, cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<AppParts>);

/// The parts behind [`App`].
#[derive(Debug)]
#[non_exhaustive]
pub struct AppParts {
    /// The database.
    pub store: Store,
    /// Runs evaluators.
    pub engine: Arc<Engine>,
    /// Turns what arrives into scores.
    pub scheduler: Scheduler,
    /// Every setting.
    pub config: Config,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where fresh ids come from.
    pub ids: Arc<dyn IdSource>,
    /// Prices of models.
    pub prices: Prices,
    /// Encrypts what is stored and must be read again.
    pub vault: Vault,
    /// The project that the login link opens.
    pub home_project: ProjectId,
    /// The plug-ins that come with the program.
    pub bundle: Bundle,
    /// Where its optional plug-ins are.
    pub components: Components,
    /// The token in the login link: new at each start, as notebook servers do it.
    pub login_token: String,
    pub(crate) admission: Admission,
    pub(crate) decoders: Decoders,
    pub(crate) keys: KeyCache,
    pub(crate) sweep_wanted: Notify,
    pub(crate) limits: Limits,
    pub(crate) throttle: Throttle,
    pub(crate) media_signer: Signer,
    pub(crate) inspections: Turns,
    outbound: OnceLock<Outbound>,
    sessions: OnceCell<Sessions>,
}

/// What an [`App`] is made of.
#[derive(Debug)]
pub struct NewApp {
    /// The database.
    pub store: Store,
    /// Runs evaluators.
    pub engine: Arc<Engine>,
    /// Turns what arrives into scores.
    pub scheduler: Scheduler,
    /// Every setting.
    pub config: Config,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where fresh ids come from.
    pub ids: Arc<dyn IdSource>,
    /// Encrypts what is stored and must be read again.
    pub vault: Vault,
    /// The project that the login link opens.
    pub home_project: ProjectId,
    /// The plug-ins that come with the program.
    pub bundle: Bundle,
    /// Where its optional plug-ins are.
    pub components: Components,
    /// Decode what comes in.
    pub decoders: Decoders,
}

impl App {
    /// Puts the parts together.
    #[must_use]
    pub fn new(new: NewApp) -> Self {
        let login_token = new.ids.uuid().simple().to_string();
        Self(Arc::new(AppParts {
            admission: Admission::new(
                new.config.ingest.max_in_flight_bytes,
                new.config.ingest.max_key_share_percent,
            ),
            decoders: new.decoders,
            keys: KeyCache::default(),
            sweep_wanted: Notify::new(),
            limits: Limits::default(),
            throttle: Throttle::default(),
            media_signer: Signer::default(),
            inspections: Turns::default(),
            outbound: OnceLock::new(),
            sessions: OnceCell::new(),
            prices: Prices::default(),
            vault: new.vault,
            login_token,
            store: new.store,
            engine: new.engine,
            scheduler: new.scheduler,
            config: new.config,
            clock: new.clock,
            ids: new.ids,
            home_project: new.home_project,
            bundle: new.bundle,
            components: new.components,
        }))
    }

    /// Bytes that requests under way hold of `ingest.max_in_flight_mib`.
    #[must_use]
    pub fn in_flight_bytes(&self) -> usize {
        self.admission.in_flight_bytes()
    }

    /// The signing key is read when the first visitor comes: a server without visitors needs none.
    pub(crate) async fn sessions(&self) -> Result<&Sessions, perpend_sql::Error> {
        let public_url = self.config.public_url.as_deref();
        let is_secure = public_url.is_some_and(|url| url.starts_with("https:"));
        let open = || Sessions::open(&self.store, &*self.ids, &self.login_token, is_secure);
        self.sessions.get_or_try_init(open).await
    }

    /// The way to addresses that users name; made when it is first needed, because that reads files.
    pub(crate) fn outbound(&self) -> Outbound {
        let make = || Outbound::new(&self.config.exports.private_endpoints);
        self.outbound.get_or_init(make).clone()
    }
}

impl Deref for App {
    type Target = AppParts;

    fn deref(&self) -> &AppParts {
        &self.0
    }
}
