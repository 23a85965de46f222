//! Every path of the server: those of each room, and what is around all of them.

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
use perpend_http_kit::{Web, admission, compression, limits, reading};
use perpend_pages as pages;
use serde_json::Value;

use crate::app::App;
use crate::operations;

/// The document, which is everybody's: whoever asks for it needs no key.
fn own_routes() -> (Router<Web>, ApiDescription) {
    let mut routes = Routes::default();
    routes.open("/api/openapi.json", || async {
        static TEXT: LazyLock<Bytes> =
            LazyLock::new(|| serde_json::to_vec(&openapi()).unwrap_or_default().into());
        ([(CONTENT_TYPE, "application/json")], TEXT.clone())
    });
    routes.into_parts()
}

/// What is said of every route.
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

/// What the server serves, and what each route needs.
#[must_use]
pub fn served() -> Vec<RouteEntry> {
    described().routes()
}

/// Every path of the server.
#[expect(
    clippy::disallowed_methods,
    reason = "the rooms collected their routes behind their guards"
)]
pub fn router(app: &App) -> Router {
    let web = &app.web;
    let (ingress, _) = ingress::routes();
    let (own, _) = own_routes();
    let (pages, _) = pages::routes();
    let mut paths = ingress
        .with_state(app.ingress.clone())
        .merge(operations::of(&app.admin, &app.records, &app.api))
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
    compression::around(paths)
        .layer(from_fn_with_state(web.clone(), edge::log))
        .layer(from_fn_with_state(web.clone(), edge::note_client))
}

/// An unknown path.
async fn not_found(app: pages::App, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    if let Some(there) = pages::without_slash(&parts.method, &parts.headers, &parts.uri) {
        return there;
    }
    let path = parts.uri.path();
    if path.starts_with("/api/") {
        let problem = Problem::new(Code::NotFound, format!("there is no endpoint {path}"));
        return problem::respond_for_path(path, problem);
    }
    if pages::wants_page(&parts.headers) {
        return pages::not_found(&app, &parts.headers, &parts.uri).await;
    }
    let text = "There is no such page. The traces are at /.\n";
    (StatusCode::NOT_FOUND, text).into_response()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_operation_has_an_id_of_its_own() {
        let document = serde_json::to_value(super::openapi()).unwrap();
        let mut ids = std::collections::BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let id = operation["operationId"].as_str();
                let id = id.unwrap_or_else(|| panic!("{method} {path} has no id"));
                assert!(ids.insert(id.to_owned()), "{id} is there twice");
            }
        }
    }

    #[test]
    fn no_two_bodies_have_the_same_name() {
        let described = super::described();
        let twice = described.ambiguous_schemas();
        assert!(twice.is_empty(), "names of two bodies: {twice:?}");
    }

    #[test]
    fn what_the_document_refers_to_is_in_it() {
        let document = serde_json::to_value(super::openapi()).unwrap();
        let text = document.to_string();
        let mut n_refs = 0;
        for (at, start) in text.match_indices("\"$ref\":\"#") {
            let pointer = text[at + start.len()..].split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
            n_refs += 1;
        }
        assert!(0 < n_refs, "nothing is referred to");
    }
}
