//! A cache of values computed from recently viewed traces.

use std::sync::{Arc, Mutex, PoisonError};

use crate::ids::{ProjectId, TraceId};
use crate::telemetry::{ObservationSummary, TraceVersion};
use hashlink::LruCache;

use crate::outline::Outline;

/// Memory of all outlines together.
const OUTLINES: usize = 64 << 20;

/// The trace of a value.
type Key = (ProjectId, TraceId);

/// The memory of a cached value.
pub trait HeapSize {
    /// Approximate size in bytes.
    fn n_bytes(&self) -> usize;
}

/// An LRU cache with one value per trace, computed from its newest version.
#[derive(Debug)]
pub struct TraceCache<T>(Mutex<Entries<T>>);

/// Outlines of recently viewed traces.
pub type OutlineCache = TraceCache<Outline>;

#[derive(Debug)]
struct Entries<T> {
    by_trace: LruCache<Key, Cached<T>>,
    n_bytes: usize,
    max_bytes: usize,
}

#[derive(Debug)]
struct Cached<T> {
    version: TraceVersion,
    value: Arc<T>,
    n_bytes: usize,
}

impl<T> Entries<T> {
    /// Approximate overhead of an entry: map slot, ids and allocations.
    const OVERHEAD: usize = size_of::<Key>() + size_of::<Cached<T>>() + size_of::<T>() + 128;

    fn keep(&mut self, key: Key, version: TraceVersion, value: Arc<T>, n_bytes: usize) {
        let n_bytes = n_bytes + Self::OVERHEAD + 2 * (key.0.as_str().len() + key.1.as_str().len());
        if let Some(old) = self.by_trace.remove(&key) {
            self.n_bytes -= old.n_bytes;
        }
        // A value larger than the limit would evict all others.
        if self.max_bytes < n_bytes {
            return;
        }
        self.n_bytes += n_bytes;
        let value = Cached { version, value, n_bytes };
        self.by_trace.insert(key, value);
        while self.max_bytes < self.n_bytes {
            let Some((_, oldest)) = self.by_trace.remove_lru() else {
                break;
            };
            self.n_bytes -= oldest.n_bytes;
        }
    }
}

impl<T: HeapSize> TraceCache<T> {
    /// A cache of at most this many bytes.
    #[must_use]
    pub fn with_max_bytes(max_bytes: usize) -> Self {
        Self(Mutex::new(Entries { by_trace: LruCache::new_unbounded(), n_bytes: 0, max_bytes }))
    }

    /// The value of this version of a trace, if it is cached.
    #[must_use]
    pub fn get(&self, key: &Key, version: TraceVersion) -> Option<Arc<T>> {
        self.with(|entries| {
            let held = entries.by_trace.get(key)?;
            (held.version == version).then(|| Arc::clone(&held.value))
        })
    }

    /// Inserts a value and replaces the one of an older version. `version` was read before the trace: if the trace changed in
    /// between, the value is newer than its version and is computed again on the next request.
    #[must_use]
    pub fn keep(&self, key: Key, version: TraceVersion, value: T) -> Arc<T> {
        let value = Arc::new(value);
        let n_bytes = value.n_bytes();
        self.with(|entries| entries.keep(key, version, Arc::clone(&value), n_bytes));
        value
    }

    fn with<R>(&self, work: impl FnOnce(&mut Entries<T>) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Default for OutlineCache {
    fn default() -> Self {
        Self::with_max_bytes(OUTLINES)
    }
}

impl OutlineCache {
    /// Builds the outline of these observations and inserts it.
    #[must_use]
    pub fn make(
        &self,
        key: Key,
        version: TraceVersion,
        steps: Vec<ObservationSummary>,
    ) -> Arc<Outline> {
        self.keep(key, version, Outline::new(steps))
    }
}

#[cfg(test)]
mod tests {
    use crate::observation::{Level, ObservationKind};
    use crate::time::Timestamp;

    use super::*;

    fn outline(n: usize) -> Outline {
        let observation = |at: usize| ObservationSummary {
            id: format!("{at:016}"),
            parent_id: None,
            kind: ObservationKind::Span,
            name: "step".to_owned(),
            level: Level::Default,
            start: Timestamp::from_millis(0),
            end: None,
            first_token: None,
            model: None,
            tokens: None,
            cost: None,
        };
        Outline::new((0..n).map(observation).collect())
    }

    fn key(trace: &str) -> Key {
        let project = ProjectId::new("p").unwrap();
        (project, TraceId::new(trace).unwrap())
    }

    const fn version(revision: i64) -> TraceVersion {
        TraceVersion { number: 1, revision }
    }

    #[test]
    fn outlines_are_held_by_version_and_within_their_memory() {
        let any = OutlineCache::default();
        let _made = any.keep(key("x"), version(1), outline(100));
        let each = any.with(|entries| entries.n_bytes);
        assert!(outline(100).n_bytes() < each);
        let outlines = OutlineCache::with_max_bytes(2 * each + each / 2);
        let keep = |trace, at, n| {
            let _made = outlines.keep(key(trace), version(at), outline(n));
        };
        let has = |trace, at| outlines.get(&key(trace), version(at)).is_some();
        keep("a", 1, 100);
        assert!(has("a", 1) && !has("a", 2));
        keep("a", 2, 100);
        assert_eq!(outlines.with(|entries| entries.n_bytes), each);
        keep("b", 1, 100);
        assert!(has("a", 2));
        keep("c", 1, 100);
        // The one that was not used since.
        assert!(!has("b", 1) && has("a", 2));
        keep("d", 1, 1_000);
        assert!(!has("d", 1));
        let left = outlines.with(|entries| (entries.by_trace.len(), entries.n_bytes));
        assert_eq!(left, (2, 2 * each));
    }

    #[test]
    fn fifty_thousand_rows_take_a_few_megabytes() {
        assert!(outline(50_000).n_bytes() < 12 << 20);
    }
}
