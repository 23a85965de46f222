//! Classification of errors in the formats of providers.

use serde_json::json;

use super::*;

fn rejected(status: u16, body: &str, sent: &Value) -> Rejection {
    classify(&ErrorResponse { model: "m", status, retry_after: None, body, sent })
}

/// Status, body, and the expected class.
fn check(cases: &[(u16, &str, &str)]) {
    let sent = json!({ "model": "m", "messages": [], "temperature": 0, "stop": ["x"] });
    for (status, body, expected) in cases {
        let class = rejected(*status, body, &sent).failure.class.name();
        assert_eq!(class, *expected, "{status} {body}");
    }
}

#[test]
fn errors_about_the_account_have_classes_for_the_scheduler() {
    let cases = [
        (429, r#"{"error":{"message":"Rate limit reached","type":"requests"}}"#, "rate_limited"),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "rate_limited",
        ),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#,
            "billing_exhausted",
        ),
        (
            429,
            r#"[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details","status":"RESOURCE_EXHAUSTED"}}]"#,
            "rate_limited",
        ),
        (402, "{}", "billing_exhausted"),
        (
            400,
            r#"{"error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API"}}"#,
            "billing_exhausted",
        ),
        (400, r#"{"error":"Budget has been exceeded! Current cost: 1"}"#, "billing_exhausted"),
    ];
    check(&cases);
}

#[test]
fn errors_about_keys_and_models_have_different_classes() {
    let cases = [
        (401, r#"{"error":{"message":"bad key"}}"#, "auth_invalid"),
        (
            403,
            r#"{"error":{"code":403,"message":"Your API key was reported as leaked. Please use another API key.","status":"PERMISSION_DENIED"}}"#,
            "auth_invalid",
        ),
        (
            403,
            r#"{"message":"The security token included in the request is invalid."}"#,
            "auth_invalid",
        ),
        (
            403,
            r#"{"error":{"message":"Project `p` does not have access to model `m`","code":"model_not_found"}}"#,
            "model_unavailable",
        ),
        (
            403,
            r#"{"message":"You don't have access to the model with the specified model ID."}"#,
            "model_unavailable",
        ),
        (
            403,
            r#"{"error":{"code":403,"message":"Permission 'aiplatform.endpoints.predict' denied on resource '//aiplatform.googleapis.com/projects/p/locations/l/publishers/google/models/m'","status":"PERMISSION_DENIED"}}"#,
            "model_unavailable",
        ),
        (
            403,
            r#"{"error":{"code":"403","message":"Access to this deployment is denied"}}"#,
            "model_unavailable",
        ),
        (403, "<html>Forbidden</html>", "model_config_invalid"),
        (
            400,
            r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}"#,
            "auth_invalid",
        ),
        (
            404,
            r#"{"error":{"message":"The model `m` does not exist","code":"model_not_found"}}"#,
            "model_unavailable",
        ),
        (
            404,
            r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment does not exist"}}"#,
            "model_unavailable",
        ),
        (
            400,
            r#"{"error":{"message":"m is not a valid model ID","code":400}}"#,
            "model_unavailable",
        ),
        (404, "<html>Not Found</html>", "model_config_invalid"),
    ];
    check(&cases);
}

#[test]
fn errors_about_the_request_have_the_class_of_its_part() {
    let cases = [
        (
            400,
            r#"{"error":{"code":"context_length_exceeded","message":"This model's maximum context length is 8192 tokens"}}"#,
            "context_too_long",
        ),
        (
            400,
            r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            "context_too_long",
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"The input token count (9) exceeds the maximum"}}"#,
            "context_too_long",
        ),
        (413, "", "context_too_long"),
        (
            400,
            r#"{"error":{"code":"content_filter","message":"filtered","innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
            "refused",
        ),
        (408, "", "upstream_timeout"),
        (500, "oops", "upstream_unavailable"),
        (503, r#"{"detail":"loading"}"#, "upstream_unavailable"),
        (
            400,
            r#"{"error":{"message":"Unsupported value: 'temperature' does not support 0 with this model.","param":"temperature"}}"#,
            "model_config_invalid",
        ),
        (
            422,
            r#"{"detail":[{"loc":["body","temperature"],"msg":"must be at most 1"}]}"#,
            "model_config_invalid",
        ),
        (400, r#"{"error":{"message":"Please stop sending this"}}"#, "invalid_input"),
        (400, "", "invalid_input"),
        (409, "", "upstream_unavailable"),
    ];
    check(&cases);
}

#[test]
fn hints_name_the_required_change() {
    let sent = json!({
        "model": "m", "messages": [], "max_tokens": 9, "seed": 1, "logprobs": true, "top_logprobs": 3,
        "response_format": {},
    });
    let hint = |message: &str, param: Option<&str>| {
        let body = json!({ "error": { "message": message, "param": param } }).to_string();
        rejected(400, &body, &sent).hint
    };
    let other_name = Some(Hint::Quirk(Quirk::OtherLimitName));
    let message = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
    assert_eq!(hint(message, Some("max_tokens")), other_name);
    assert_eq!(hint("Unrecognized request argument: max_completion_tokens", None), other_name);
    assert_eq!(hint("max_tokens is too large: 9", Some("max_tokens")), None);
    assert_eq!(
        hint("Unknown name \"seed\": Cannot find field.", None),
        Some(Hint::Quirk(Quirk::NoSeed))
    );
    let no_logprobs = Some(Hint::Quirk(Quirk::NoLogprobs));
    assert_eq!(hint("logprobs are not supported with this model", Some("logprobs")), no_logprobs);
    for message in [
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
        "This model does not support tools",
        "Unknown name \"responseJsonSchema\" at 'generation_config': Cannot find field.",
        "Invalid schema for function 'reply'",
    ] {
        assert_eq!(hint(message, None), Some(Hint::StepDown), "{message}");
    }
    assert_eq!(hint("no", Some("response_format.json_schema")), Some(Hint::StepDown));
    assert_eq!(hint("Something else", None), None);
}

#[test]
fn a_wait_in_the_body_of_google_is_read_and_long_texts_are_cut() {
    let body = json!({ "error": {
        "code": 429, "message": "x".repeat(9000), "details": [{ "a": 1 }, { "retryDelay": "34s" }],
    } });
    let failure = rejected(429, &body.to_string(), &json!({})).failure;
    assert_eq!(failure.retry_after, Some(Duration::from_secs(34)));
    assert!(failure.message.len() < 700);
}

#[test]
fn errors_in_successful_responses_are_detected() {
    assert_eq!(embedded_status(&json!({ "error": { "code": 429 } })), Some(429));
    assert_eq!(embedded_status(&json!({ "error": "x" })), Some(502));
    assert_eq!(embedded_status(&json!({ "error": null, "output": [] })), None);
    assert_eq!(embedded_status(&json!({ "choices": [] })), None);
    assert_eq!(embedded_status(&json!({ "error": "", "choices": [] })), None);
}
