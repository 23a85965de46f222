//! Whether statements failed because the database was unavailable.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use perpend_domain::time::Timestamp;

use crate::Error;

/// What is known of the writes of a database.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writes(pub(crate) Arc<Known>);

#[derive(Debug, Default)]
pub(crate) struct Known {
    /// A statement failed, and no write of a large row has succeeded since.
    pub(crate) has_failed: AtomicBool,
    /// Held by the probe that writes a row.
    pub(crate) proving: tokio::sync::Mutex<()>,
    /// When a probe wrote a row last, and whether it succeeded.
    last: Mutex<Option<(Timestamp, bool)>>,
}

impl Known {
    pub(crate) fn last(&self) -> Option<(Timestamp, bool)> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_last(&self, at: Timestamp, is_written: bool) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((at, is_written));
    }
}

impl Writes {
    /// Notes why a statement failed.
    pub(crate) fn note<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if matches!(result, Err(Error::Unavailable(_))) {
            self.0.has_failed.store(true, Ordering::Relaxed);
        }
        result
    }
}
