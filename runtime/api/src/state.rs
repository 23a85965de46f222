//! State of the handlers.

use std::ops::Deref;
use std::sync::Arc;

use perpend_broker::{ComponentFolder, Engine, Models};
use perpend_catalog::Prices;
use perpend_domain::bundle::Bundle;
use perpend_domain::ids::ProjectId;
use perpend_http_client::Vault;
use perpend_http_kit::{AppState, Web};
use perpend_jobs::runner::Jobs;
use perpend_scheduler::Scheduler;
use perpend_storage::Store;

use crate::datasets::writer::ItemWriter;
use crate::media::Signer;
use crate::turns::{INSPECTIONS, PREFLIGHTS, TRIALS, TurnQueue};
use crate::writers::Writers;

/// Collects the endpoints.
pub(crate) type Routes = perpend_http_kit::routes::Routes<App>;

/// The state, cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<AppParts>);

/// The parts behind [`App`].
#[derive(Debug)]
pub struct AppParts {
    parts: NewApp,
    pub(crate) media_signer: Signer,
    pub(crate) inspections: TurnQueue,
    pub(crate) trials: TurnQueue,
    pub(crate) writers: Writers,
    pub(crate) preflights: TurnQueue,
}

/// The parts of an [`App`] that the caller supplies.
#[derive(Debug)]
pub struct NewApp {
    /// State shared by all crates that serve HTTP.
    pub web: Web,
    /// The database.
    pub store: Store,
    /// Runs evaluators.
    pub engine: Arc<Engine>,
    /// Model connections.
    pub models: Arc<dyn Models>,
    /// Schedules executions of evaluators.
    pub scheduler: Scheduler,
    /// Prices of models.
    pub prices: Arc<Prices>,
    /// Encrypts secrets.
    pub vault: Vault,
    /// Project of the login link.
    pub home_project: ProjectId,
    /// The plug-ins that come with the program.
    pub bundle: Bundle,
    /// Folder of the optional plug-ins.
    pub components: ComponentFolder,
    /// Background jobs.
    pub jobs: Jobs,
}

impl App {
    /// Combines the parts.
    #[must_use]
    pub fn new(parts: NewApp) -> Self {
        Self(Arc::new(AppParts {
            media_signer: Signer::new(&parts.vault),
            parts,
            inspections: TurnQueue::new(INSPECTIONS),
            trials: TurnQueue::new(TRIALS),
            writers: Writers::default(),
            preflights: TurnQueue::new(PREFLIGHTS),
        }))
    }

    /// Writes of items of datasets.
    pub(crate) fn item_writer(&self) -> ItemWriter {
        ItemWriter {
            store: self.store.clone(),
            engine: Arc::clone(&self.engine),
            web: self.web.clone(),
        }
    }
}

impl AppState for App {
    fn web(&self) -> &Web {
        &self.web
    }
}

impl Deref for App {
    type Target = AppParts;

    fn deref(&self) -> &AppParts {
        &self.0
    }
}

impl Deref for AppParts {
    type Target = NewApp;

    fn deref(&self) -> &NewApp {
        &self.parts
    }
}
