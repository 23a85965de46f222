//! What the handlers reach.

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

use crate::media::Signer;
use crate::turns::{INSPECTIONS, PREFLIGHTS, TRIALS, TurnQueue};
use crate::writers::Writers;

/// Collects the endpoints.
pub(crate) type Routes = perpend_http_kit::routes::Routes<App>;

/// The parts of this room, cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<Parts>);

/// The parts behind [`App`].
#[derive(Debug)]
pub struct Parts {
    given: NewApp,
    pub(crate) media_signer: Signer,
    pub(crate) inspections: TurnQueue,
    pub(crate) trials: TurnQueue,
    pub(crate) writers: Writers,
    pub(crate) preflights: TurnQueue,
}

/// What an [`App`] is made of.
#[derive(Debug)]
pub struct NewApp {
    /// What it has in common with the other rooms.
    pub web: Web,
    /// The database.
    pub store: Store,
    /// Runs evaluators.
    pub engine: Arc<Engine>,
    /// What evaluators ask.
    pub models: Arc<dyn Models>,
    /// Turns what arrives into scores.
    pub scheduler: Scheduler,
    /// Prices of models.
    pub prices: Arc<Prices>,
    /// Encrypts what is stored and must be read again.
    pub vault: Vault,
    /// The project that the login link opens.
    pub home_project: ProjectId,
    /// The plug-ins that come with the program.
    pub bundle: Bundle,
    /// Where its optional plug-ins are.
    pub components: ComponentFolder,
    /// Background jobs.
    pub jobs: Jobs,
}

impl App {
    /// Puts the parts together.
    #[must_use]
    pub fn new(given: NewApp) -> Self {
        Self(Arc::new(Parts {
            media_signer: Signer::new(&given.vault),
            given,
            inspections: TurnQueue::new(INSPECTIONS),
            trials: TurnQueue::new(TRIALS),
            writers: Writers::default(),
            preflights: TurnQueue::new(PREFLIGHTS),
        }))
    }
}

impl AppState for App {
    fn web(&self) -> &Web {
        &self.web
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Deref for Parts {
    type Target = NewApp;

    fn deref(&self) -> &NewApp {
        &self.given
    }
}
