//! How a score reads: v2 and v3 of the compat API, with what made it beside.

use std::collections::{BTreeSet, HashMap};

use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::score::{Score, ScoreValue, Subject};
use perpend_domain::score_config::ScoreConfig;
use serde_json::{Value, json};

use crate::App;
use crate::problem::Problem;

/// Groups of fields of the v3 shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::api) struct Fields {
    pub(super) details: bool,
    pub(super) subject: bool,
    pub(super) annotation: bool,
}

impl Fields {
    /// Every group.
    pub(in crate::api) const ALL: Self = Self {
        details: true,
        subject: true,
        annotation: true,
    };
}

/// Trace and observation a score is about.
pub(in crate::api) fn place(subject: &Subject) -> Option<(&TraceId, Option<&ObservationId>)> {
    match subject {
        Subject::Trace(trace) => Some((trace, None)),
        Subject::Observation(trace, observation) => Some((trace, Some(observation))),
        Subject::Session(_) | Subject::Experiment(_) => None,
    }
}

/// What produced an `EVAL` score; `null` for others.
fn origin(score: &Score) -> Value {
    score.written.origin.as_ref().map_or(Value::Null, |origin| {
        json!({
            "executionId": origin.execution_id,
            "evaluatorId": origin.evaluator_id,
            "evaluatorVersionId": origin.evaluator_version_id,
            "evaluationRuleId": origin.rule_id,
            "fingerprint": origin.fingerprint,
            "inclusionProbability": origin.inclusion_probability,
            "scoreName": origin.score_name,
        })
    })
}

/// The v3 shape.
pub(in crate::api) fn v3(project: &ProjectId, score: &Score, fields: Fields) -> Value {
    let written = &score.written;
    let value = match &written.value {
        ScoreValue::Numeric(number) => json!(number),
        ScoreValue::Boolean(truth) => json!(truth),
        ScoreValue::Categorical(text) | ScoreValue::Text(text) | ScoreValue::Correction(text) => {
            json!(text)
        }
    };
    let mut view = json!({
        "id": written.id,
        "projectId": project,
        "name": written.name,
        "dataType": written.value.data_type().as_str(),
        "value": value,
        "source": written.source.as_str(),
        "timestamp": written.timestamp,
        "environment": written.environment,
        "createdAt": score.created_at,
        "updatedAt": score.updated_at,
    });
    if fields.details {
        view["comment"] = json!(written.comment);
        view["configId"] = json!(written.config_id);
        view["metadata"] = json!(written.metadata);
        view["origin"] = origin(score);
    }
    if fields.annotation {
        view["authorUserId"] = json!(written.author_user_id);
        view["queueId"] = json!(written.queue_id);
    }
    if fields.subject {
        view["subject"] = match &written.subject {
            Subject::Trace(id) => json!({ "kind": "trace", "id": id }),
            Subject::Observation(trace, id) => {
                json!({ "kind": "observation", "id": id, "traceId": trace })
            }
            Subject::Session(id) => json!({ "kind": "session", "id": id }),
            Subject::Experiment(id) => json!({ "kind": "experiment", "id": id }),
        };
    }
    view
}

/// The numbers that categories of scores count as, by config.
#[derive(Debug, Default)]
pub(in crate::api) struct Categories(HashMap<String, ScoreConfig>);

impl Categories {
    /// Those of the configs that these scores name.
    pub(in crate::api) async fn of<'s>(
        app: &App,
        project: &ProjectId,
        scores: impl IntoIterator<Item = &'s Score>,
    ) -> Result<Self, Problem> {
        let of_categorical = |score: &'s Score| match score.written.value {
            ScoreValue::Categorical(_) => score.written.config_id.clone(),
            _ => None,
        };
        let ids: BTreeSet<String> = scores.into_iter().filter_map(of_categorical).collect();
        let ids: Vec<String> = ids.into_iter().collect();
        let found = app.store.catalog.score_configs_by_id(project, &ids).await?;
        let by_id = found.into_iter().map(|config| (config.id.clone(), config));
        Ok(Self(by_id.collect()))
    }

    fn number(&self, score: &Score, label: &str) -> f64 {
        let config = score.written.config_id.as_ref();
        let config = config.and_then(|id| self.0.get(id));
        config
            .and_then(|config| config.number_of(label))
            .unwrap_or(0.0)
    }
}

/// The v2 shape, without the trace.
pub(in crate::api) fn v2(score: &Score, categories: &Categories) -> Value {
    let written = &score.written;
    let target = place(&written.subject);
    let (session, experiment) = match &written.subject {
        Subject::Session(id) => (Some(id), None),
        Subject::Experiment(id) => (None, Some(id)),
        _ => (None, None),
    };
    let mut view = json!({
        "id": written.id,
        "traceId": target.map(|(trace, _)| trace),
        "sessionId": session,
        "observationId": target.and_then(|(_, observation)| observation),
        "datasetRunId": experiment,
        "name": written.name,
        "source": written.source.as_str(),
        "timestamp": written.timestamp,
        "createdAt": score.created_at,
        "updatedAt": score.updated_at,
        "authorUserId": written.author_user_id,
        "comment": written.comment,
        "metadata": written.metadata,
        "configId": written.config_id,
        "queueId": written.queue_id,
        "environment": written.environment,
        "dataType": written.value.data_type().as_str(),
        "origin": origin(score),
    });
    match &written.value {
        ScoreValue::Numeric(number) => view["value"] = json!(number),
        ScoreValue::Boolean(truth) => {
            view["value"] = json!(u8::from(*truth));
            view["stringValue"] = json!(if *truth { "True" } else { "False" });
        }
        ScoreValue::Categorical(text) => {
            view["value"] = json!(categories.number(score, text));
            view["stringValue"] = json!(text);
        }
        ScoreValue::Correction(text) => {
            view["value"] = json!(0);
            view["stringValue"] = json!(text);
        }
        ScoreValue::Text(text) => view["stringValue"] = json!(text),
    }
    view
}
