//! Outlines of traces that were looked at lately.

use std::sync::{Arc, Mutex, PoisonError};

use hashlink::LruCache;
use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::telemetry::{Bone, TraceVersion};

use crate::Outline;

/// Memory of all outlines together.
const MAX_BYTES: usize = 64 << 20;

/// Which trace an outline is of.
type Key = (ProjectId, TraceId);

/// One outline for each trace, that of its newest version; the one used longest ago goes first.
#[derive(Debug)]
pub struct Outlines(Mutex<Held>);

impl Default for Outlines {
    fn default() -> Self {
        Self::of_at_most(MAX_BYTES)
    }
}

#[derive(Debug)]
struct Held {
    by_trace: LruCache<Key, Made>,
    n_bytes: usize,
    max_bytes: usize,
}

#[derive(Debug)]
struct Made {
    version: TraceVersion,
    outline: Arc<Outline>,
    n_bytes: usize,
}

impl Held {
    fn get(&mut self, key: &Key, version: TraceVersion) -> Option<Arc<Outline>> {
        let made = self.by_trace.get(key)?;
        (made.version == version).then(|| Arc::clone(&made.outline))
    }

    fn keep(&mut self, key: Key, version: TraceVersion, outline: Arc<Outline>) {
        let n_bytes = outline.n_bytes();
        if let Some(old) = self.by_trace.remove(&key) {
            self.n_bytes -= old.n_bytes;
        }
        // One that is larger than all of the room would only drive the others out.
        if self.max_bytes < n_bytes {
            return;
        }
        self.n_bytes += n_bytes;
        let made = Made {
            version,
            outline,
            n_bytes,
        };
        self.by_trace.insert(key, made);
        while self.max_bytes < self.n_bytes {
            let Some((_, oldest)) = self.by_trace.remove_lru() else {
                break;
            };
            self.n_bytes -= oldest.n_bytes;
        }
    }
}

impl Outlines {
    fn of_at_most(max_bytes: usize) -> Self {
        Self(Mutex::new(Held {
            by_trace: LruCache::new_unbounded(),
            n_bytes: 0,
            max_bytes,
        }))
    }

    /// The outline of this version of a trace, where it is still held.
    #[must_use]
    pub fn get(&self, key: &Key, version: TraceVersion) -> Option<Arc<Outline>> {
        self.with(|held| held.get(key, version))
    }

    /// Makes the outline of these steps, and holds it in the place of an older one. The version is one from before the steps
    /// were read: what changed in between makes the outline newer than its version, and it is made anew when next asked for.
    #[must_use]
    pub fn make(&self, key: Key, version: TraceVersion, steps: Vec<Bone>) -> Arc<Outline> {
        let outline = Arc::new(Outline::new(steps));
        self.with(|held| held.keep(key, version, Arc::clone(&outline)));
        outline
    }

    fn with<T>(&self, work: impl FnOnce(&mut Held) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use perpend_domain::observation::{Level, ObservationKind};
    use perpend_domain::time::Timestamp;

    use super::*;

    fn outline(n: usize) -> Arc<Outline> {
        let bone = |at: usize| Bone {
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
        Arc::new(Outline::new((0..n).map(bone).collect()))
    }

    fn key(trace: &str) -> Key {
        let project = ProjectId::new("p").unwrap();
        (project, TraceId::new(trace).unwrap())
    }

    const fn version(revision: i64) -> TraceVersion {
        TraceVersion {
            number: 1,
            revision,
        }
    }

    #[test]
    fn outlines_are_held_by_version_and_within_their_memory() {
        let each = outline(100).n_bytes();
        let outlines = Outlines::of_at_most(2 * each + each / 2);
        outlines.with(|held| {
            held.keep(key("a"), version(1), outline(100));
            assert!(held.get(&key("a"), version(1)).is_some());
            assert!(held.get(&key("a"), version(2)).is_none());
            held.keep(key("a"), version(2), outline(100));
            assert_eq!(held.n_bytes, each);
            held.keep(key("b"), version(1), outline(100));
            held.get(&key("a"), version(2));
            held.keep(key("c"), version(1), outline(100));
            // The one that was not used since.
            assert!(held.get(&key("b"), version(1)).is_none());
            assert!(held.get(&key("a"), version(2)).is_some());
            held.keep(key("d"), version(1), outline(1_000));
            assert!(held.get(&key("d"), version(1)).is_none());
            assert_eq!((held.by_trace.len(), held.n_bytes), (2, 2 * each));
        });
    }

    #[test]
    fn fifty_thousand_rows_take_a_few_megabytes() {
        assert!(outline(50_000).n_bytes() < 12 << 20);
    }
}
