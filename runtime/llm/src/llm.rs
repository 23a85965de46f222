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

use crate::connections::{ConnectionPause, ConnectionUsage, Connections, Permit};
use crate::endpoint::{Endpoint, Protocol};
use crate::failure::{ErrorClass, Failure};
use crate::gate::{Ended, Remaining};
use crate::headers;
use crate::learnt::Learnt;
use crate::observe::{
    Admission, CallObserver, Estimate, ProviderAnswer, ProviderCall, ReplyValidator,
    StructureMethod, Usage,
};
use crate::protocol::{self, Wire};
use crate::redact::{Secrets, without_masked};
use crate::refusals::{Attempt, Refusals};
use crate::reject::{self, Rejected};

/// Largest body, each way.
const MAX_BODY: usize = 8 << 20;
/// Of an answer, what is kept for people.
const MAX_HEAD: usize = 4 << 10;
/// Headers that belong to the transport.
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

/// Model providers, behind one function. Cheap to clone; clones share what they learn and the limits of connections.
#[derive(Clone)]
pub struct Llm(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    outbound: OutboundClient,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) check: Arc<dyn ReplyValidator>,
    connections: Connections,
    refusals: Refusals,
    pub(crate) learnt: Learnt,
}

impl fmt::Debug for Llm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Llm")
    }
}

impl Llm {
    /// `check` takes the replies whose schemas are not [plain](crate::is_plain_schema).
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
            learnt: Learnt::new(),
        }))
    }

    /// Whether a connection accepts no requests, because its provider asked to wait.
    #[must_use]
    pub fn connection_pause(&self, connection_id: &str) -> Option<ConnectionPause> {
        self.0.connections.pause(connection_id)
    }

    /// The structure method that worked with a model within the last day.
    #[must_use]
    pub fn known_method(&self, endpoint: &Endpoint, model: &str) -> Option<StructureMethod> {
        let now = self.0.clock.now();
        self.0.learnt.get(endpoint, model, now).structure
    }
}

impl Llm {
    /// How a connection is used by this process.
    #[must_use]
    pub fn connection_usage(&self, connection_id: &str) -> ConnectionUsage {
        self.0.connections.usage(connection_id)
    }
}

/// The context of one exchange.
pub(crate) struct Exchange {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) observer: Arc<dyn CallObserver>,
    /// From the sending of the request to the end of its answer.
    pub(crate) timeout: Duration,
    pub(crate) estimate: Estimate,
    pub(crate) method: StructureMethod,
    /// From 1, failed ones too.
    pub(crate) number: u32,
    pub(crate) reask: u32,
    pub(crate) messages: Arc<[Message]>,
    pub(crate) params: Map<String, Value>,
}

/// Metadata of an answer.
pub(crate) struct Facts {
    pub(crate) model: Option<String>,
    pub(crate) finish: FinishReason,
    pub(crate) usage: Option<Usage>,
    /// Bytes of the content, for the estimate where the provider counts nothing.
    pub(crate) n_bytes: usize,
    /// The content, where it is text.
    pub(crate) text: Option<String>,
}

pub(crate) type Read<T> = fn(&Endpoint, Value) -> Result<(T, Facts), String>;

/// An answer of any status, from the network or from a script.
struct Raw {
    status: u16,
    content_type: String,
    retry_after: Option<Duration>,
    remaining: Remaining,
    body: Bytes,
}

/// Tells the observer of the time until it is dropped.
struct Wait<'o> {
    observer: &'o dyn CallObserver,
    begun: Instant,
}

impl<'o> Wait<'o> {
    fn new(observer: &'o dyn CallObserver) -> Self {
        observer.wait_started();
        Self { observer, begun: Instant::now() }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.observer.wait_ended(self.begun.elapsed());
    }
}

/// Waits, unless the call is withdrawn.
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
    /// Waits for a place, sends one request and reads its answer. Notifies the observer before and after.
    ///
    /// A request that was sent is followed to its end by a task of its own: its answer is paid for.
    pub(crate) async fn exchange<T: Send + 'static>(
        self: &Arc<Self>,
        exchange: Exchange,
        wire: Wire,
        read: Read<T>,
    ) -> Result<(T, Usage), Rejected> {
        let body = wire.body.to_string();
        if MAX_BODY < body.len() {
            let message = format!("the request is larger than {} MiB", MAX_BODY >> 20);
            return Err(unsent(Failure::new(ErrorClass::InvalidInput, message)).into());
        }
        let mut headers = headers_of(&exchange.endpoint, &wire).map_err(unsent)?;
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
            shared.finish(exchange, (permit, attempt), sent, read).await
        });
        sent.await.unwrap_or_else(|error| {
            tracing::error!(%error, "an exchange with a provider ended without a result");
            let message = "the exchange with the provider failed";
            Err(Failure::new(ErrorClass::Internal, message).into())
        })
    }

    /// Waits until the request has a place on its connection and room in its budgets. It holds no place while it waits for
    /// room.
    async fn admitted(
        &self,
        exchange: &Exchange,
    ) -> Result<(Permit, Attempt, Option<String>), Failure> {
        let observer = &exchange.observer;
        let _wait = Wait::new(observer.as_ref());
        loop {
            let key = observer.queue_key();
            let (endpoint, priority) = (&exchange.endpoint, key.priority);
            let probe = self.refusals.enter(endpoint, priority);
            let probe = unless_withdrawn(observer.as_ref(), probe).await?;
            let permit = self.connections.enter(endpoint, key, exchange.timeout);
            let permit = unless_withdrawn(observer.as_ref(), permit).await?;
            // The key may have been refused while this request waited.
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

    /// Sends the request and reports its end.
    async fn finish<T>(
        &self,
        exchange: Exchange,
        (mut permit, attempt): (Permit, Attempt),
        (post, body, request_digest): (PostRequest, Value, String),
        read: Read<T>,
    ) -> Result<(T, Usage), Rejected> {
        permit.sends();
        let started_at = self.clock.now();
        let begun = Instant::now();
        let raw = self.send(&exchange.endpoint, post, &body).await;
        let raw = raw.map(|raw| cleaned(&exchange.endpoint, raw));
        let latency = begun.elapsed();
        let remaining = raw.as_ref().map(|raw| raw.remaining).unwrap_or_default();
        let reply_head = match &raw {
            Ok(raw) => head(&exchange.endpoint, &raw.body),
            Err(_) => String::new(),
        };
        let result = raw.map_err(Rejected::from);
        let answered = result.as_ref().ok().map(|raw| raw.body.clone());
        let result = result.and_then(|raw| interpret(&exchange, raw, &body, read));
        let result = result.map_err(|rejected| Rejected {
            failure: clean(&exchange.endpoint, rejected.failure),
            ..rejected
        });
        attempt.end(result.as_ref().err().map(|rejected| &rejected.failure));
        let ended = ended(&result);
        let call = ProviderCall {
            requested_model: exchange.estimate.model.clone(),
            response_model: result.as_ref().ok().and_then(|(_, facts)| facts.model.clone()),
            method: exchange.method,
            request_digest,
            started_at,
            latency,
            number: exchange.number,
            reask: exchange.reask,
            outcome: match &result {
                Ok((_, facts)) => Ok(facts.finish),
                Err(rejected) => Err((rejected.failure.class, rejected.failure.message.clone())),
            },
            usage: result.as_ref().map(|(_, facts)| usage(facts)).unwrap_or_default(),
            reply_head,
            messages: Arc::clone(&exchange.messages),
            params: exchange.params.clone(),
            reply: result.as_ref().ok().and_then(|(_, facts)| facts.text.clone()),
        };
        let answer = answered.filter(|_| result.is_ok()).map(|body| ProviderAnswer {
            method: exchange.method,
            body: String::from_utf8_lossy(&body).into_owned(),
            is_from_cache: false,
        });
        let noted = exchange.observer.after_exchange(call, answer).await;
        // Not before the cost is noted: a budget is passed by the requests that hold places at most.
        permit.end(ended, remaining);
        noted?;
        result.map(|(reply, facts)| (reply, usage(&facts)))
    }

    /// The same from an answer that was kept. Nothing for one that cannot be read any more.
    pub(crate) fn kept<T>(
        exchange: &Exchange,
        answer: &ProviderAnswer,
        read: Read<T>,
    ) -> Option<(T, Usage)> {
        let (reply, facts) = Self::reread(exchange, answer, read)?;
        Some((reply, usage(&facts)))
    }

    /// The same with all that is known of it.
    pub(crate) fn reread<T>(
        exchange: &Exchange,
        answer: &ProviderAnswer,
        read: Read<T>,
    ) -> Option<(T, Facts)> {
        let body = serde_json::from_str(&answer.body).ok()?;
        let (reply, mut facts) = read(&exchange.endpoint, body).ok()?;
        facts.usage = Some(counted(&exchange.estimate, &facts));
        Some((reply, facts))
    }

    async fn send(
        &self,
        endpoint: &Endpoint,
        post: PostRequest,
        body: &Value,
    ) -> Result<Raw, Failure> {
        if endpoint.protocol == Protocol::Mock {
            return scripted(endpoint, post.timeout, body).await;
        }
        let answer = self.outbound.post_json(&post).await.map_err(unanswered)?;
        let now = self.clock.now();
        let header = |name: &str| answer.header(name);
        Ok(Raw {
            status: answer.status,
            content_type: header("content-type").unwrap_or_default().to_owned(),
            retry_after: headers::retry_after(header, now),
            remaining: headers::remaining(header, now),
            body: answer.body.clone(),
        })
    }
}

async fn scripted(endpoint: &Endpoint, limit: Duration, body: &Value) -> Result<Raw, Failure> {
    let answer = protocol::mock_answer(endpoint, body)?;
    if limit <= answer.latency {
        tokio::time::sleep(limit).await;
        return Err(unanswered(PostError::TimedOut(limit)));
    }
    tokio::time::sleep(answer.latency).await;
    Ok(Raw {
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

/// Headers of the protocol, and those that the connection adds or replaces.
fn headers_of(endpoint: &Endpoint, wire: &Wire) -> Result<Vec<Header>, Failure> {
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
            let message = format!("the header {name:?} of the connection cannot be set");
            return Err(Failure::new(ErrorClass::ModelConfigInvalid, message));
        }
        headers.retain(|known| !known.name.eq_ignore_ascii_case(name));
        headers.push(header(name, value.expose(), true));
    }
    Ok(headers)
}

/// One that the connection sets stays.
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

/// Covers the path and the body. The query may contain secrets.
fn digest(url: &str, body: &str) -> String {
    let path = url.split('?').next().unwrap_or_default();
    let digest = Sha256::new_with_prefix(path).chain_update([0]).chain_update(body);
    let bytes = digest.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Removes secrets from the message of a failure, whatever it was built from.
pub(crate) fn clean(endpoint: &Endpoint, mut failure: Failure) -> Failure {
    failure.message = Secrets::all(endpoint).removed(&failure.message).into_owned();
    failure
}

/// An answer without the secrets of the connection: its text is stored, shown and given to plug-ins.
fn cleaned(endpoint: &Endpoint, mut raw: Raw) -> Raw {
    let body = String::from_utf8_lossy(&raw.body);
    let clean = Secrets::in_replies(endpoint).removed_from_body(&body).into_owned();
    raw.body = clean.into();
    raw
}

fn head(endpoint: &Endpoint, body: &[u8]) -> String {
    // Redacted before it is cut: a half of a secret would not be found.
    let text = String::from_utf8_lossy(&body[..body.len().min(2 * MAX_HEAD)]);
    let mut text = Secrets::all(endpoint).removed(&text).into_owned();
    text.truncate(text.floor_char_boundary(MAX_HEAD));
    text
}

/// The class of a request without an answer.
fn unanswered(error: PostError) -> Failure {
    let class = match error {
        PostError::InvalidRequest(_) => ErrorClass::ModelConfigInvalid,
        PostError::Refused(_) | PostError::Unresolved(_) | PostError::Redirect(_) => {
            ErrorClass::EndpointUnreachable
        }
        PostError::Unconnected(_) | PostError::Interrupted(_) => ErrorClass::UpstreamUnavailable,
        PostError::TimedOut(_) => ErrorClass::UpstreamTimeout,
        PostError::TooLarge(_) => ErrorClass::MalformedOutput,
    };
    Failure::new(class, format!("the call of the provider failed: {error}"))
}

fn interpret<T>(
    exchange: &Exchange,
    raw: Raw,
    sent: &Value,
    read: Read<T>,
) -> Result<(T, Facts), Rejected> {
    let text = String::from_utf8_lossy(&raw.body);
    let parsed = serde_json::from_str::<Value>(&text);
    let hidden = parsed.as_ref().ok().and_then(reject::hidden_status);
    let is_good = (200..300).contains(&raw.status);
    if !is_good || hidden.is_some() {
        let text = &text[..text.floor_char_boundary(MAX_HEAD * 4)];
        let text = without_masked(&Secrets::all(&exchange.endpoint).removed(text));
        return Err(reject::classify(&reject::Answer {
            model: &exchange.estimate.model,
            status: if is_good { hidden.unwrap_or(raw.status) } else { raw.status },
            retry_after: raw.retry_after,
            body: &text,
            sent,
        }));
    }
    let unusable = |why: String| {
        let message = format!("the provider's answer cannot be used: {why}");
        Rejected::from(Failure::new(ErrorClass::UpstreamUnavailable, message))
    };
    let parsed = parsed.map_err(|error| match raw.content_type.as_str() {
        other if !other.is_empty() && !other.contains("json") => {
            let kind = other.split(';').next().unwrap_or_default();
            let kind: String = kind.chars().take(60).collect();
            unusable(format!("it is {kind}, not JSON; check the base URL"))
        }
        _ => unusable(format!("it is not valid JSON: {error}")),
    })?;
    read(&exchange.endpoint, parsed)
        .map(|(reply, mut facts)| {
            facts.usage = Some(counted(&exchange.estimate, &facts));
            (reply, facts)
        })
        .map_err(unusable)
}

/// The provider's count, or an estimate.
fn counted(estimate: &Estimate, facts: &Facts) -> Usage {
    let is_counted = |usage: &Usage| 0 < usage.input || 0 < usage.output;
    facts.usage.filter(is_counted).unwrap_or(Usage {
        input: estimate.input_tokens,
        output: tokens(facts.n_bytes),
        estimated: true,
        ..Usage::default()
    })
}

pub(crate) fn usage(facts: &Facts) -> Usage {
    facts.usage.unwrap_or_default()
}

/// Bytes / 4, the estimate of tokens.
pub(crate) const fn tokens(n_bytes: usize) -> u64 {
    n_bytes.div_ceil(4) as u64
}

fn ended<T>(result: &Result<(T, Facts), Rejected>) -> Ended {
    match result {
        Ok((_, facts)) => {
            let usage = usage(facts);
            let tokens = usage.input.saturating_add(usage.output);
            Ended::Otherwise { tokens }
        }
        Err(rejected) if rejected.failure.class == ErrorClass::RateLimited => {
            Ended::Limited { retry_after: rejected.failure.retry_after }
        }
        // Such as 503 with `Retry-After`.
        Err(Rejected { failure, .. }) if failure.retry_after.is_some() => {
            Ended::Unavailable { retry_after: failure.retry_after.unwrap_or_default() }
        }
        Err(_) => Ended::Otherwise { tokens: 0 },
    }
}
