//! Whether statements failed lately because the database was unavailable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use perpend_domain::time::Timestamp;
use tokio::sync::Mutex;

use crate::Error;

/// What is known of the writes of a database.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writes(pub(crate) Arc<Known>);

#[derive(Debug, Default)]
pub(crate) struct Known {
    /// A statement failed, and no write of a large row has succeeded since.
    pub(crate) has_failed: AtomicBool,
    /// When the last write of a row succeeded.
    pub(crate) proved_at: Mutex<Option<Timestamp>>,
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
