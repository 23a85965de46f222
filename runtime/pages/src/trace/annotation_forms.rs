//! Forms of the detail pane: `POST P/traces/{trace}/scores`, `…/scores/delete`, `…/comments` and `…/comments/delete`.

use axum::extract::{Path, State};
use axum::http::Method;
use axum::response::Response;
use perpend_domain::ids::{ScoreId, TraceId};
use perpend_domain::score::{NewScore, ScoreSource, Subject};
use perpend_domain::trace::Trace;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{RejectedForm, segment};
use serde_json::{Value, json};

use crate::read::{self, unknown_trace};
use crate::request::forms::{ContentForm, SubmittedForm};
use crate::request::operations::{call, field_problems, is_about_input, sent_values};
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::trace::annotations::object_type;
use crate::trace::page::{TracePath, rejected_form_page};

/// Members of the body of a score and their fields.
const SCORE_FIELDS: [(&str, &str); 5] = [
    ("configId", "config"),
    ("name", "score_name"),
    ("dataType", "data_type"),
    ("value", "value"),
    ("comment", "comment"),
];

/// A text of a form, with the line breaks that were typed. Browsers send CR LF.
fn typed(fields: &Params, field: &str) -> Option<String> {
    fields.raw(field).map(|text| text.replace("\r\n", "\n"))
}

/// The trace of a form, and the observation that it names. Both must exist.
async fn target_of_form<'f>(
    app: &App,
    viewer: &Viewer,
    trace: &TraceId,
    fields: &'f Params,
) -> Result<(Trace, Option<&'f str>), Problem> {
    let stored = read::trace_without_content(app, &viewer.project, trace).await?;
    let stored = stored.ok_or_else(unknown_trace)?;
    let observation = fields.text("observation");
    if let Some(id) = observation
        && !has_observation(app, viewer, trace, id).await?
    {
        return Err(Problem::not_found("observation"));
    }
    Ok((stored, observation))
}

async fn has_observation(
    app: &App,
    viewer: &Viewer,
    trace: &TraceId,
    id: &str,
) -> Result<bool, Problem> {
    let outline = read::trace_outline(app, &viewer.project, trace).await?;
    let (_, outline) = outline.ok_or_else(unknown_trace)?;
    Ok(outline.find(id).is_some())
}

/// Checks that a comment is on the trace or on one of its observations.
async fn require_comment(
    app: &App,
    viewer: &Viewer,
    trace: &TraceId,
    id: &str,
) -> Result<(), Problem> {
    let missing = || Problem::not_found("comment");
    let comment = app.store.catalog.comment(&viewer.project, id).await?.ok_or_else(missing)?;
    let is_here = match comment.object_type.as_str() {
        "TRACE" => comment.object_id == trace.as_str(),
        "OBSERVATION" if comment.trace_id.as_ref().is_none_or(|id| id == trace.as_str()) => {
            has_observation(app, viewer, trace, &comment.object_id).await?
        }
        _ => false,
    };
    match is_here {
        true => Ok(()),
        false => Err(missing()),
    }
}

/// A value as JSON. A value of another type stays text, which the operation rejects.
fn value(data_type: &str, text: String) -> Value {
    let number = || text.trim().parse::<f64>().ok();
    match (data_type, text.trim()) {
        ("NUMERIC", _) => number().map_or_else(|| Value::from(text.as_str()), Value::from),
        ("BOOLEAN", "true") => Value::from(1),
        ("BOOLEAN", "false") => Value::from(0),
        _ => Value::from(text),
    }
}

/// The body of the operation that creates a score.
async fn new_score(app: &App, form: &ContentForm, trace: &TraceId) -> Result<Value, Problem> {
    let (viewer, fields) = (&form.viewer, &form.fields);
    let (stored, observation) = target_of_form(app, viewer, trace, fields).await?;
    let (name, data_type, config) = match fields.text("config") {
        _ if fields.text("correction").is_some() => {
            ("output".to_owned(), "CORRECTION".to_owned(), None)
        }
        Some(id) => {
            let config = app.store.catalog.score_config(&viewer.project, id).await?;
            let config = config.ok_or_else(|| {
                Problem::body("configId", "must be a score config of this project")
            })?;
            (config.name, config.data_type.to_string(), Some(config.id))
        }
        None => {
            let name = fields.raw("score_name").unwrap_or_default().trim();
            (name.to_owned(), fields.raw("data_type").unwrap_or_default().to_owned(), None)
        }
    };
    let comment = typed(fields, "comment").filter(|comment| !comment.is_empty());
    Ok(json!({
        "traceId": trace.as_str(),
        "observationId": observation,
        "environment": stored.environment,
        "source": "ANNOTATION",
        "name": name,
        "value": value(&data_type, typed(fields, "value").unwrap_or_default()),
        "dataType": data_type,
        "configId": config,
        "comment": comment,
    }))
}

/// A score by a person on a trace or one of its observations.
async fn given_score(
    app: &App,
    viewer: &Viewer,
    trace: &TraceId,
    id: &str,
) -> Result<NewScore, Problem> {
    let missing = || Problem::not_found("score");
    let id = ScoreId::new(id).map_err(|_| missing())?;
    let score = app.store.telemetry.score(&viewer.project, &id).await?;
    let written = score.ok_or_else(missing)?.written;
    let is_here = match &written.subject {
        Subject::Trace(own) | Subject::Observation(own, _) => own == trace,
        Subject::Session(_) | Subject::Experiment(_) => false,
    };
    match is_here && written.source == ScoreSource::Annotation {
        true => Ok(written),
        false => Err(missing()),
    }
}

/// The score with the current name of its score config, which may have been renamed.
async fn with_current_name(
    app: &App,
    viewer: &Viewer,
    score: NewScore,
) -> Result<NewScore, Problem> {
    let config = match &score.config_id {
        Some(id) => app.store.catalog.score_config(&viewer.project, id).await?,
        None => None,
    };
    Ok(match config {
        Some(config) => NewScore { name: config.name, ..score },
        None => score,
    })
}

/// The body of the operation that replaces a score.
fn changed_score(score: NewScore, fields: &Params) -> Value {
    let observation = match &score.subject {
        Subject::Observation(_, id) => Some(id.as_str()),
        _ => None,
    };
    let trace = match &score.subject {
        Subject::Trace(id) | Subject::Observation(id, _) => Some(id.as_str()),
        _ => None,
    };
    let data_type = score.value.data_type().as_str();
    // The form of a correction has no comment.
    let comment = typed(fields, "comment").or(score.comment);
    json!({
        "id": score.id.as_str(),
        "traceId": trace,
        "observationId": observation,
        "environment": score.environment,
        "source": "ANNOTATION",
        "name": score.name,
        "value": value(data_type, typed(fields, "value").unwrap_or_default()),
        "dataType": data_type,
        "configId": score.config_id,
        "queueId": score.queue_id,
        "metadata": score.metadata,
        "timestamp": score.timestamp.to_iso_micros(),
        "comment": comment.filter(|comment| !comment.is_empty()),
    })
}

/// `POST P/traces/{trace}/scores`: a new score of the score config `config`, a corrected output (`correction`), or one with
/// `score_name` and `data_type`; with `score`, the changed one of this id.
pub(crate) async fn save_score(
    State(app): State<App>,
    Path(path): Path<TracePath>,
    form: ContentForm,
) -> Result<Response, Problem> {
    let (viewer, trace) = (&form.viewer, path.id()?);
    let act = async {
        let body = match form.fields.text("score") {
            Some(id) => {
                let score = given_score(&app, viewer, &trace, id).await?;
                // A changed score has the viewer as its author.
                if !viewer.may_change_of(score.author_user_id.as_deref()) {
                    let message = "only its author can change this score; add one of your own";
                    return Err(Problem::new(Code::AccessDenied, message));
                }
                let score = with_current_name(&app, viewer, score).await?;
                changed_score(score, &form.fields)
            }
            None => new_score(&app, &form, &trace).await?,
        };
        call(&app, viewer, (Method::POST, "/api/public/scores"), &body).await?;
        Ok(SubmissionOutcome::new("Score saved."))
    };
    match Box::pin(form.run_once(&app, act)).await {
        Err(problem) if is_about_input(&problem) => {
            let fields = ["which", "score_name", "data_type", "value", "comment"];
            let rejected = RejectedForm {
                values: sent_values(&form.fields, fields),
                problems: field_problems(&problem, &SCORE_FIELDS, "value"),
            };
            Box::pin(rejected_form_page(&app, viewer, trace, &form.return_path(), rejected)).await
        }
        result => result,
    }
}

/// `POST P/traces/{trace}/scores/delete`: deletes the score by a person `score`.
pub(crate) async fn delete_score(
    State(app): State<App>,
    Path(path): Path<TracePath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let (viewer, trace) = (&form.viewer, path.id()?);
    let act = async {
        let id = form.fields.text("score").unwrap_or_default();
        given_score(&app, viewer, &trace, id).await?;
        let operation = format!("/api/public/scores/{}", segment(id));
        call(&app, viewer, (Method::DELETE, &operation), &json!({})).await?;
        Ok(SubmissionOutcome::new("Score deleted. This cannot be undone."))
    };
    Box::pin(form.run_once(&app, act)).await
}

/// `POST P/traces/{trace}/comments`: adds the comment `content`.
pub(crate) async fn add_comment(
    State(app): State<App>,
    Path(path): Path<TracePath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let (viewer, trace) = (&form.viewer, path.id()?);
    let act = async {
        let (_, observation) = target_of_form(&app, viewer, &trace, &form.fields).await?;
        let body = json!({
            "projectId": viewer.project.as_str(),
            "objectType": object_type(observation),
            "objectId": observation.unwrap_or(trace.as_str()),
            "traceId": observation.map(|_| trace.as_str()),
            "content": typed(&form.fields, "content").unwrap_or_default(),
        });
        call(&app, viewer, (Method::POST, "/api/public/comments"), &body).await?;
        Ok(SubmissionOutcome::new("Comment added."))
    };
    match Box::pin(form.run_once(&app, act)).await {
        Err(problem) if is_about_input(&problem) => {
            let rejected = RejectedForm {
                values: sent_values(&form.fields, ["which", "content"]),
                problems: field_problems(&problem, &[("content", "content")], "content"),
            };
            Box::pin(rejected_form_page(&app, viewer, trace, &form.return_path(), rejected)).await
        }
        result => result,
    }
}

/// `POST P/traces/{trace}/comments/delete`: deletes the comment `comment`.
pub(crate) async fn delete_comment(
    State(app): State<App>,
    Path(path): Path<TracePath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let (viewer, trace) = (&form.viewer, path.id()?);
    let act = async {
        let id = form.fields.text("comment").unwrap_or_default();
        require_comment(&app, viewer, &trace, id).await?;
        let operation = format!("/api/v1/comments/{}", segment(id));
        call(&app, viewer, (Method::DELETE, &operation), &json!({})).await?;
        Ok(SubmissionOutcome::new("Comment deleted. This cannot be undone."))
    };
    Box::pin(form.run_once(&app, act)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typed_value_has_the_type_of_its_score_or_stays_text() {
        for (data_type, text, expected) in [
            ("NUMERIC", " 0.5 ", json!(0.5)),
            ("NUMERIC", "many", json!("many")),
            ("BOOLEAN", "true", json!(1)),
            ("BOOLEAN", "false", json!(0)),
            ("BOOLEAN", "maybe", json!("maybe")),
            ("CATEGORICAL", "1", json!("1")),
            ("TEXT", " a ", json!(" a ")),
        ] {
            assert_eq!(value(data_type, text.to_owned()), expected, "{data_type} {text}");
        }
    }
}
