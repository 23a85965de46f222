//! What the handlers reach.

use std::ops::Deref;
use std::sync::Arc;

use perpend_http_client::{OutboundClient, Vault};
use perpend_http_kit::{AppState, Web};
use perpend_jobs::runner::Jobs;
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
    /// Encrypts the keys of buckets.
    pub vault: Vault,
    /// Reaches buckets to check their settings.
    pub outbound: OutboundClient,
    /// The deletion of a project wakes one of them.
    pub jobs: Jobs,
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
