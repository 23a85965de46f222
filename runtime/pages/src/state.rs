//! What the pages reach.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use axum::Router;
use perpend_domain::ids::ProjectId;
use perpend_domain::outline::{OutlineCache, TraceCache};
use perpend_domain::text_search::Facets;
use perpend_http_kit::{Room, Web};
use perpend_scheduler::Scheduler;
use perpend_storage::Store;
use perpend_views::openapi::{ErrorCode, Reference};
use perpend_views::{AttentionCounts, ObservationFingerprints};
use serde_json::Value;

use crate::request::submissions::Submissions;
use crate::request::ttl_cache::TtlCache;

/// How long values to filter by, and what waits for people, are taken for the present ones, in milliseconds.
const FACETS_TTL_MS: i64 = 60_000;
const WAITS_TTL_MS: i64 = 5_000;
/// Memory of what the contents of compared traces are told apart by.
const FINGERPRINT_BYTES: usize = 16 << 20;

/// The parts of this room, cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<AppParts>);

/// The parts behind [`App`].
#[derive(Debug)]
struct AppParts {
    components: NewApp,
    reference: OnceLock<Reference>,
    submissions: Submissions,
    values: TtlCache<Arc<Facets>>,
    waits: TtlCache<AttentionCounts>,
    prints: TraceCache<ObservationFingerprints>,
}

/// What an [`App`] is made of.
#[derive(Debug)]
pub struct NewApp {
    /// What it has in common with the other rooms.
    pub web: Web,
    /// The database.
    pub store: Store,
    /// Outlines of the traces that were looked at lately.
    pub outlines: Arc<OutlineCache>,
    /// Says why something has no score.
    pub scheduler: Scheduler,
    /// The project that the login link opens.
    pub home_project: ProjectId,
    /// The OpenAPI document, when somebody looks at the reference.
    pub document: fn() -> Value,
    /// The operations of the API, each behind its guard: a page asks those that read for its viewer.
    pub operations: Router,
}

impl App {
    /// Puts the parts together.
    #[must_use]
    pub fn new(components: NewApp) -> Self {
        Self(Arc::new(AppParts {
            components,
            reference: OnceLock::new(),
            submissions: Submissions::default(),
            values: TtlCache::new(FACETS_TTL_MS),
            waits: TtlCache::new(WAITS_TTL_MS),
            prints: TraceCache::of_at_most(FINGERPRINT_BYTES),
        }))
    }

    /// What the pages about the API show; made for the first who looks, with the errors that operations answer.
    pub(crate) fn reference(&self, faults: fn() -> Vec<ErrorCode>) -> &Reference {
        let parts = &self.0;
        parts.reference.get_or_init(|| Reference::of(&(parts.components.document)(), faults()))
    }
}

impl App {
    /// Forms that were acted on a moment ago.
    pub(crate) fn submissions(&self) -> &Submissions {
        &self.0.submissions
    }

    /// Values that traces had a moment ago.
    pub(crate) fn values(&self) -> &TtlCache<Arc<Facets>> {
        &self.0.values
    }

    /// What the contents of traces that were compared lately are told apart by.
    pub(crate) fn prints(&self) -> &TraceCache<ObservationFingerprints> {
        &self.0.prints
    }

    /// How many rules were paused and executions had failed a moment ago.
    pub(crate) fn waits(&self) -> &TtlCache<AttentionCounts> {
        &self.0.waits
    }
}

impl Room for App {
    fn web(&self) -> &Web {
        &self.web
    }
}

impl Deref for App {
    type Target = NewApp;

    fn deref(&self) -> &NewApp {
        &self.0.components
    }
}
