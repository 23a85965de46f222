//! Changes of connections.
//!
//! Invariant: **a key is sent only to the address that it was entered for.** A change of the adapter or the address
//! removes the key and the values of the headers unless they are sent again.

use std::collections::BTreeMap;

use perpend_api_types::connection::LlmConnectionOptions;
use perpend_catalog::connections::{Connection, ConnectionSecret};
use perpend_catalog::sealed::SealedAt;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::{Code, Problem};
use serde_json::{Value, json};

use super::{check, view};
use crate::state::App;

/// Encrypts the secrets of a connection.
pub(super) fn seal(
    app: &App,
    project: &ProjectId,
    provider: &str,
    secret: &ConnectionSecret,
) -> Result<Vec<u8>, Problem> {
    let owner = SealedAt::Connection(provider.to_owned()).owner(project);
    let sealed = app.vault.seal(&owner, &json!(secret).to_string(), app.web.ids.as_ref());
    sealed.map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "sealing failed");
        Problem::internal()
    })
}

/// The secrets of a connection; none if they cannot be decrypted.
fn unseal(app: &App, project: &ProjectId, connection: &Connection) -> ConnectionSecret {
    let owner = SealedAt::Connection(connection.provider.clone()).owner(project);
    let text = app.vault.unseal(&owner, &connection.secret).ok();
    let secret = text.and_then(|text| serde_json::from_str(&text).ok());
    secret.unwrap_or(ConnectionSecret { key: String::new(), headers: BTreeMap::new() })
}

/// Applies a change to the connection that was read.
///
/// # Errors
/// 400 for an invalid member, 409 when the connection was changed meanwhile.
pub(super) async fn change(
    app: &App,
    project: &ProjectId,
    found: Connection,
    options: LlmConnectionOptions,
) -> Result<Connection, Problem> {
    if options.if_updated_at.is_some_and(|read| json!(read) != json!(found.updated_at)) {
        let message = format!(
            "the LLM connection was changed at {}; read it again and repeat the change",
            found.updated_at
        );
        return Err(Problem::new(Code::Conflict, message).with("field", "ifUpdatedAt"));
    }
    let stored = unseal(app, project, &found);
    let (mut changed, secret) = applied(&found, &stored, options)?;
    // Secrets that cannot be decrypted now must not be readable at another address later.
    let is_same =
        !is_moved(&found, &changed) && stored.key == secret.key && stored.headers == secret.headers;
    if !is_same {
        changed.secret = seal(app, project, &found.provider, &secret)?;
    }
    // Each change has a time of its own, by which a later change recognizes it.
    let next = found.updated_at.as_micros().saturating_add(1);
    let now = app.web.clock.now().as_micros().max(next);
    changed.updated_at = Timestamp::from_micros(now);
    let catalog = &app.store.catalog;
    catalog.replace_connection(project, &changed, found.updated_at).await?;
    // Header values are not part of the keys of cached replies, but a gateway may depend on them.
    let has_headers = !stored.headers.is_empty() || !secret.headers.is_empty();
    if !is_same && has_headers {
        app.store.ledger.delete_replies(project, &found.id).await?;
    }
    app.scheduler.wake();
    Ok(changed)
}

/// Whether requests have another address after the change.
fn is_moved(found: &Connection, changed: &Connection) -> bool {
    changed.adapter != found.adapter || changed.base_url != found.base_url
}

/// The connection and its secrets after the change.
fn applied(
    found: &Connection,
    stored: &ConnectionSecret,
    options: LlmConnectionOptions,
) -> Result<(Connection, ConnectionSecret), Problem> {
    let mut changed = found.clone();
    if let Some(adapter) = options.adapter {
        changed.adapter = adapter;
    }
    if let Some(base_url) = options.base_url {
        changed.base_url = base_url;
    }
    if let Some(models) = options.custom_models {
        changed.custom_models = models;
    }
    if let Some(config) = options.config {
        changed.config = config.map(Value::Object);
    }
    changed.with_default_models = options.with_default_models.unwrap_or(found.with_default_models);
    changed.max_in_flight = options.max_in_flight.unwrap_or(found.max_in_flight);
    if !(1..=10_000).contains(&changed.max_in_flight) {
        return Err(Problem::body("maxInFlight", "must be from 1 to 10000"));
    }
    changed.use_responses_api = options.use_responses_api.unwrap_or(found.use_responses_api);
    if changed.use_responses_api && changed.adapter != "openai" {
        let message = format!(
            "must be false for the adapter {}: only openai has the Responses API",
            changed.adapter
        );
        return Err(Problem::body("useResponsesApi", message));
    }
    let is_moved = is_moved(found, &changed);
    let headers = match options.extra_headers {
        None if is_moved => BTreeMap::new(),
        None => stored.headers.clone(),
        Some(sent) => headers(sent, stored, is_moved)?,
    };
    let key = match options.secret_key {
        Some(key) => {
            check::secret_key(&key)?;
            key
        }
        None if is_moved => String::new(),
        None => stored.key.clone(),
    };
    check::parts(&check::Parts {
        adapter: &changed.adapter,
        base_url: changed.base_url.as_deref(),
        headers: Some(&headers),
        config: changed.config.as_ref().and_then(Value::as_object),
    })?;
    changed.display_secret = view::hint(&key);
    changed.extra_header_keys = headers.keys().cloned().collect();
    Ok((changed, ConnectionSecret { key, headers }))
}

/// The extra headers after a change. One without a value keeps the stored value, which a changed address has lost.
fn headers(
    sent: BTreeMap<String, Option<String>>,
    stored: &ConnectionSecret,
    is_moved: bool,
) -> Result<BTreeMap<String, String>, Problem> {
    let mut headers = BTreeMap::new();
    for (name, value) in sent {
        let kept = stored.headers.get(&name).filter(|_| !is_moved);
        match value.or_else(|| kept.cloned()) {
            Some(value) => {
                headers.insert(name, value);
            }
            None if is_moved && stored.headers.contains_key(&name) => {}
            None => {
                let message = format!("must have a value for {name:?}: none is stored");
                return Err(Problem::body("extraHeaders", message));
            }
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> (Connection, ConnectionSecret) {
        let headers = BTreeMap::from([("x-team".to_owned(), "a".to_owned())]);
        let connection = Connection {
            id: "1".to_owned(),
            provider: "main".to_owned(),
            adapter: "openai".to_owned(),
            secret: vec![1],
            display_secret: "...1234".to_owned(),
            base_url: None,
            custom_models: Vec::new(),
            with_default_models: true,
            extra_header_keys: vec!["x-team".to_owned()],
            config: None,
            max_in_flight: 8,
            use_responses_api: true,
            created_at: Timestamp::from_millis(0),
            updated_at: Timestamp::from_millis(0),
        };
        (connection, ConnectionSecret { key: "sk-secret-1234".to_owned(), headers })
    }

    fn change(options: Value) -> Result<(Connection, ConnectionSecret), Problem> {
        let (connection, secret) = connection();
        applied(&connection, &secret, serde_json::from_value(options).unwrap())
    }

    #[test]
    fn an_absent_member_is_unchanged_and_a_header_without_a_value_keeps_its_own() {
        let (same, secret) = change(json!({ "maxInFlight": 9 })).unwrap();
        assert_eq!((same.max_in_flight, same.use_responses_api), (9, true));
        assert_eq!((secret.key.as_str(), secret.headers.len()), ("sk-secret-1234", 1));
        let kept = json!({ "extraHeaders": { "x-team": null, "x-new": "b" } });
        let (_, secret) = change(kept).unwrap();
        assert_eq!(
            (secret.headers["x-team"].as_str(), secret.headers["x-new"].as_str()),
            ("a", "b")
        );
        assert!(change(json!({ "extraHeaders": { "x-unknown": null } })).is_err());
        assert!(change(json!({ "secretKey": "" })).is_err());
    }

    #[test]
    fn another_address_or_adapter_removes_the_secrets_unless_they_are_sent_again() {
        let address = json!({ "baseURL": "https://models.example" });
        let (moved, secret) = change(address).unwrap();
        assert_eq!((moved.display_secret.as_str(), secret.key.as_str()), ("", ""));
        assert!(secret.headers.is_empty() && moved.extra_header_keys.is_empty());
        let adapter = json!({ "adapter": "anthropic", "useResponsesApi": false });
        assert_eq!(change(adapter).unwrap().1.key, "");
        let again = json!({ "baseURL": "https://models.example", "secretKey": "sk-secret-5678" });
        let (moved, secret) = change(again).unwrap();
        assert_eq!(
            (moved.display_secret.as_str(), secret.key.as_str()),
            ("...5678", "sk-secret-5678")
        );
        assert!(change(json!({ "adapter": "anthropic" })).is_err(), "it has no Responses API");
    }
}
