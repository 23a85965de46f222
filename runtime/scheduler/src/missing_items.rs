//! Links of runs whose observation does not arrive: the linked one, or the root of the linked trace.
//!
//! The watch of the trace ends the wait. Rules of experiments that select the run then count the item as `root_missing`; an
//! observation that arrives later is decided nevertheless.

use std::sync::Arc;

use perpend_domain::evaluation::{Rule, Target, TargetKind};
use perpend_domain::experiment::MissingItem;
use perpend_domain::filter::{Cell, Filter, Row};
use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::time::Timestamp;
use perpend_executions::{NewWatch, Watch};

use crate::catalog::{Catalog, OF_EXPERIMENT, PreparedRule};
use crate::completeness::missing_until;
use crate::decide::Refusal;
use crate::deps::{Error, Inner};
use crate::explain::ExplanationStep;
use crate::matcher::{Pass, earliest};

struct LinkRow<'l>(&'l MissingItem);

impl Row for LinkRow<'_> {
    fn cell(&self, column: &'static str) -> Cell<'_> {
        match column {
            "experimentId" => Cell::text(Some(&self.0.run_id)),
            "datasetId" => Cell::text(Some(&self.0.dataset_id)),
            "isExperimentItemRootSpan" => Cell::Bool(true),
            _ => Cell::Null,
        }
    }
}

/// Whether the conditions of a rule on the run hold for a link. The others need the observation.
fn selects(rule: &Rule, link: &MissingItem) -> bool {
    let conditions = rule.filter.filter().conditions.iter();
    let of_link = conditions
        .filter(|each| each.column.is_some_and(|column| OF_EXPERIMENT.contains(&column.id)))
        .cloned();
    Filter { conditions: of_link.collect() }.matches(&LinkRow(link))
}

fn rules_of_items<'c>(catalog: &'c Catalog, project: &ProjectId) -> Vec<&'c Arc<PreparedRule>> {
    let mut rules = catalog.observation_rules(project);
    rules.retain(|rule| rule.rule.target == TargetKind::Experiment);
    rules
}

impl Inner {
    /// Watches linked traces whose observation has not arrived.
    pub(crate) async fn watch_missing(
        &self,
        pass: &mut Pass<'_>,
        project: &ProjectId,
        traces: &[TraceId],
    ) -> Result<(), Error> {
        let rules = rules_of_items(pass.catalog, project);
        let store = &self.deps.store;
        if rules.is_empty() {
            return Ok(());
        }
        for link in store.telemetry.missing_items(project, traces).await? {
            let until = rules.iter().map(|rule| missing_until(&link, None, &rule.rule.timing));
            let Some(due_at) = until.min() else {
                continue;
            };
            let target = Target::Trace(link.trace_id.clone());
            if pass.bring_forward(project, &target, due_at) {
                continue;
            }
            let existing = store.ledger.watch(project, &target).await?;
            // Each examination of the trace looks for missing items.
            if existing.as_ref().is_some_and(|watch| watch.due_at <= due_at) {
                continue;
            }
            let was_due_at = existing.as_ref().map(|watch| watch.due_at);
            let watch = existing.unwrap_or(Watch {
                project: project.clone(),
                target,
                began_at: link.linked_at,
                changed_at: link.linked_at,
                looked_at: Timestamp::from_micros(0),
                due_at,
                waiting: Vec::new(),
            });
            pass.set_watch(NewWatch { watch: Watch { due_at, ..watch }, was_due_at });
        }
        Ok(())
    }

    /// Counts the item of a trace as missing for each rule whose wait is over. Returns when the next wait is.
    pub(crate) async fn match_missing(
        &self,
        pass: &mut Pass<'_>,
        watch: &Watch,
    ) -> Result<Option<Timestamp>, Error> {
        let project = &watch.project;
        let Target::Trace(trace) = &watch.target else {
            return Ok(None);
        };
        let rules = rules_of_items(pass.catalog, project);
        if rules.is_empty() {
            return Ok(None);
        }
        let Some((link, last_seen)) = self.missing_item(project, trace).await? else {
            return Ok(None);
        };
        let mut next = None;
        for rule in rules {
            if link.linked_at < rule.rule.created_at || !selects(&rule.rule, &link) {
                continue;
            }
            let until = missing_until(&link, last_seen, &rule.rule.timing);
            if pass.now < until {
                next = earliest(next, until);
                continue;
            }
            // Counted by the first examination after the wait.
            if watch.looked_at < until {
                let refusal = match rule.rule.enabled {
                    true => Refusal::RootMissing,
                    false => Refusal::RuleInactive,
                };
                pass.count(project, rule, refusal.reason());
            }
        }
        Ok(next)
    }

    /// The last link of a trace whose observation has not arrived, and the time of the last change of the trace.
    async fn missing_item(
        &self,
        project: &ProjectId,
        trace: &TraceId,
    ) -> Result<Option<(MissingItem, Option<Timestamp>)>, perpend_db::Error> {
        let telemetry = &self.deps.store.telemetry;
        let traces = std::slice::from_ref(trace);
        let Some(link) = telemetry.missing_items(project, traces).await?.pop() else {
            return Ok(None);
        };
        let progress = telemetry.trace_progress(project, traces).await?.pop();
        Ok(Some((link, progress.map(|(_, progress)| progress.last_seen))))
    }

    /// Explains a rule of experiments for a trace without the observation of an item.
    pub(crate) async fn explain_missing(
        &self,
        project: &ProjectId,
        rule: &Rule,
        trace: &TraceId,
    ) -> Result<ExplanationStep, perpend_db::Error> {
        let Some((link, last_seen)) = self.missing_item(project, trace).await? else {
            let found = self.deps.store.telemetry.target_trace(project, trace).await?;
            return Ok(match found {
                Some(_) => ExplanationStep::Refused(Refusal::NotAnItem),
                None => ExplanationStep::NoSuchTarget,
            });
        };
        if link.linked_at < rule.created_at {
            return Ok(ExplanationStep::OlderThanRule {
                target: rule.target,
                arrived_at: link.linked_at,
                rule_created_at: rule.created_at,
            });
        }
        if !rule.enabled {
            return Ok(ExplanationStep::Refused(Refusal::RuleInactive));
        }
        let until = missing_until(&link, last_seen, &rule.timing);
        Ok(match self.deps.clock.now() < until {
            true => ExplanationStep::NotComplete { complete_at: Some(until) },
            false => ExplanationStep::Refused(Refusal::RootMissing),
        })
    }
}
