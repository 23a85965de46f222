//! Stops what waits on behalf of rules and evaluators that no longer run.

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::parts::{Error, Inner};

impl Inner {
    /// Stops what waits on behalf of rules and evaluators that no longer run by this catalog: calls that have not begun, and
    /// executions that wait for their next attempt.
    pub(crate) async fn stop_waiting(&self, catalog: &Arc<Catalog>) -> Result<(), Error> {
        let Some(before) = self.open_calls.check(catalog) else {
            return Ok(());
        };
        self.deps.evaluate.answer_withdrawn();
        let now = self.deps.clock.now();
        let mut stopped = before.running();
        for running in catalog.running() {
            stopped.remove(&running);
        }
        for (project, rule, evaluator) in stopped {
            let which = (project, rule, evaluator);
            self.deps.store.ledger.end_delay(which, now).await?;
        }
        Ok(())
    }
}
