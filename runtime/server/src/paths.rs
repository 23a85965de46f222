//! All routes of the server and the middleware around them.

use std::sync::LazyLock;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use perpend_api::ingress;
use perpend_http_kit::edge;
use perpend_http_kit::problem::{self, Code, Problem};
use perpend_http_kit::routes::{ApiDescription, RouteEntry, Routes};
use perpend_http_kit::{
    Web, admission, compression, limits, reading, request_metrics, request_spans,
};
use perpend_pages as pages;
use serde_json::Value;

use crate::app::App;
use crate::{operations, prometheus};

/// Media type of the text format of Prometheus.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The routes of the OpenAPI document and of the metrics.
fn own_routes() -> (Router<Web>, ApiDescription) {
    let mut routes = Routes::default();
    routes.open("/api/openapi.json", || async {
        static TEXT: LazyLock<Bytes> =
            LazyLock::new(|| serde_json::to_vec(&openapi()).unwrap_or_default().into());
        ([(CONTENT_TYPE, "application/json")], TEXT.clone())
    });
    routes.metrics("/metrics", || async {
        ([(CONTENT_TYPE, PROMETHEUS_TEXT)], prometheus::render())
    });
    routes.into_parts()
}

/// Descriptions of all routes.
#[must_use]
pub fn described() -> ApiDescription {
    let (_, own) = own_routes();
    let (_, ingress) = ingress::routes();
    let (_, admin) = perpend_api::admin::routes();
    let (_, records) = perpend_api::records::routes();
    let (_, api) = perpend_api::routes();
    let (_, pages) = pages::routes();
    ingress.and(admin).and(records).and(api).and(own).and(pages)
}

/// The OpenAPI document.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    described().openapi(ingress::paths())
}

pub(crate) fn document() -> Value {
    serde_json::to_value(openapi()).unwrap_or_default()
}

/// All routes with their required permissions.
#[must_use]
pub fn served() -> Vec<RouteEntry> {
    described().routes()
}

/// The router of all routes.
#[expect(
    clippy::disallowed_methods,
    reason = "each module registered its routes with authentication"
)]
pub fn router(app: &App) -> Router {
    let web = &app.web;
    let (ingress, _) = ingress::routes();
    let (own, _) = own_routes();
    let (pages, _) = pages::routes();
    let mut paths = ingress
        .with_state(app.ingress.clone())
        .merge(operations::router(&app.admin, &app.records, &app.api))
        .merge(own.with_state(web.clone()))
        .merge(pages.with_state(app.pages.clone()))
        .fallback({
            let pages = app.pages.clone();
            move |request: Request| not_found(pages.clone(), request)
        })
        .layer(from_fn_with_state(web.clone(), admission::open_account))
        .layer(from_fn_with_state(web.clone(), reading::limit));
    if limits::are_on(&web.config.limits) {
        paths = paths.layer(from_fn_with_state(web.clone(), limits::keep));
    }
    let paths = paths.layer(from_fn(perpend_api::admin::as_scim)).layer(from_fn(edge::cors));
    let paths = compression::around(paths)
        .layer(from_fn_with_state(web.clone(), edge::log))
        .layer(from_fn_with_state(web.clone(), edge::note_client));
    let paths = match web.config.metrics.token {
        Some(_) => paths.layer(from_fn(request_metrics::record)),
        None => paths,
    };
    match web.config.tracing.otlp_endpoint {
        Some(_) => paths.layer(from_fn(request_spans::record)),
        None => paths,
    }
}

/// The response for an unknown path: a problem below `/api/`, otherwise a page or plain text.
async fn not_found(app: pages::App, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    if let Some(there) = pages::without_slash(&parts.method, &parts.headers, &parts.uri) {
        return there;
    }
    let path = parts.uri.path();
    if path.starts_with("/api/") {
        let problem = Problem::new(Code::NotFound, format!("unknown endpoint `{path}`"));
        return problem::respond_for_path(path, problem);
    }
    if pages::wants_page(&parts.headers) {
        return pages::not_found(&app, &parts.headers, &parts.uri).await;
    }
    let text = "Page not found. The start page is /.\n";
    (StatusCode::NOT_FOUND, text).into_response()
}

#[cfg(test)]
mod tests {
    #[test]
    fn operation_ids_are_unique() {
        let document = serde_json::to_value(super::openapi()).unwrap();
        let mut ids = std::collections::BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let id = operation["operationId"].as_str();
                let id = id.unwrap_or_else(|| panic!("{method} {path} has no id"));
                assert!(ids.insert(id.to_owned()), "{id} is used twice");
            }
        }
    }

    #[test]
    fn schema_names_are_unique() {
        let described = super::described();
        let ambiguous = described.ambiguous_schemas();
        assert!(ambiguous.is_empty(), "names of several schemas: {ambiguous:?}");
    }

    #[test]
    fn references_in_the_document_are_resolved() {
        let document = serde_json::to_value(super::openapi()).unwrap();
        let text = document.to_string();
        let mut n_refs = 0;
        for (at, start) in text.match_indices("\"$ref\":\"#") {
            let pointer = text[at + start.len()..].split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
            n_refs += 1;
        }
        assert!(0 < n_refs, "the document has references");
    }
}
