//! What the handlers reach.

use std::ops::Deref;
use std::sync::Arc;

use perpend_catalog::Prices;
use perpend_domain::outline::OutlineCache;
use perpend_http_kit::{AppState, Web};
use perpend_scheduler::Scheduler;
use perpend_storage::Store;

/// Collects the endpoints.
pub(crate) type Routes = perpend_http_kit::routes::Routes<App>;

/// The parts of this room, cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<NewApp>);

/// What an [`App`] is made of.
#[derive(Debug)]
pub struct NewApp {
    /// What it has in common with the other rooms.
    pub web: Web,
    /// The database.
    pub store: Store,
    /// Outlines of the traces that were looked at lately.
    pub outlines: Arc<OutlineCache>,
    /// Woken by a batch of events.
    pub scheduler: Scheduler,
    /// Prices of models.
    pub prices: Arc<Prices>,
}

impl App {
    /// Puts the parts together.
    #[must_use]
    pub fn new(given: NewApp) -> Self {
        Self(Arc::new(given))
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
