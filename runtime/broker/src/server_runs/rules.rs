//! Disables the rules of experiments whose runs have ended: a project has a limited number of active rules.

use perpend_catalog::RulePatch;
use perpend_db::Error;
use perpend_executions::StateCount;

use super::engine::RunEngine;

/// After the end of the last run of an experiment, results of evaluators and late changes are awaited for this time.
const LINGER_MS: i64 = 600_000;

impl RunEngine {
    /// Disables each rule whose runs ended a while ago, when all their results are scored. Runs do not depend on it: a failure is
    /// logged.
    pub(super) async fn disable_rules(&self) {
        if let Err(error) = self.disable_unused_rules().await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "rules of ended runs cannot be disabled");
        }
    }

    async fn disable_unused_rules(&self) -> Result<(), Error> {
        let before = self.clock.now().plus_millis(-LINGER_MS);
        let rules = self.store.rules_of_ended_runs(before).await?;
        if rules.is_empty() {
            return Ok(());
        }
        // Results of the runs may still wait for the matcher.
        let oldest = self.store.telemetry.touched(1).await?;
        if oldest.first().is_some_and(|change| change.received_at <= before) {
            return Ok(());
        }
        let is_open = |count: &StateCount| !count.state.is_final() && 0 < count.n;
        for (project, rule) in rules {
            let states = self.store.ledger.rule_states(&project, &rule).await?;
            if states.iter().any(is_open) {
                continue;
            }
            let patch = RulePatch { enabled: Some(false), ..RulePatch::default() };
            match self.store.catalog.patch_rule(&project, &rule, &patch, &*self.clock).await {
                // A user has deleted it.
                Ok(_) | Err(Error::NotFound) => {}
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(error, %rule, "the rule of ended runs cannot be disabled");
                }
            }
        }
        Ok(())
    }
}
