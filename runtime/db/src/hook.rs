//! Rows that belong to the transaction of a change, such as its audit record.
//!
//! Invariant:
//! - **No change without its rows.** [`Tx::commit`] calls the hook of the task in each transaction that changed rows; a
//!   hook that fails rolls the transaction back.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::{Error, Tx};

tokio::task_local! {
    static CURRENT: Arc<dyn CommitHook>;
}

/// Takes part in the transactions of a task.
pub trait CommitHook: fmt::Debug + Send + Sync {
    /// Called before the commit of a transaction that changed rows.
    fn before_commit<'a>(&'a self, tx: &'a mut Tx) -> BoxFuture<'a, Result<(), Error>>;

    /// Called after the commit.
    fn committed(&self);
}

/// Runs a future whose transactions call the hook.
pub async fn with_hook<F: Future>(hook: Arc<dyn CommitHook>, future: F) -> F::Output {
    CURRENT.scope(hook, future).await
}

/// The hook of the current task.
pub(crate) fn current() -> Option<Arc<dyn CommitHook>> {
    CURRENT.try_with(Arc::clone).ok()
}
