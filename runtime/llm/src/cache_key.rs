//! The properties of a request that determine its reply, except for the connection.

use perpend_worker_protocol::host_call::CompletionRequest;
use serde_json::{Value, json};

use crate::endpoint::{CallLimits, ModelSettings};
use crate::failure::{ErrorClass, Failure};
use crate::params::Params;

/// Members that do not affect the reply, or that are included in normalized form.
const EXCLUDED: [&str; 8] = [
    "slot",
    "cache",
    "response_schema",
    "temperature",
    "top_p",
    "max_output_tokens",
    "seed",
    "stop",
];

/// The model, the conversation, the schema and the effective parameters. Requests with equal values have interchangeable
/// replies. Excludes time limits, re-asks and secrets.
///
/// # Errors
/// When a parameter is invalid.
pub fn cache_key(
    choice: &ModelSettings,
    limits: &CallLimits,
    request: &CompletionRequest,
) -> Result<Value, Failure> {
    let params = Params::new(choice, limits, request)?;
    // Includes all further members of the request.
    let mut members = match serde_json::to_value(request) {
        Ok(Value::Object(members)) => members,
        _ => return Err(Failure::new(ErrorClass::Internal, "a request is not a JSON object")),
    };
    for name in EXCLUDED {
        members.shift_remove(name);
    }
    let known = [
        ("model", json!(choice.model)),
        ("schema", json!(request.response_schema)),
        ("temperature", json!(params.temperature)),
        ("top_p", json!(params.top_p)),
        ("max_output_tokens", json!(params.max_tokens)),
        ("seed", json!(params.seed)),
        ("stop", json!(params.stop)),
        ("top_logprobs", json!(params.top_logprobs)),
        ("extra", Value::Object(params.rest)),
    ];
    members.extend(known.map(|(name, value)| (name.to_owned(), value)));
    Ok(Value::Object(members))
}

#[cfg(test)]
mod tests {
    use perpend_worker_protocol::host_call::{CacheMode, Message, Role, ToolChoice};

    use super::*;

    fn key(params: Value, change: impl FnOnce(&mut CompletionRequest)) -> Value {
        let choice = ModelSettings {
            model: "m".to_owned(),
            params: params.as_object().cloned().unwrap_or_default(),
        };
        let mut request = CompletionRequest::new(vec![Message::text(Role::User, "q")]);
        change(&mut request);
        cache_key(&choice, &CallLimits::default(), &request).unwrap()
    }

    #[test]
    fn the_key_has_effective_parameters_but_neither_slot_nor_cache_mode() {
        let from_model = key(json!({ "temperature": 0, "top_k": 3 }), |_| {});
        let from_request = key(json!({}), |request| {
            request.temperature = Some(0.0);
            request.extra = Some(r#"{"top_k": 3}"#.to_owned());
            request.slot = Some("judge-2".to_owned());
            request.cache = CacheMode::Refresh;
        });
        let canonical = perpend_domain::identity::canonical;
        assert_eq!(canonical(&from_model), canonical(&from_request));
    }

    #[test]
    fn each_change_of_a_request_changes_its_key() {
        let plain = key(json!({}), |_| {});
        let changes: [fn(&mut CompletionRequest); 10] = [
            |request| request.messages[0] = Message::text(Role::User, "q?"),
            |request| request.messages[0].role = Role::System,
            |request| request.response_schema = Some("{}".to_owned()),
            |request| request.temperature = Some(0.5),
            |request| request.top_p = Some(0.5),
            |request| request.max_output_tokens = Some(9),
            |request| request.seed = Some(9),
            |request| request.stop = vec!["x".to_owned()],
            |request| request.top_logprobs = Some(3),
            |request| request.tool_choice = ToolChoice::Required,
        ];
        for (n, change) in changes.into_iter().enumerate() {
            assert_ne!(key(json!({}), change), plain, "change {n}");
        }
    }
}
