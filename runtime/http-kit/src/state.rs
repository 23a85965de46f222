//! What every room has in common that answers requests.

use std::ops::Deref;
use std::sync::Arc;

use perpend_catalog::Catalog;
use perpend_config::Config;
use perpend_domain::ids::IdSource;
use perpend_domain::time::Clock;

use crate::admission::Admission;
use crate::auth::{KeyCache, LoginToken, Refusals, Throttle};
use crate::limits::Limits;

/// Who may ask, and how much at a time; cheap to clone.
#[derive(Clone, Debug)]
pub struct Web(Arc<WebParts>);

/// The parts behind [`Web`].
#[derive(Debug)]
pub struct WebParts {
    /// Keys, and the projects that they open.
    pub catalog: Catalog,
    /// Every setting.
    pub config: Config,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where fresh ids come from.
    pub ids: Arc<dyn IdSource>,
    /// The token in the login link: new at each start.
    pub login_token: LoginToken,
    /// Names this start among those of all servers of the installation.
    pub(crate) start_id: String,
    /// Keys that were used not long ago.
    pub keys: KeyCache,
    /// Requests of projects that were refused not long ago.
    pub refusals: Refusals,
    pub(crate) admission: Admission,
    pub(crate) answers: Admission,
    pub(crate) limits: Limits,
    pub(crate) throttle: Throttle,
}

/// The state of a room: what its handlers reach.
pub trait Room: Clone + Send + Sync + 'static {
    /// What it has in common with the others.
    fn web(&self) -> &Web;
}

impl Room for Web {
    fn web(&self) -> &Web {
        self
    }
}

impl Web {
    /// Nobody has asked yet.
    #[must_use]
    pub fn new(
        catalog: Catalog,
        config: Config,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
    ) -> Self {
        /// What one project may hold of the memory for answers.
        const SHARE_PERCENT: usize = 50;
        let ingest = &config.ingest;
        Self(Arc::new(WebParts {
            answers: Admission::new(config.answers.max_in_flight_bytes, SHARE_PERCENT),
            admission: Admission::new(ingest.max_in_flight_bytes, ingest.max_key_share_percent),
            limits: Limits::default(),
            throttle: Throttle::default(),
            keys: KeyCache::default(),
            refusals: Refusals::default(),
            login_token: LoginToken::new(&*ids, clock.now()),
            start_id: ids.uuid().to_string(),
            catalog,
            config,
            clock,
            ids,
        }))
    }

    /// Bytes that requests under way hold of `ingest.max_in_flight_mib`.
    #[must_use]
    pub fn in_flight_bytes(&self) -> usize {
        self.admission.in_flight_bytes()
    }

    /// Bytes of `answers.max_in_flight_mib` that are in use.
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
