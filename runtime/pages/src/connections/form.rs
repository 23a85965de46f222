//! `GET` and `POST P/settings/connections/new` and `P/settings/connections/{connection}/edit`
//!
//! Invariant: **secrets are write-only.** Neither the stored key and header values nor those of a rejected form are
//! on a page.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_catalog::connections::MAX_IN_FLIGHT;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{
    ConnectionConflict, ConnectionFields, ConnectionFormPage, RejectedForm, Section, Text, segment,
};
use serde_json::{Map, Value, json};

use super::usage::{ConnectionPath, ConnectionUsage, StoredConnection, connection_href};
use crate::request::forms::SubmittedForm;
use crate::request::operations::{call, field_problems, is_about_input};
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

const CREATE: &str = "/api/public/llm-connections";
const ADAPTERS: &[&str] =
    &["openai", "anthropic", "azure", "google-ai-studio", "mock", "bedrock", "google-vertex-ai"];
/// Members of the body and their fields.
const FIELDS: [(&str, &str); 9] = [
    ("provider", "provider"),
    ("adapter", "adapter"),
    ("secretKey", "secret_key"),
    ("baseURL", "base_url"),
    ("customModels", "custom_models"),
    ("extraHeaders", "headers"),
    ("config", "config"),
    ("maxInFlight", "max_in_flight"),
    ("useResponsesApi", "use_responses_api"),
];

/// `GET P/settings/connections/new`
pub(crate) async fn new_page(viewer: Viewer) -> Result<Response, Problem> {
    let fields = ConnectionFields {
        adapter: "openai".to_owned(),
        with_default_models: true,
        max_in_flight: MAX_IN_FLIGHT.to_string(),
        ..ConnectionFields::default()
    };
    page(StatusCode::OK, &view(&viewer, None, fields, Rejection::default()))
}

/// `GET P/settings/connections/{connection}/edit`
pub(crate) async fn edit_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<ConnectionPath>,
) -> Result<Response, Problem> {
    let usage = path.usage(&app, &viewer).await?;
    let fields = stored_fields(&usage.connection);
    page(StatusCode::OK, &view(&viewer, Some(&usage), fields, Rejection::default()))
}

/// `POST P/settings/connections/new`
pub(crate) async fn create_connection(
    State(app): State<App>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let act = async {
        let body = new_body(&form.fields)?;
        let provider = body["provider"].as_str().unwrap_or_default().to_owned();
        // The operation would replace a connection of this name.
        if app.store.catalog.connection(&viewer.project, &provider).await?.is_some() {
            return Err(Problem::body("provider", "must be unused; a connection has this name"));
        }
        let options = options(&form.fields)?;
        let created = call(&app, viewer, (Method::PUT, CREATE), &body).await?;
        let id = created["id"].as_str().unwrap_or_default();
        let operation = format!("/api/v1/llm-connections/{}", segment(id));
        call(&app, viewer, (Method::PATCH, &operation), &options).await?;
        let outcome = SubmissionOutcome::new(format!("Connection {provider} created."));
        Ok(outcome.at(connection_href(viewer, id)))
    };
    match Box::pin(form.run_once(&app, act)).await {
        Err(problem) if is_about_input(&problem) => {
            let rejection = Rejection::of(&problem);
            let view = view(viewer, None, sent_fields(&form.fields), rejection);
            page(StatusCode::UNPROCESSABLE_ENTITY, &view)
        }
        outcome => outcome,
    }
}

/// `POST P/settings/connections/{connection}/edit`
pub(crate) async fn change_connection(
    State(app): State<App>,
    Path(path): Path<ConnectionPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let usage = path.usage(&app, viewer).await?;
    let act = async {
        let body = changed_body(&form.fields)?;
        let operation = path.operation("");
        let changed = call(&app, viewer, (Method::PATCH, &operation), &body).await?;
        let has_lost_key = changed["displaySecretKey"] == "" && usage.connection.key().is_some();
        let words = match has_lost_key {
            true => {
                "Connection saved. Its key was removed because the address changed: enter a key."
            }
            false => "Connection saved.",
        };
        Ok(SubmissionOutcome::new(words).at(connection_href(viewer, &usage.connection.id)))
    };
    match Box::pin(form.run_once(&app, act)).await {
        Err(problem) if is_about_input(&problem) => {
            let mut fields = sent_fields(&form.fields);
            let mut rejection = Rejection::of(&problem);
            let status = match problem.code() {
                Code::Conflict => {
                    let usage = path.usage(&app, viewer).await?;
                    let stored = stored_fields(&usage.connection);
                    rejection = Rejection { conflicts: conflicts(&stored, &fields), ..rejection };
                    if !rejection.conflicts.is_empty() {
                        rejection.form.problems.clear();
                    }
                    fields.updated_at = stored.updated_at;
                    StatusCode::CONFLICT
                }
                _ => StatusCode::UNPROCESSABLE_ENTITY,
            };
            page(status, &view(viewer, Some(&usage), fields, rejection))
        }
        outcome => outcome,
    }
}

/// Why a form was not saved.
#[derive(Default)]
struct Rejection {
    form: RejectedForm,
    conflicts: Vec<ConnectionConflict>,
}

impl Rejection {
    fn of(problem: &Problem) -> Self {
        let problems = field_problems(problem, &FIELDS, "adapter");
        Self { form: RejectedForm { values: Vec::new(), problems }, conflicts: Vec::new() }
    }
}

fn view(
    viewer: &Viewer,
    changed: Option<&ConnectionUsage>,
    fields: ConnectionFields,
    rejection: Rejection,
) -> ConnectionFormPage {
    let connection = changed.map(|usage| &usage.connection);
    ConnectionFormPage {
        shell: viewer.shell(Section::Connections),
        changed: connection.map(|connection| {
            let name = Text::from(connection.provider.as_str());
            (name, connection_href(viewer, &connection.id))
        }),
        fields,
        adapters: ADAPTERS,
        key: connection.and_then(StoredConnection::key),
        conflicts: rejection.conflicts,
        rejected_form: rejection.form,
    }
}

fn stored_fields(connection: &StoredConnection) -> ConnectionFields {
    let config = connection.config.as_ref();
    ConnectionFields {
        provider: connection.provider.clone(),
        adapter: connection.adapter.clone(),
        base_url: connection.base_url.clone().unwrap_or_default(),
        custom_models: connection.custom_models.join("\n"),
        with_default_models: connection.with_default_models,
        headers: connection.extra_header_keys.join("\n"),
        config: config
            .and_then(|config| serde_json::to_string_pretty(config).ok())
            .unwrap_or_default(),
        max_in_flight: connection.max_in_flight.to_string(),
        use_responses_api: connection.use_responses_api,
        updated_at: connection.updated_at.clone(),
    }
}

/// The sent values without the secrets.
fn sent_fields(fields: &Params) -> ConnectionFields {
    let text = |name: &str| fields.raw(name).unwrap_or_default().replace("\r\n", "\n");
    let names: Vec<&str> =
        header_lines(fields).map(|(name, _)| name).filter(|name| is_header_name(name)).collect();
    ConnectionFields {
        provider: text("provider"),
        adapter: text("adapter"),
        base_url: text("base_url"),
        custom_models: text("custom_models"),
        with_default_models: fields.raw("with_default_models").is_some(),
        headers: names.join("\n"),
        config: text("config"),
        max_in_flight: text("max_in_flight"),
        use_responses_api: fields.raw("use_responses_api").is_some(),
        updated_at: text("updated_at"),
    }
}

/// The fields whose stored values differ from the sent ones.
fn conflicts(stored: &ConnectionFields, sent: &ConnectionFields) -> Vec<ConnectionConflict> {
    let word = |is_set: bool| if is_set { "on" } else { "off" };
    let all = [
        ("Protocol", stored.adapter.as_str(), sent.adapter.as_str()),
        ("Address", stored.base_url.trim(), sent.base_url.trim()),
        ("Models", stored.custom_models.trim(), sent.custom_models.trim()),
        (
            "Models of the protocol",
            word(stored.with_default_models),
            word(sent.with_default_models),
        ),
        ("Extra headers", stored.headers.trim(), sent.headers.trim()),
        ("Configuration", stored.config.trim(), sent.config.trim()),
        ("Concurrent requests", stored.max_in_flight.trim(), sent.max_in_flight.trim()),
        ("Responses API", word(stored.use_responses_api), word(sent.use_responses_api)),
    ];
    let differing = all.into_iter().filter(|(_, stored, sent)| stored != sent);
    differing
        .map(|(label, stored, sent)| ConnectionConflict {
            label,
            stored: Text::lines(stored),
            sent: Text::lines(sent),
        })
        .collect()
}

/// Names and values of the headers; a line without a colon has no value.
fn header_lines(fields: &Params) -> impl Iterator<Item = (&str, Option<&str>)> {
    let lines = fields.raw("headers").unwrap_or_default().lines().map(str::trim);
    lines.filter(|line| !line.is_empty()).map(|line| match line.split_once(':') {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (line, None),
    })
}

/// Whether a line has a name: without its colon, a line is one text of name and secret.
fn is_header_name(name: &str) -> bool {
    !name.contains(char::is_whitespace)
}

fn invalid_headers() -> Problem {
    Problem::body("extraHeaders", "must be lines of the form `Name: value`")
}

fn headers(fields: &Params) -> Result<BTreeMap<&str, Option<&str>>, Problem> {
    let headers: BTreeMap<&str, Option<&str>> = header_lines(fields).collect();
    match headers.keys().all(|name| is_header_name(name)) {
        true => Ok(headers),
        false => Err(invalid_headers()),
    }
}

fn model_lines(fields: &Params) -> Vec<&str> {
    let lines = fields.raw("custom_models").unwrap_or_default().lines().map(str::trim);
    lines.filter(|line| !line.is_empty()).collect()
}

fn config(fields: &Params) -> Result<Option<Map<String, Value>>, Problem> {
    match fields.raw("config").unwrap_or_default().trim() {
        "" => Ok(None),
        text => serde_json::from_str(text).map(Some).map_err(|error| {
            // The configuration has no secrets.
            Problem::body("config", format!("must be a JSON object: {error}"))
        }),
    }
}

fn trimmed<'f>(fields: &'f Params, name: &str) -> Option<&'f str> {
    fields.raw(name).map(str::trim).filter(|text| !text.is_empty())
}

/// The body of the operation that creates a connection.
fn new_body(fields: &Params) -> Result<Value, Problem> {
    let headers = headers(fields)?;
    if headers.values().any(Option::is_none) {
        return Err(invalid_headers());
    }
    Ok(json!({
        "provider": trimmed(fields, "provider").unwrap_or_default(),
        "adapter": fields.raw("adapter").unwrap_or_default(),
        "secretKey": trimmed(fields, "secret_key").unwrap_or_default(),
        "baseURL": trimmed(fields, "base_url"),
        "customModels": model_lines(fields),
        "withDefaultModels": fields.raw("with_default_models").is_some(),
        "extraHeaders": headers,
        "config": config(fields)?,
    }))
}

/// The options, which the operation that creates a connection does not have.
fn options(fields: &Params) -> Result<Value, Problem> {
    let sent = trimmed(fields, "max_in_flight").unwrap_or_default();
    let max_in_flight = sent.parse::<u32>().ok().filter(|n| (1..=10_000).contains(n));
    let max_in_flight = max_in_flight.ok_or_else(|| {
        Problem::body("maxInFlight", format!("must be an integer from 1 to 10000, got `{sent}`"))
    })?;
    let use_responses_api = fields.raw("use_responses_api").is_some();
    if use_responses_api && fields.raw("adapter") != Some("openai") {
        let message = "must be off: only openai has the Responses API";
        return Err(Problem::body("useResponsesApi", message));
    }
    Ok(json!({ "maxInFlight": max_in_flight, "useResponsesApi": use_responses_api }))
}

/// The body of the operation that changes a connection.
fn changed_body(fields: &Params) -> Result<Value, Problem> {
    let mut body = options(fields)?;
    body["ifUpdatedAt"] = json!(trimmed(fields, "updated_at"));
    body["adapter"] = json!(fields.raw("adapter").unwrap_or_default());
    body["baseURL"] = json!(trimmed(fields, "base_url"));
    body["customModels"] = json!(model_lines(fields));
    body["withDefaultModels"] = json!(fields.raw("with_default_models").is_some());
    body["extraHeaders"] = json!(headers(fields)?);
    body["config"] = json!(config(fields)?);
    if let Some(key) = trimmed(fields, "secret_key") {
        body["secretKey"] = key.into();
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &str = "adapter=openai&base_url=&secret_key=&custom_models=a%0D%0A+b%0D%0A&headers=x-old%0D%0Ax-new%3A+sk-1%3A2\
        &config=&max_in_flight=8&updated_at=2026-01-01T00%3A00%3A00.000Z";

    #[test]
    fn an_empty_key_and_a_header_without_a_value_keep_what_is_stored() {
        let expected = json!({
            "maxInFlight": 8, "useResponsesApi": false, "ifUpdatedAt": "2026-01-01T00:00:00.000Z",
            "adapter": "openai", "baseURL": null, "customModels": ["a", "b"], "withDefaultModels": false,
            "extraHeaders": { "x-old": null, "x-new": "sk-1:2" }, "config": null,
        });
        assert_eq!(changed_body(&Params::parse(FORM)).unwrap(), expected);
        for wrong in ["max_in_flight=0", "max_in_flight=many", "max_in_flight=1&config=%5B%5D"] {
            assert!(changed_body(&Params::parse(wrong)).is_err(), "{wrong}");
        }
        let other = "adapter=mock&max_in_flight=1&use_responses_api=1";
        assert!(changed_body(&Params::parse(other)).is_err());
    }

    #[test]
    fn sent_values_are_shown_without_secrets_and_a_new_header_needs_its_value() {
        let fields = sent_fields(&Params::parse(FORM));
        assert_eq!(fields.headers, "x-old\nx-new");
        assert!(!format!("{fields:?}").contains("sk-1"));
        assert!(new_body(&Params::parse(FORM)).is_err());
        let without_colon = Params::parse("max_in_flight=1&headers=Authorization+Bearer+sk-2");
        assert_eq!(sent_fields(&without_colon).headers, "");
        for problem in [new_body(&without_colon), changed_body(&without_colon)] {
            assert!(!problem.unwrap_err().message().contains("sk-2"));
        }
    }

    #[test]
    fn conflicts_are_the_fields_that_differ() {
        let sent = sent_fields(&Params::parse(FORM));
        let stored = ConnectionFields { max_in_flight: "9".to_owned(), ..sent.clone() };
        let found = conflicts(&stored, &sent);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].stored.raw(), found[0].sent.raw()), ("9", "8"));
    }
}
