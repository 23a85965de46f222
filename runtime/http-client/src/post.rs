//! Posts JSON to a user-configured address, such as a model provider: one deadline for the whole call, a limit for the
//! answer, and redirects that never carry a secret to another origin.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use hyper::{Method, Response, Uri};
use object_store::client::HttpRequest;
use url::Url;

use crate::http::{Outbound, Unsent};

/// Redirects that are followed.
const MAX_REDIRECTS: usize = 3;

/// A header of a request. Its value is not in its `Debug` output.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    pub name: String,
    pub value: String,
    /// Dropped when a redirect leads to another origin.
    pub is_secret: bool,
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ***", self.name)
    }
}

/// One request. `content-type: application/json` is added.
#[derive(Clone, Debug)]
pub struct Post {
    pub url: String,
    pub headers: Vec<Header>,
    pub body: Bytes,
    /// For everything, redirects and the end of the answer included.
    pub timeout: Duration,
    /// Bytes of the answer's body; reading stops there.
    pub max_answer: usize,
}

/// An answer of any status.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// A header's value, where it is text. Names in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Why there is no answer. The texts contain no header values and no query of an address.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    #[error("{0}")]
    InvalidRequest(String),
    /// The address is not public, and the operator did not name its host.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Unresolved(String),
    /// No TCP connection, or no TLS session on it.
    #[error("{0}")]
    Unconnected(String),
    #[error("no answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
    #[error("the connection ended before the answer was complete: {0}")]
    Interrupted(String),
    #[error("the answer is larger than {} MiB", .0 >> 20)]
    TooLarge(usize),
    #[error("{0}")]
    Redirect(String),
}

impl Outbound {
    /// Posts JSON and reads the whole answer. Redirects with status 301, 302, 307 and 308 are followed by the
    /// same request, at most three of them and never from https to http.
    ///
    /// # Errors
    /// When the request is invalid, its address is refused, or no complete answer came in time.
    pub async fn post_json(&self, post: &Post) -> Result<Answer, PostError> {
        match tokio::time::timeout(post.timeout, self.post_all(post)).await {
            Ok(answered) => answered,
            Err(_) => Err(PostError::TimedOut(post.timeout)),
        }
    }

    async fn post_all(&self, post: &Post) -> Result<Answer, PostError> {
        let mut at = parse(&post.url)?;
        let mut headers = headers(&post.headers)?;
        for _ in 0..=MAX_REDIRECTS {
            let answered = self.send(request(&at, &headers, &post.body)?).await;
            let answered = answered.map_err(|error| match error {
                Unsent::Refused(text) => PostError::Refused(text),
                Unsent::Unresolved(text) => PostError::Unresolved(text),
                Unsent::Unconnected(text) => PostError::Unconnected(text),
                Unsent::Interrupted(text) => PostError::Interrupted(text),
            })?;
            let Some(next) = redirect(&at, &answered)? else {
                return read(answered, post.max_answer).await;
            };
            if next.origin() != at.origin() {
                // They stay dropped, even if a later redirect leads back.
                headers.retain(|(_, value)| !value.is_sensitive());
            }
            at = next;
        }
        Err(PostError::Redirect(format!("more than {MAX_REDIRECTS} redirects")))
    }
}

/// Checks that requests can be sent to an address.
///
/// # Errors
/// What is wrong with it.
pub fn check_address(text: &str) -> Result<(), String> {
    parse(text).map(|_| ()).map_err(|error| error.to_string())
}

fn parse(text: &str) -> Result<Url, PostError> {
    let invalid = |why: &str| PostError::InvalidRequest(format!("the address is invalid: {why}"));
    let url = Url::parse(text).map_err(|error| invalid(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("its scheme must be http or https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("it must not contain a user name or password"));
    }
    Ok(url)
}

type Headers = Vec<(HeaderName, HeaderValue)>;

fn headers(headers: &[Header]) -> Result<Headers, PostError> {
    let header = |header: &Header| {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok();
        let value = HeaderValue::from_str(&header.value).ok();
        let (Some(name), Some(mut value)) = (name, value) else {
            let text = format!("the header {:?} is invalid", header.name);
            return Err(PostError::InvalidRequest(text));
        };
        value.set_sensitive(header.is_secret);
        Ok((name, value))
    };
    headers.iter().map(header).collect()
}

fn request(at: &Url, headers: &Headers, body: &Bytes) -> Result<HttpRequest, PostError> {
    let uri: Uri = at.as_str().parse().map_err(|_| {
        PostError::InvalidRequest("the address is invalid: it cannot be requested".to_owned())
    })?;
    let mut request = HttpRequest::new(body.clone().into());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri;
    for (name, value) in headers {
        request.headers_mut().insert(name.clone(), value.clone());
    }
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(CONTENT_TYPE, json);
    Ok(request)
}

/// Where an answer redirects to.
fn redirect(from: &Url, answered: &Response<Incoming>) -> Result<Option<Url>, PostError> {
    if !matches!(answered.status().as_u16(), 301 | 302 | 307 | 308) {
        return Ok(None);
    }
    let invalid = |why: &str| PostError::Redirect(format!("invalid redirect: {why}"));
    let location = answered.headers().get(LOCATION);
    let location = location.and_then(|location| location.to_str().ok());
    let location = location.ok_or_else(|| invalid("no location"))?;
    let next = from.join(location).map_err(|error| invalid(&error.to_string()))?;
    parse(next.as_str()).map_err(|error| invalid(&error.to_string()))?;
    if from.scheme() == "https" && next.scheme() == "http" {
        return Err(invalid("it leads from https to http"));
    }
    Ok(Some(next))
}

async fn read(answered: Response<Incoming>, max_answer: usize) -> Result<Answer, PostError> {
    let (parts, body) = answered.into_parts();
    let body = Limited::new(body, max_answer).collect().await;
    let body = body.map_err(|error| match error.is::<LengthLimitError>() {
        true => PostError::TooLarge(max_answer),
        false => PostError::Interrupted(error.to_string()),
    })?;
    Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body: body.to_bytes() })
}
