//! Cache of recently written observations for the engine, which would otherwise read each of them twice, once
//! to match it and once to score it.
//!
//! A miss reads the database, and without an engine that reads the cache nothing is kept. Invariant: cached
//! observations equal the stored ones. An observation that is replaced or deleted is removed before the
//! commit of the change becomes visible. This holds only if this process is the only writer, so the cache is
//! used on SQLite only.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::observation::Observation;

use super::block;
use super::prepare::{PreparedBatch, PreparedRow};
use crate::Error;

/// Approximate size in bytes: at 20,000 spans of 1.4 KB per second a good half second of them.
const MAX_BYTES: usize = 24 << 20;

type ObservationKey = (TraceId, ObservationId);
type Key = (i64, TraceId, ObservationId);

/// The latest observations; the oldest are evicted first.
#[derive(Debug, Default)]
pub(super) struct ObservationCache {
    cached: Mutex<CachedObservations>,
}

#[derive(Debug, Default)]
struct CachedObservations {
    rows: HashMap<Key, Arc<PreparedRow>>,
    /// In order of arrival; may contain keys of removed observations.
    order: VecDeque<(Key, usize)>,
    n_bytes: usize,
    /// Number of invalidations.
    n_forgotten: u64,
    /// Bytes that may be added before the next read; then the cache is emptied.
    n_budget: usize,
}

impl ObservationCache {
    fn lock(&self) -> MutexGuard<'_, CachedObservations> {
        // The guarded value is consistent between any two statements, also after a panic.
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be read inside a write transaction: a later invalidation has to wait for its commit.
    pub(super) fn n_forgotten(&self) -> u64 {
        self.lock().n_forgotten
    }

    /// Keeps a batch of which every row was new and has been committed, unless an invalidation occurred since
    /// `n_forgotten`: it may concern one of these rows, replaced directly after the commit.
    pub(super) fn keep(&self, tenant: i64, batch: PreparedBatch, n_forgotten: u64) {
        let mut cached = self.lock();
        if cached.n_forgotten != n_forgotten {
            return;
        }
        cached.n_budget = cached.n_budget.saturating_sub(batch.n_bytes);
        if cached.n_budget == 0 {
            // No rule is active, or none has read the cache for long.
            cached.clear();
            return;
        }
        for row in batch.traces.into_iter().flat_map(|trace| trace.rows) {
            let n_bytes = row.n_bytes();
            let key = key(tenant, &row.observation.trace_id, &row.observation.id);
            cached.rows.insert(key.clone(), Arc::new(row));
            cached.order.push_back((key, n_bytes));
            cached.n_bytes += n_bytes;
        }
        while MAX_BYTES < cached.n_bytes
            && let Some((key, n_bytes)) = cached.order.pop_front()
        {
            cached.rows.remove(&key);
            cached.n_bytes -= n_bytes;
        }
    }

    /// Removes observations before they are replaced.
    pub(super) fn forget(&self, tenant: i64, changed: &[ObservationKey]) {
        let mut cached = self.lock();
        cached.n_forgotten += 1;
        for (trace, id) in changed {
            cached.rows.remove(&key(tenant, trace, id));
        }
    }

    /// Removes all observations before traces are deleted.
    pub(super) fn forget_all(&self) {
        let mut cached = self.lock();
        cached.n_forgotten += 1;
        cached.clear();
    }

    /// Sizes of the contents of the cached observations.
    pub(super) fn sizes(&self, tenant: i64, keys: &[ObservationKey]) -> Vec<Option<usize>> {
        let cached = self.lock();
        let size = |pair: &ObservationKey| {
            let row = cached.rows.get(&key(tenant, &pair.0, &pair.1))?;
            Some(row.content.len())
        };
        keys.iter().map(size).collect()
    }

    /// The cached observations, and the keys of the others. The read also keeps the cache enabled.
    pub(super) fn split<'k>(
        &self,
        tenant: i64,
        keys: &'k [ObservationKey],
        with_content: bool,
    ) -> Result<(Vec<Observation>, Vec<&'k ObservationKey>), Error> {
        let mut here: Vec<Arc<PreparedRow>> = Vec::with_capacity(keys.len());
        let mut elsewhere = Vec::new();
        let mut cached = self.lock();
        cached.n_budget = 4 * MAX_BYTES;
        for pair in keys {
            match cached.rows.get(&key(tenant, &pair.0, &pair.1)) {
                Some(row) => here.push(Arc::clone(row)),
                None => elsewhere.push(pair),
            }
        }
        // Cloning and parsing need no lock.
        drop(cached);
        let found = here.iter().map(|row| {
            let mut observation = row.observation.clone();
            if with_content && !row.content.is_empty() {
                observation.content = block::from_json(&row.content)?;
            }
            Ok::<_, Error>(observation)
        });
        Ok((found.collect::<Result<_, _>>()?, elsewhere))
    }
}

impl CachedObservations {
    fn clear(&mut self) {
        self.rows.clear();
        self.order.clear();
        self.n_bytes = 0;
    }
}

fn key(tenant: i64, trace: &TraceId, id: &ObservationId) -> Key {
    (tenant, trace.clone(), id.clone())
}
