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

#[cfg(test)]
mod tests {
    use super::*;

    fn cached() -> Arc<CachedComparison> {
        let comparison = Comparison {
            base: "a".to_owned(),
            alpha: 0.05,
            runs: Vec::new(),
            noise_runs: Vec::new(),
            warnings: Vec::new(),
            metrics: Vec::new(),
            segments: Vec::new(),
            n_items: 0,
            items: Vec::new(),
        };
        Arc::new(CachedComparison { comparison, items: Vec::new() })
    }

    #[test]
    fn an_entry_expires_and_the_oldest_of_many_is_dropped() {
        let cache = ComparisonCache::default();
        let project = ProjectId::new("p").unwrap();
        let key = |n: usize| ComparisonKey { project: project.clone(), query: n.to_string() };
        let at = Timestamp::from_millis;
        cache.put(key(0), vec![RunRevision::default()], at(0), &cached());
        assert!(cache.get(&key(0), &[RunRevision::default()], at(1)).is_some());
        assert!(cache.get(&key(0), &[], at(1)).is_none());
        assert!(cache.get(&key(0), &[RunRevision::default()], at(MAX_AGE_MS)).is_none());
        for n in 0..=MAX_ENTRIES {
            cache.put(key(n), Vec::new(), at(0), &cached());
        }
        assert!(cache.get(&key(0), &[], at(1)).is_none());
        assert!(cache.get(&key(MAX_ENTRIES), &[], at(1)).is_some());
    }
}
