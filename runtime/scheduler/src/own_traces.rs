//! Traces of executions that may call a model: this writes the root; the engine writes the generations below
//! it.

use perpend_domain::batch::Batch;
use perpend_domain::evaluation::{Execution, OWN_ENVIRONMENT, Target};
use perpend_domain::identity::root_span_id;
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::observation::{Level, Observation, ObservationKind, TraceFacts};
use perpend_domain::payload::Payload;
use perpend_domain::score::{NewScore, ScoreValue};
use perpend_domain::time::Timestamp;
use perpend_executions::{ExecutionEnd, Outcome};
use serde_json::{Map, Value, json};

use crate::catalog::PreparedAssignment;
use crate::deps::Inner;

/// An execution that ends, with its evaluator.
pub(crate) struct EvaluatedExecution<'a> {
    pub(crate) assignment: &'a PreparedAssignment,
    /// The current name of the evaluator.
    pub(crate) name: &'a str,
    pub(crate) started_at: Timestamp,
    pub(crate) now: Timestamp,
}

/// The root of the trace of an execution; `None` until the execution ends.
pub(crate) fn root(
    finished: &ExecutionEnd<'_>,
    by: &EvaluatedExecution<'_>,
) -> Option<Observation> {
    if !finished.calls_models || !finished.outcome.is_final() {
        return None;
    }
    let Execution { made, .. } = finished.execution;
    let trace = TraceId::new(made.id.as_str()).ok()?;
    let id = ObservationId::new(&root_span_id(&made.id)).ok()?;
    let started_at = finished.execution.first_attempt_at;
    let times = (started_at.unwrap_or(by.started_at), by.now);
    let mut root = Observation::ended(trace, id, ObservationKind::Evaluator, times);
    root.name = format!("evaluate {}", by.name);
    root.environment = OWN_ENVIRONMENT.to_owned();
    let target = match &made.target {
        Target::Session(session) => json!({ "sessionId": session }),
        Target::Run(run) => json!({ "runId": run }),
        other => json!({ "traceId": other.trace(), "observationId": other.observation() }),
    };
    root.content.input = Some(Payload::Json(target.to_string()));
    match &finished.outcome {
        Outcome::Completed(scores) => {
            let scores: Vec<Value> = scores.iter().map(shown).collect();
            root.content.output = Some(Payload::Json(json!(scores).to_string()));
        }
        other => {
            root.status_message =
                other.no_scores().map(|why| format!("{}: {}", why.class.as_str(), why.message));
            if matches!(other, Outcome::Failed(..)) {
                root.level = Level::Error;
            }
        }
    }
    root.has_content = true;
    root.content.metadata = metadata(finished, by);
    root.trace =
        Some(Box::new(TraceFacts { name: Some(root.name.clone()), ..TraceFacts::default() }));
    root.is_complete_marker = true;
    Some(root)
}

fn shown(score: &NewScore) -> Value {
    let value = match &score.value {
        ScoreValue::Numeric(number) => json!(number),
        ScoreValue::Boolean(truth) => json!(truth),
        ScoreValue::Categorical(text) | ScoreValue::Text(text) | ScoreValue::Correction(text) => {
            json!(text)
        }
    };
    json!({ "id": score.id, "name": score.name, "value": value, "comment": score.comment })
}

fn metadata(finished: &ExecutionEnd<'_>, by: &EvaluatedExecution<'_>) -> Map<String, Value> {
    let made = &finished.execution.made;
    let version = &by.assignment.evaluator.evaluator.version;
    let known = [
        ("outcome", json!(finished.outcome.name())),
        ("attempts", json!(finished.execution.attempts + 1)),
        ("evaluator_id", json!(made.evaluator_id)),
        ("evaluator_version_id", json!(version.id)),
        ("evaluator_version", json!(version.number)),
        ("evaluation_rule_id", json!(made.rule_id)),
        ("fingerprint", json!(version.fingerprint.to_string())),
        ("target_trace_id", json!(made.target.trace())),
        ("target_observation_id", json!(made.target.observation())),
        ("target_session_id", json!(made.target.session())),
    ];
    let present = known.into_iter().filter(|(_, value)| !value.is_null());
    present.map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Inner {
    /// Writes roots before the executions end; the generations are already written. The traces are
    /// informative: a failed write does not fail the execution.
    pub(crate) async fn write_own_traces(&self, project: &ProjectId, roots: Vec<Observation>) {
        if roots.is_empty() {
            return;
        }
        let batch = Batch { observations: roots, ..Batch::default() };
        let now = self.deps.clock.now();
        let telemetry = &self.deps.store.telemetry;
        if let Err(error) = telemetry.write_batch(project, batch, now).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, project.id = %project, "roots of execution traces not written");
        }
    }
}
