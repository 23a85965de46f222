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
    let id = TraceId::new(&trace).map_err(|_| unknown())?;
    let trace = super::read::whole(&app, &viewer.project, &id)
        .await?
        .ok_or_else(unknown)?;
    let content = Content {
        input: trace.input,
        output: trace.output,
        metadata: trace.metadata,
        ..Content::default()
    };
    pick(&content, &part)
}

/// `GET P/traces/{trace}/observations/{observation}/raw/{part}`
pub(super) async fn of_observation(
    State(app): State<App>,
    viewer: Viewer,
    Path((_, trace, observation, part)): Path<(String, String, String, String)>,
) -> Result<Response, Problem> {
    let trace = TraceId::new(&trace).map_err(|_| unknown())?;
    let id = ObservationId::new(&observation).map_err(|_| unknown())?;
    let found = super::read::step(&app, &viewer.project, &trace, &id).await?;
    pick(&found.ok_or_else(unknown)?.content, &part)
}

fn pick(content: &Content, part: &str) -> Result<Response, Problem> {
    let text = match part {
        "input" => content
            .input
            .as_ref()
            .map(|value| value.as_str().to_owned()),
        "output" => content
            .output
            .as_ref()
            .map(|value| value.as_str().to_owned()),
        "metadata" => serde_json::to_string(&content.metadata).ok(),
        "tools" => content
            .tool_definitions
            .clone()
            .map(|value| Payload::from_value(value).as_str().to_owned()),
        _ => None,
    };
    text.map(plain).ok_or_else(unknown)
}
