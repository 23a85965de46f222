//! The shared state behind all calls, and one exchange with a provider: gate, observer, network, classification.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use perpend_domain::time::Clock;
use perpend_http_client::{Header, OutboundClient, PostError, PostRequest};
use perpend_worker_protocol::host_call::{FinishReason, Message};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::capabilities::{CapabilityCache, LearnedModel};
use crate::connections::{ConnectionPause, ConnectionUsage, Connections, Permit};
use crate::endpoint::{Endpoint, Protocol};
use crate::failure::{ErrorClass, Failure};
use crate::gate::{Remaining, RequestEnd};
use crate::headers;
use crate::observer::{
    Admission, CallObserver, Estimate, ProviderAnswer, ProviderCall, ReplyValidator,
    StructureMethod, Usage,
};
use crate::protocol::{self, EncodedRequest};
use crate::redact::{Secrets, without_masked};
use crate::refusals::{Attempt, Refusals};
use crate::rejection::{self, Rejection};

/// Maximum size of a request or response body.
const MAX_BODY: usize = 8 << 20;
/// Length of the excerpt of a response in records.
const MAX_HEAD: usize = 4 << 10;
/// Headers that a connection cannot set.
const TRANSPORT: [&str; 9] = [
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "expect",
];

/// Client for model providers. Cheap to clone; clones share the rate limits of connections and the capabilities of models.
#[derive(Clone)]
pub struct Llm(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    outbound: OutboundClient,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) check: Arc<dyn ReplyValidator>,
    connections: Connections,
    refusals: Refusals,
    pub(crate) capabilities: CapabilityCache,
}

impl fmt::Debug for Llm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Llm")
    }
}

impl Llm {
    /// `check` validates replies whose schemas are not [plain](crate::is_plain_schema).
    #[must_use]
    pub fn new(
        outbound: OutboundClient,
        clock: Arc<dyn Clock>,
        check: Arc<dyn ReplyValidator>,
    ) -> Self {
        Self(Arc::new(Shared {
            outbound,
            clock,
            check,
            connections: Connections::new(),
            refusals: Refusals::new(),
            capabilities: CapabilityCache::new(),
        }))
    }

    /// The pause of a connection because of `Retry-After`; `None` when it accepts requests.
    #[must_use]
    pub fn connection_pause(&self, connection_id: &str) -> Option<ConnectionPause> {
        self.0.connections.pause(connection_id)
    }

    /// The structure method that worked with a model within the last day.
    #[must_use]
    pub fn known_method(&self, endpoint: &Endpoint, model: &str) -> Option<StructureMethod> {
        let now = self.0.clock.now();
        self.0.capabilities.get(endpoint, model, now).structure
    }

    /// Capabilities of the models of a connection, as observed in calls of this process; by model.
    #[must_use]
    pub fn learned_models(&self, endpoint: &Endpoint) -> Vec<LearnedModel> {
        self.0.capabilities.of_connection(endpoint, self.0.clock.now())
    }
}

impl Llm {
    /// The requests of this process on a connection.
    #[must_use]
    pub fn connection_usage(&self, connection_id: &str) -> ConnectionUsage {
        self.0.connections.usage(connection_id)
    }
}

/// The context of one exchange.
pub(crate) struct Exchange {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) observer: Arc<dyn CallObserver>,
    /// From sending the request to the end of the response.
    pub(crate) timeout: Duration,
    pub(crate) estimate: Estimate,
    pub(crate) method: StructureMethod,
    /// Number in the call, from 1, including failed exchanges.
    pub(crate) number: u32,
    pub(crate) reask: u32,
    pub(crate) messages: Arc<[Message]>,
    pub(crate) params: Map<String, Value>,
}

/// Metadata of a reply.
pub(crate) struct ReplyMetadata {
    pub(crate) model: Option<String>,
    pub(crate) finish: FinishReason,
    pub(crate) usage: Option<Usage>,
    /// Bytes of the content, for an estimate when the provider reports no token count.
    pub(crate) n_bytes: usize,
    /// The content, for records.
    pub(crate) text: Option<String>,
}

/// Parses a response body. The error is a sentence about the body.
pub(crate) type Parse<T> = fn(&Endpoint, Value) -> Result<(T, ReplyMetadata), String>;

/// A response of any status, from the network or from a script.
struct RawResponse {
    status: u16,
    content_type: String,
    retry_after: Option<Duration>,
    remaining: Remaining,
    body: Bytes,
}

/// Reports the time until it is dropped to the observer.
struct WaitGuard<'o> {
    observer: &'o dyn CallObserver,
    started: Instant,
}

impl<'o> WaitGuard<'o> {
    fn new(observer: &'o dyn CallObserver) -> Self {
        observer.wait_started();
        Self { observer, started: Instant::now() }
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.observer.wait_ended(self.started.elapsed());
    }
}

/// Awaits `waiting`, or fails when the call is withdrawn.
async fn unless_withdrawn<T>(
    observer: &dyn CallObserver,
    waiting: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        failure = observer.withdrawn() => Err(failure),
        done = waiting => done,
    }
}

impl Shared {
    /// Waits for admission, sends one request and parses the response. Notifies the observer before and after.
    ///
    /// A separate task completes a request that was sent, because it must be paid for.
    pub(crate) async fn exchange<T: Send + 'static>(
        self: &Arc<Self>,
        exchange: Exchange,
        wire: EncodedRequest,
        parse: Parse<T>,
    ) -> Result<(T, Usage), Rejection> {
        let body = wire.body.to_string();
        if MAX_BODY < body.len() {
            let message = format!("the request is larger than {} MiB", MAX_BODY >> 20);
            return Err(unsent(Failure::new(ErrorClass::InvalidInput, message)).into());
        }
        let mut headers = request_headers(&exchange.endpoint, &wire).map_err(unsent)?;
        let admitted = self.admitted(&exchange).await.map_err(unsent)?;
        let (permit, attempt, traceparent) = admitted;
        add_traceparent(&mut headers, traceparent);
        let request_digest = digest(&wire.url, &body);
        let post = PostRequest {
            url: wire.url,
            headers,
            body: body.into(),
            timeout: exchange.timeout,
            max_response_bytes: MAX_BODY,
        };
        let shared = Arc::clone(self);
        let sent = tokio::spawn(async move {
            let sent = (post, wire.body, request_digest);
            shared.finish(exchange, (permit, attempt), sent, parse).await
        });
        sent.await.unwrap_or_else(|error| {
            tracing::error!(%error, "the task of a provider call failed");
            let message = "the provider call failed";
            Err(Failure::new(ErrorClass::Internal, message).into())
        })
    }

    /// Waits until the request has a slot on its connection and a reservation in its budgets. Gives the slot back while
    /// it waits for budget.
    async fn admitted(
        &self,
        exchange: &Exchange,
    ) -> Result<(Permit, Attempt, Option<String>), Failure> {
        let observer = &exchange.observer;
        let _wait = WaitGuard::new(observer.as_ref());
        loop {
            let key = observer.queue_key();
            let (endpoint, priority) = (&exchange.endpoint, key.priority);
            let probe = self.refusals.enter(endpoint, priority);
            let probe = unless_withdrawn(observer.as_ref(), probe).await?;
            let permit = self.connections.enter(endpoint, key, exchange.timeout);
            let permit = unless_withdrawn(observer.as_ref(), permit).await?;
            // The provider may have rejected the key while this request waited.
            let attempt = self.refusals.begin(endpoint, priority, probe)?;
            match observer.before_send(&exchange.estimate).await? {
                Admission::Send(traceparent) => {
                    return Ok((permit, attempt, traceparent));
                }
                Admission::OverBudget => {
                    drop((permit, attempt));
                    unless_withdrawn(observer.as_ref(), observer.budget_available()).await?;
                }
            }
        }
    }

    /// Sends the request and reports the result to the observer.
    async fn finish<T>(
        &self,
        exchange: Exchange,
        (mut permit, attempt): (Permit, Attempt),
        (post, body, request_digest): (PostRequest, Value, String),
        parse: Parse<T>,
    ) -> Result<(T, Usage), Rejection> {
        permit.mark_sent();
        let started_at = self.clock.now();
        let sent = Instant::now();
        let span = call_span(exchange.endpoint.protocol);
        let response = self.send(&exchange.endpoint, post, &body).instrument(span.clone()).await;
        let response = response.map(|response| redacted(&exchange.endpoint, response));
        let latency = sent.elapsed();
        let remaining = response.as_ref().map(|response| response.remaining).unwrap_or_default();
        let reply_head = match &response {
            Ok(response) => head(&exchange.endpoint, &response.body),
            Err(_) => String::new(),
        };
        let result = response.map_err(Rejection::from);
        let body_text = result.as_ref().ok().map(|response| response.body.clone());
        let result = result.and_then(|response| interpret(&exchange, response, &body, parse));
        let result = result.map_err(|rejected| Rejection {
            failure: redacted_failure(&exchange.endpoint, rejected.failure),
            ..rejected
        });
        measure(result.as_ref().err().map(|rejected| rejected.failure.class), latency, &span);
        attempt.end(result.as_ref().err().map(|rejected| &rejected.failure));
        let end = request_end(&result);
        let call = ProviderCall {
            requested_model: exchange.estimate.model.clone(),
            response_model: result.as_ref().ok().and_then(|(_, metadata)| metadata.model.clone()),
            method: exchange.method,
            request_digest,
            started_at,
            latency,
            number: exchange.number,
            reask: exchange.reask,
            outcome: match &result {
                Ok((_, metadata)) => Ok(metadata.finish),
                Err(rejected) => Err((rejected.failure.class, rejected.failure.message.clone())),
            },
            usage: result.as_ref().map(|(_, metadata)| usage(metadata)).unwrap_or_default(),
            reply_head,
            messages: Arc::clone(&exchange.messages),
            params: exchange.params.clone(),
            reply: result.as_ref().ok().and_then(|(_, metadata)| metadata.text.clone()),
        };
        let answer = body_text.filter(|_| result.is_ok()).map(|body| ProviderAnswer {
            method: exchange.method,
            body: String::from_utf8_lossy(&body).into_owned(),
            is_from_cache: false,
        });
        let recorded = exchange.observer.after_exchange(call, answer).await;
        // After the cost is recorded, so that the requests in flight bound the overrun of a budget.
        permit.end(end, remaining);
        recorded?;
        result.map(|(reply, metadata)| (reply, usage(&metadata)))
    }

    /// Parses a recorded answer. `None` when it cannot be parsed any more.
    pub(crate) fn parse_recorded<T>(
        exchange: &Exchange,
        answer: &ProviderAnswer,
        parse: Parse<T>,
    ) -> Option<(T, Usage)> {
        let (reply, metadata) = Self::parse_again(exchange, answer, parse)?;
        Some((reply, usage(&metadata)))
    }

    /// Like [`Self::parse_recorded`], with all metadata.
    pub(crate) fn parse_again<T>(
        exchange: &Exchange,
        answer: &ProviderAnswer,
        parse: Parse<T>,
    ) -> Option<(T, ReplyMetadata)> {
        let body = serde_json::from_str(&answer.body).ok()?;
        let (reply, mut metadata) = parse(&exchange.endpoint, body).ok()?;
        metadata.usage = Some(usage_or_estimate(&exchange.estimate, &metadata));
        Some((reply, metadata))
    }

    async fn send(
        &self,
        endpoint: &Endpoint,
        post: PostRequest,
        body: &Value,
    ) -> Result<RawResponse, Failure> {
        if endpoint.protocol == Protocol::Mock {
            return scripted(endpoint, post.timeout, body).await;
        }
        let response = self.outbound.post_json(&post).await.map_err(post_failure)?;
        let now = self.clock.now();
        let header = |name: &str| response.header(name);
        Ok(RawResponse {
            status: response.status,
            content_type: header("content-type").unwrap_or_default().to_owned(),
            retry_after: headers::retry_after(header, now),
            remaining: headers::remaining(header, now),
            body: response.body.clone(),
        })
    }
}

/// The span of one exchange, for the export of the spans of this process.
fn call_span(protocol: Protocol) -> Span {
    tracing::info_span!(
        "model call",
        otel.kind = "client",
        otel.status_code = Empty,
        perpend.model.protocol = protocol.name(),
        perpend.model.failure = Empty,
    )
}

/// Reports one exchange to the metrics of this process, and the class of its failure to its span.
fn measure(failure: Option<ErrorClass>, latency: Duration, span: &Span) {
    if let Some(class) = failure {
        span.record("otel.status_code", "ERROR");
        span.record("perpend.model.failure", class.name());
    }
    let outcome = failure.map_or("success", ErrorClass::name);
    metrics::counter!("perpend_model_calls_total", "outcome" => outcome).increment(1);
    metrics::histogram!("perpend_model_call_seconds").record(latency);
}

async fn scripted(
    endpoint: &Endpoint,
    limit: Duration,
    body: &Value,
) -> Result<RawResponse, Failure> {
    let answer = protocol::mock_answer(endpoint, body)?;
    if limit <= answer.latency {
        tokio::time::sleep(limit).await;
        return Err(post_failure(PostError::TimedOut(limit)));
    }
    tokio::time::sleep(answer.latency).await;
    Ok(RawResponse {
        status: answer.status,
        content_type: "application/json".to_owned(),
        retry_after: answer.retry_after_seconds.map(Duration::from_secs),
        remaining: Remaining::default(),
        body: answer.body.to_string().into(),
    })
}

fn unsent(mut failure: Failure) -> Failure {
    failure.is_unsent = true;
    failure
}

/// The headers of the protocol, with those that the connection adds or replaces.
fn request_headers(endpoint: &Endpoint, wire: &EncodedRequest) -> Result<Vec<Header>, Failure> {
    let header = |name: &str, value: &str, is_secret| Header {
        name: name.to_owned(),
        value: value.to_owned(),
        is_secret,
    };
    let agent = concat!("perpend/", env!("CARGO_PKG_VERSION"));
    let mut headers =
        vec![header("user-agent", agent, false), header("accept", "application/json", false)];
    let of_protocol = wire.headers.iter();
    headers.extend(of_protocol.map(|(name, value)| header(name, value, true)));
    for (name, value) in &endpoint.headers {
        if TRANSPORT.iter().any(|known| name.eq_ignore_ascii_case(known)) {
            let message = format!("the connection cannot set the header {name:?}");
            return Err(Failure::new(ErrorClass::ModelConfigInvalid, message));
        }
        headers.retain(|known| !known.name.eq_ignore_ascii_case(name));
        headers.push(header(name, value.expose(), true));
    }
    Ok(headers)
}

/// Adds the header unless the connection sets it.
fn add_traceparent(headers: &mut Vec<Header>, value: Option<String>) {
    const NAME: &str = "traceparent";
    let is_set = |header: &Header| header.name.eq_ignore_ascii_case(NAME);
    if !headers.iter().any(is_set) {
        headers.extend(value.map(|value| Header {
            name: NAME.to_owned(),
            value,
            is_secret: false,
        }));
    }
}

/// The digest of path and body. The query is excluded because it may contain secrets.
fn digest(url: &str, body: &str) -> String {
    let path = url.split('?').next().unwrap_or_default();
    let digest = Sha256::new_with_prefix(path).chain_update([0]).chain_update(body);
    let bytes = digest.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Removes secrets from the message of a failure.
pub(crate) fn redacted_failure(endpoint: &Endpoint, mut failure: Failure) -> Failure {
    failure.message = Secrets::all(endpoint).removed(&failure.message).into_owned();
    failure
}

/// Removes the secrets of the connection from a response, whose text is stored, displayed and passed to plug-ins.
fn redacted(endpoint: &Endpoint, mut response: RawResponse) -> RawResponse {
    let body = String::from_utf8_lossy(&response.body);
    let clean = Secrets::in_replies(endpoint).removed_from_body(&body).into_owned();
    response.body = clean.into();
    response
}

fn head(endpoint: &Endpoint, body: &[u8]) -> String {
    // Redacted before it is cut, because a part of a secret would not be detected.
    let text = String::from_utf8_lossy(&body[..body.len().min(2 * MAX_HEAD)]);
    let mut text = Secrets::all(endpoint).removed(&text).into_owned();
    text.truncate(text.floor_char_boundary(MAX_HEAD));
    text
}

/// The failure of a request without a response.
fn post_failure(error: PostError) -> Failure {
    let class = match error {
        PostError::InvalidRequest(_) => ErrorClass::ModelConfigInvalid,
        PostError::Refused(_) | PostError::Unresolved(_) | PostError::Redirect(_) => {
            ErrorClass::EndpointUnreachable
        }
        PostError::Unconnected(_) | PostError::Interrupted(_) => ErrorClass::UpstreamUnavailable,
        PostError::TimedOut(_) => ErrorClass::UpstreamTimeout,
        PostError::TooLarge(_) => ErrorClass::MalformedOutput,
    };
    Failure::new(class, format!("the provider call failed: {error}"))
}

fn interpret<T>(
    exchange: &Exchange,
    response: RawResponse,
    sent: &Value,
    parse: Parse<T>,
) -> Result<(T, ReplyMetadata), Rejection> {
    let text = String::from_utf8_lossy(&response.body);
    let parsed = serde_json::from_str::<Value>(&text);
    let embedded = parsed.as_ref().ok().and_then(rejection::embedded_status);
    let is_success = (200..300).contains(&response.status);
    if !is_success || embedded.is_some() {
        let text = &text[..text.floor_char_boundary(MAX_HEAD * 4)];
        let text = without_masked(&Secrets::all(&exchange.endpoint).removed(text));
        return Err(rejection::classify(&rejection::ErrorResponse {
            model: &exchange.estimate.model,
            status: if is_success { embedded.unwrap_or(response.status) } else { response.status },
            retry_after: response.retry_after,
            body: &text,
            sent,
        }));
    }
    let unusable = |reason: String| {
        let message = format!("the provider's response cannot be used: {reason}");
        Rejection::from(Failure::new(ErrorClass::UpstreamUnavailable, message))
    };
    let parsed = parsed.map_err(|error| match response.content_type.as_str() {
        other if !other.is_empty() && !other.contains("json") => {
            let kind = other.split(';').next().unwrap_or_default();
            let kind: String = kind.chars().take(60).collect();
            unusable(format!("it is {kind}, not JSON; check the base URL"))
        }
        _ => unusable(format!("it is not valid JSON: {error}")),
    })?;
    parse(&exchange.endpoint, parsed)
        .map(|(reply, mut metadata)| {
            metadata.usage = Some(usage_or_estimate(&exchange.estimate, &metadata));
            (reply, metadata)
        })
        .map_err(unusable)
}

/// The usage that the provider reports, or an estimate.
fn usage_or_estimate(estimate: &Estimate, metadata: &ReplyMetadata) -> Usage {
    let is_counted = |usage: &Usage| 0 < usage.input || 0 < usage.output;
    metadata.usage.filter(is_counted).unwrap_or(Usage {
        input: estimate.input_tokens,
        output: tokens(metadata.n_bytes),
        estimated: true,
        ..Usage::default()
    })
}

pub(crate) fn usage(metadata: &ReplyMetadata) -> Usage {
    metadata.usage.unwrap_or_default()
}

/// The estimated number of tokens: bytes / 4.
pub(crate) const fn tokens(n_bytes: usize) -> u64 {
    n_bytes.div_ceil(4) as u64
}

fn request_end<T>(result: &Result<(T, ReplyMetadata), Rejection>) -> RequestEnd {
    match result {
        Ok((_, metadata)) => {
            let usage = usage(metadata);
            let tokens = usage.input.saturating_add(usage.output);
            RequestEnd::Otherwise { tokens }
        }
        Err(rejected) if rejected.failure.class == ErrorClass::RateLimited => {
            RequestEnd::Limited { retry_after: rejected.failure.retry_after }
        }
        // For example 503 with `Retry-After`.
        Err(Rejection { failure, .. }) if failure.retry_after.is_some() => {
            RequestEnd::Unavailable { retry_after: failure.retry_after.unwrap_or_default() }
        }
        Err(_) => RequestEnd::Otherwise { tokens: 0 },
    }
}
