//! Stops waiting work of rules and evaluators that no longer run.

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::deps::{Error, Inner};

impl Inner {
    /// Stops the waiting work of rules and evaluators that no longer run by this catalog: calls that have not
    /// started, and executions that wait for their next attempt. The next step retries failed statements.
    pub(crate) async fn stop_waiting(&self, catalog: &Arc<Catalog>) -> Result<(), Error> {
        if self.open_calls.check(catalog) {
            self.deps.evaluate.answer_withdrawn();
        }
        let now = self.deps.clock.now();
        for stopped in self.open_calls.stopped() {
            let (project, rule, evaluator) = &stopped;
            let which = (project, rule, evaluator);
            self.deps.store.ledger.end_delay(which, now).await?;
            self.open_calls.end_stopped(&stopped);
        }
        Ok(())
    }
}
