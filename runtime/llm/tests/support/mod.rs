//! A local provider with configured responses, and an observer that records all exchanges.

#![expect(dead_code, reason = "each test program uses some of the items")]
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_domain::time::{Clock, Timestamp};
use perpend_http_client::OutboundClient;
use perpend_llm::{
    Admission, CallLimits, CallObserver, Endpoint, Estimate, Failure, Llm, ModelSettings, Priority,
    Protocol, ProviderAnswer, ProviderCall, QueueKey, ReplyValidator, Secret,
};
use perpend_worker_protocol::host_call::{Completion, CompletionRequest, Message, Role};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

pub(crate) const KEY: &str = "sk-key-that-nobody-may-see";
pub(crate) const HEADER: &str = "header-value-that-nobody-may-see";

/// The reaction of the server to one request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Json(u16, Value),
    /// With additional header lines.
    JsonWithHeaders(u16, &'static str, Value),
    /// A literal head and body.
    Raw(String, Vec<u8>),
    /// No response until the client disconnects.
    Hang,
    /// A head and a part of the body; the connection stays open.
    Stall,
    /// A head and a part of the body, then the end.
    Cut,
}

#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) path: String,
    /// Lower-case names.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let (_, value) = headers.find(|(known, _)| known == name)?;
        Some(value)
    }
}

pub(crate) struct Server {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Server {
    /// Serves the requests with these acts in order, and all further requests with the last act.
    pub(crate) async fn start(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let server = Self { url, received: received.clone() };
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acts, received) = (acts.clone(), received.clone());
                tokio::spawn(serve(stream, acts, received));
            }
        });
        server
    }

    pub(crate) fn received(&self) -> Vec<ReceivedRequest> {
        self.received.lock().unwrap().clone()
    }
}

async fn serve(stream: TcpStream, acts: Vec<Act>, received: Arc<Mutex<Vec<ReceivedRequest>>>) {
    let mut stream = BufReader::new(stream);
    let Some(request) = read(&mut stream).await else {
        return;
    };
    let at = {
        let mut received = received.lock().unwrap();
        received.push(request);
        received.len() - 1
    };
    // Clients that disconnect early are part of the tests.
    let _ = act(&mut stream, &acts[at.min(acts.len() - 1)]).await;
}

/// The last message of a request, and the signal that releases its response.
pub(crate) type Arrived = (String, oneshot::Sender<()>);

/// Serves one request after it is released.
pub(crate) async fn serve_on_release(stream: TcpStream, arrived: mpsc::UnboundedSender<Arrived>) {
    let mut stream = BufReader::new(stream);
    let Some(request) = read(&mut stream).await else {
        return;
    };
    let messages = request.body["messages"].as_array().unwrap();
    let text = messages.last().unwrap()["content"].as_str().unwrap();
    let (release, released) = oneshot::channel();
    arrived.send((text.to_owned(), release)).unwrap();
    if released.await.is_ok() {
        let _ = act(&mut stream, &reply(GOOD)).await;
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<ReceivedRequest> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let path = lines.first()?.split(' ').nth(1)?.to_owned();
    let header = |line: &String| {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_lowercase(), value.to_owned()))
    };
    let headers: Vec<_> = lines.iter().filter_map(header).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length?.1.parse().ok()?];
    stream.read_exact(&mut body).await.ok()?;
    Some(ReceivedRequest { path, headers, body: serde_json::from_slice(&body).unwrap() })
}

async fn act(stream: &mut BufReader<TcpStream>, act: &Act) -> std::io::Result<()> {
    let (head, body) = match act {
        Act::Json(status, body) => (json_head(*status, ""), body.to_string().into_bytes()),
        Act::JsonWithHeaders(status, lines, body) => {
            (json_head(*status, lines), body.to_string().into_bytes())
        }
        Act::Raw(head, body) => (head.clone(), body.clone()),
        Act::Hang => {
            stream.read_to_end(&mut Vec::new()).await?;
            return Ok(());
        }
        Act::Stall | Act::Cut => {
            let head = json_head(200, "");
            let part = format!("HTTP/1.1 {head}content-length: 900\r\n\r\n{{\"choices\"");
            stream.write_all(part.as_bytes()).await?;
            if matches!(act, Act::Stall) {
                stream.read_to_end(&mut Vec::new()).await?;
            }
            return Ok(());
        }
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {head}content-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    // In small pieces, as over a slow connection.
    match length < 4096 {
        true => {
            for piece in body.chunks(7) {
                stream.write_all(piece).await?;
                stream.flush().await?;
                tokio::task::yield_now().await;
            }
        }
        false => stream.write_all(&body).await?,
    }
    Ok(())
}

fn json_head(status: u16, lines: &str) -> String {
    format!("{status} X\r\ncontent-type: application/json\r\n{lines}")
}

pub(crate) const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Records all exchanges; can reject them.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) calls: Mutex<Vec<ProviderCall>>,
    pub(crate) estimates: Mutex<Vec<Estimate>>,
    pub(crate) refuse: Option<Failure>,
    /// Usable answers, in order.
    pub(crate) answers: Mutex<Vec<ProviderAnswer>>,
    /// Usable answers of an earlier attempt.
    pub(crate) recorded: Vec<ProviderAnswer>,
    pub(crate) priority: Priority,
}

impl CallObserver for Recorder {
    fn queue_key(&self) -> QueueKey {
        QueueKey { priority: self.priority, ..QueueKey::default() }
    }

    fn before_send<'a>(
        &'a self,
        estimate: &'a Estimate,
    ) -> BoxFuture<'a, Result<Admission, Failure>> {
        self.estimates.lock().unwrap().push(estimate.clone());
        let sends = Admission::Send(Some(TRACEPARENT.to_owned()));
        Box::pin(async move { self.refuse.clone().map_or(Ok(sends), Err) })
    }

    fn recorded_answer(&self, n: u32) -> Option<ProviderAnswer> {
        self.recorded.get(n as usize).cloned()
    }

    fn after_exchange(
        &self,
        call: ProviderCall,
        answer: Option<ProviderAnswer>,
    ) -> BoxFuture<'_, Result<(), Failure>> {
        self.calls.lock().unwrap().push(call);
        self.answers.lock().unwrap().extend(answer);
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Recorder {
    pub(crate) fn calls(&self) -> Vec<ProviderCall> {
        self.calls.lock().unwrap().clone()
    }

    /// The class of each exchange, `ok` for answers.
    pub(crate) fn outcomes(&self) -> Vec<&'static str> {
        let calls = self.calls();
        let outcome = |call: &ProviderCall| match &call.outcome {
            Ok(_) => "ok",
            Err((class, _)) => class.name(),
        };
        calls.iter().map(outcome).collect()
    }

    pub(crate) fn methods(&self) -> Vec<&'static str> {
        let calls = self.calls();
        calls.iter().map(|call| call.method.name()).collect()
    }
}

/// A clock that is set manually.
#[derive(Debug)]
pub(crate) struct FixedClock(pub(crate) Mutex<Timestamp>);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

/// Reports one violation in values that contain `bad`.
pub(crate) struct FakeValidator;

impl ReplyValidator for FakeValidator {
    fn check<'a>(
        &'a self,
        _schema: &'a str,
        value: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>, String>> {
        let found = value.contains("bad").then(|| "it is bad".to_owned());
        Box::pin(async move { Ok(found.into_iter().collect()) })
    }
}

pub(crate) fn llm_at(clock: Arc<FixedClock>) -> Llm {
    let outbound = OutboundClient::new(&["127.0.0.1".to_owned()]);
    Llm::new(outbound, clock, Arc::new(FakeValidator))
}

pub(crate) fn llm() -> Llm {
    let noon = Timestamp::parse("2026-03-01T12:00:00Z").unwrap();
    llm_at(Arc::new(FixedClock(Mutex::new(noon))))
}

pub(crate) fn endpoint(protocol: Protocol, url: &str) -> Endpoint {
    Endpoint {
        connection_id: "c1".to_owned(),
        saved_at: 0,
        provider: "ours".to_owned(),
        protocol,
        base_url: Some(url.to_owned()),
        key: Secret::new(KEY),
        headers: vec![("x-team".to_owned(), Secret::new(HEADER))],
        use_responses_api: false,
        api_version: None,
        max_in_flight: 8,
        config: None,
    }
}

pub(crate) fn mock(config: Value) -> Endpoint {
    let mut endpoint = endpoint(Protocol::Mock, "");
    endpoint.base_url = None;
    endpoint.config = Some(config);
    endpoint
}

pub(crate) fn choice(model: &str) -> ModelSettings {
    ModelSettings { model: model.to_owned(), ..ModelSettings::default() }
}

pub(crate) fn message(role: Role, content: &str) -> Message {
    Message::text(role, content)
}

/// A system and a user message, nothing else set.
pub(crate) fn request() -> CompletionRequest {
    CompletionRequest::new(vec![
        message(Role::System, "Be strict."),
        message(Role::User, "Is it good?"),
    ])
}

pub(crate) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "reasoning": { "type": "string" },
            "score": { "type": "number", "minimum": 0, "maximum": 1 },
        },
        "required": ["reasoning", "score"],
        "additionalProperties": false,
    })
}

/// [`request`] with [`schema`].
pub(crate) fn structured() -> CompletionRequest {
    CompletionRequest { response_schema: Some(schema().to_string()), ..request() }
}

pub(crate) const GOOD: &str = r#"{"reasoning":"fine","score":0.5}"#;

/// An answer of chat completions.
pub(crate) fn reply(content: &str) -> Act {
    finished(content, "stop")
}

pub(crate) fn finished(content: &str, reason: &str) -> Act {
    let choice = json!({ "message": { "content": content }, "finish_reason": reason });
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 4 });
    let body = json!({ "model": "m-1", "choices": [choice], "usage": usage });
    Act::Json(200, body)
}

pub(crate) fn quick() -> CallLimits {
    CallLimits { timeout: Duration::from_millis(400), ..CallLimits::default() }
}

/// One call against a server with these acts; nothing that comes out of it may show a secret.
/// A call that a person waits for.
pub(crate) async fn try_call(
    llm: &Llm,
    endpoint: &Endpoint,
    limits: &CallLimits,
    request: &CompletionRequest,
) -> Result<Completion, Failure> {
    let recorder = Recorder { priority: Priority::Interactive, ..Recorder::default() };
    llm.complete(endpoint, &choice("m"), limits, request, Arc::new(recorder)).await
}

pub(crate) async fn call(
    llm: &Llm,
    endpoint: &Endpoint,
    limits: &CallLimits,
    request: &CompletionRequest,
) -> (Result<Completion, Failure>, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let result = llm.complete(endpoint, &choice("m"), limits, request, recorder.clone()).await;
    let shown = format!("{result:?} {:?} {endpoint:?}", recorder.calls());
    assert!(!shown.contains(KEY) && !shown.contains(HEADER), "{shown}");
    (result, recorder)
}
