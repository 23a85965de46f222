//! Comparisons that were requested recently.

use std::sync::{Arc, Mutex, PoisonError};

use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_experiments::comparison::{Comparison, ItemComparison};
use perpend_telemetry::experiments::RunRevision;

/// Cached comparisons.
const MAX_ENTRIES: usize = 16;
/// Comparisons of more items are not cached.
const MAX_ITEMS: usize = 20_000;
/// The age at which an entry expires: changes of items, evaluators and further runs are not part of the revisions.
const MAX_AGE_MS: i64 = 60_000;

/// A comparison without its items, and the items.
#[derive(Debug)]
pub(super) struct CachedComparison {
    pub(super) comparison: Comparison,
    pub(super) items: Vec<ItemComparison>,
}

/// The project, the runs and the options of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ComparisonKey {
    pub(super) project: ProjectId,
    pub(super) query: String,
}

#[derive(Debug)]
struct Entry {
    key: ComparisonKey,
    revisions: Vec<RunRevision>,
    cached_at: Timestamp,
    value: Arc<CachedComparison>,
}

/// The newest comparisons, newest last.
#[derive(Debug, Default)]
pub(crate) struct ComparisonCache(Mutex<Vec<Entry>>);

impl ComparisonCache {
    pub(super) fn get(
        &self,
        key: &ComparisonKey,
        revisions: &[RunRevision],
        now: Timestamp,
    ) -> Option<Arc<CachedComparison>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| now.micros_since(entry.cached_at) < MAX_AGE_MS * 1_000);
        let found = entries.iter().find(|entry| entry.key == *key)?;
        (found.revisions == revisions).then(|| Arc::clone(&found.value))
    }

    /// Stores a comparison of results that were read after their revisions.
    pub(super) fn put(
        &self,
        key: ComparisonKey,
        revisions: Vec<RunRevision>,
        now: Timestamp,
        value: &Arc<CachedComparison>,
    ) {
        if MAX_ITEMS < value.items.len() {
            return;
        }
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| entry.key != key);
        if MAX_ENTRIES <= entries.len() {
            entries.remove(0);
        }
        entries.push(Entry { key, revisions, cached_at: now, value: Arc::clone(value) });
    }
}
