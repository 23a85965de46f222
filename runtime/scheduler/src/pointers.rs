//! A score may point at an observation of the evaluated trace, and at no other.
//!
//! The id comes from a plug-in and may be anything: an observation of another trace or project, or an
//! invalid id. Stored unchecked it would be a forged score of another trace.

use std::collections::HashSet;

use perpend_domain::evaluation::Target;
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::plugin::{CallResult, Failure, FailureClass, PluginScore};

use crate::deps::Inner;

/// Characters of an invalid id that a message repeats.
const MAX_SHOWN: usize = 80;

type ObservationKey = (TraceId, ObservationId);

impl Inner {
    /// Replaces each result with a score that points outside the trace of its target, if the target has one,
    /// by a failure (evaluation.md 4.2). All calls belong to one project, as those of a batch do.
    pub(crate) async fn refuse_foreign_pointers(
        &self,
        project: &ProjectId,
        targets: &[&Target],
        results: &mut [CallResult],
    ) -> Result<(), perpend_db::Error> {
        let pointed: HashSet<ObservationKey> = targets
            .iter()
            .zip(results.iter())
            .flat_map(|(target, result)| pointers(target, result))
            .filter_map(|(_, key)| key)
            .collect();
        let pointed: Vec<ObservationKey> = pointed.into_iter().collect();
        let found: HashSet<ObservationKey> = match pointed.is_empty() {
            true => HashSet::new(),
            false => {
                let store = &self.deps.store;
                let found = store.telemetry.target_observations(project, &pointed, false).await?;
                // The record of a trace is not an observation and is in no list.
                found
                    .into_iter()
                    .filter(|own| !own.is_trace_record())
                    .map(|own| (own.trace_id, own.id))
                    .collect()
            }
        };
        for (target, result) in targets.iter().zip(results) {
            let mut pointers = pointers(target, result);
            let wrong =
                pointers.find(|(_, key)| key.as_ref().is_none_or(|key| !found.contains(key)));
            if let Some((score, _)) = wrong {
                let failure = refusal(score);
                drop(pointers);
                result.outcome = Err(failure);
            }
        }
        Ok(())
    }
}

/// The scores that point at something other than their target, with the observation; `None` if the id is invalid.
fn pointers<'r>(
    target: &'r Target,
    result: &'r CallResult,
) -> impl Iterator<Item = (&'r PluginScore, Option<ObservationKey>)> {
    let scores = result.outcome.as_ref().into_iter().flatten();
    scores.filter_map(move |score| {
        let id = ObservationId::new(score.observation_id.as_deref()?).ok();
        let is_target = id.is_some() && id.as_ref() == target.observation();
        // A session has no trace to which the observation could belong.
        (!is_target).then(|| (score, target.trace().cloned().zip(id)))
    })
}

/// The failure of a score that points outside the trace.
pub(crate) fn refusal(score: &PluginScore) -> Failure {
    let id = score.observation_id.as_deref().unwrap_or_default();
    let shown: String = id.chars().take(MAX_SHOWN).collect();
    Failure {
        class: FailureClass::InvalidResult,
        message: format!(
            "score {:?}: the observation id {shown:?} names no observation of the item's trace; leave it out to \
             score the item itself",
            score.name
        ),
    }
}
