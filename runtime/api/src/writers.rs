//! Locks of resources for writers in this process.
//!
//! A conditional update fails and is retried once per concurrent writer. In one process
//! writers wait for each other instead; between processes the condition decides.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use perpend_domain::ids::ProjectId;
use tokio::sync::OwnedMutexGuard;

/// Number of entries at which unused ones are removed.
const MAX_IDLE: usize = 1_024;

type Key = (ProjectId, &'static str, String);

/// One lock per resource that is being written.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    locks: Mutex<HashMap<Key, Weak<tokio::sync::Mutex<()>>>>,
}

impl Writers {
    /// Waits for the other writers of a resource. The next one continues when the guard is dropped.
    pub(crate) async fn enter(
        &self,
        project: &ProjectId,
        kind: &'static str,
        name: &str,
    ) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            if MAX_IDLE <= locks.len() {
                locks.retain(|_, lock| 0 < lock.strong_count());
            }
            let slot = locks.entry((project.clone(), kind, name.to_owned()));
            let slot = slot.or_default();
            match slot.upgrade() {
                Some(lock) => lock,
                None => {
                    let lock = Arc::new(tokio::sync::Mutex::new(()));
                    *slot = Arc::downgrade(&lock);
                    lock
                }
            }
        };
        lock.lock_owned().await
    }
}
