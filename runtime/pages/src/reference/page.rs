//! `GET /api/reference` and `GET /api/reference/{group}`: the OpenAPI document as pages. They are public, like the document.

use axum::Extension;
use axum::extract::{OriginalUri, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::openapi::{ErrorCode, ErrorScope};
use perpend_views::{ReferenceGroupPage, ReferencePage, Section};
use serde::Deserialize;

use crate::request::frame::Frame;
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer;
use crate::state::App;

/// Characters of a search text.
const MAX_CHARS: usize = 200;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ReferenceParams {
    q: String,
}

/// `GET /api/reference`
pub(crate) async fn reference_page(
    State(app): State<App>,
    headers: HeaderMap,
    OriginalUri(address): OriginalUri,
    Query(params): Query<ReferenceParams>,
) -> Result<Response, Problem> {
    if MAX_CHARS < params.q.chars().count() {
        return Err(Problem::query("q", "must have at most 200 characters"));
    }
    let view = ReferencePage {
        shell: viewer::shell(&app, &headers, (&address, Section::Reference)).await?,
        reference: app.reference(faults),
        q: params.q.trim().to_owned(),
    };
    page(StatusCode::OK, &view)
}

/// `GET /api/reference/{group}`
pub(crate) async fn group_page(
    State(app): State<App>,
    headers: HeaderMap,
    OriginalUri(address): OriginalUri,
    Extension(frame): Extension<Frame>,
    Path(group): Path<String>,
) -> Result<Response, Problem> {
    let shell = viewer::shell(&app, &headers, (&address, Section::Reference)).await?;
    let _ = frame.shell.set(shell.clone());
    let view = ReferenceGroupPage::new(app.reference(faults), &group, shell);
    page(StatusCode::OK, &view.ok_or_else(|| Problem::not_found("group"))?)
}

/// Errors that many operations return, by the feature they depend on. `docs/errors.md` has the codes of single resources too.
pub(crate) fn faults() -> Vec<ErrorCode> {
    let known = Code::ALL.iter().filter_map(|code| {
        let scope = match code {
            Code::InvalidQuery => ErrorScope::Query,
            Code::InvalidFilter => ErrorScope::Filter,
            Code::InvalidBody
            | Code::TooLarge
            | Code::BodyTooSlow
            | Code::UnsupportedMediaType
            | Code::Unprocessable => ErrorScope::Body,
            Code::AuthenticationFailed
            | Code::KeyExpired
            | Code::AccessDenied
            | Code::TooManyAttempts
            | Code::RateLimited => ErrorScope::Authenticated,
            Code::NotFound => ErrorScope::PathParameter,
            Code::Conflict => ErrorScope::Write,
            Code::Internal | Code::Unavailable => ErrorScope::Always,
            _ => return None,
        };
        Some(ErrorCode {
            code: code.as_str(),
            status: code.status().as_u16(),
            title: code.title(),
            scope,
        })
    });
    known.collect()
}
