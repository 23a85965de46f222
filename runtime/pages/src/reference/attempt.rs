//! `GET P/try/{operation}`: calls a read operation of the API within this process, with the viewer's permissions.
//!
//! Invariants:
//! - **The viewer's permissions.** The authenticator of the operation checks the viewer's permissions in the project.
//! - **Bounded.** The page shows the beginning of a response and its size.
//! - **No rate limit.** Rate limits apply to API keys only.
//! - **No secrets.** A response with `Cache-Control: no-store` may contain a secret and is not shown.

use std::collections::HashMap;

use axum::body::{Body, HttpBody};
use axum::extract::{Path, RawQuery, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use futures_util::StreamExt as _;
use perpend_http_kit::auth::ViewerAct;
use perpend_http_kit::problem::Problem;
use perpend_views::openapi::OperationParameter;
use perpend_views::{Section, Text, TryPage, encode, size, with_query};
use serde_json::Value;
use tower_service::Service as _;

use crate::reference;
use crate::request::query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Bytes shown of a response.
const MAX_BYTES: usize = 64 << 10;

/// Values by parameter of the operation; their names in the query start with `p.`.
fn operation_values(query: &str) -> HashMap<String, String> {
    let pairs = form_urlencoded::parse(query.as_bytes());
    let values = pairs.filter_map(|(name, value)| {
        let name = name.strip_prefix("p.")?.to_owned();
        (!value.is_empty()).then(|| (name, value.into_owned()))
    });
    values.collect()
}

/// The URL of the operation with these values.
fn address(
    path: &str,
    parameters: &[OperationParameter<'_>],
    values: &HashMap<String, String>,
) -> String {
    let mut address = path.to_owned();
    let mut pairs = Vec::new();
    for one in parameters {
        let name = one.name;
        let Some(value) = values.get(name) else {
            continue;
        };
        match one.location {
            "path" => address = address.replace(&format!("{{{name}}}"), &encode(value)),
            _ if one.is_list => {
                let values = value.lines().filter(|value| !value.is_empty());
                pairs.extend(values.map(|value| (name, value.to_owned())));
            }
            _ => pairs.push((name, value.clone())),
        }
    }
    with_query(&address, &pairs)
}

pub(crate) async fn attempt_page(
    State(app): State<App>,
    viewer: Viewer,
    Path((_, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    query::reject_repeated(query.as_deref())?;
    let tried = app.reference(reference::page::faults).callable_operation(&id);
    let (path, parameters) = tried.ok_or_else(|| Problem::not_found("operation"))?;
    let values = operation_values(query.as_deref().unwrap_or_default());
    let value = |name: &str| values.get(name).cloned().unwrap_or_default();
    let fields = parameters.iter().map(|&one| (one, value(one.name)));
    let mut view = TryPage {
        shell: viewer.shell(Section::Reference),
        path: path.to_owned(),
        fields: fields.collect(),
        response: None,
    };
    let mut fields = view.fields.iter();
    if fields.all(|(one, value)| !one.is_required || !value.is_empty()) {
        let address = address(path, &parameters, &values);
        let response = call_operation(&app, &viewer, &address).await?;
        let status = response.status().as_u16();
        let (note, body) = beginning_of(response).await?;
        view.response = Some((Text::from(address), status, note, body));
    }
    page(StatusCode::OK, &view)
}

async fn call_operation(app: &App, viewer: &Viewer, address: &str) -> Result<Response, Problem> {
    let request = Request::builder().uri(address).extension(ViewerAct(viewer.act()));
    let request = request.body(Body::empty());
    let request = request.map_err(|_| Problem::query("p", "makes the URL too long"))?;
    // A router is always ready and never fails.
    let Ok(response) = app.operations.clone().call(request).await;
    Ok(response)
}

/// The size of a response as text, and its beginning.
async fn beginning_of(response: Response) -> Result<(String, Text), Problem> {
    let policy = response.headers().get(CACHE_CONTROL);
    if policy.is_some_and(|policy| policy == "no-store") {
        let note = "not shown: it may contain a secret".to_owned();
        return Ok((note, Text::default()));
    }
    let body = response.into_body();
    let whole = body.size_hint().exact();
    let mut parts = body.into_data_stream();
    let mut shown: Vec<u8> = Vec::new();
    // One more byte shows whether the body is longer.
    while shown.len() <= MAX_BYTES
        && let Some(part) = parts.next().await
    {
        let part = part.map_err(|error| {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "reading a response of the API failed"
            );
            Problem::internal()
        })?;
        shown.extend(part.iter().take(MAX_BYTES + 1 - shown.len()));
    }
    let is_cut = MAX_BYTES < shown.len();
    shown.truncate(MAX_BYTES);
    let shown_size = size(shown.len() as u64);
    let note = match (is_cut, whole) {
        (false, _) => shown_size,
        (true, Some(n)) => format!("{shown_size} of {}", size(n)),
        (true, None) => format!("the first {shown_size}"),
    };
    let json = serde_json::from_slice::<Value>(&shown).ok();
    let indented = json.and_then(|json| serde_json::to_string_pretty(&json).ok());
    // Indentation can multiply the size of deeply nested JSON.
    let indented = indented.filter(|text| text.len() <= 4 * MAX_BYTES);
    let text = indented.unwrap_or_else(|| String::from_utf8_lossy(&shown).into_owned());
    Ok((note, Text::lines(text)))
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;

    use super::*;

    #[test]
    fn values_are_inserted_into_path_and_query() {
        let parameters = [
            ("id", "path", false),
            ("n", "query", false),
            ("tags", "query", true),
            ("other", "query", false),
        ];
        let parameters = parameters.map(|(name, location, is_list)| OperationParameter {
            name,
            location,
            is_required: location == "path",
            is_list,
        });
        let values = operation_values(
            "p.id=a%2F%7Bn%7D&p.n=1%262&p.tags=a,+b%0D%0A%0D%0Ac%0A&p.other=&p.unknown=x&env=e",
        );
        let address = address("/api/x/{id}/y", &parameters, &values);
        let tags = "tags=a%2C%20b&tags=c";
        assert_eq!(address, format!("/api/x/a%2F%7Bn%7D/y?n=1%262&{tags}"));
    }

    #[tokio::test]
    async fn a_long_response_is_truncated_and_one_with_a_secret_is_not_shown() {
        let (note, text) = beginning_of("[1, 2]".into_response()).await.unwrap();
        assert_eq!((note.as_str(), text.raw()), ("6 bytes", "[\n  1,\n  2\n]"));
        let (note, text) = beginning_of("a".repeat(MAX_BYTES + 1).into_response()).await.unwrap();
        assert!(note.starts_with("64 KB of "), "{note}");
        assert_eq!(text.raw().len(), MAX_BYTES);
        let secret = ([(CACHE_CONTROL, "no-store")], "secret").into_response();
        let (note, text) = beginning_of(secret).await.unwrap();
        assert!(note.starts_with("not shown") && text.raw().is_empty());
    }
}
