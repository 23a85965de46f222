//! Pages and texts as answers.

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{Html, IntoResponse, Response};
use perpend_http_kit::problem::Problem;

/// A page as an answer.
pub(crate) fn page(
    status: StatusCode,
    view: &impl perpend_views::Template,
) -> Result<Response, Problem> {
    let html = perpend_views::render(view).map_err(|error| unrendered(&error))?;
    Ok((status, Html(html)).into_response())
}

/// Lays something out on a thread of its own: recorded contents may be large, and other requests do not wait for them.
pub(crate) async fn laid_out<T: Send + 'static>(
    make: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let made = tokio::task::spawn_blocking(make).await;
    made.map_err(|error| {
        let error: &dyn std::error::Error = &error;
        tracing::error!(error, "page not laid out");
        Problem::internal()
    })
}

/// Rendering fails only on a fault in a template.
pub(crate) fn unrendered(error: &perpend_views::Error) -> Problem {
    let error: &dyn std::error::Error = error;
    tracing::error!(error, "page not rendered");
    Problem::internal()
}

/// A body that is shown as text, whatever it holds.
pub(crate) fn plain(text: String) -> Response {
    let headers =
        [(CONTENT_TYPE, "text/plain; charset=utf-8"), (CONTENT_SECURITY_POLICY, "sandbox")];
    (headers, Body::from(text)).into_response()
}
