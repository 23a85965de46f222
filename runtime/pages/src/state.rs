//! State of the page handlers.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use axum::Router;
use perpend_domain::ids::ProjectId;
use perpend_domain::outline::{OutlineCache, TraceCache};
use perpend_domain::text_search::Facets;
use perpend_http_kit::{AppState, Web};
use perpend_scheduler::Scheduler;
use perpend_storage::Store;
use perpend_views::layout::assets::{self, Asset};
use perpend_views::openapi::{ErrorCode, Reference};
use perpend_views::{AttentionCounts, ObservationFingerprints};
use serde_json::Value;

use crate::instance::state::InstanceState;
use crate::request::submissions::Submissions;
use crate::request::ttl_cache::TtlCache;

/// Lifetimes of cached facets and of cached counts in the navigation, in milliseconds.
const FACETS_TTL_MS: i64 = 60_000;
const ATTENTION_TTL_MS: i64 = 5_000;
/// Memory for fingerprints of compared traces, in bytes.
const FINGERPRINT_BYTES: usize = 16 << 20;

/// State of the pages, cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<AppParts>);

#[derive(Debug)]
struct AppParts {
    components: NewApp,
    reference: OnceLock<Reference>,
    code_editor: OnceLock<Option<Arc<Asset>>>,
    submissions: Submissions,
    facets: TtlCache<Arc<Facets>>,
    attention_counts: TtlCache<AttentionCounts>,
    fingerprints: TraceCache<ObservationFingerprints>,
}

/// Components of an [`App`].
#[derive(Debug)]
pub struct NewApp {
    /// State shared with the other HTTP interfaces.
    pub web: Web,
    /// The database.
    pub store: Store,
    /// Directory of the installed files for browsers, which may be missing.
    pub assets: PathBuf,
    /// Cached outlines of recently viewed traces.
    pub outlines: Arc<OutlineCache>,
    /// Explains missing scores.
    pub scheduler: Scheduler,
    /// The result of the last check of the server.
    pub instance: InstanceState,
    /// The project opened by the login link of the startup message.
    pub home_project: ProjectId,
    /// Whether that is the project of the configured key pair.
    pub is_home_configured: bool,
    /// Generates the OpenAPI document; called on the first request for the API reference.
    pub document: fn() -> Value,
    /// Operations of the API with their authentication; pages call them with the viewer's permissions.
    pub operations: Router,
}

impl App {
    /// Creates the state with empty caches.
    #[must_use]
    pub fn new(components: NewApp) -> Self {
        Self(Arc::new(AppParts {
            components,
            reference: OnceLock::new(),
            code_editor: OnceLock::new(),
            submissions: Submissions::default(),
            facets: TtlCache::new(FACETS_TTL_MS),
            attention_counts: TtlCache::new(ATTENTION_TTL_MS),
            fingerprints: TraceCache::with_max_bytes(FINGERPRINT_BYTES),
        }))
    }

    /// The API reference, built on the first call with the errors of the operations.
    pub(crate) fn reference(&self, faults: fn() -> Vec<ErrorCode>) -> &Reference {
        let parts = &self.0;
        parts.reference.get_or_init(|| Reference::of(&(parts.components.document)(), faults()))
    }
}

impl App {
    /// The script of the code editor, if it is installed. It is read on the first call.
    pub(crate) fn code_editor(&self) -> Option<&Arc<Asset>> {
        self.0.code_editor.get_or_init(|| code_editor(&self.assets).map(Arc::new)).as_ref()
    }

    /// The file for browsers at a path.
    pub(crate) fn asset(&self, path: &str) -> Option<Arc<Asset>> {
        let editor = || self.code_editor().filter(|editor| editor.path == path).cloned();
        assets::find(path).or_else(editor)
    }

    /// Recently submitted forms.
    pub(crate) fn submissions(&self) -> &Submissions {
        &self.0.submissions
    }

    /// Cached facets of the newest traces, by project.
    pub(crate) fn facets(&self) -> &TtlCache<Arc<Facets>> {
        &self.0.facets
    }

    /// Cached content fingerprints of recently compared traces.
    pub(crate) fn fingerprints(&self) -> &TraceCache<ObservationFingerprints> {
        &self.0.fingerprints
    }

    /// Cached numbers of paused rules and failed executions, by project.
    pub(crate) fn attention_counts(&self) -> &TtlCache<AttentionCounts> {
        &self.0.attention_counts
    }
}

/// The code editor in a directory (docs/decisions/0014-code-editor.md). Without it, pages have the text area alone.
fn code_editor(directory: &Path) -> Option<Asset> {
    let script = fs::read(directory.join("code-editor.js")).ok()?;
    let packed = fs::read(directory.join("code-editor.js.br")).ok();
    Some(Asset::code_editor(script, packed))
}

impl AppState for App {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_editor_is_there_only_if_its_file_is_installed() {
        let directory = tempfile::tempdir().unwrap();
        assert!(code_editor(directory.path()).is_none());
        fs::write(directory.path().join("code-editor.js"), "script").unwrap();
        let script = code_editor(directory.path()).unwrap();
        assert_eq!((&*script.bytes, script.packed.get()), (&b"script"[..], None));
        fs::write(directory.path().join("code-editor.js.br"), "packed").unwrap();
        let script = code_editor(directory.path()).unwrap();
        assert_eq!(script.packed.get().map(Vec::as_slice), Some(&b"packed"[..]));
    }
}
