//! Responses of connections.

use perpend_api_types::connection::{LlmConnection, LlmConnectionWithOptions};
use perpend_catalog::connections::Connection;

/// Three dots and the last characters of a key; none of a short key. Empty without a key.
pub(super) fn hint(key: &str) -> String {
    let n_chars = key.chars().count();
    let end: String = match n_chars {
        0 => return String::new(),
        1..=8 => String::new(),
        n => key.chars().skip(n - 4).collect(),
    };
    format!("...{end}")
}

pub(super) fn connection(connection: &Connection) -> LlmConnection {
    let it = connection.clone();
    LlmConnection {
        id: it.id,
        provider: it.provider,
        adapter: it.adapter,
        display_secret_key: it.display_secret,
        base_url: it.base_url,
        custom_models: it.custom_models,
        with_default_models: it.with_default_models,
        extra_header_keys: it.extra_header_keys,
        config: it.config,
        created_at: it.created_at,
        updated_at: it.updated_at,
    }
}

pub(super) fn with_options(of: &Connection) -> LlmConnectionWithOptions {
    LlmConnectionWithOptions {
        connection: connection(of),
        max_in_flight: of.max_in_flight,
        use_responses_api: of.use_responses_api,
    }
}
