//! Inputs, outputs and metadata whole and as they are, as plain text.

use axum::extract::{Path, State};
use axum::response::Response;
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::observation::Content;
use perpend_domain::payload::Payload;
use perpend_web::problem::Problem;

use crate::answer::plain;
use crate::state::App;
use crate::viewer::Viewer;

fn unknown() -> Problem {
    Problem::not_found("value")
}

/// `GET P/traces/{trace}/raw/{part}`
pub(super) async fn of_trace(
    State(app): State<App>,
    viewer: Viewer,
    Path((_, trace, part)): Path<(String, String, String)>,
) -> Result<Response, Problem> {
    text(content_of_trace(&app, &viewer, &trace).await?, &part)
}

/// `GET P/traces/{trace}/observations/{observation}/raw/{part}`
pub(super) async fn of_observation(
    State(app): State<App>,
    viewer: Viewer,
    Path((_, trace, observation, part)): Path<(String, String, String, String)>,
) -> Result<Response, Problem> {
    let content = content_of_observation(&app, &viewer, &trace, &observation).await?;
    text(content, &part)
}

pub(super) async fn content_of_trace(
    app: &App,
    viewer: &Viewer,
    trace: &str,
) -> Result<Content, Problem> {
    let id = TraceId::new(trace).map_err(|_| unknown())?;
    let trace = super::read::whole(app, &viewer.project, &id)
        .await?
        .ok_or_else(unknown)?;
    Ok(Content {
        input: trace.input,
        output: trace.output,
        metadata: trace.metadata,
        ..Content::default()
    })
}

pub(super) async fn content_of_observation(
    app: &App,
    viewer: &Viewer,
    trace: &str,
    observation: &str,
) -> Result<Content, Problem> {
    let trace = TraceId::new(trace).map_err(|_| unknown())?;
    let id = ObservationId::new(observation).map_err(|_| unknown())?;
    let found = super::read::step(app, &viewer.project, &trace, &id).await?;
    Ok(found.ok_or_else(unknown)?.content)
}

fn text(content: Content, part: &str) -> Result<Response, Problem> {
    let value = value(content, part).ok_or_else(unknown)?;
    Ok(plain(value.into_text()))
}

/// The value that an address calls `part`.
pub(super) fn value(content: Content, part: &str) -> Option<Payload> {
    match part {
        "input" => content.input,
        "output" => content.output,
        "metadata" => serde_json::to_string(&content.metadata)
            .ok()
            .map(Payload::Json),
        "tools" => content.tool_definitions.map(Payload::from_value),
        _ => None,
    }
}
