//! State shared by all crates that serve HTTP.

use std::ops::Deref;
use std::sync::Arc;

use perpend_catalog::Catalog;
use perpend_config::Config;
use perpend_domain::ids::IdSource;
use perpend_domain::time::Clock;

use crate::admission::Admission;
use crate::auth::{KeyCache, LoginToken, Passwords, Refusals, SignInLimits, Throttle};
use crate::limits::{Buckets, Limits};

/// Authentication, limits and settings; cheap to clone.
#[derive(Clone, Debug)]
pub struct Web(Arc<WebParts>);

/// The parts behind [`Web`].
#[derive(Debug)]
pub struct WebParts {
    /// Keys, and the projects that they open.
    pub catalog: Catalog,
    /// Every setting.
    pub config: Config,
    /// Current time.
    pub clock: Arc<dyn Clock>,
    /// Source of new ids.
    pub ids: Arc<dyn IdSource>,
    /// Token of the login link, new at each startup.
    pub login_token: LoginToken,
    /// Identifies this startup among those of all servers of the installation.
    pub(crate) start_id: String,
    /// Recently used keys.
    pub keys: KeyCache,
    /// Recently refused requests of projects.
    pub refusals: Refusals,
    /// Denied requests that are recorded, by project or organization.
    pub(crate) denials: Buckets<String>,
    pub(crate) admission: Admission,
    pub(crate) answers: Admission,
    pub(crate) limits: Limits,
    pub(crate) throttle: Throttle,
    /// Token of the setup link, new at each startup, with which the first account is created.
    pub setup_token: LoginToken,
    /// Passwords of accounts.
    pub passwords: Passwords,
    pub(crate) sign_in_limits: SignInLimits,
}

/// State of handlers.
pub trait AppState: Clone + Send + Sync + 'static {
    /// The shared part.
    fn web(&self) -> &Web;
}

impl AppState for Web {
    fn web(&self) -> &Web {
        self
    }
}

impl Web {
    /// The state of a new server.
    #[must_use]
    pub fn new(
        catalog: Catalog,
        config: Config,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
    ) -> Self {
        /// Share of one project in the memory for responses.
        const SHARE_PERCENT: usize = 50;
        let ingest = &config.ingest;
        Self(Arc::new(WebParts {
            answers: Admission::new(config.answers.max_in_flight_bytes, SHARE_PERCENT),
            admission: Admission::new(ingest.max_in_flight_bytes, ingest.max_key_share_percent),
            limits: Limits::default(),
            throttle: Throttle::default(),
            keys: KeyCache::default(),
            refusals: Refusals::default(),
            denials: Buckets::default(),
            login_token: LoginToken::new(&*ids, clock.now()),
            setup_token: LoginToken::for_setup(&*ids, clock.now()),
            passwords: Passwords::default(),
            sign_in_limits: SignInLimits::new(&*ids),
            start_id: ids.uuid().to_string(),
            catalog,
            config,
            clock,
            ids,
        }))
    }

    /// Bytes of `ingest.max_in_flight_mib` in use.
    #[must_use]
    pub fn in_flight_bytes(&self) -> usize {
        self.admission.in_flight_bytes()
    }

    /// Bytes of `answers.max_in_flight_mib` in use.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        self.answers.in_flight_bytes()
    }
}

impl Deref for Web {
    type Target = WebParts;

    fn deref(&self) -> &WebParts {
        &self.0
    }
}
