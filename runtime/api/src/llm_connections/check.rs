//! Validation of connections.

use std::collections::BTreeMap;

use perpend_api_types::connection::NewLlmConnection;
use perpend_http_kit::extract::must_be_one_of;
use perpend_http_kit::problem::Problem;
use serde_json::{Map, Value};

/// Protocols of providers.
const ADAPTERS: [&str; 7] =
    ["anthropic", "openai", "azure", "bedrock", "google-vertex-ai", "google-ai-studio", "mock"];

/// The members of a connection that depend on each other.
#[derive(Debug)]
pub(super) struct Parts<'c> {
    pub(super) adapter: &'c str,
    pub(super) base_url: Option<&'c str>,
    pub(super) headers: Option<&'c BTreeMap<String, String>>,
    pub(super) config: Option<&'c Map<String, Value>>,
}

pub(super) fn new_connection(input: &NewLlmConnection) -> Result<(), Problem> {
    if input.provider.trim().is_empty() {
        return Err(Problem::body("provider", "must not be empty"));
    }
    parts(&Parts {
        adapter: &input.adapter,
        base_url: input.base_url.as_deref(),
        headers: input.extra_headers.as_ref(),
        config: input.config.as_ref(),
    })?;
    secret_key(&input.secret_key)
}

pub(super) fn secret_key(key: &str) -> Result<(), Problem> {
    match key.is_empty() {
        true => Err(Problem::body("secretKey", "must not be empty")),
        false => Ok(()),
    }
}

pub(super) fn parts(parts: &Parts<'_>) -> Result<(), Problem> {
    let bad = |field, message: &str| Err(Problem::body(field, message));
    if !ADAPTERS.contains(&parts.adapter) {
        return bad("adapter", &must_be_one_of(&ADAPTERS, parts.adapter));
    }
    if let Some(url) = parts.base_url {
        // `{model}` is replaced by the name of the model.
        let url = url.trim().replace("{model}", "model");
        perpend_http_client::check_address(&url).map_err(|why| Problem::body("baseURL", why))?;
    }
    if parts.adapter == "azure" && parts.base_url.is_none() {
        return bad("baseURL", "is required for azure");
    }
    let is_header = |name: &String| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    for (name, value) in parts.headers.into_iter().flatten() {
        if !is_header(name) || value.chars().any(char::is_control) {
            return bad("extraHeaders", &format!("must be valid headers, got {name:?}"));
        }
    }
    config(parts)
}

fn config(parts: &Parts<'_>) -> Result<(), Problem> {
    if parts.adapter == "mock" {
        // The configuration has the replies, which are validated when they are used.
        return Ok(());
    }
    let known: &[&str] = match parts.adapter {
        "bedrock" => &["region"],
        "google-vertex-ai" => &["location"],
        _ => &[],
    };
    let bad = |message: String| Err(Problem::body("config", message));
    let has_region = parts.config.is_some_and(|config| config.contains_key("region"));
    if parts.adapter == "bedrock" && !has_region {
        return bad("must contain `region` for bedrock".to_owned());
    }
    let Some(config) = parts.config else {
        return Ok(());
    };
    if known.is_empty() {
        return bad(format!("must be absent for {}", parts.adapter));
    }
    for (name, value) in config {
        if !known.contains(&name.as_str()) || value.as_str().is_none_or(str::is_empty) {
            let names = known.join("`, `");
            return bad(format!("must contain only the string `{names}` for {}", parts.adapter));
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if let Some(other) = value.as_str().filter(|name| !name.chars().all(is_name)) {
            let expected = "letters, digits and hyphens such as `eu-central-1`";
            return bad(format!("`{name}` must consist of {expected}, got {other:?}"));
        }
    }
    Ok(())
}
