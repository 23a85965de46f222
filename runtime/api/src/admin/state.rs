//! What the handlers reach.

use std::ops::Deref;
use std::sync::Arc;

use perpend_http_client::{OutboundClient, Vault};
use perpend_http_kit::{AppState, Web};
use perpend_storage::Store;
use tokio::sync::Notify;

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
    /// Encrypts the keys of buckets.
    pub vault: Vault,
    /// Reaches buckets to check their settings.
    pub outbound: OutboundClient,
    /// Notified when a project was deleted, so that its data are deleted soon.
    pub sweep_wanted: Arc<Notify>,
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
