//! `GET P/try/{operation}`: an operation of the API that reads, asked in this process for the viewer of the page.
//!
//! Invariants:
//! - **The viewer's permissions.** The guard of the operation decides, by what the viewer holds in the project of the session.
//! - **Bounded.** The page shows how an answer begins, and says how much of it that is.
//! - **Not counted.** Rate limits are those of keys; a page has none.
//! - **No secrets.** An answer that no cache may keep opens something, and is not shown.

use std::collections::HashMap;

use axum::body::{Body, HttpBody};
use axum::extract::{Path, RawQuery, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use futures_util::StreamExt as _;
use perpend_http_kit::auth::{Act, ViewerAct};
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

/// Bytes of an answer that are shown.
const SHOWN: usize = 64 << 10;

/// The values in a query, by parameter of the operation: those of the page itself have other names.
fn given(query: &str) -> HashMap<String, String> {
    let pairs = form_urlencoded::parse(query.as_bytes());
    let given = pairs.filter_map(|(name, value)| {
        let name = name.strip_prefix("p.")?.to_owned();
        (!value.is_empty()).then(|| (name, value.into_owned()))
    });
    given.collect()
}

/// The address with these values.
fn address(
    path: &str,
    parameters: &[OperationParameter<'_>],
    given: &HashMap<String, String>,
) -> String {
    let mut address = path.to_owned();
    let mut pairs = Vec::new();
    for one in parameters {
        let name = one.name;
        let Some(value) = given.get(name) else {
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
    let given = given(query.as_deref().unwrap_or_default());
    let value = |name: &str| given.get(name).cloned().unwrap_or_default();
    let fields = parameters.iter().map(|&one| (one, value(one.name)));
    let mut view = TryPage {
        shell: viewer.shell(Section::Reference),
        path: path.to_owned(),
        fields: fields.collect(),
        response: None,
    };
    let mut fields = view.fields.iter();
    if fields.all(|(one, value)| !one.is_required || !value.is_empty()) {
        let address = address(path, &parameters, &given);
        let response = ask(&app, &viewer, &address).await?;
        let status = response.status().as_u16();
        let (said, body) = begins(response).await?;
        view.response = Some((Text::from(address), status, said, body));
    }
    page(StatusCode::OK, &view)
}

async fn ask(app: &App, viewer: &Viewer, address: &str) -> Result<Response, Problem> {
    let act = Act { project: viewer.project.clone(), scope: viewer.scope, public_half: None };
    let request = Request::builder().uri(address).extension(ViewerAct(act));
    let request = request.body(Body::empty());
    let request = request.map_err(|_| Problem::query("p", "makes an address that is too long"))?;
    // A router is always ready, and has an answer to everything.
    let Ok(response) = app.operations.clone().call(request).await;
    Ok(response)
}

/// How much of an answer is shown, in words, and that.
async fn begins(response: Response) -> Result<(String, Text), Problem> {
    let policy = response.headers().get(CACHE_CONTROL);
    if policy.is_some_and(|policy| policy == "no-store") {
        let said = "not shown: it opens something without a key".to_owned();
        return Ok((said, Text::default()));
    }
    let body = response.into_body();
    let whole = body.size_hint().exact();
    let mut parts = body.into_data_stream();
    let mut shown: Vec<u8> = Vec::new();
    // One byte more tells that there are more.
    while shown.len() <= SHOWN
        && let Some(part) = parts.next().await
    {
        let part = part.map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "an answer broke off");
            Problem::internal()
        })?;
        shown.extend(part.iter().take(SHOWN + 1 - shown.len()));
    }
    let is_cut = SHOWN < shown.len();
    shown.truncate(SHOWN);
    let of_all = size(shown.len() as u64);
    let said = match (is_cut, whole) {
        (false, _) => of_all,
        (true, Some(n)) => format!("{of_all} of {}", size(n)),
        (true, None) => format!("the first {of_all}"),
    };
    let json = serde_json::from_slice::<Value>(&shown).ok();
    let indented = json.and_then(|json| serde_json::to_string_pretty(&json).ok());
    // Each level indents: what is nested deep would grow many times over.
    let indented = indented.filter(|text| text.len() <= 4 * SHOWN);
    let text = indented.unwrap_or_else(|| String::from_utf8_lossy(&shown).into_owned());
    Ok((said, Text::lines(text)))
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;

    use super::*;

    #[test]
    fn values_stand_in_the_address_where_they_belong() {
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
        let given = given(
            "p.id=a%2F%7Bn%7D&p.n=1%262&p.tags=a,+b%0D%0A%0D%0Ac%0A&p.other=&p.unknown=x&env=e",
        );
        let address = address("/api/x/{id}/y", &parameters, &given);
        let tags = "tags=a%2C%20b&tags=c";
        assert_eq!(address, format!("/api/x/a%2F%7Bn%7D/y?n=1%262&{tags}"));
    }

    #[tokio::test]
    async fn a_long_answer_is_cut_and_one_with_a_secret_is_not_shown() {
        let (said, text) = begins("[1, 2]".into_response()).await.unwrap();
        assert_eq!((said.as_str(), text.raw()), ("6 bytes", "[\n  1,\n  2\n]"));
        let (said, text) = begins("a".repeat(SHOWN + 1).into_response()).await.unwrap();
        assert!(said.starts_with("64 KB of "), "{said}");
        assert_eq!(text.raw().len(), SHOWN);
        let secret = ([(CACHE_CONTROL, "no-store")], "secret").into_response();
        let (said, text) = begins(secret).await.unwrap();
        assert!(said.starts_with("not shown") && text.raw().is_empty());
    }
}
