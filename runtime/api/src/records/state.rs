//! State of the handlers.

use std::ops::Deref;
use std::sync::Arc;

use perpend_catalog::Prices;
use perpend_domain::outline::OutlineCache;
use perpend_http_kit::{AppState, Web};
use perpend_scheduler::Scheduler;
use perpend_storage::Store;

/// Collects the endpoints.
pub(crate) type Routes = perpend_http_kit::routes::Routes<App>;

/// The state, cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<NewApp>);

/// The parts of an [`App`].
#[derive(Debug)]
pub struct NewApp {
    /// State shared by all crates that serve HTTP.
    pub web: Web,
    /// The database.
    pub store: Store,
    /// Outlines of recently viewed traces.
    pub outlines: Arc<OutlineCache>,
    /// Woken by a batch of events.
    pub scheduler: Scheduler,
    /// Prices of models.
    pub prices: Arc<Prices>,
}

impl App {
    /// Combines the parts.
    #[must_use]
    pub fn new(parts: NewApp) -> Self {
        Self(Arc::new(parts))
    }
}

impl AppState for App {
    fn web(&self) -> &Web {
        &self.web
    }
}

impl Deref for App {
    type Target = NewApp;

    fn deref(&self) -> &NewApp {
        &self.0
    }
}
