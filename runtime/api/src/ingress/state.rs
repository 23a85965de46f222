//! What the handlers reach.

use std::ops::Deref;
use std::sync::Arc;

use perpend_catalog::Prices;
use perpend_http_kit::{AppState, Web};
use perpend_scheduler::Scheduler;
use perpend_storage::Store;

use crate::ingress::Decoders;

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
    /// Is woken when something came.
    pub scheduler: Scheduler,
    /// Prices of models.
    pub prices: Arc<Prices>,
    /// Decode what comes in.
    pub decoders: Decoders,
}

impl App {
    /// Puts the parts together.
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
