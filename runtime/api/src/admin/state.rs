//! State of the handlers.

use std::ops::Deref;
use std::sync::Arc;

use perpend_http_client::{OutboundClient, Vault};
use perpend_http_kit::{AppState, Web};
use perpend_jobs::runner::Jobs;
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
    /// Encrypts the keys of buckets.
    pub vault: Vault,
    /// Reaches buckets to check their settings.
    pub outbound: OutboundClient,
    /// Notified after the deletion of a project, so that its data is deleted soon.
    pub jobs: Jobs,
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
