//! `POST /api/public/scores`: one object, or an array.

use assay_domain::ids::{IdSource, ObservationId, ScoreId, TraceId};
use assay_domain::score::{NewScore, ScoreDataType, ScoreSource, ScoreValue, Subject};
use assay_domain::time::Timestamp;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::App;
use crate::auth::ScoreWriter;
use crate::extract::{Body, from_json};
use crate::problem::Problem;

const MAX_TEXT_CHARS: usize = 500;

/// One score as clients send it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ScoreInput {
    id: Option<String>,
    trace_id: Option<String>,
    observation_id: Option<String>,
    session_id: Option<String>,
    dataset_run_id: Option<String>,
    name: String,
    /// A number or a string.
    value: Value,
    /// NUMERIC, BOOLEAN, CATEGORICAL, TEXT or CORRECTION.
    data_type: Option<String>,
    comment: Option<String>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    environment: Option<String>,
    config_id: Option<String>,
    queue_id: Option<String>,
    /// API or ANNOTATION.
    source: Option<String>,
    timestamp: Option<String>,
}

pub(super) async fn create_scores(
    State(app): State<App>,
    caller: ScoreWriter,
    Body(body): Body<Value>,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let read = |value: Value| -> Result<NewScore, Problem> {
        let input = from_json::<ScoreInput>(value.to_string().as_bytes())?;
        input.check(app.ids.as_ref(), now)
    };
    let Value::Array(items) = body else {
        let score = read(body)?;
        let id = score.id.clone();
        app.store.put_scores(&caller.project, &[score], now).await?;
        return Ok(Json(json!({ "id": id })).into_response());
    };
    let (mut scores, mut errors) = (Vec::new(), Vec::new());
    for (at, item) in items.into_iter().enumerate() {
        match read(item) {
            Ok(score) => scores.push(score),
            Err(problem) => {
                errors.push(json!({ "message": format!("[{at}] {}", problem.message()) }))
            }
        }
    }
    app.store.put_scores(&caller.project, &scores, now).await?;
    if errors.is_empty() {
        return Ok((StatusCode::ACCEPTED, Json(json!({ "message": "Accepted" }))).into_response());
    }
    let body = json!({ "accepted": scores.len(), "rejected": errors.len(), "errors": errors });
    Ok((StatusCode::MULTI_STATUS, Json(body)).into_response())
}

impl ScoreInput {
    fn check(self, ids: &dyn IdSource, now: Timestamp) -> Result<NewScore, Problem> {
        if self.config_id.is_some() {
            return Err(Problem::body(
                "configId",
                "no such score config in this project",
            ));
        }
        let data_type = self.data_type()?;
        let subject = self.subject()?;
        let is_correction = data_type == ScoreDataType::Correction;
        if is_correction && !matches!(subject, Subject::Trace(_) | Subject::Observation(..)) {
            return Err(Problem::body(
                "dataType",
                "a CORRECTION is about a trace or an observation",
            ));
        }
        let source = self.source(is_correction)?;
        let value = value(data_type, &self.value)?;
        let name = if is_correction {
            "output".to_owned()
        } else {
            self.name
        };
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(Problem::body(
                "name",
                "1 or more characters, none of them control characters",
            ));
        }
        let id = self.id.unwrap_or_else(|| ids.uuid().to_string());
        let timestamp = self.timestamp.as_deref().map(Timestamp::parse).transpose();
        let environment = self.environment.unwrap_or_default();
        Ok(NewScore {
            id: ScoreId::new(&id).map_err(|error| Problem::body("id", error.to_string()))?,
            name,
            value,
            subject,
            source,
            timestamp: timestamp
                .map_err(|error| Problem::body("timestamp", error.to_string()))?
                .unwrap_or(now),
            environment: assay_otlp::normalized_environment(&environment),
            comment: self.comment,
            metadata: self.metadata.unwrap_or_default(),
            config_id: None,
            queue_id: self.queue_id,
            author_user_id: None,
            origin: None,
        })
    }

    fn data_type(&self) -> Result<ScoreDataType, Problem> {
        match &self.data_type {
            Some(text) => text.parse().map_err(|_| {
                let names: Vec<_> = ScoreDataType::ALL.iter().map(|t| t.as_str()).collect();
                Problem::body(
                    "dataType",
                    format!("{text:?} is none of {}", names.join(", ")),
                )
            }),
            None if self.value.is_string() => Ok(ScoreDataType::Categorical),
            None => Ok(ScoreDataType::Numeric),
        }
    }

    fn source(&self, is_correction: bool) -> Result<ScoreSource, Problem> {
        match self.source.as_deref() {
            None | Some("API") => Ok(ScoreSource::Api),
            Some("ANNOTATION") if is_correction => Ok(ScoreSource::Annotation),
            Some("ANNOTATION") => Err(Problem::body(
                "configId",
                "source ANNOTATION needs a score config",
            )),
            Some("EVAL") => Err(Problem::body(
                "source",
                "EVAL scores are made by evaluation rules only",
            )),
            Some(other) => Err(Problem::body(
                "source",
                format!("{other:?} is none of API, ANNOTATION"),
            )),
        }
    }

    fn subject(&self) -> Result<Subject, Problem> {
        let bad = |field| {
            move |error: assay_domain::ids::InvalidId| Problem::body(field, error.to_string())
        };
        match (&self.trace_id, &self.session_id, &self.dataset_run_id) {
            (Some(trace), None, None) => {
                let trace = TraceId::new(trace).map_err(bad("traceId"))?;
                match &self.observation_id {
                    Some(id) => {
                        let id = ObservationId::new(id).map_err(bad("observationId"))?;
                        Ok(Subject::Observation(trace, id))
                    }
                    None => Ok(Subject::Trace(trace)),
                }
            }
            _ if self.observation_id.is_some() => {
                Err(Problem::body("observationId", "needs traceId"))
            }
            (None, Some(session), None) if !session.is_empty() => {
                Ok(Subject::Session(session.clone()))
            }
            (None, None, Some(run)) if !run.is_empty() => Ok(Subject::Experiment(run.clone())),
            _ => Err(Problem::body(
                "traceId",
                "a score is about exactly one of traceId (with observationId or without), sessionId, datasetRunId",
            )),
        }
    }
}

fn value(data_type: ScoreDataType, raw: &Value) -> Result<ScoreValue, Problem> {
    let bad = |message: &str| Err(Problem::body("value", message));
    let text = raw.as_str();
    match data_type {
        ScoreDataType::Numeric => match raw.as_f64() {
            Some(number) if number.is_finite() => Ok(ScoreValue::Numeric(number)),
            _ => bad("a NUMERIC score needs a finite number"),
        },
        ScoreDataType::Boolean => match raw.as_f64() {
            Some(0.0) => Ok(ScoreValue::Boolean(false)),
            Some(1.0) => Ok(ScoreValue::Boolean(true)),
            _ => bad("a BOOLEAN score needs 0 or 1"),
        },
        ScoreDataType::Categorical => match text {
            Some(text) => Ok(ScoreValue::Categorical(text.to_owned())),
            None => bad("a CATEGORICAL score needs a string"),
        },
        ScoreDataType::Text => match text {
            Some(text) if (1..=MAX_TEXT_CHARS).contains(&text.chars().count()) => {
                Ok(ScoreValue::Text(text.to_owned()))
            }
            _ => bad("a TEXT score needs a string of 1 to 500 characters"),
        },
        ScoreDataType::Correction => match text {
            Some(text) => Ok(ScoreValue::Correction(text.to_owned())),
            None => bad("a CORRECTION needs a string"),
        },
    }
}
