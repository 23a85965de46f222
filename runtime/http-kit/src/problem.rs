//! The one error that leaves the server: a stable code, a sentence, details.
//!
//! Handlers return [`Problem`]. It renders as the superset body of the compat API; the layer
//! [`as_rfc9457`] gives it the form of our own API, the OTLP paths give it theirs. What caused an
//! internal error goes to the log and never to the caller.

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

pub use perpend_domain::issue::Issue;

/// Seconds a client is asked to wait when the server cannot take more.
pub const RETRY_AFTER_SECONDS: u64 = 2;

/// What is wrong that one answer lists; it says how many more there are.
pub const MAX_LISTED: usize = 100;
/// Issues that a message names; the others are in the details.
const MAX_NAMED: usize = 5;
/// Characters of the message of a problem.
const MAX_MESSAGE_CHARS: usize = 4_000;
/// Characters of a text that is listed. It may quote the input, which may be as large as the body.
const MAX_LISTED_CHARS: usize = 1_000;
/// Levels of the path of an issue.
const MAX_PATH: usize = 16;

macro_rules! codes {
    ($($variant:ident, $text:literal, $status:ident, $compat:literal, $classic:literal, $title:literal, $help:literal;)*) => {
        /// What went wrong, for programs. Codes are never renamed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code { $(#[doc = $title] $variant,)* }

        impl Code {
            /// Every code, in the order of the reference page.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// As it stands in answers.
            #[must_use]
            pub const fn as_str(self) -> &'static str { match self { $(Self::$variant => $text,)* } }

            /// The status it is answered with.
            #[must_use]
            pub const fn status(self) -> StatusCode { match self { $(Self::$variant => StatusCode::$status,)* } }

            /// The word of the compat API's closed list.
            const fn compat(self) -> &'static str { match self { $(Self::$variant => $compat,)* } }

            /// The older error name of the compat API.
            const fn classic(self) -> &'static str { match self { $(Self::$variant => $classic,)* } }

            /// A short summary that is the same for every occurrence.
            #[must_use]
            pub const fn title(self) -> &'static str { match self { $(Self::$variant => $title,)* } }

            /// What it means and the way out.
            #[must_use]
            pub const fn help(self) -> &'static str { match self { $(Self::$variant => $help,)* } }
        }
    };
}

codes! {
    InvalidRequest, "invalid_request", BAD_REQUEST, "invalid_request", "InvalidRequestError",
        "The request breaks a rule", "`details` names the rule and the field. Change the request.";
    InvalidQuery, "invalid_query", BAD_REQUEST, "invalid_query", "InvalidRequestError",
        "A query parameter is wrong", "`details.issues` names each parameter and what it may be.";
    InvalidBody, "invalid_body", BAD_REQUEST, "invalid_body", "InvalidRequestError",
        "The body is wrong", "`details.issues` has the path of each field and what it should be.";
    InvalidFilter, "invalid_filter_value", BAD_REQUEST, "invalid_request", "InvalidRequestError",
        "A filter condition is wrong", "`details.field` names the condition, `details.allowedValues` what may stand there.";
    InvalidJsonPath, "invalid_json_path", BAD_REQUEST, "invalid_request", "InvalidRequestError",
        "A JSONPath is wrong", "Paths follow RFC 9535 and begin with `$`.";
    InvalidMapping, "invalid_variable_mapping", BAD_REQUEST, "invalid_request", "InvalidRequestError",
        "A variable mapping is wrong", "`details.allowedValues` lists the sources of this target.";
    MissingMapping, "missing_variable_mapping", BAD_REQUEST, "invalid_request", "InvalidRequestError",
        "A variable of the prompt is not mapped", "`details.variables` lists them. Map each variable once.";
    DuplicateMapping, "duplicate_variable_mapping", BAD_REQUEST, "invalid_request", "InvalidRequestError",
        "A variable is mapped twice", "Map each variable once.";
    AuthenticationFailed, "authentication_failed", UNAUTHORIZED, "authentication_failed", "UnauthorizedError",
        "No valid credentials", "Send `Authorization: Basic base64(public_key:secret_key)` with a key pair of this installation.";
    AccessDenied, "access_denied", FORBIDDEN, "access_denied", "ForbiddenError",
        "The credentials do not allow this", "A public key alone may write scores, a key pair of an organization manages that organization; everything else needs the key pair of the project.";
    NotFound, "resource_not_found", NOT_FOUND, "resource_not_found", "LangfuseNotFoundError",
        "Nothing by that name in this project", "Check the id, and that the key pair belongs to the project.";
    MethodNotAllowed, "method_not_allowed", METHOD_NOT_ALLOWED, "method_not_allowed", "MethodNotAllowedError",
        "The path does not take this method", "The `Allow` header lists the methods it takes.";
    Conflict, "conflict", CONFLICT, "conflict", "LangfuseConflictError",
        "The change collides with what is stored", "Read the resource again and decide anew.";
    NameConflict, "name_conflict", CONFLICT, "conflict", "LangfuseConflictError",
        "The name is taken", "Choose another name.";
    LastOwner, "last_owner", CONFLICT, "conflict", "LangfuseConflictError",
        "The organization would have no active owner", "Give another active member the role `OWNER` first.";
    PreconditionFailed, "precondition_failed", PRECONDITION_FAILED, "conflict", "PreconditionFailedError",
        "It is not what `If-Match` names", "Read it again, decide anew, and send the new `ETag`.";
    TooLarge, "body_too_large", PAYLOAD_TOO_LARGE, "invalid_body", "PayloadTooLargeError",
        "The body is larger than the limit", "Send less in one request, or raise the limit: `ingest.max_body_mib` and `ingest.max_spans` are those of telemetry, `api.max_body_kib` and `api.max_body_values` those of the API. The memory that one request may take is not a setting.";
    BodyTooSlow, "body_too_slow", REQUEST_TIMEOUT, "invalid_request", "InvalidRequestError",
        "The body came too slowly", "Send it again, in smaller batches or over a faster connection. `ingest.min_body_kib_per_second`, `ingest.read_timeout_seconds` and `ingest.body_deadline_seconds` set how slow a sender may be. The OTLP paths answer 503 instead: OTLP clients send nothing again after 408.";
    UnsupportedMediaType, "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "invalid_request", "InvalidRequestError",
        "The media type or encoding is not supported", "The message names what is accepted.";
    Unprocessable, "unprocessable_content", UNPROCESSABLE_ENTITY, "invalid_body", "UnprocessableContentError",
        "Well-formed, and not something this server can do", "The message says what is missing.";
    AnswerTooLarge, "answer_too_large", UNPROCESSABLE_ENTITY, "invalid_body", "PayloadTooLargeError",
        "The answer is larger than one request may hold", "Request fewer rows with `limit`, leave out contents with `fields`, or add conditions. Lists with a cursor end a page early instead. `answers.max_in_flight_mib` sets the memory for answers.";
    QueryTimeout, "query_timeout", UNPROCESSABLE_ENTITY, "invalid_query", "UnprocessableContentError",
        "The request took too long to read", "Narrow the time, or add conditions on columns other than contents, metadata and scores. `answers.timeout_seconds` sets the limit.";
    InvalidConfig, "invalid_config", UNPROCESSABLE_ENTITY, "invalid_body", "UnprocessableContentError",
        "The configuration does not fit the evaluator", "`details.issues` has a JSON Pointer for each problem; the schema is in `GET /api/v1/plugins`.";
    PreflightFailed, "evaluator_preflight_failed", UNPROCESSABLE_ENTITY, "invalid_body", "UnprocessableContentError",
        "The evaluator's model does not answer", "`details.provider` and `details.model` name it; the message says what is wrong with the connection, the model or its parameters.";
    InvalidComponent, "invalid_component", UNPROCESSABLE_ENTITY, "invalid_body", "UnprocessableContentError",
        "The component cannot be used as a plug-in", "`details.problems` lists everything that is wrong with it.";
    RateLimited, "rate_limited", TOO_MANY_REQUESTS, "rate_limited", "Rate limit exceeded",
        "Too many requests", "Wait for `Retry-After` seconds. `details` says what the limit of the key is and when all of it is there again; `limits` in the settings sets it.";
    TooManyAttempts, "too_many_attempts", TOO_MANY_REQUESTS, "rate_limited", "Rate limit exceeded",
        "Too many wrong credentials from this network", "Send the right key pair: it is accepted meanwhile, unless its secret has fewer than 16 characters; then wait for `Retry-After` seconds. The limit counts per public key and network. Where all clients seem to be one network, set `server.trusted_proxies`.";
    Internal, "internal_error", INTERNAL_SERVER_ERROR, "internal_error", "Internal Server Error",
        "A fault of the server", "The server's log has the cause. Report it if it comes again.";
    Unavailable, "unavailable", SERVICE_UNAVAILABLE, "internal_error", "ServiceUnavailable",
        "The server cannot take the request now", "Send it again after `Retry-After` seconds; nothing of it was kept.";
}

fn issue_json(issue: &Issue) -> Value {
    json!({ "code": "custom", "path": issue.path, "message": issue.message })
}

/// With the beginning of texts and paths that are too long for an answer.
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

/// Why a request was not done. One pointer wide, so that results which carry it stay small.
#[derive(Clone, Debug)]
pub struct Problem(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    code: Code,
    message: String,
    details: Map<String, Value>,
    issues: Vec<Issue>,
    /// Further issues, which are not listed.
    n_more_issues: usize,
    retry_after: Option<u64>,
}

impl Problem {
    /// A problem with a sentence for people.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let mut message = message.into();
        cut_chars(&mut message, MAX_MESSAGE_CHARS);
        Self(Box::new(Parts {
            code,
            message,
            details: Map::new(),
            issues: Vec::new(),
            n_more_issues: 0,
            retry_after: None,
        }))
    }

    /// No such thing in this project. A foreign one answers exactly the same.
    pub fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("no such {what} in this project"))
    }

    /// A fault of the server; the cause is in the log.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(Code::Internal, "an internal error occurred")
    }

    /// The server cannot take it now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        let mut problem = Self::new(Code::Unavailable, message);
        problem.0.retry_after = Some(RETRY_AFTER_SECONDS);
        problem
    }

    /// The body did not come in time; the same one may later.
    pub fn too_slow(message: impl Into<String>) -> Self {
        let mut problem = Self::new(Code::BodyTooSlow, message);
        problem.0.retry_after = Some(RETRY_AFTER_SECONDS);
        problem
    }

    /// One request too many; the next one fits in so many seconds.
    pub fn rate_limited(message: impl Into<String>, seconds: u64) -> Self {
        let mut problem = Self::new(Code::RateLimited, message);
        problem.0.retry_after = Some(seconds);
        problem
    }

    /// Too many wrong credentials from one network, for so many more seconds.
    pub fn too_many_attempts(seconds: u64) -> Self {
        let message = format!(
            "too many wrong credentials from this network: more of them are answered with 429 for {seconds} s"
        );
        let mut problem = Self::new(Code::TooManyAttempts, message);
        problem.0.retry_after = Some(seconds);
        problem
    }

    /// Fields that are wrong; of many the first ones, and how many more there are.
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

    /// Several as one, with the code of the first: their fields are listed together.
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

    /// The same of a body that is a member of another one.
    #[must_use]
    pub fn in_member(mut self, member: &str) -> Self {
        let mut issues = std::mem::take(&mut self.0.issues);
        if issues.is_empty() {
            return self;
        }
        for issue in &mut issues {
            issue.path.insert(0, member.into());
        }
        let within = Self::issues(self.0.code, issues);
        self.0.message = within.0.message;
        self.0.issues = within.0.issues;
        self
    }

    /// One query parameter is wrong.
    pub fn query(field: &str, message: impl Into<String>) -> Self {
        Self::issues(Code::InvalidQuery, vec![Issue::new(field, message)])
    }

    /// One field of the body is wrong.
    pub fn body(field: &str, message: impl Into<String>) -> Self {
        Self::issues(Code::InvalidBody, vec![Issue::new(field, message)])
    }

    /// With a further detail.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.details.insert(key.to_owned(), value.into());
        self
    }

    /// With a list of what is wrong: of many things the first ones, and how many more there are.
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

    /// Its code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// Its sentence.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Seconds to wait, where waiting helps.
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

    /// The body of the compat API: a superset that all its clients can read.
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

    /// The body of our own API.
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

    /// The headers that go with it, whatever its form.
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

/// `filter[0].column` from keys and indices.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.0.code.status(), axum::Json(self.compat_body())).into_response();
        self.set_headers(&mut response);
        response.extensions_mut().insert(self);
        response
    }
}

/// Layer of our own API: gives a [`Problem`] the form of RFC 9457.
pub async fn as_rfc9457(request: Request, next: Next) -> Response {
    in_rfc9457(next.run(request).await)
}

/// A problem as the other answers below this path have it.
pub fn in_the_form_of(path: &str, problem: Problem) -> Response {
    let response = problem.into_response();
    match path.starts_with("/api/v1/") {
        true => in_rfc9457(response),
        false => response,
    }
}

/// An answer that is a [`Problem`], in the form of RFC 9457; any other as it is.
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
            perpend_db::Error::TooLong => {
                Self::new(Code::InvalidRequest, "a name or an id in the request is too long")
            }
            perpend_db::Error::AnswerTooLarge => Self::new(
                Code::AnswerTooLarge,
                "the answer needs more memory than one request may hold: request fewer rows (limit), leave out \
                 contents (fields), or narrow the time or the filter",
            ),
            perpend_db::Error::TooSlow => Self::new(
                Code::QueryTimeout,
                "the request reached its time limit: narrow the time, or add conditions on columns other than \
                 contents, metadata and scores",
            ),
            perpend_db::Error::OutOfMemory => Self::unavailable(
                "answers to other requests hold the memory for answers; send the request again",
            ),
            perpend_db::Error::Unavailable(cause) | perpend_db::Error::Collision(cause) => {
                tracing::warn!(error = cause, "store unavailable");
                Self::unavailable(
                    "the database cannot take the request now; nothing of it was kept",
                )
            }
            // The caller learns nothing about our storage; the operator gets all of it.
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
         `/api/v1` answers `application/problem+json` (RFC 9457) with the code as `code` and what `details` \
         holds elsewhere beside it. `/api/public` answers \
         `{message, error, code, details}`: `code` is one of the words that its clients know, and where \
         our code says more it stands in `details.reason`. The OTLP paths answer `google.rpc.Status` in the \
         encoding of the request. Codes are never renamed.\n\n\
         | code | status | `code` in `/api/public` | what it means | the way out |\n|---|---|---|---|---|\n",
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
    fn a_problem_lists_a_hundred_things_and_the_beginning_of_long_ones() {
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
