//! Rate limits of connections, with scripted replies and without network. Durations are compared with lower bounds only.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod support;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use perpend_llm::{
    Admission, CallLimits, CallObserver, Endpoint, ErrorClass, Estimate, Failure, Llm, Priority,
    Protocol, ProviderAnswer, ProviderCall, QueueKey,
};
use perpend_worker_protocol::host_call::Role;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc, oneshot};

use support::{Act, GOOD, Recorder, Server, choice, endpoint, llm, mock, quick, reply, request};

fn busy(latency_ms: u64) -> Endpoint {
    let mut endpoint = mock(json!({ "replies": [
        { "contains": "limit me", "error": { "status": 429, "retryAfterSeconds": 1 } },
        { "reply": "ok", "latencyMs": latency_ms },
    ] }));
    endpoint.max_in_flight = 2;
    endpoint
}

async fn limit(llm: &Llm, endpoint: &Endpoint) {
    let mut request = request();
    request.messages[1] = support::message(Role::User, "limit me");
    let limits = CallLimits::default();
    let (result, _) = support::call(llm, endpoint, &limits, &request).await;
    let failure = result.err().map(|failure| (failure.class, failure.retry_after));
    let wait = Some(Duration::from_secs(1));
    assert_eq!(failure, Some((ErrorClass::RateLimited, wait)));
}

#[tokio::test]
async fn concurrent_calls_are_limited_by_the_connection() {
    let (llm, endpoint) = (llm(), busy(60));
    let limits = CallLimits::default();
    let started = Instant::now();
    let request = request();
    let call = || support::call(&llm, &endpoint, &limits, &request);
    let all = futures_util::future::join_all((0..6).map(|_| call())).await;
    assert!(all.iter().all(|(result, _)| result.is_ok()));
    // Three pairs, one after the other.
    assert!(Duration::from_millis(180) <= started.elapsed());
}

#[tokio::test]
async fn waiting_for_a_place_does_not_count_towards_the_timeout() {
    // Each request takes most of the time limit, and the last one waits for five of them.
    let (llm, mut endpoint) = (llm(), busy(300));
    endpoint.max_in_flight = 1;
    let (limits, request) = (quick(), request());
    let call = || support::call(&llm, &endpoint, &limits, &request);
    let all = futures_util::future::join_all((0..6).map(|_| call())).await;
    for (result, recorder) in all {
        assert!(result.is_ok(), "{result:?}");
        assert_eq!(recorder.outcomes(), ["ok"]);
    }
}

#[tokio::test]
async fn retry_after_delays_all_calls_of_the_connection() {
    let (llm, endpoint) = (llm(), busy(0));
    let started = Instant::now();
    limit(&llm, &endpoint).await;
    let at_once = CallLimits { timeout: Duration::from_millis(1), ..CallLimits::default() };
    let (result, _) = support::call(&llm, &endpoint, &at_once, &request()).await;
    let failure = result.unwrap_err();
    assert_eq!(failure.class, ErrorClass::RateLimited);
    assert!(failure.is_unsent);
    assert!(failure.retry_after.unwrap() <= Duration::from_secs(1));
    let (result, _) = support::call(&llm, &endpoint, &CallLimits::default(), &request()).await;
    assert!(result.is_ok());
    assert!(Duration::from_secs(1) <= started.elapsed());
    let mut other = busy(0);
    other.connection_id = "c2".to_owned();
    limit(&llm, &endpoint).await;
    let (result, _) = support::call(&llm, &other, &CallLimits::default(), &request()).await;
    assert!(result.is_ok(), "another connection is open");
}

#[tokio::test]
async fn a_503_with_retry_after_closes_the_connection_until_it_is_saved() {
    let down = Act::JsonWithHeaders(
        503,
        "retry-after: 31536000\r\n",
        json!({ "error": { "message": "down" } }),
    );
    let server = Server::start(vec![down, reply(GOOD)]).await;
    let mut endpoint = endpoint(Protocol::OpenAi, &server.url);
    let llm = llm();
    let call = async |endpoint: &Endpoint| {
        support::call(&llm, endpoint, &CallLimits::default(), &request()).await.0
    };
    let failure = call(&endpoint).await.unwrap_err();
    assert_eq!(failure.class, ErrorClass::UpstreamUnavailable);
    assert_eq!(failure.retry_after, Some(Duration::from_secs(900)));
    let failure = call(&endpoint).await.unwrap_err();
    assert!(failure.is_unsent && failure.class == ErrorClass::RateLimited);
    let closed = llm.connection_pause(&endpoint.connection_id).unwrap();
    assert!(
        Duration::from_secs(880) < closed.remaining && closed.remaining <= Duration::from_secs(900)
    );
    assert_eq!(server.received().len(), 1);
    endpoint.saved_at += 1;
    assert!(call(&endpoint).await.is_ok());
    assert!(llm.connection_pause(&endpoint.connection_id).is_none());
}

#[tokio::test]
async fn a_rejected_key_is_used_at_most_once_per_place_until_the_connection_is_saved() {
    for (status, class) in [(401, ErrorClass::AuthInvalid), (402, ErrorClass::BillingExhausted)] {
        let refused = Act::Json(status, json!({ "error": { "message": "no" } }));
        let mut acts = vec![refused; 3];
        acts.push(reply(GOOD));
        let server = Server::start(acts).await;
        let mut endpoint = endpoint(Protocol::OpenAi, &server.url);
        endpoint.max_in_flight = 2;
        let llm = llm();
        let (limits, plain) = (CallLimits::default(), request());
        let all = (0..50).map(|_| support::call(&llm, &endpoint, &limits, &plain));
        let all = futures_util::future::join_all(all).await;
        assert!(
            all.iter()
                .all(|(result, _)| result.as_ref().is_err_and(|failure| failure.class == class))
        );
        assert_eq!(server.received().len(), 2);
        // A trial sends its request in any case.
        let trial = async || support::try_call(&llm, &endpoint, &limits, &plain).await;
        assert_eq!(trial().await.unwrap_err().class, class);
        assert_eq!(server.received().len(), 3);
        let (result, _) = support::call(&llm, &endpoint, &limits, &plain).await;
        assert!(result.unwrap_err().is_unsent);
        assert!(trial().await.is_ok());
        let (result, _) = support::call(&llm, &endpoint, &limits, &plain).await;
        assert!(result.is_ok(), "the trial proved that the key works again");
    }
    let server = Server::start(vec![Act::Json(401, json!({})), reply(GOOD)]).await;
    let mut endpoint = endpoint(Protocol::OpenAi, &server.url);
    let llm = llm();
    let limits = CallLimits::default();
    let (first, _) = support::call(&llm, &endpoint, &limits, &request()).await;
    assert!(!first.unwrap_err().is_unsent);
    endpoint.saved_at += 1;
    let (saved, _) = support::call(&llm, &endpoint, &limits, &request()).await;
    assert!(saved.is_ok());
}

#[tokio::test]
async fn a_403_does_not_stop_other_requests_of_the_connection() {
    let forbidden = |message: &str| Act::Json(403, json!({ "error": { "message": message } }));
    let of_model = forbidden("Project `p` does not have access to model `m`");
    let server = Server::start(vec![of_model, forbidden("no"), reply(GOOD)]).await;
    let endpoint = endpoint(Protocol::OpenAi, &server.url);
    let (llm, limits, plain) = (llm(), CallLimits::default(), request());
    let call = async || support::call(&llm, &endpoint, &limits, &plain).await.0;
    assert_eq!(call().await.unwrap_err().class, ErrorClass::ModelUnavailable);
    assert_eq!(call().await.unwrap_err().class, ErrorClass::ModelConfigInvalid);
    assert!(call().await.is_ok());
}

#[tokio::test]
async fn a_trial_that_fails_after_the_key_was_accepted_ends_the_refusal() {
    for (status, class) in [
        (400, ErrorClass::InvalidInput),
        (404, ErrorClass::ModelConfigInvalid),
        (429, ErrorClass::RateLimited),
    ] {
        let act = |status| Act::Json(status, json!({ "error": { "message": "no" } }));
        let server = Server::start(vec![act(401), act(status), reply(GOOD)]).await;
        let endpoint = endpoint(Protocol::OpenAi, &server.url);
        let (llm, limits, plain) = (llm(), CallLimits::default(), request());
        let call = async || support::call(&llm, &endpoint, &limits, &plain).await.0;
        assert_eq!(call().await.unwrap_err().class, ErrorClass::AuthInvalid);
        assert!(call().await.unwrap_err().is_unsent);
        let trial = support::try_call(&llm, &endpoint, &limits, &plain).await;
        assert_eq!(trial.unwrap_err().class, class);
        assert!(call().await.is_ok());
    }
}

#[tokio::test]
async fn after_a_429_requests_start_at_the_rate_of_the_bucket() {
    let (llm, mut endpoint) = (llm(), busy(0));
    endpoint.max_in_flight = 100;
    let started = Instant::now();
    limit(&llm, &endpoint).await;
    let limits = CallLimits::default();
    let request = request();
    let call = || support::call(&llm, &endpoint, &limits, &request);
    let all = futures_util::future::join_all((0..8).map(|_| call())).await;
    assert!(all.iter().all(|(result, _)| result.is_ok()));
    // A second closed, in which five tokens gather; three more at 5/s, a little faster with time.
    assert!(Duration::from_millis(1550) <= started.elapsed());
}

/// A provider that holds each request until it is released.
struct ManualProvider {
    url: String,
    /// The texts of the requests that arrived, in order.
    arrived: mpsc::UnboundedReceiver<support::Arrived>,
}

impl ManualProvider {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (sender, arrived) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(support::serve_on_release(stream, sender.clone()));
            }
        });
        Self { url, arrived }
    }

    async fn next(&mut self) -> support::Arrived {
        self.arrived.recv().await.unwrap()
    }
}

/// An observer with its own queue key and a shared budget.
struct Rule {
    queue_key: QueueKey,
    budget: Option<Arc<Budget>>,
    ended: mpsc::UnboundedSender<ProviderCall>,
}

/// Admits one request at a time.
#[derive(Default)]
struct Budget {
    is_used: Mutex<bool>,
    released: tokio::sync::Notify,
}

impl CallObserver for Rule {
    fn recorded_answer(&self, _: u32) -> Option<ProviderAnswer> {
        None
    }

    fn queue_key(&self) -> QueueKey {
        self.queue_key.clone()
    }

    fn before_send<'a>(&'a self, _: &'a Estimate) -> BoxFuture<'a, Result<Admission, Failure>> {
        let has_room = self.budget.as_ref().is_none_or(|budget| {
            let mut is_used = budget.is_used.lock().unwrap();
            !std::mem::replace(&mut *is_used, true)
        });
        let admission = match has_room {
            true => Admission::Send(None),
            false => Admission::OverBudget,
        };
        Box::pin(std::future::ready(Ok(admission)))
    }

    fn budget_available(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async {
            if let Some(budget) = &self.budget {
                let released = budget.released.notified();
                if *budget.is_used.lock().unwrap() {
                    released.await;
                }
            }
            Ok(())
        })
    }

    fn after_exchange(
        &self,
        call: ProviderCall,
        _: Option<ProviderAnswer>,
    ) -> BoxFuture<'_, Result<(), Failure>> {
        if let Some(budget) = &self.budget {
            *budget.is_used.lock().unwrap() = false;
            budget.released.notify_waiters();
        }
        drop(self.ended.send(call));
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Calls of rules against a provider that holds them.
struct RuleCalls {
    provider: ManualProvider,
    llm: Llm,
    endpoint: Endpoint,
    ended: mpsc::UnboundedReceiver<ProviderCall>,
    sender: mpsc::UnboundedSender<ProviderCall>,
}

impl RuleCalls {
    async fn new(n_places: usize) -> Self {
        let provider = ManualProvider::start().await;
        let mut endpoint = support::endpoint(Protocol::OpenAi, &provider.url);
        endpoint.max_in_flight = n_places;
        let (sender, ended) = mpsc::unbounded_channel();
        Self { provider, llm: llm(), endpoint, ended, sender }
    }

    /// Starts a call that sends `text`, and polls it until it waits.
    async fn call(
        &self,
        text: &str,
        (priority, key): (Priority, &str),
        budget: Option<&Arc<Budget>>,
    ) -> tokio::task::JoinHandle<bool> {
        let observer = Arc::new(Rule {
            queue_key: QueueKey { priority, group: key.to_owned() },
            budget: budget.cloned(),
            ended: self.sender.clone(),
        });
        let mut request = request();
        request.messages[1] = support::message(Role::User, text);
        let (llm, endpoint) = (self.llm.clone(), self.endpoint.clone());
        let call = tokio::spawn(async move {
            let (choice, limits) = (choice("m"), CallLimits::default());
            let called = llm.complete(&endpoint, &choice, &limits, &request, observer);
            called.await.is_ok()
        });
        // On one thread the call now waits in line.
        tokio::task::yield_now().await;
        call
    }
}

#[tokio::test]
async fn rules_take_turns_on_a_connection_and_interactive_calls_are_first() {
    const BACKGROUND: Priority = Priority::Background;
    let mut calls_of_rules = RuleCalls::new(2).await;
    let mut calls = Vec::new();
    for n in 0..20 {
        calls.push(calls_of_rules.call(&format!("a{n}"), (BACKGROUND, "a"), None).await);
    }
    calls.push(calls_of_rules.call("b", (BACKGROUND, "b"), None).await);
    calls.push(calls_of_rules.call("trial", (Priority::Interactive, "t"), None).await);
    let mut order = Vec::new();
    let mut releases = VecDeque::new();
    for _ in 0..calls.len() {
        if releases.len() == 2 {
            let release: oneshot::Sender<()> = releases.pop_front().unwrap();
            release.send(()).unwrap();
        }
        let (text, release) = calls_of_rules.provider.next().await;
        order.push(text);
        releases.push_back(release);
    }
    releases.into_iter().for_each(|release| release.send(()).unwrap());
    for call in calls {
        assert!(call.await.unwrap(), "a call failed");
    }
    let place = |expected: &str| order.iter().position(|text| text == expected).unwrap();
    assert!(place("trial") < 4 && place("b") < 4, "{order:?}");
}

#[tokio::test]
async fn waiting_for_a_budget_does_not_delay_other_rules() {
    let mut calls_of_rules = RuleCalls::new(2).await;
    let budget = Arc::new(Budget::default());
    let mut calls = Vec::new();
    for n in 0..10 {
        let text = format!("a{n}");
        let call = calls_of_rules.call(&text, (Priority::Background, "a"), Some(&budget));
        calls.push(call.await);
    }
    let (_, first) = calls_of_rules.provider.next().await;
    let call = calls_of_rules.call("b", (Priority::Background, "b"), None).await;
    let (text, release) = calls_of_rules.provider.next().await;
    assert_eq!(text, "b", "the second place is free for it");
    release.send(()).unwrap();
    assert!(call.await.unwrap());
    first.send(()).unwrap();
    for _ in 1..10 {
        calls_of_rules.provider.next().await.1.send(()).unwrap();
    }
    for call in calls {
        assert!(call.await.unwrap());
    }
}

#[tokio::test]
async fn the_answer_to_a_sent_request_is_reported_after_its_call_is_dropped() {
    let mut calls_of_rules = RuleCalls::new(1).await;
    let call = calls_of_rules.call("sent", (Priority::Background, "a"), None).await;
    let (_, release) = calls_of_rules.provider.next().await;
    let waiting = calls_of_rules.call("waiting", (Priority::Background, "a"), None).await;
    call.abort();
    waiting.abort();
    assert!(call.await.is_err() && waiting.await.is_err());
    let next = calls_of_rules.call("next", (Priority::Background, "a"), None).await;
    release.send(()).unwrap();
    let ended = calls_of_rules.ended.recv().await.unwrap();
    assert!(ended.outcome.is_ok(), "{ended:?}");
    let (text, release) = calls_of_rules.provider.next().await;
    assert_eq!(text, "next", "a call that waited and is gone is not sent");
    release.send(()).unwrap();
    assert!(next.await.unwrap());
}

/// Notes an exchange when it is allowed to.
struct DelayingObserver {
    started: mpsc::UnboundedSender<()>,
    allowed: Arc<Semaphore>,
}

impl CallObserver for DelayingObserver {
    fn recorded_answer(&self, _: u32) -> Option<ProviderAnswer> {
        None
    }

    fn before_send<'a>(&'a self, _: &'a Estimate) -> BoxFuture<'a, Result<Admission, Failure>> {
        Box::pin(std::future::ready(Ok(Admission::Send(None))))
    }

    fn after_exchange(
        &self,
        _: ProviderCall,
        _: Option<ProviderAnswer>,
    ) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async {
            self.started.send(()).unwrap();
            self.allowed.acquire().await.unwrap().forget();
            Ok(())
        })
    }
}

#[tokio::test]
async fn a_place_is_returned_after_the_cost_of_its_request_is_recorded() {
    let (llm, mut endpoint) = (llm(), busy(0));
    endpoint.max_in_flight = 1;
    let (started, mut noting) = mpsc::unbounded_channel();
    let allowed = Arc::new(Semaphore::new(0));
    let start = || {
        let observer =
            Arc::new(DelayingObserver { started: started.clone(), allowed: Arc::clone(&allowed) });
        let (llm, endpoint, request) = (llm.clone(), endpoint.clone(), request());
        tokio::spawn(async move {
            let (choice, limits) = (choice("m"), CallLimits::default());
            let called = llm.complete(&endpoint, &choice, &limits, &request, observer);
            called.await.is_ok()
        })
    };
    let first = start();
    noting.recv().await.unwrap();
    let second = start();
    tokio::task::yield_now().await;
    let used = llm.connection_usage(&endpoint.connection_id);
    assert_eq!((used.n_in_flight, used.n_waiting), (1, 1));
    allowed.add_permits(2);
    assert!(first.await.unwrap() && second.await.unwrap());
}

#[tokio::test]
async fn a_scripted_reply_that_takes_too_long_times_out() {
    let (llm, endpoint) = (llm(), busy(60_000));
    let started = Instant::now();
    let recorder = Arc::new(Recorder::default());
    let (limits, choice, request) = (quick(), choice("m"), request());
    let called = llm.complete(&endpoint, &choice, &limits, &request, recorder.clone());
    assert_eq!(called.await.unwrap_err().class, ErrorClass::UpstreamTimeout);
    assert!(limits.timeout <= started.elapsed());
    assert_eq!(recorder.outcomes(), ["upstream_timeout"]);
}
