//! What a person or a client scored is matched again by the rules whose filter looks at scores (evaluation.md 3.11).
//!
//! Only what is complete, and of which such a rule has no execution: whatever is not complete yet is matched when it is, and
//! sees the scores then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use perpend_domain::evaluation::{Execution, Target, TargetKind};
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::telemetry::Touched;
use perpend_domain::time::Timestamp;

use crate::after::is_open;
use crate::catalog::PreparedRule;
use crate::completeness::{completion, observation_completion};
use crate::decide::{Complete, is_item};
use crate::matcher::{Pass, began_at, of_rule};
use crate::parts::{Error, Inner};
use crate::target::{ObservationRow, TraceRow};

/// Whether the rule can be asked again once a target is scored: it does not wait for its own part of the others.
fn is_ready(rule: &PreparedRule, all: &[Execution], target: &Target) -> bool {
    let is_over = |id| !is_open(&of_rule(all, id, target));
    rule.rule.after.iter().all(is_over)
}

fn reading<'r>(rules: Vec<&'r Arc<PreparedRule>>) -> Vec<&'r Arc<PreparedRule>> {
    rules
        .into_iter()
        .filter(|rule| rule.reads_scores())
        .collect()
}

impl Inner {
    /// Matches what was scored, as these touched rows say.
    pub(crate) async fn match_scored(
        &self,
        pass: &mut Pass<'_>,
        touched: &[Touched],
    ) -> Result<(), Error> {
        let mut traces: BTreeSet<(&ProjectId, &TraceId)> = BTreeSet::new();
        let mut parts: BTreeMap<&ProjectId, BTreeSet<(TraceId, ObservationId)>> = BTreeMap::new();
        for row in touched {
            for (trace, observation) in &row.scored {
                traces.insert((&row.project, trace));
                if let Some(id) = observation {
                    let parts = parts.entry(&row.project).or_default();
                    parts.insert((trace.clone(), id.clone()));
                }
            }
        }
        for (project, keys) in parts {
            self.match_scored_parts(pass, project, keys).await?;
        }
        for (project, trace) in traces {
            self.match_scored_trace(pass, project, trace).await?;
        }
        Ok(())
    }

    async fn match_scored_parts(
        &self,
        pass: &mut Pass<'_>,
        project: &ProjectId,
        keys: BTreeSet<(TraceId, ObservationId)>,
    ) -> Result<(), Error> {
        let rules = reading(pass.catalog.observation_rules(project));
        if rules.is_empty() {
            return Ok(());
        }
        let store = &self.deps.store;
        let reads_content = rules.iter().any(|rule| rule.reads_content);
        let keys: Vec<_> = keys.into_iter().collect();
        let found = store
            .telemetry
            .target_observations(project, &keys, reads_content)
            .await?;
        let traces = self.of_traces(project, &rules, &found).await?;
        for own in &found {
            let Some(of_trace) = traces.get(&own.trace_id) else {
                continue;
            };
            if own.end.is_none() || own.is_trace_record() {
                continue;
            }
            let target = Target {
                trace_id: own.trace_id.clone(),
                observation_id: Some(own.id.clone()),
            };
            let all = store
                .ledger
                .trace_executions(project, &own.trace_id)
                .await?;
            let watch = store.ledger.watch(project, &target).await?;
            let scores = of_trace.scores_on(own);
            let row = ObservationRow {
                observation: own,
                trace: of_trace.trace.as_ref(),
                scores: &scores,
            };
            for rule in &rules {
                if rule.rule.target == TargetKind::Experiment && !is_item(&row) {
                    continue;
                }
                // Without a watch it waits for nothing any more.
                let changed_at = watch
                    .as_ref()
                    .map_or(Timestamp::from_micros(0), |watch| watch.changed_at);
                let waits = watch.is_some() && rule.waits_for_trace(own);
                let progress = of_trace.progress.as_ref().filter(|_| waits);
                let completion =
                    observation_completion(own, changed_at, &rule.rule.timing, progress);
                let standing = of_rule(&all, &rule.rule.id, &target);
                if pass.now < completion.at
                    || !standing.is_empty()
                    || !is_ready(rule, &all, &target)
                {
                    continue;
                }
                let complete = Complete {
                    project,
                    target: &target,
                    environment: &own.environment,
                    row: &row,
                    completion,
                    n_observations: 1,
                    now: pass.now,
                };
                pass.take(rule, &complete, &standing);
            }
        }
        Ok(())
    }

    async fn match_scored_trace(
        &self,
        pass: &mut Pass<'_>,
        project: &ProjectId,
        id: &TraceId,
    ) -> Result<(), Error> {
        let rules = reading(pass.catalog.trace_rules(project));
        if rules.is_empty() {
            return Ok(());
        }
        let store = &self.deps.store;
        let ids = [id.clone()];
        let progress = store.telemetry.trace_progress(project, &ids).await?.pop();
        let trace = store.telemetry.target_trace(project, id).await?;
        let (Some((_, progress)), Some(trace)) = (progress, trace) else {
            return Ok(());
        };
        let target = Target {
            trace_id: id.clone(),
            observation_id: None,
        };
        let all = store.ledger.trace_executions(project, id).await?;
        let watch = store.ledger.watch(project, &target).await?;
        let scores = self.trace_scores(project, id, true).await?;
        let open = self
            .open_parts(pass.catalog, (project, id), &rules, &all)
            .await?;
        for rule in rules {
            let standing = of_rule(&all, &rule.rule.id, &target);
            let began_at = began_at(&progress, watch.as_ref(), &standing);
            let completion = completion(&progress, &rule.rule.timing, began_at);
            if pass.now < completion.at
                || !standing.is_empty()
                || open.keep_waiting(&rule.rule)
                || !is_ready(rule, &all, &target)
            {
                continue;
            }
            let complete = Complete {
                project,
                target: &target,
                environment: &trace.environment,
                row: &TraceRow {
                    trace: &trace,
                    completion: Some(completion.reason),
                    scores: &scores,
                },
                completion,
                n_observations: progress.n_observations,
                now: pass.now,
            };
            pass.take(rule, &complete, &standing);
        }
        Ok(())
    }
}
