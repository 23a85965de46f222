//! HTML and plain-text responses.

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{Html, IntoResponse, Response};
use perpend_http_kit::problem::Problem;

/// Renders a template as a response.
pub(crate) fn page(
    status: StatusCode,
    view: &impl perpend_views::Template,
) -> Result<Response, Problem> {
    let html = perpend_views::render(view).map_err(|error| render_problem(&error))?;
    Ok((status, Html(html)).into_response())
}

/// Renders a template as the response of a problem, with its status and headers.
pub(crate) fn problem_page(
    problem: &Problem,
    view: &impl perpend_views::Template,
) -> Result<Response, Problem> {
    let mut response = page(problem.code().status(), view)?;
    problem.set_headers(&mut response);
    Ok(response)
}

/// Runs CPU-bound layout of large contents on a blocking thread.
pub(crate) async fn on_blocking_thread<T: Send + 'static>(
    make: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let made = tokio::task::spawn_blocking(make).await;
    made.map_err(|error| {
        let error: &dyn std::error::Error = &error;
        tracing::error!(error, "laying out a page failed");
        Problem::internal()
    })
}

/// Logs a rendering error, which only a defective template causes.
pub(crate) fn render_problem(error: &perpend_views::Error) -> Problem {
    let error: &dyn std::error::Error = error;
    tracing::error!(error, "rendering a page failed");
    Problem::internal()
}

/// A plain-text response, which the browser never interprets as HTML.
pub(crate) fn plain(text: String) -> Response {
    let headers =
        [(CONTENT_TYPE, "text/plain; charset=utf-8"), (CONTENT_SECURITY_POLICY, "sandbox")];
    (headers, Body::from(text)).into_response()
}
