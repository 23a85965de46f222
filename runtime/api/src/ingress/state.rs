//! State of the handlers.

use std::ops::Deref;
use std::sync::Arc;

use perpend_catalog::Prices;
use perpend_http_kit::{AppState, Web};
use perpend_scheduler::Scheduler;
use perpend_storage::Store;

use crate::ingress::Decoders;

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
    /// Woken by a stored batch.
    pub scheduler: Scheduler,
    /// Prices of models.
    pub prices: Arc<Prices>,
    /// Threads that decode bodies.
    pub decoders: Decoders,
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
