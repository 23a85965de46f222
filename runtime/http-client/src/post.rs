//! Posts JSON to a user-supplied URL, such as that of a model provider: one deadline for the whole call, a limit for the
//! response, and redirects that never carry a secret to another origin.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use hyper::{Method, Response, Uri};
use object_store::client::HttpRequest;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::http::{OutboundClient, SendError};

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
pub struct PostRequest {
    pub url: String,
    pub headers: Vec<Header>,
    pub body: Bytes,
    /// For the whole call, including redirects and reading the response.
    pub timeout: Duration,
    /// Maximum length of the response body; a longer one is [`PostError::TooLarge`].
    pub max_response_bytes: usize,
}

/// A response of any status.
#[derive(Clone, Debug)]
pub struct PostResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl PostResponse {
    /// The value of a header, when it is text. `name` is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// A call ended without a response. The messages contain no header values and no query strings.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    #[error("{0}")]
    InvalidRequest(String),
    /// The address is private and not allowed.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Unresolved(String),
    /// No TCP connection, or no TLS session on it.
    #[error("{0}")]
    Unconnected(String),
    #[error("no response within {} ms", .0.as_millis())]
    TimedOut(Duration),
    #[error("the connection ended before the response was complete: {0}")]
    Interrupted(String),
    #[error("the response is larger than {} MiB", .0 >> 20)]
    TooLarge(usize),
    #[error("{0}")]
    Redirect(String),
}

impl From<SendError> for PostError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Refused(text) => Self::Refused(text),
            SendError::Unresolved(text) => Self::Unresolved(text),
            SendError::Unconnected(text) => Self::Unconnected(text),
            SendError::Interrupted(text) => Self::Interrupted(text),
        }
    }
}

impl OutboundClient {
    /// Posts JSON and reads the complete response. Repeats the request for redirects with status 301, 302, 307 and
    /// 308, at most three times and never from https to http.
    ///
    /// # Errors
    /// When the request is invalid, the address is not allowed, or no complete response arrived in time.
    pub async fn post_json(&self, post: &PostRequest) -> Result<PostResponse, PostError> {
        match tokio::time::timeout(post.timeout, self.post_all(post)).await {
            Ok(response) => response,
            Err(_) => Err(PostError::TimedOut(post.timeout)),
        }
    }

    /// As [`Self::post_json`], except that a redirect is a response like any other, and that a body of more than
    /// `small_bytes` is read when `grant` has returned. `grant` gets the length of the body, or the maximum if the length is
    /// unknown; its time does not count as time of the call.
    ///
    /// # Errors
    /// As for `post_json`.
    pub async fn post_json_directly<G>(
        &self,
        post: &PostRequest,
        small_bytes: usize,
        grant: impl AsyncFnOnce(usize) -> G,
    ) -> Result<(PostResponse, Option<G>), PostError> {
        let timed_out = |_| PostError::TimedOut(post.timeout);
        let mut deadline = Instant::now() + post.timeout;
        let response = async {
            let at = parse(&post.url)?;
            let headers = headers(&post.headers)?;
            let response = self.send(request(&at, &headers, &post.body)?).await;
            response.map_err(PostError::from)
        };
        let response = timeout_at(deadline, response).await.map_err(timed_out)??;
        let (parts, mut incoming) = response.into_parts();
        let max_bytes = post.max_response_bytes;
        let declared = incoming.size_hint().exact();
        let n_expected = declared.map_or(max_bytes, |n| usize::try_from(n).unwrap_or(usize::MAX));
        if max_bytes < n_expected {
            return Err(PostError::TooLarge(max_bytes));
        }
        let mut body: Vec<u8> = Vec::new();
        let (mut grant, mut granted) = (Some(grant), None);
        loop {
            let n_known = if declared.is_some() { n_expected } else { body.len() };
            if small_bytes < n_known
                && let Some(grant) = grant.take()
            {
                let since = Instant::now();
                granted = Some(grant(n_expected).await);
                deadline += since.elapsed();
            }
            let frame = timeout_at(deadline, incoming.frame()).await.map_err(timed_out)?;
            let Some(frame) = frame else {
                break;
            };
            let frame = frame.map_err(|error| PostError::Interrupted(error.to_string()))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if max_bytes - body.len() < data.len() {
                return Err(PostError::TooLarge(max_bytes));
            }
            body.extend_from_slice(&data);
        }
        let (status, headers) = (parts.status.as_u16(), parts.headers);
        Ok((PostResponse { status, headers, body: body.into() }, granted))
    }

    async fn post_all(&self, post: &PostRequest) -> Result<PostResponse, PostError> {
        let mut at = parse(&post.url)?;
        let mut headers = headers(&post.headers)?;
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send(request(&at, &headers, &post.body)?).await;
            let response = response.map_err(PostError::from)?;
            let Some(next) = redirect(&at, &response)? else {
                return read(response, post.max_response_bytes).await;
            };
            if next.origin() != at.origin() {
                // Not restored when a later redirect leads back.
                headers.retain(|(_, value)| !value.is_sensitive());
            }
            at = next;
        }
        Err(PostError::Redirect(format!("more than {MAX_REDIRECTS} redirects")))
    }
}

/// Validates a URL: http or https, without credentials.
///
/// # Errors
/// With the reason as a sentence.
pub fn check_address(text: &str) -> Result<(), String> {
    parse(text).map(|_| ()).map_err(|error| error.to_string())
}

fn parse(text: &str) -> Result<Url, PostError> {
    let invalid =
        |reason: &str| PostError::InvalidRequest(format!("the address is invalid: {reason}"));
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

/// The target of a redirect; `None` for other responses.
fn redirect(from: &Url, response: &Response<Incoming>) -> Result<Option<Url>, PostError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 307 | 308) {
        return Ok(None);
    }
    let invalid = |reason: &str| PostError::Redirect(format!("invalid redirect: {reason}"));
    let location = response.headers().get(LOCATION);
    let location = location.and_then(|location| location.to_str().ok());
    let location = location.ok_or_else(|| invalid("the header location is missing"))?;
    let next = from.join(location).map_err(|error| invalid(&error.to_string()))?;
    parse(next.as_str()).map_err(|error| invalid(&error.to_string()))?;
    if from.scheme() == "https" && next.scheme() == "http" {
        return Err(invalid("it leads from https to http"));
    }
    Ok(Some(next))
}

async fn read(
    response: Response<Incoming>,
    max_response_bytes: usize,
) -> Result<PostResponse, PostError> {
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, max_response_bytes).collect().await;
    let body = body.map_err(|error| match error.is::<LengthLimitError>() {
        true => PostError::TooLarge(max_response_bytes),
        false => PostError::Interrupted(error.to_string()),
    })?;
    Ok(PostResponse {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: body.to_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// A server that answers one request with these bytes; its address.
    async fn server(answer: Vec<u8>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            // The client rejects a response that precedes its request.
            let n_read = stream.read(&mut [0; 4096]).await.unwrap();
            assert!(0 < n_read);
            // The client may close the connection first.
            let _ = stream.write_all(&answer).await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
        url
    }

    fn declared(n_bytes: usize) -> Vec<u8> {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {n_bytes}\r\n\r\n");
        [head.into_bytes(), vec![b'1'; n_bytes]].concat()
    }

    fn chunked(n_bytes: usize) -> Vec<u8> {
        let head = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{n_bytes:x}\r\n");
        [head.into_bytes(), vec![b'1'; n_bytes], b"\r\n0\r\n\r\n".to_vec()].concat()
    }

    /// Length of the body and what was granted.
    async fn posted(answer: Vec<u8>) -> Result<(usize, Option<usize>), PostError> {
        let post = PostRequest {
            url: server(answer).await,
            headers: Vec::new(),
            body: Bytes::from_static(b"{}"),
            timeout: Duration::from_secs(60),
            max_response_bytes: 100_000,
        };
        let outbound = OutboundClient::new(&["127.0.0.1".to_owned()]);
        let posted = outbound.post_json_directly(&post, 1_000, async |n_bytes| n_bytes).await;
        posted.map(|(response, granted)| (response.body.len(), granted))
    }

    #[tokio::test]
    async fn a_large_body_is_read_after_a_grant_and_a_small_one_without() {
        assert_eq!(posted(declared(1_000)).await.unwrap(), (1_000, None));
        assert_eq!(posted(chunked(1_000)).await.unwrap(), (1_000, None));
        assert_eq!(posted(declared(90_000)).await.unwrap(), (90_000, Some(90_000)));
        // The length is unknown.
        assert_eq!(posted(chunked(90_000)).await.unwrap(), (90_000, Some(100_000)));
        for too_large in [declared(100_001), chunked(100_001)] {
            let error = posted(too_large).await.unwrap_err();
            assert!(matches!(error, PostError::TooLarge(100_000)), "{error}");
        }
    }
}
