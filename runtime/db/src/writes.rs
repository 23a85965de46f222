//! Statements that failed because the database was unavailable.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use perpend_domain::time::Timestamp;

use crate::Error;

/// Health of the writes of a database.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writes(pub(crate) Arc<WriteHealth>);

#[derive(Debug, Default)]
pub(crate) struct WriteHealth {
    /// Number of statements that failed because the database was unavailable.
    n_failures: AtomicU64,
    /// Number of these failures before the last successful write of a large row.
    n_before_success: AtomicU64,
    /// Held by the probe that writes a row.
    pub(crate) proving: tokio::sync::Mutex<()>,
    /// Time and success of the last write of a probe.
    last: Mutex<Option<(Timestamp, bool)>>,
}

impl WriteHealth {
    /// Number of failed statements, and whether one of them failed after the start of the last successful
    /// write of a large row.
    pub(crate) fn failures(&self) -> (u64, bool) {
        let n_failures = self.n_failures.load(Ordering::Relaxed);
        let n_before_success = self.n_before_success.load(Ordering::Relaxed);
        (n_failures, n_failures != n_before_success)
    }

    /// Records that a large row was written after this number of failures.
    pub(crate) fn record_large_write(&self, n_failures: u64) {
        self.n_before_success.store(n_failures, Ordering::Relaxed);
    }

    pub(crate) fn last(&self) -> Option<(Timestamp, bool)> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_last(&self, at: Timestamp, is_written: bool) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((at, is_written));
    }
}

impl Writes {
    /// Records the error of a statement.
    pub(crate) fn note<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if matches!(result, Err(Error::Unavailable(_))) {
            self.0.n_failures.fetch_add(1, Ordering::Relaxed);
        }
        result
    }
}
