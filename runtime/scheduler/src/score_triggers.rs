//! Targets that a user or a client scored are examined again by the rules whose filter reads scores
//! (evaluation.md 3.11).
//!
//! Nothing is decided here: the target gets a due watch with these rules. Targets written in the same pass
//! need no watch because the rules read the score when they examine them, and neither do targets that have
//! not arrived.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use perpend_domain::evaluation::Target;
use perpend_domain::ids::{ObservationId, ProjectId, RuleId, SessionId, TraceId};
use perpend_domain::telemetry::IngestChange;
use perpend_domain::time::Timestamp;
use perpend_executions::{NewWatch, Watch};

use crate::catalog::PreparedRule;
use crate::deps::{Error, Inner};
use crate::matcher::Pass;

/// Earlier than any change: a watch with this change is complete for every rule, and no other rule is
/// decided.
const LONG_AGO: Timestamp = Timestamp::from_micros(0);

/// The rules for such targets that were made before the target.
fn reading(rules: &[&Arc<PreparedRule>], target: &Target, last_seen: Timestamp) -> Vec<RuleId> {
    let is_affected = |rule: &&&Arc<PreparedRule>| {
        rule.rule.target.is_for(target) && rule.rule.created_at <= last_seen
    };
    let affected = rules.iter().filter(is_affected);
    affected.map(|rule| rule.rule.id.clone()).collect()
}

/// The scored targets of each project, including the trace of a scored observation, without targets written
/// by the same rows.
fn scored(touched: &[IngestChange]) -> BTreeMap<&ProjectId, BTreeSet<Target>> {
    let mut written: HashSet<(&ProjectId, &TraceId, Option<&ObservationId>)> = HashSet::new();
    for row in touched {
        for (trace, id) in &row.observations {
            written.insert((&row.project, trace, Some(id)));
            written.insert((&row.project, trace, None));
        }
    }
    let mut targets: BTreeMap<&ProjectId, BTreeSet<Target>> = BTreeMap::new();
    for row in touched {
        for (trace, observation) in &row.scored {
            for observation in BTreeSet::from([None, observation.as_ref()]) {
                if !written.contains(&(&row.project, trace, observation)) {
                    let target = Target::within(trace.clone(), observation.cloned());
                    targets.entry(&row.project).or_default().insert(target);
                }
            }
        }
        let sessions = row.scored_sessions.iter();
        let sessions = sessions.map(|session| Target::Session(session.clone()));
        targets.entry(&row.project).or_default().extend(sessions);
    }
    targets
}

impl Inner {
    /// Makes rules examine the targets that these change rows scored.
    pub(crate) async fn match_scored(
        &self,
        pass: &mut Pass<'_>,
        touched: &[IngestChange],
    ) -> Result<(), Error> {
        let store = &self.deps.store;
        // Targets written in this pass have a watch for all rules.
        let watched = pass.watched();
        for (project, mut targets) in scored(touched) {
            targets.retain(|target| !watched.contains(&(project.clone(), target.clone())));
            let mut rules = pass.catalog.all_rules(project);
            rules.retain(|rule| rule.reads_scores());
            if rules.is_empty() {
                continue;
            }
            let ids: BTreeSet<&TraceId> = targets.iter().filter_map(Target::trace).collect();
            let ids: Vec<TraceId> = ids.into_iter().cloned().collect();
            let progress = store.telemetry.trace_progress(project, &ids).await?;
            let seen = progress.into_iter().map(|(id, progress)| (id, progress.last_seen));
            let seen: HashMap<TraceId, Timestamp> = seen.collect();
            let ids: Vec<SessionId> = targets.iter().filter_map(Target::session).cloned().collect();
            let progress = store.telemetry.session_progress(project, &ids).await?;
            let seen_sessions = progress.into_iter().map(|(id, progress)| (id, progress.last_seen));
            let seen_sessions: HashMap<SessionId, Timestamp> = seen_sessions.collect();
            for target in targets {
                let last_seen = match &target {
                    Target::Observation(trace, _) | Target::Trace(trace) => seen.get(trace),
                    Target::Session(session) => seen_sessions.get(session),
                    // Filters of runs read no scores.
                    Target::Run(_) => None,
                };
                let Some(last_seen) = last_seen else {
                    continue;
                };
                let rules = reading(&rules, &target, *last_seen);
                if !rules.is_empty() {
                    let existing = store.ledger.watch(project, &target).await?;
                    pass.set_watch(watch_for(project, target, existing, rules, pass.now));
                }
            }
        }
        Ok(())
    }
}

/// A due watch of a target with these rules.
pub(crate) fn watch_for(
    project: &ProjectId,
    target: Target,
    existing: Option<Watch>,
    mut rules: Vec<RuleId>,
    now: Timestamp,
) -> NewWatch {
    let was_due_at = existing.as_ref().map(|watch| watch.due_at);
    let mut watch = existing.unwrap_or(Watch {
        project: project.clone(),
        target,
        began_at: LONG_AGO,
        changed_at: LONG_AGO,
        looked_at: now,
        due_at: now,
        waiting: Vec::new(),
    });
    rules.retain(|id| !watch.waiting.contains(id));
    watch.waiting.append(&mut rules);
    watch.due_at = watch.due_at.min(now);
    NewWatch { watch, was_due_at }
}
