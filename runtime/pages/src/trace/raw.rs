//! Complete inputs, outputs and metadata as plain text.

use axum::extract::{Path, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_DISPOSITION;
use axum::response::Response;
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::mapping::{InvalidNodePath, NodePath};
use perpend_domain::observation::Content;
use perpend_domain::payload::Payload;
use perpend_domain::trace::Trace;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{MAX_PATH, decode_segment};
use serde::Deserialize;

use crate::request::query::Query;
use crate::request::reply::plain;
use crate::request::viewer::Viewer;
use crate::state::App;

pub(crate) fn unknown() -> Problem {
    Problem::not_found("value")
}

/// Selects a node of a value.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawParams {
    /// Normalized JSON path of the node; the whole value if absent.
    path: Option<String>,
    /// Present to download a file.
    download: Option<String>,
}

impl RawParams {
    /// The selected node.
    pub(crate) fn node(&self, value: Payload) -> Result<Payload, Problem> {
        let path = parse_path(self.path.as_deref())?;
        match path.0.is_empty() {
            true => Ok(value),
            false => perpend_views::node(&value, &path).ok_or_else(unknown),
        }
    }
}

/// Parses the `path` parameter; the root if absent or empty.
pub(crate) fn parse_path(path: Option<&str>) -> Result<NodePath, Problem> {
    let path = path.filter(|path| !path.is_empty()).unwrap_or("$");
    let wrong = |message: String| Problem::new(Code::InvalidJsonPath, format!("path: {message}"));
    if MAX_PATH < path.len() {
        return Err(wrong(format!("must have at most {MAX_PATH} bytes")));
    }
    path.parse().map_err(|error: InvalidNodePath| wrong(error.to_string()))
}

/// `GET P/traces/{trace}/raw/{part}`
pub(crate) async fn trace_value(
    State(app): State<App>,
    viewer: Viewer,
    Path((_, trace, part)): Path<(String, String, String)>,
    Query(params): Query<RawParams>,
) -> Result<Response, Problem> {
    text(content_of_trace(&app, &viewer, &trace).await?, &part, params)
}

/// `GET P/traces/{trace}/observations/{observation}/raw/{part}`
pub(crate) async fn observation_value(
    State(app): State<App>,
    viewer: Viewer,
    Path((_, trace, observation, part)): Path<(String, String, String, String)>,
    Query(params): Query<RawParams>,
) -> Result<Response, Problem> {
    let content = content_of_observation(&app, &viewer, &trace, &observation).await?;
    text(content, &part, params)
}

pub(crate) async fn content_of_trace(
    app: &App,
    viewer: &Viewer,
    trace: &str,
) -> Result<Content, Problem> {
    let id = TraceId::new(decode_segment(trace)).map_err(|_| unknown())?;
    let trace =
        crate::read::trace_with_content(app, &viewer.project, &id).await?.ok_or_else(unknown)?;
    Ok(trace_content(trace))
}

/// The values of a trace.
pub(crate) fn trace_content(trace: Trace) -> Content {
    Content {
        input: trace.input,
        output: trace.output,
        metadata: trace.metadata,
        ..Content::default()
    }
}

pub(crate) async fn content_of_observation(
    app: &App,
    viewer: &Viewer,
    trace: &str,
    observation: &str,
) -> Result<Content, Problem> {
    let trace = TraceId::new(decode_segment(trace)).map_err(|_| unknown())?;
    let id = ObservationId::new(decode_segment(observation)).map_err(|_| unknown())?;
    let found = crate::read::observation_with_content(app, &viewer.project, &trace, &id).await?;
    Ok(found.ok_or_else(unknown)?.content)
}

/// The selected node of a value as plain text.
pub(crate) fn text(content: Content, part: &str, params: RawParams) -> Result<Response, Problem> {
    let value = value(content, part).ok_or_else(unknown)?;
    let value = params.node(value)?;
    let kind = match &value {
        Payload::Text(_) => "txt",
        Payload::Json(_) => "json",
    };
    let mut response = plain(value.into_text());
    if params.download.is_some() {
        // `part` is one of the names in `value`.
        let file = format!("attachment; filename=\"{part}.{kind}\"");
        if let Ok(file) = HeaderValue::from_str(&file) {
            response.headers_mut().insert(CONTENT_DISPOSITION, file);
        }
    }
    Ok(response)
}

/// The value with this name in URLs.
pub(crate) fn value(content: Content, part: &str) -> Option<Payload> {
    match part {
        "input" => content.input,
        "output" => content.output,
        "metadata" => serde_json::to_string(&content.metadata).ok().map(Payload::Json),
        "tools" => content.tool_definitions.map(Payload::from_value),
        _ => None,
    }
}
