//! The only error that leaves the server: a stable code, a message, details.
//!
//! Handlers return [`Problem`]. It serializes as the body of the compat API; the layer [`as_rfc9457`]
//! converts it for `/api/v1`, and the OTLP paths have a format of their own. The cause of an
//! internal error goes to the log and never to the caller.

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

pub use perpend_domain::issue::Issue;

/// `Retry-After` in seconds of a server without capacity.
pub const RETRY_AFTER_SECONDS: u64 = 2;

/// Issues listed in one response, which also has the number of omitted ones.
pub const MAX_LISTED: usize = 100;
/// Issues named in the message; the others are in the details.
const MAX_NAMED: usize = 5;
/// Characters of the message of a problem.
const MAX_MESSAGE_CHARS: usize = 4_000;
/// Characters of a listed text, which may quote input as large as the body.
const MAX_LISTED_CHARS: usize = 1_000;
/// Levels of the path of an issue.
const MAX_PATH: usize = 16;

macro_rules! codes {
    ($($variant:ident, $text:literal, $status:ident, $compat:literal, $classic:literal, $title:literal, $help:literal;)*) => {
        /// Machine-readable code of a problem. Codes are never renamed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code { $(#[doc = $title] $variant,)* }

        impl Code {
            /// Every code, in the order of the reference page.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code in responses.
            #[must_use]
            pub const fn as_str(self) -> &'static str { match self { $(Self::$variant => $text,)* } }

            /// Status of the response.
            #[must_use]
            pub const fn status(self) -> StatusCode { match self { $(Self::$variant => StatusCode::$status,)* } }

            /// Code in the closed list of the compat API.
            const fn compat(self) -> &'static str { match self { $(Self::$variant => $compat,)* } }

            /// The older error name of the compat API.
            const fn classic(self) -> &'static str { match self { $(Self::$variant => $classic,)* } }

            /// A short summary that is the same for every occurrence.
            #[must_use]
            pub const fn title(self) -> &'static str { match self { $(Self::$variant => $title,)* } }

            /// Meaning and remedy.
            #[must_use]
            pub const fn help(self) -> &'static str { match self { $(Self::$variant => $help,)* } }
        }
    };
}

codes! {
    InvalidRequest, "invalid_request", BAD_REQUEST, "invalid_request", "InvalidRequestError",
        "The request violates a constraint", "`details` names the constraint and the field. Correct the request.";
    InvalidQuery, "invalid_query", BAD_REQUEST, "invalid_query", "InvalidRequestError",
        "A query parameter is invalid", "`details.issues` names each parameter and the expected value.";
    InvalidBody, "invalid_body", BAD_REQUEST, "invalid_body", "InvalidRequestError",
        "The body is invalid", "`details.issues` has the path of each field and the expected value.";
    InvalidFilter, "invalid_filter_value", BAD_REQUEST, "invalid_request", "InvalidRequestError",
        "A filter condition is invalid", "`details.field` names the condition, `details.allowedValues` lists the allowed values.";
    InvalidJsonPath, "invalid_json_path", BAD_REQUEST, "invalid_request", "InvalidRequestError",
        "A JSONPath is invalid", "Paths follow RFC 9535 and start with `$`.";
    InvalidMapping, "invalid_variable_mapping", BAD_REQUEST, "invalid_request", "InvalidRequestError",
        "A variable mapping is invalid", "`details.allowedValues` lists the sources of this target.";
    MissingMapping, "missing_variable_mapping", BAD_REQUEST, "invalid_request", "InvalidRequestError",
        "A variable of the prompt is not mapped", "`details.variables` lists them. Map each variable once.";
    DuplicateMapping, "duplicate_variable_mapping", BAD_REQUEST, "invalid_request", "InvalidRequestError",
        "A variable is mapped twice", "Map each variable once.";
    AuthenticationFailed, "authentication_failed", UNAUTHORIZED, "authentication_failed", "UnauthorizedError",
        "No valid credentials", "Send `Authorization: Basic base64(public_key:secret_key)` with a key pair of this installation.";
    KeyExpired, "key_expired", UNAUTHORIZED, "authentication_failed", "UnauthorizedError",
        "The key pair or its secret has expired", "The message says whether the whole pair expired or a rotation replaced the secret. Send another pair or the new secret, or change `expiresAt` of the pair.";
    AccessDenied, "access_denied", FORBIDDEN, "access_denied", "ForbiddenError",
        "The credentials lack the permission", "A public key alone may write scores, a key pair of an organization manages that organization; everything else requires the key pair of the project. Its scope may be `read`, which changes nothing, or `ingest`, which sends telemetry and scores only.";
    NotFound, "resource_not_found", NOT_FOUND, "resource_not_found", "LangfuseNotFoundError",
        "The resource does not exist in this project", "Check the id, and that the key pair belongs to the project.";
    LinkGone, "link_gone", GONE, "resource_not_found", "LangfuseNotFoundError",
        "The link is unknown, used or expired", "Ask for a new link.";
    MethodNotAllowed, "method_not_allowed", METHOD_NOT_ALLOWED, "method_not_allowed", "MethodNotAllowedError",
        "The path does not accept this method", "The `Allow` header lists the accepted methods.";
    Conflict, "conflict", CONFLICT, "conflict", "LangfuseConflictError",
        "The change conflicts with the stored state", "Read the resource again and repeat the change if it still applies.";
    NameConflict, "name_conflict", CONFLICT, "conflict", "LangfuseConflictError",
        "The name is in use", "Choose another name.";
    LastOwner, "last_owner", CONFLICT, "conflict", "LangfuseConflictError",
        "The organization would have no active owner", "Give another active member the role `OWNER` first.";
    PreconditionFailed, "precondition_failed", PRECONDITION_FAILED, "conflict", "PreconditionFailedError",
        "The resource does not match `If-Match`", "Read it again, and repeat the change with the new `ETag` if it still applies.";
    TooLarge, "body_too_large", PAYLOAD_TOO_LARGE, "invalid_body", "PayloadTooLargeError",
        "The body is larger than the limit", "Send less in one request, or raise the limit: `ingest.max_body_mib` and `ingest.max_spans` are those of telemetry, `api.max_body_kib` and `api.max_body_values` those of the API. The memory limit of one request is not a setting.";
    BodyTooSlow, "body_too_slow", REQUEST_TIMEOUT, "invalid_request", "InvalidRequestError",
        "The body arrived too slowly", "Send it again, in smaller batches or over a faster connection. `ingest.min_body_kib_per_second`, `ingest.read_timeout_seconds` and `ingest.body_deadline_seconds` set the limits. The OTLP paths respond with 503 instead, because OTLP clients do not retry after 408.";
    UnsupportedMediaType, "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "invalid_request", "InvalidRequestError",
        "The media type or encoding is not supported", "The message lists the accepted ones.";
    Unprocessable, "unprocessable_content", UNPROCESSABLE_ENTITY, "invalid_body", "UnprocessableContentError",
        "The request is well-formed but cannot be processed", "The message names the missing condition.";
    AnswerTooLarge, "answer_too_large", UNPROCESSABLE_ENTITY, "invalid_body", "PayloadTooLargeError",
        "The response is larger than the limit", "Request fewer rows with `limit`, omit contents with `fields`, or add conditions. Lists with a cursor end a page early instead. `answers.max_in_flight_mib` sets the memory for responses.";
    QueryTimeout, "query_timeout", UNPROCESSABLE_ENTITY, "invalid_query", "UnprocessableContentError",
        "The query reached its time limit", "Narrow the time range, or add conditions on columns other than contents, metadata and scores. `answers.timeout_seconds` sets the limit.";
    InvalidConfig, "invalid_config", UNPROCESSABLE_ENTITY, "invalid_body", "UnprocessableContentError",
        "The configuration does not match the schema of the evaluator", "`details.issues` has a JSON Pointer for each problem; the schema is in `GET /api/v1/plugins`.";
    PreflightFailed, "evaluator_preflight_failed", UNPROCESSABLE_ENTITY, "invalid_body", "UnprocessableContentError",
        "The evaluator's model does not answer", "`details.provider` and `details.model` name it; the message describes the fault of the connection, the model or its parameters.";
    InvalidComponent, "invalid_component", UNPROCESSABLE_ENTITY, "invalid_body", "UnprocessableContentError",
        "The component cannot be used as a plug-in", "`details.problems` lists its faults.";
    RateLimited, "rate_limited", TOO_MANY_REQUESTS, "rate_limited", "Rate limit exceeded",
        "Too many requests", "Wait for `Retry-After` seconds. `details` has the limit of the key and the time of its reset; `limits` in the settings sets it.";
    TooManyAttempts, "too_many_attempts", TOO_MANY_REQUESTS, "rate_limited", "Rate limit exceeded",
        "Too many wrong credentials from this network", "Send the correct key pair: it is still accepted, unless its secret has fewer than 16 characters; then wait for `Retry-After` seconds. The limit is per public key and network. If all clients appear to share one network, set `server.trusted_proxies`.";
    Internal, "internal_error", INTERNAL_SERVER_ERROR, "internal_error", "Internal Server Error",
        "Internal server error", "The log of the server has the cause. Report it if it occurs again.";
    Unavailable, "unavailable", SERVICE_UNAVAILABLE, "internal_error", "ServiceUnavailable",
        "The server cannot process the request now", "Send it again after `Retry-After` seconds; nothing of it was stored.";
}

fn issue_json(issue: &Issue) -> Value {
    json!({ "code": "custom", "path": issue.path, "message": issue.message })
}

/// Truncates texts and paths to the limits of a response.
fn cut_issue(mut issue: Issue) -> Issue {
    cut_chars(&mut issue.message, MAX_LISTED_CHARS);
    issue.path.truncate(MAX_PATH);
    issue.path.iter_mut().for_each(cut_texts);
    issue
}

fn cut_chars(text: &mut String, max_chars: usize) {
    if let Some((end, _)) = text.char_indices().nth(max_chars) {
        text.truncate(end);
        text.push('…');
    }
}

fn cut_texts(value: &mut Value) {
    match value {
        Value::String(text) => cut_chars(text, MAX_LISTED_CHARS),
        Value::Array(items) => items.iter_mut().for_each(cut_texts),
        Value::Object(members) => members.values_mut().for_each(cut_texts),
        _ => {}
    }
}

/// Why a request failed. One pointer wide, so that results stay small.
#[derive(Clone, Debug)]
pub struct Problem(Box<ProblemParts>);

#[derive(Clone, Debug)]
struct ProblemParts {
    code: Code,
    message: String,
    details: Map<String, Value>,
    issues: Vec<Issue>,
    /// Number of omitted issues.
    n_more_issues: usize,
    retry_after: Option<u64>,
}

impl Problem {
    /// A problem with a message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let mut message = message.into();
        cut_chars(&mut message, MAX_MESSAGE_CHARS);
        Self(Box::new(ProblemParts {
            code,
            message,
            details: Map::new(),
            issues: Vec::new(),
            n_more_issues: 0,
            retry_after: None,
        }))
    }

    /// A resource that does not exist in this project. One of another project gives the same response.
    pub fn not_found(resource: &str) -> Self {
        Self::new(Code::NotFound, format!("no such {resource} in this project"))
    }

    /// An internal error; the cause is in the log.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(Code::Internal, "an internal error occurred")
    }

    /// The server has no capacity for the request now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        let mut problem = Self::new(Code::Unavailable, message);
        problem.0.retry_after = Some(RETRY_AFTER_SECONDS);
        problem
    }

    /// The body did not arrive in time; a retry may succeed.
    pub fn too_slow(message: impl Into<String>) -> Self {
        let mut problem = Self::new(Code::BodyTooSlow, message);
        problem.0.retry_after = Some(RETRY_AFTER_SECONDS);
        problem
    }

    /// Rate limit exceeded; the next request is accepted after `seconds`.
    pub fn rate_limited(message: impl Into<String>, seconds: u64) -> Self {
        let mut problem = Self::new(Code::RateLimited, message);
        problem.0.retry_after = Some(seconds);
        problem
    }

    /// Too many wrong credentials from one network; the block ends after `seconds`.
    pub fn too_many_attempts(seconds: u64) -> Self {
        let message = format!(
            "too many wrong credentials from this network: further ones get 429 for {seconds} s"
        );
        let mut problem = Self::new(Code::TooManyAttempts, message);
        problem.0.retry_after = Some(seconds);
        problem
    }

    /// Invalid fields. At most [`MAX_LISTED`] are listed.
    pub fn issues(code: Code, issues: impl IntoIterator<Item = Issue>) -> Self {
        let mut all = issues.into_iter();
        let issues: Vec<Issue> = all.by_ref().take(MAX_LISTED).map(cut_issue).collect();
        let n_more_issues = all.count();
        let message = match issues.as_slice() {
            [only] => only.to_string(),
            all => {
                let named = all.iter().take(MAX_NAMED);
                let named = named.map(|each| format!("{}: {}", each.field(), each.message));
                let named: Vec<String> = named.collect();
                let more = if MAX_NAMED < all.len() { "; ..." } else { "" };
                format!("Invalid request data: {}{more}", named.join("; "))
            }
        };
        let mut problem = Self::new(code, message);
        problem.0.issues = issues;
        problem.0.n_more_issues = n_more_issues;
        problem
    }

    /// Merges problems: the code of the first and the issues of all.
    #[must_use]
    pub fn all(problems: Vec<Self>) -> Option<Self> {
        let mut issues: Vec<Issue> = Vec::new();
        let mut n_more_issues = 0;
        for problem in &problems {
            n_more_issues += problem.0.n_more_issues;
            issues.extend(problem.0.issues.iter().cloned());
        }
        let mut first = problems.into_iter().next()?;
        if first.0.issues.len() < issues.len() {
            let all = Self::issues(first.0.code, issues);
            first.0.message = all.0.message;
            first.0.issues = all.0.issues;
            first.0.n_more_issues = n_more_issues + all.0.n_more_issues;
        }
        Some(first)
    }

    /// Moves the issues below a member of the body.
    #[must_use]
    pub fn in_member(self, member: &str) -> Self {
        self.with_paths(|path| path.insert(0, member.into()))
    }

    /// Reverses [`Self::in_member`]: moves the issues below a member of the body up.
    #[must_use]
    pub fn out_of_member(self, member: &str) -> Self {
        self.with_paths(|path| {
            if 1 < path.len() && path.first().is_some_and(|first| first == member) {
                path.remove(0);
            }
        })
    }

    fn with_paths(mut self, change: impl Fn(&mut Vec<Value>)) -> Self {
        let mut issues = std::mem::take(&mut self.0.issues);
        if issues.is_empty() {
            return self;
        }
        for issue in &mut issues {
            change(&mut issue.path);
        }
        let within = Self::issues(self.0.code, issues);
        self.0.message = within.0.message;
        self.0.issues = within.0.issues;
        self
    }

    /// One invalid query parameter.
    pub fn query(field: &str, message: impl Into<String>) -> Self {
        Self::issues(Code::InvalidQuery, vec![Issue::new(field, message)])
    }

    /// One invalid field of the body.
    pub fn body(field: &str, message: impl Into<String>) -> Self {
        Self::issues(Code::InvalidBody, vec![Issue::new(field, message)])
    }

    /// Adds a detail.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.details.insert(key.to_owned(), value.into());
        self
    }

    /// Adds a list to the details: at most [`MAX_LISTED`] elements, and the number of omitted ones.
    #[must_use]
    pub fn with_list(self, key: &str, all: impl IntoIterator<Item = Value>) -> Self {
        let mut all = all.into_iter();
        let mut listed: Value = all.by_ref().take(MAX_LISTED).collect();
        cut_texts(&mut listed);
        let problem = self.with(key, listed);
        match all.count() {
            0 => problem,
            n_more => problem.with(&format!("{key}Omitted"), n_more),
        }
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// `Retry-After` in seconds, if a retry may succeed.
    #[must_use]
    pub fn retry_after(&self) -> Option<u64> {
        self.0.retry_after
    }

    fn details(&self) -> Map<String, Value> {
        let mut details = self.0.details.clone();
        if self.0.code.as_str() != self.0.code.compat() {
            details.insert("reason".to_owned(), self.0.code.as_str().into());
        }
        if !self.0.issues.is_empty() {
            let issues = self.0.issues.iter().map(issue_json).collect();
            details.insert("issues".to_owned(), Value::Array(issues));
        }
        if self.0.n_more_issues > 0 {
            details.insert("issuesOmitted".to_owned(), self.0.n_more_issues.into());
        }
        if let Some(seconds) = self.0.retry_after {
            details.insert("retryAfterSeconds".to_owned(), seconds.into());
        }
        details
    }

    /// The body of the compat API, a superset of the formats of its clients.
    fn compat_body(&self) -> Value {
        let error = if self.0.issues.is_empty() {
            Value::from(self.0.code.classic())
        } else {
            self.0.issues.iter().map(issue_json).collect()
        };
        json!({
            "message": self.0.message,
            "error": error,
            "code": self.0.code.compat(),
            "details": self.details(),
        })
    }

    /// The body of `/api/v1`.
    pub fn rfc9457_body(&self) -> Value {
        let mut body = json!({
            "type": format!("urn:perpend:problem:{}", self.0.code.as_str()),
            "title": self.0.code.title(),
            "status": self.0.code.status().as_u16(),
            "code": self.0.code.as_str(),
            "detail": self.0.message,
        });
        for (key, value) in self.details() {
            if key != "reason" && body.get(&key).is_none() {
                body[key] = value;
            }
        }
        body
    }

    /// Sets the headers of the problem, which are the same in every format.
    pub fn set_headers(&self, response: &mut Response) {
        let headers = response.headers_mut();
        if self.0.code == Code::AuthenticationFailed {
            let challenge = HeaderValue::from_static("Basic realm=\"perpend\", charset=\"UTF-8\"");
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(seconds) = self.0.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.0.code.status(), axum::Json(self.compat_body())).into_response();
        self.set_headers(&mut response);
        response.extensions_mut().insert(self);
        response
    }
}

/// Layer of `/api/v1`: converts a [`Problem`] to the format of RFC 9457.
pub async fn as_rfc9457(request: Request, next: Next) -> Response {
    in_rfc9457(next.run(request).await)
}

/// A problem in the format of the path.
pub fn respond_for_path(path: &str, problem: Problem) -> Response {
    let response = problem.into_response();
    match path.starts_with("/api/v1/") {
        true => in_rfc9457(response),
        false => response,
    }
}

/// Converts a response with a [`Problem`] to the format of RFC 9457.
fn in_rfc9457(response: Response) -> Response {
    let Some(problem) = response.extensions().get::<Problem>().cloned() else {
        return response;
    };
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    let media_type = HeaderValue::from_static("application/problem+json");
    parts.headers.insert(header::CONTENT_TYPE, media_type);
    let body = axum::body::Body::from(problem.rfc9457_body().to_string());
    Response::from_parts(parts, body)
}

impl From<perpend_db::Error> for Problem {
    fn from(error: perpend_db::Error) -> Self {
        match error {
            perpend_db::Error::NotFound => Self::not_found("resource"),
            perpend_db::Error::Conflict(what) => Self::new(Code::Conflict, what),
            perpend_db::Error::NameTaken(what) => {
                Self::new(Code::NameConflict, what).with("field", "name")
            }
            perpend_db::Error::Forbidden(why) => Self::new(Code::AccessDenied, why),
            perpend_db::Error::TooLong => Self::new(
                Code::InvalidRequest,
                "a name or an id in the request exceeds the maximum length",
            ),
            perpend_db::Error::AnswerTooLarge => Self::new(
                Code::AnswerTooLarge,
                "the response exceeds the memory limit of one request: request fewer rows (limit), omit \
                 contents (fields), or narrow the time range or the filter",
            ),
            perpend_db::Error::TooSlow => Self::new(
                Code::QueryTimeout,
                "the query reached its time limit: narrow the time range, or add conditions on columns other than \
                 contents, metadata and scores",
            ),
            perpend_db::Error::OutOfMemory => Self::unavailable(
                "responses to other requests use the memory for responses; send the request again",
            ),
            perpend_db::Error::Unavailable(cause) | perpend_db::Error::Collision(cause) => {
                tracing::warn!(error = cause, "store unavailable");
                Self::unavailable(
                    "the database cannot process the request now; nothing of it was stored",
                )
            }
            // Details of the storage go to the log, not to the caller.
            error => {
                tracing::error!(error = &error as &dyn std::error::Error, "store failed");
                Self::internal()
            }
        }
    }
}

/// `docs/errors.md`.
#[must_use]
pub fn markdown() -> String {
    use std::fmt::Write as _;
    let mut page = String::from(
        "# Errors\n\n\
         Printed by `perpend docs errors`; do not edit by hand.\n\n\
         `/api/v1` responds with `application/problem+json` (RFC 9457): `code` is one of the codes below, and the \
         members of `details` are members of the problem. `/api/public` responds with \
         `{message, error, code, details}`: `code` is one of the codes of its clients, and `details.reason` is \
         the code below if the two differ. The OTLP paths respond with `google.rpc.Status` in the \
         encoding of the request. Codes are never renamed.\n\n\
         | code | status | `code` in `/api/public` | meaning | remedy |\n|---|---|---|---|---|\n",
    );
    for code in Code::ALL {
        let _ = writeln!(
            page,
            "| `{}` | {} | `{}` | {} | {} |",
            code.as_str(),
            code.status().as_u16(),
            code.compat(),
            code.title(),
            code.help()
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_lists_a_hundred_issues_and_truncates_long_texts() {
        let long = "é".repeat(1 << 20);
        let issue = |at: usize| Issue {
            path: vec![at.into(), long.as_str().into()],
            message: long.clone(),
        };
        let issues = (0..5_000).map(|at| match at < 3 {
            true => issue(at),
            false => Issue::new("field", "is wrong"),
        });
        let problem = Problem::issues(Code::InvalidBody, issues);
        let problem = Problem::all(vec![problem, Problem::body("last", "is missing")]).unwrap();
        let problem = problem.with_list("problems", (0..150).map(|_| json!({ "at": long })));
        let body = problem.compat_body();
        assert!(body.to_string().len() < 1 << 18);
        let details = &body["details"];
        for (list, n_more) in [("issues", 4_901), ("problems", 50)] {
            assert_eq!(details[list].as_array().unwrap().len(), 100);
            assert_eq!(details[format!("{list}Omitted")], n_more);
        }
    }
}
