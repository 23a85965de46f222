//! Scores of users on ingested targets.

use perpend_domain::evaluation::Target;
use perpend_domain::ids::{SessionId, TraceId};
use perpend_domain::observation::Observation;
use perpend_domain::score::Subject;
use rand::RngExt as _;
use rand::seq::IndexedRandom as _;

use super::History;

impl History<'_> {
    /// A user gives a thumbs-down to an observation, its trace or its session.
    pub(super) async fn thumb(&mut self) {
        let ended = self.observations.values().filter(|own| own.end.is_some());
        let ended: Vec<&Observation> = ended.collect();
        let Some(own) = ended.choose(&mut self.random) else {
            return;
        };
        let (trace, id) = (own.trace_id.clone(), own.id.clone());
        let session = self.session_of(&trace);
        let target = match (self.random.random_range(0..3), session) {
            (0, _) => Target::Trace(trace),
            (1, Some(session)) => Target::Session(session),
            _ => Target::Observation(trace, id),
        };
        self.note(|| format!("thumb down on {target:?}"));
        let subject = match &target {
            Target::Observation(trace, id) => Subject::Observation(trace.clone(), id.clone()),
            Target::Trace(trace) => Subject::Trace(trace.clone()),
            Target::Session(session) => Subject::Session(session.to_string()),
            Target::Run(run) => Subject::Experiment(run.clone()),
        };
        let id = format!("thumb {}", self.log.len());
        self.world.thumb(&id, subject).await;
        self.thumbs.insert(target);
    }

    /// The session of a trace, from its root.
    pub(super) fn session_of(&self, trace: &TraceId) -> Option<SessionId> {
        let mut steps = self.observations.values();
        let named =
            steps.find_map(|own| own.session_id.as_ref().filter(|_| own.trace_id == *trace));
        named.map(|id| id.parse().unwrap())
    }
}
