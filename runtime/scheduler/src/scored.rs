//! What a person or a client scored is looked at again by the rules whose filter reads scores (evaluation.md 3.11).
//!
//! Nothing is decided here: the target gets a watch that names these rules and is due. What is written in the same pass needs
//! none, because the rules see the score when they look at it, and neither does what has not come yet.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use perpend_domain::evaluation::Target;
use perpend_domain::ids::{ObservationId, ProjectId, RuleId, TraceId};
use perpend_domain::telemetry::{Progress, Touched};
use perpend_domain::time::Timestamp;
use perpend_ledger::{NewWatch, Watch};

use crate::catalog::PreparedRule;
use crate::matcher::Pass;
use crate::parts::{Error, Inner};

/// Before anything came: a watch with this change is complete for every rule, and no other rule is asked.
const LONG_AGO: Timestamp = Timestamp::from_micros(0);

/// Those that read scores, of these that were made before.
fn reading(rules: &[&Arc<PreparedRule>], last_seen: Timestamp) -> Vec<RuleId> {
    let is_asked =
        |rule: &&&Arc<PreparedRule>| rule.reads_scores() && rule.rule.created_at <= last_seen;
    let asked = rules.iter().filter(is_asked);
    asked.map(|rule| rule.rule.id.clone()).collect()
}

/// The scored targets of each project, the trace of a scored observation too, but for what the same rows wrote.
fn scored(touched: &[Touched]) -> BTreeMap<&ProjectId, BTreeSet<Target>> {
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
                    targets.entry(&row.project).or_default().insert(Target {
                        trace_id: trace.clone(),
                        observation_id: observation.cloned(),
                    });
                }
            }
        }
    }
    targets
}

impl Inner {
    /// Has rules look again at what was scored, as these touched rows say.
    pub(crate) async fn match_scored(
        &self,
        pass: &mut Pass<'_>,
        touched: &[Touched],
    ) -> Result<(), Error> {
        let store = &self.deps.store;
        for (project, targets) in scored(touched) {
            let parts = pass.catalog.observation_rules(project);
            let whole = pass.catalog.trace_rules(project);
            if !parts.iter().chain(&whole).any(|rule| rule.reads_scores()) {
                continue;
            }
            let ids: BTreeSet<&TraceId> = targets.iter().map(|target| &target.trace_id).collect();
            let ids: Vec<TraceId> = ids.into_iter().cloned().collect();
            let progress = store.telemetry.trace_progress(project, &ids).await?;
            let progress: HashMap<TraceId, Progress> = progress.into_iter().collect();
            for target in targets {
                let Some(progress) = progress.get(&target.trace_id) else {
                    continue;
                };
                let rules = match target.observation_id {
                    Some(_) => reading(&parts, progress.last_seen),
                    None => reading(&whole, progress.last_seen),
                };
                if !rules.is_empty() {
                    let standing = store.ledger.watch(project, &target).await?;
                    pass.set_watch(watch_for(project, target, standing, rules, pass.now));
                }
            }
        }
        Ok(())
    }
}

/// The watch of a target with these rules in it, due at once.
fn watch_for(
    project: &ProjectId,
    target: Target,
    standing: Option<Watch>,
    mut rules: Vec<RuleId>,
    now: Timestamp,
) -> NewWatch {
    let was_due_at = standing.as_ref().map(|watch| watch.due_at);
    let mut watch = standing.unwrap_or(Watch {
        project: project.clone(),
        trace: target.trace_id,
        observation: target.observation_id,
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
