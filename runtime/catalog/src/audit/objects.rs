//! The recorded members of each kind of object, listed by hand.
//!
//! Invariant:
//! - **No member with a secret**: neither keys nor values of headers, nor their hashes. Versions of evaluators and prompts never
//!   change, so that records refer to them.

use perpend_domain::model::ModelDefinition;
use perpend_domain::score_config::{ScoreConfig, ScoreDirection};
use serde_json::{Value, json};

use crate::blob_exports::BlobExport;
use crate::connections::Connection;
use crate::{NewApiKey, NewUser, NewVersion, Project};

pub(crate) fn evaluator_version(number: i64, version: &NewVersion) -> Value {
    json!({
        "version": number,
        "plugin": version.plugin_name,
        "pluginVersion": version.plugin_version,
        "evaluator": version.plugin_evaluator,
        "grants": version.grants.names(),
        "fingerprint": version.fingerprint.to_string(),
    })
}

pub(crate) fn connection(connection: &Connection) -> Value {
    json!({
        "provider": connection.provider,
        "adapter": connection.adapter,
        "baseUrl": connection.base_url,
        "customModels": connection.custom_models,
        "withDefaultModels": connection.with_default_models,
        "extraHeaderKeys": connection.extra_header_keys,
        "maxInFlight": connection.max_in_flight,
        "useResponsesApi": connection.use_responses_api,
    })
}

pub(crate) fn score_config(config: &ScoreConfig) -> Value {
    json!({
        "name": config.name,
        "dataType": config.data_type.as_str(),
        "isArchived": config.is_archived,
        "minValue": config.min_value,
        "maxValue": config.max_value,
        "categories": config.categories,
        "direction": config.direction.map(ScoreDirection::as_str),
        "description": config.description,
    })
}

pub(crate) fn model(model: &ModelDefinition) -> Value {
    json!({
        "name": model.name,
        "pattern": model.pattern,
        "startDate": model.start_date,
        "unit": model.unit,
        "tokenizerId": model.tokenizer_id,
        "tiers": model.tiers,
    })
}

pub(crate) fn api_key(key: &NewApiKey) -> Value {
    json!({
        "publicKey": key.public_key.as_str(),
        "rights": key.rights.as_str(),
        "note": key.note,
        "expiresAt": key.expires_at,
    })
}

pub(crate) fn project(project: &Project) -> Value {
    json!({
        "name": project.name,
        "metadata": project.metadata,
        "retentionDays": project.retention_days,
    })
}

pub(crate) fn user(user: &NewUser) -> Value {
    json!({
        "userName": user.user_name,
        "email": user.email,
        "name": user.name,
        "role": user.role.as_str(),
        "isActive": user.is_active,
    })
}

pub(crate) fn bucket_export(export: &BlobExport) -> Value {
    json!({
        "bucket": export.settings.bucket,
        "endpoint": export.settings.endpoint,
        "region": export.settings.region,
        "isEnabled": export.is_enabled,
    })
}

#[cfg(test)]
mod tests {
    use perpend_domain::ids::PublicKey;

    use super::*;
    use crate::{Rights, SecretHash};

    #[test]
    fn states_have_no_secrets() {
        let key = NewApiKey {
            id: "k".to_owned(),
            public_key: PublicKey::new("pk-1").unwrap(),
            secret_hash: SecretHash::new("canary-secret", [7; 16]),
            secret_hint: "canary-hint".to_owned(),
            rights: Rights::Full,
            note: None,
            expires_at: None,
        };
        let state = api_key(&key).to_string();
        assert!(state.contains("pk-1") && !state.contains("canary"), "{state}");
    }
}
