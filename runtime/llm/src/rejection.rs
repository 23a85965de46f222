//! Classifies error responses, and determines how to adapt the request.

use std::time::Duration;

use serde_json::Value;

use crate::capabilities::Quirk;
use crate::failure::{ErrorClass, Failure, short};
use crate::headers;

/// A response without a reply.
#[derive(Debug)]
pub(crate) struct Rejection {
    pub(crate) failure: Failure,
    /// How the request can be adapted, if possible.
    pub(crate) hint: Option<Hint>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// The provider does not support the structure method.
    StepDown,
    Quirk(Quirk),
}

impl From<Failure> for Rejection {
    fn from(failure: Failure) -> Self {
        Self { failure, hint: None }
    }
}

/// The error in a response body, independent of the provider's format.
#[derive(Debug, Default)]
struct ProviderError {
    message: String,
    /// Codes, types and names, in lower case.
    code: String,
    /// The rejected parameter, in lower case.
    param: String,
    retry_after: Option<Duration>,
}

/// An error response to classify.
pub(crate) struct ErrorResponse<'a> {
    pub(crate) model: &'a str,
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    /// Redacted.
    pub(crate) body: &'a str,
    pub(crate) sent: &'a Value,
}

/// Phrases for exhausted credit. Excludes "exceeded your current quota", which Google sends for every limit per minute.
const BILLING: [&str; 9] = [
    "credit balance",
    "insufficient credit",
    "insufficient balance",
    "insufficient funds",
    "out of credits",
    "budget has been exceeded",
    "exceeded budget",
    "billing hard limit",
    "payment required",
];
const TOO_LONG: [&str; 8] = [
    "context_length",
    "context length",
    "context window",
    "maximum context",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "input token count",
];
const FILTERED: [&str; 4] = [
    "content_filter",
    "content_policy_violation",
    "content management policy",
    "responsibleaipolicyviolation",
];
/// Phrases of gateways that reject content with 403.
const MODERATED: [&str; 2] = ["requires moderation", "was flagged"];
const BAD_KEY: [&str; 13] = [
    "api key not valid",
    "api_key_invalid",
    "invalid_grant",
    "invalid api key",
    "invalid_api_key",
    "invalid x-api-key",
    "incorrect api key",
    "api key expired",
    "api key has expired",
    "api key was reported",
    "api key is disabled",
    "unrecognizedclientexception",
    "security token included in the request is",
];
/// Parameters and phrases for structured output.
const STRUCTURE: [&str; 17] = [
    "response_format",
    "json_schema",
    "json_object",
    "response_schema",
    "responseschema",
    "response_json_schema",
    "responsejsonschema",
    "response_mime_type",
    "responsemimetype",
    "tool_choice",
    "tools",
    "tool use",
    "function call",
    "text.format",
    "structured output",
    "json mode",
    "schema",
];

/// Classifies an error response.
pub(crate) fn classify(answer: &ErrorResponse<'_>) -> Rejection {
    let error = parse_error(answer.body);
    let text = format!("{} {}", error.code, error.message.to_lowercase());
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let fail = |class| Rejection::from(failure(answer, class, &error));
    let is_limited = matches!(answer.status, 429 | 529);
    if error.code.contains("insufficient_quota")
        || error.code.contains("billing")
        || answer.status == 402
        || (400..500).contains(&answer.status) && has(&BILLING)
    {
        return fail(ErrorClass::BillingExhausted);
    }
    if is_limited {
        return fail(ErrorClass::RateLimited);
    }
    match answer.status {
        403 if has(&FILTERED) || has(&MODERATED) => fail(ErrorClass::Refused),
        401 => fail(ErrorClass::AuthInvalid),
        403 if has(&BAD_KEY) => fail(ErrorClass::AuthInvalid),
        // The key may be valid for other models and deployments.
        403 if has(&["model", "deployment"]) => fail(ErrorClass::ModelUnavailable),
        403 => fail(ErrorClass::ModelConfigInvalid),
        // Conflict and Too Early: the same request may succeed later.
        409 | 425 => fail(ErrorClass::UpstreamUnavailable),
        408 => fail(ErrorClass::UpstreamTimeout),
        413 => fail(ErrorClass::ContextTooLong),
        404 if has(&["model", "deployment", "not_found_error"]) => {
            fail(ErrorClass::ModelUnavailable)
        }
        404 | 405 | 410 => fail(ErrorClass::ModelConfigInvalid),
        400 | 422 if has(&TOO_LONG) => fail(ErrorClass::ContextTooLong),
        400 | 422 if has(&FILTERED) => fail(ErrorClass::Refused),
        400 | 422 if has(&BAD_KEY) => fail(ErrorClass::AuthInvalid),
        400 | 422 if is_model_unknown(&text) => fail(ErrorClass::ModelUnavailable),
        400 | 422 => bad_request(answer, &error, &text),
        400..500 => fail(ErrorClass::InvalidInput),
        300..400 => fail(ErrorClass::EndpointUnreachable),
        _ => fail(ErrorClass::UpstreamUnavailable),
    }
}

fn is_model_unknown(text: &str) -> bool {
    let is_absent = ["model_not_found", "deploymentnotfound", "model not found"];
    let is_named = text.contains("model") || text.contains("deployment");
    is_absent.iter().any(|words| text.contains(words))
        || (is_named && text.contains("does not exist"))
        || text.contains("not a valid model")
        || text.contains("invalid model")
}

/// Classifies the rejection of a parameter, depending on the parameter and on who set it.
fn bad_request(answer: &ErrorResponse<'_>, error: &ProviderError, text: &str) -> Rejection {
    let hinted = |hint| Rejection {
        failure: failure(answer, ErrorClass::ModelConfigInvalid, error),
        hint: Some(hint),
    };
    if let Some(quirk) = quirk(error, text) {
        return hinted(Hint::Quirk(quirk));
    }
    let parameter = rejected_parameter(answer.sent, error, text);
    let is_structure = |name: &str| STRUCTURE.iter().any(|known| name.contains(known));
    if is_structure(&error.param) || (parameter.is_none() && is_structure(text)) {
        return hinted(Hint::StepDown);
    }
    let class = match parameter {
        Some(_) => ErrorClass::ModelConfigInvalid,
        None => ErrorClass::InvalidInput,
    };
    Rejection::from(failure(answer, class, error))
}

/// A rejected parameter that can be omitted or renamed.
fn quirk(error: &ProviderError, text: &str) -> Option<Quirk> {
    let is_about =
        |name: &str| error.param == name || (error.param.is_empty() && is_named(text, name));
    let is_unknown = [
        "unsupported",
        "not supported",
        "unknown",
        "unrecognized",
        "extra inputs",
        "not permitted",
        "does not support",
        "instead",
        "cannot find field",
        "not enabled",
        "not allowed",
    ];
    if !is_unknown.iter().any(|words| text.contains(words)) {
        return None;
    }
    if is_about("max_tokens") || is_about("max_completion_tokens") {
        return Some(Quirk::OtherLimitName);
    }
    if is_about("logprobs") || is_about("top_logprobs") || is_about("responselogprobs") {
        return Some(Quirk::NoLogprobs);
    }
    is_about("seed").then_some(Quirk::NoSeed)
}

/// The parameter of the user that the error names.
fn rejected_parameter<'a>(sent: &'a Value, error: &ProviderError, text: &str) -> Option<&'a str> {
    const OWN_PARAMETERS: [&str; 12] = [
        "model",
        "messages",
        "input",
        "contents",
        "system",
        "systemInstruction",
        "response_format",
        "tools",
        "tool_choice",
        "text",
        "responseMimeType",
        "responseJsonSchema",
    ];
    let nested = sent.get("generationConfig").and_then(Value::as_object);
    let members = sent.as_object().into_iter().chain(nested).flatten();
    let names = members.map(|(name, _)| name.as_str());
    let mut of_user =
        names.filter(|name| !OWN_PARAMETERS.contains(name) && *name != "generationConfig");
    of_user.find(|name| {
        let name = name.to_lowercase();
        match error.param.is_empty() {
            true => is_named(text, &name),
            false => error.param == name || error.param.starts_with(&format!("{name}.")),
        }
    })
}

/// Whether a text names a parameter: as a whole word; ordinary words only in quotation marks or before a colon.
fn is_named(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let is_odd = name.contains('_') || name.contains("logprobs");
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        let is_whole = !before.is_some_and(is_part) && !after.is_some_and(is_part);
        let is_quoted = before.is_some_and(|c| "'\"`".contains(c));
        is_whole && (is_odd || is_quoted || after == Some(':'))
    })
}

fn failure(answer: &ErrorResponse<'_>, class: ErrorClass, error: &ProviderError) -> Failure {
    let description = match class {
        ErrorClass::RateLimited => "the provider limits the rate of requests",
        ErrorClass::BillingExhausted => "the account of the provider has no credit or quota left",
        ErrorClass::AuthInvalid => "the provider does not accept the key",
        ErrorClass::ModelUnavailable if answer.status == 403 => {
            "the key has no access to the model"
        }
        ErrorClass::ModelUnavailable => "unknown model",
        ErrorClass::ContextTooLong => "the prompt is too long for the model",
        ErrorClass::Refused => "the provider refused the content of the request",
        ErrorClass::UpstreamUnavailable | ErrorClass::UpstreamTimeout => "the provider failed",
        ErrorClass::ModelConfigInvalid if matches!(answer.status, 404 | 405 | 410) => {
            "unknown endpoint; check the base URL"
        }
        ErrorClass::ModelConfigInvalid if answer.status == 403 => {
            "the provider forbids the request"
        }
        ErrorClass::ModelConfigInvalid => "the provider rejects a parameter",
        _ => "the provider rejects the request",
    };
    let detail = match error.message.is_empty() {
        true => String::new(),
        false => format!(": {}", short(&error.message)),
    };
    let message =
        format!("{description} (model {:?}, status {}){detail}", answer.model, answer.status);
    let retry_after = answer.retry_after.or(error.retry_after);
    Failure::new(class, message).after(retry_after)
}

/// Parses the error in a body: `{error: {message, type, code, param}}`, `{error: text}`, `{message}`, `{detail}`, a list with
/// one of them, or plain text.
fn parse_error(body: &str) -> ProviderError {
    let Ok(value) = serde_json::from_str::<Value>(body) else {
        let is_page = body.trim_start().starts_with('<');
        return ProviderError {
            message: if is_page { String::new() } else { body.to_owned() },
            ..ProviderError::default()
        };
    };
    let value = value.get(0).unwrap_or(&value);
    let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
    let text = |name: &str| match error.get(name) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let message = error.as_str().map(str::to_owned);
    let message = message.or_else(|| text("message")).or_else(|| text("detail"));
    let detail = || error.get("detail").map(Value::to_string);
    let names = ["code", "type", "status"].into_iter().filter_map(text);
    let inner = error.pointer("/innererror/code").and_then(Value::as_str);
    let codes: Vec<_> = names.chain(inner.map(str::to_owned)).collect();
    ProviderError {
        message: message.or_else(detail).unwrap_or_default(),
        code: codes.join(" ").to_lowercase(),
        param: text("param").unwrap_or_default().to_lowercase(),
        retry_after: retry_info(error),
    }
}

/// `retryDelay` in an entry of `details`, which Google sends.
fn retry_info(error: &Value) -> Option<Duration> {
    let details = error.get("details")?.as_array()?.iter();
    let mut delays = details.filter_map(|detail| detail.get("retryDelay")?.as_str());
    headers::span(delays.next()?)
}

/// The status of an error in the body of a successful response, which gateways send.
pub(crate) fn embedded_status(body: &Value) -> Option<u16> {
    let error = body.get("error")?;
    let is_object = error.as_object().is_some_and(|error| !error.is_empty());
    if !is_object && error.as_str().is_none_or(str::is_empty) {
        return None;
    }
    let code = error.get("code").and_then(Value::as_u64);
    let code = code.and_then(|code| u16::try_from(code).ok());
    Some(code.filter(|code| (400..600).contains(code)).unwrap_or(502))
}

#[cfg(test)]
mod tests;
