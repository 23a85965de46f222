//! Host calls of guests in confined workers, through the broker and on the real store: granted models, traces page by
//! page, and the limits of one evaluation.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use perpend_broker::{Broker, Models};
use perpend_domain::ids::{EvaluatorId, EvaluatorVersionId, ProjectId};
use perpend_domain::plugin::{
    CallOrigin, Digest, EvaluationCall, EvaluatorContext, Grants, Item, Limits, Purpose, TraceRef,
};
use perpend_domain::slots::ModelFailure;
use perpend_it::{TestApp, Trace};
use perpend_worker_pool::{Caller, ComponentSource, HostCalls, Options, Workers};
use perpend_worker_protocol::host_call::{
    Allowance, Completion, CompletionRequest, FinishReason, MAX_SCANNED_BYTES, MAX_TRACE_QUERIES,
    Message, ModelError, ObservationPart, Role, TraceError,
};
use perpend_worker_protocol::{HostReply, HostRequest};

use crate::guest::Guest;

/// Models that echo their request, and record the project and text of each.
#[derive(Default)]
struct Parrot(Mutex<Vec<(ProjectId, String)>>);

impl Models for Parrot {
    fn complete<'a>(
        &'a self,
        origin: &'a Arc<CallOrigin>,
        _: usize,
        request: CompletionRequest,
    ) -> BoxFuture<'a, Result<Completion, ModelFailure>> {
        let setup: String = request.messages.into_iter().map(|m| m.texts()).collect();
        let text = format!("answer to {setup}");
        self.0.lock().unwrap().push((origin.context.project.clone(), setup));
        Box::pin(std::future::ready(Ok(Completion {
            text,
            structured: None,
            finish: FinishReason::Stop,
            input_tokens: 1,
            output_tokens: 1,
            logprobs: Vec::new(),
            tool_calls: Vec::new(),
            model: "parrot".into(),
            from_cache: false,
        })))
    }

    fn embed<'a>(
        &'a self,
        _: &'a Arc<CallOrigin>,
        _: usize,
        _: Option<String>,
        texts: Vec<String>,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, ModelFailure>> {
        let vectors = texts.iter().map(|text| vec![text.len() as f32]).collect();
        Box::pin(std::future::ready(Ok(vectors)))
    }
}

struct Registered(HashMap<Digest, Vec<u8>>);

impl ComponentSource for Registered {
    fn component(&self, digest: Digest) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(std::future::ready(self.0.get(&digest).cloned()))
    }
}

/// A server whose broker uses the echoing models.
pub(crate) struct BrokerSetup {
    pub(crate) app: TestApp,
    parrot: Arc<Parrot>,
    broker: Arc<Broker>,
    project: ProjectId,
}

impl BrokerSetup {
    pub(crate) async fn new() -> Self {
        let app = TestApp::new().await.unwrap();
        let parrot = Arc::new(Parrot::default());
        let models = Arc::clone(&parrot) as Arc<dyn Models>;
        let broker = Arc::new(Broker::new(&app.app.store, models));
        let projects = app.client.get("/api/public/projects").await.unwrap().json();
        let project = ProjectId::new(projects["data"][0]["id"].as_str().unwrap()).unwrap();
        Self { app, parrot, broker, project }
    }

    pub(crate) fn call(&self, plugin: Digest, grants: Grants, trace: &str) -> EvaluationCall {
        EvaluationCall {
            plugin,
            evaluator_id: "one".into(),
            config: "{}".into(),
            item: Item {
                id: "item".into(),
                trace: Some(TraceRef { trace_id: trace.into(), observation_id: None }),
                ..Item::default()
            }
            .into(),
            seed: 7,
            run_time_ms: 1_000,
            limits: Limits::default(),
            purpose: Purpose::Evaluate,
            origin: Some(Arc::new(CallOrigin::new(
                &Arc::new(EvaluatorContext {
                    project: self.project.clone(),
                    evaluator: EvaluatorId::new("evaluator").unwrap(),
                    version: EvaluatorVersionId::new("version").unwrap(),
                    grants,
                    slots: Vec::new(),
                }),
                None,
            ))),
        }
    }

    /// The comment of the guest's score; the guest runs in a worker of its own.
    async fn says(&self, guest: &Guest<'_>, grants: Grants, trace: &str) -> String {
        let bytes = guest.bytes();
        let digest = Digest::of(&bytes);
        let program = perpend_it::command(&[]).unwrap();
        let program = PathBuf::from(program.as_std().get_program());
        let cache = self.app.data_dir().join("cache-of-this-test");
        let registered = Arc::new(Registered([(digest, bytes)].into()));
        let host_calls = Arc::clone(&self.broker) as Arc<dyn HostCalls>;
        let workers = Workers::start(Options::new(program, cache), registered, host_calls);
        let call = self.call(digest, grants, trace);
        let answers = workers.evaluate(vec![call]).await;
        workers.shutdown().await;
        let scores = answers[0].outcome.as_ref().unwrap();
        scores[0].comment.clone().unwrap_or_default()
    }

    /// Calls the broker like a worker that does not count its calls.
    pub(crate) async fn asks(
        &self,
        call: &Arc<EvaluationCall>,
        spent: &Arc<Allowance>,
        what: HostRequest,
    ) -> HostReply {
        let caller = Caller { project: None, call: Arc::clone(call), allowance: Arc::clone(spent) };
        self.broker.host_call(caller, what).await
    }
}

/// Appends bytes of the other memory to the comment of the score.
const APPEND: &str = r#"(global $out (mut i32) (i32.const 0x20000))
  (func $append (param $ptr i32) (param $len i32)
    (local $n i32)
    (block $done (loop $more
      (br_if $done (i32.ge_u (local.get $n) (local.get $len)))
      (i32.store8 (i32.add (global.get $out) (local.get $n))
        (call $load (i32.add (local.get $ptr) (local.get $n))))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br $more)))
    (global.set $out (i32.add (global.get $out) (local.get $len)))
    (i32.store (i32.const 0x624) (i32.const 1))
    (i32.store (i32.const 0x628) (i32.const 0x20000))
    (i32.store (i32.const 0x62c) (i32.sub (global.get $out) (i32.const 0x20000))))"#;

/// The memory of lowered functions, with these bytes in it.
fn side(data: &[(u32, Vec<u8>)]) -> String {
    let mut segments = String::new();
    for (at, bytes) in data {
        let escaped = bytes.iter().fold(String::new(), |mut escaped, byte| {
            let _ = write!(escaped, "\\{byte:02x}");
            escaped
        });
        let _ = write!(segments, "(data (i32.const {at}) \"{escaped}\")");
    }
    format!(
        r#"(core module $side (memory (export "memory") 4) {segments}
          (global $next (mut i32) (i32.const 0x1000))
          (func (export "realloc") (param i32 i32 i32 i32) (result i32)
            (local $at i32)
            (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
            (global.set $next (i32.add (local.get $at) (local.get 3)))
            (local.get $at))
          (func (export "load") (param i32) (result i32) (i32.load (local.get 0)))
          (func (export "store") (param i32 i32) (i32.store (local.get 0) (local.get 1))))
        (core instance $side (instantiate $side))
        (alias core export $side "load" (core func $load))
        (alias core export $side "store" (core func $store))"#
    )
}

const COMPLETE_ALL: &str = r#"
    (import "perpend:evaluator/model@1.0.0" (instance $model
      (type $role' (enum "system" "user" "assistant" "tool")) (export "role" (type $role (eq $role')))
      (type $tool-call' (record (field "id" string) (field "name" string) (field "arguments" string)))
      (export "tool-call" (type $tool-call (eq $tool-call')))
      (type $tool-result' (record (field "call-id" string) (field "content" string) (field "is-error" bool)))
      (export "tool-result" (type $tool-result (eq $tool-result')))
      (type $part' (variant (case "text" string) (case "image" string) (case "audio" string)
        (case "file" string) (case "tool-call" $tool-call) (case "tool-result" $tool-result)))
      (export "part" (type $part (eq $part')))
      (type $message' (record (field "role" $role) (field "parts" (list $part))))
      (export "message" (type $message (eq $message')))
      (export "request" (type $request (sub resource)))
      (export "completion" (type $completion (sub resource)))
      (type $error' (variant (case "not-granted" string) (case "invalid-request" string)
        (case "budget-exhausted" string) (case "timeout" string) (case "rate-limited" string)
        (case "refused" string) (case "invalid-response" string) (case "unavailable" string)
        (case "cancelled")))
      (export "model-error" (type $error (eq $error')))
      (export "[constructor]request" (func (param "messages" (list $message)) (result (own $request))))
      (export "[method]completion.text" (func (param "self" (borrow $completion)) (result string)))
      (export "complete-all" (func (param "requests" (list (own $request)))
        (result (list (result (own $completion) (error $error))))))))
    (core func $request (canon lower (func $model "[constructor]request")
      (memory (core memory $side "memory"))))
    (core func $text (canon lower (func $model "[method]completion.text")
      (memory (core memory $side "memory")) (realloc (core func $side "realloc"))))
    (core func $all (canon lower (func $model "complete-all")
      (memory (core memory $side "memory")) (realloc (core func $side "realloc"))))"#;

fn words(words: &[usize]) -> Vec<u8> {
    let words = words.iter().map(|word| u32::try_from(*word).unwrap());
    words.flat_map(u32::to_le_bytes).collect()
}

/// Calls `model.complete-all` with one message per question; returns the replies or the errors.
async fn judged(setup: &BrokerSetup, grants: Grants, questions: &[&str]) -> String {
    // A message has 12 bytes, its one part 28; requests are handles.
    let (requests, messages, parts, texts, bar) = (0x400, 0x300, 0x500, 0x200, 0x2f0);
    let mut data = vec![(bar, b"|".to_vec())];
    let mut at = texts;
    let mut making = String::new();
    for (n, question) in questions.iter().enumerate() {
        let (message, part) = (messages + 12 * n, parts + 28 * n);
        data.push((at as u32, question.as_bytes().to_vec()));
        data.push((part as u32, words(&[0, at, question.len()])));
        data.push((message as u32, words(&[1, part, 1])));
        let _ = write!(
            making,
            "(call $store (i32.const {}) (call $request (i32.const {message}) (i32.const 1)))",
            requests + 4 * n
        );
        at += question.len();
    }
    let n = questions.len();
    let evaluate = format!(
        "(local $at i32) (local $n i32)
        {making}
        (call $all (i32.const {requests}) (i32.const {n}) (i32.const 256))
        (if (i32.ne (call $load (i32.const 260)) (i32.const {n})) (then unreachable))
        (local.set $at (call $load (i32.const 256)))
        (loop $more
          (if (i32.and (call $load (local.get $at)) (i32.const 255))
            (then (call $append (call $load (i32.add (local.get $at) (i32.const 8)))
                                (call $load (i32.add (local.get $at) (i32.const 12)))))
            (else (call $text (call $load (i32.add (local.get $at) (i32.const 4))) (i32.const 264))
                  (call $append (call $load (i32.const 264)) (call $load (i32.const 268)))))
          (call $append (i32.const {bar}) (i32.const 1))
          (local.set $at (i32.add (local.get $at) (i32.const 16)))
          (local.set $n (i32.add (local.get $n) (i32.const 1)))
          (br_if $more (i32.lt_u (local.get $n) (i32.const {n}))))"
    );
    let guest = Guest {
        imports: &[&side(&data), COMPLETE_ALL].concat(),
        with: r#"(with "host" (instance (export "all" (func $all)) (export "request" (func $request))
            (export "text" (func $text)) (export "load" (func $load)) (export "store" (func $store))))"#,
        core_imports: r#"(import "host" "all" (func $all (param i32 i32 i32)))
            (import "host" "request" (func $request (param i32 i32) (result i32)))
            (import "host" "text" (func $text (param i32 i32)))
            (import "host" "store" (func $store (param i32 i32)))
            (import "host" "load" (func $load (param i32) (result i32)))"#,
        fields: APPEND,
        evaluate: &evaluate,
        ..Guest::default()
    };
    setup.says(&guest, grants, "none").await
}

#[tokio::test]
async fn a_guest_with_models_gets_all_replies_in_order() {
    let setup = BrokerSetup::new().await;
    let model = Grants::NONE.with("model").unwrap();
    let comment = judged(&setup, model, &["one?", "two?", "and three?"]).await;
    assert_eq!(comment, "answer to one?|answer to two?|answer to and three?|");
    let seen = setup.parrot.0.lock().unwrap().clone();
    let expected = ["one?", "two?", "and three?"].map(|q| (setup.project.clone(), q.to_owned()));
    assert_eq!(seen, expected, "called for the project");
    setup.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_guest_without_models_gets_an_error_and_no_model_is_called() {
    let setup = BrokerSetup::new().await;
    let trace = Grants::NONE.with("trace").unwrap();
    let comment = judged(&setup, trace, &["one?", "two?"]).await;
    assert_eq!(comment, "the capability `model` was not granted|".repeat(2));
    assert!(setup.parrot.0.lock().unwrap().is_empty());
    setup.app.stop().await.unwrap();
}

fn question() -> CompletionRequest {
    CompletionRequest::new(vec![Message::text(Role::User, "?")])
}

#[tokio::test]
async fn model_calls_of_one_evaluation_are_counted_where_they_are_answered() {
    let setup = BrokerSetup::new().await;
    let model = Grants::NONE.with("model").unwrap();
    let call = Arc::new(setup.call(Digest::of(b""), model, "none"));
    let spent = Arc::default();
    for n in [40, 24] {
        let request = HostRequest::Complete(vec![question(); n]);
        let HostReply::Complete(answers) = setup.asks(&call, &spent, request).await else {
            unreachable!()
        };
        assert!(answers.len() == n && answers.iter().all(Result::is_ok));
    }
    let more = HostRequest::Complete(vec![question()]);
    let HostReply::Complete(answers) = setup.asks(&call, &spent, more.clone()).await else {
        unreachable!()
    };
    let refused =
        ModelError::BudgetExhausted("an evaluation can make at most 64 model calls".into());
    assert_eq!(answers, [Err(refused.clone())]);
    let embed = HostRequest::Embed { slot: None, texts: vec!["text".into()] };
    let reply = setup.asks(&call, &spent, embed).await;
    assert_eq!(reply, HostReply::Embed(Err(refused)));
    assert_eq!(setup.parrot.0.lock().unwrap().len(), 64);
    // Another evaluation has its own.
    let reply = setup.asks(&call, &Arc::default(), more).await;
    assert!(matches!(reply, HostReply::Complete(answers) if answers[0].is_ok()));
    setup.app.stop().await.unwrap();
}

#[tokio::test]
async fn bytes_of_traces_of_one_evaluation_are_counted_where_they_are_read() {
    const PIECE: usize = 8 << 20;
    let setup = BrokerSetup::new().await;
    let trace = Trace::new(1, "root").generation("long", &"x".repeat(PIECE));
    setup.app.ingest(&trace).await.unwrap();
    let granted = Grants::NONE.with("trace").unwrap();
    let call = Arc::new(setup.call(Digest::of(b""), granted, &trace.id));
    let spent = Arc::default();
    let read = || HostRequest::Read {
        trace_id: trace.id.clone(),
        observation_id: Trace::span_id(2),
        part: ObservationPart::Output,
    };
    for n in 1..=8 {
        let HostReply::Read(Ok(Some(piece))) = setup.asks(&call, &spent, read()).await else {
            unreachable!("{n}")
        };
        assert_eq!(piece.as_str().len(), PIECE);
    }
    let reply = setup.asks(&call, &spent, read()).await;
    let refused = TraceError::TooLarge("an evaluation can read at most 64 MiB of traces".into());
    assert_eq!(reply, HostReply::Read(Err(refused.clone())));
    let info = HostRequest::GetTrace { trace_id: trace.id.clone() };
    let reply = setup.asks(&call, &spent, info).await;
    assert_eq!(reply, HostReply::GetTrace(Err(refused)));
    setup.app.stop().await.unwrap();
}

#[tokio::test]
async fn searches_without_hits_and_each_question_count() {
    let setup = BrokerSetup::new().await;
    let trace = Trace::new(1, "root").generation("long", &"x".repeat(4 << 10));
    setup.app.ingest(&trace).await.unwrap();
    let granted = Grants::NONE.with("trace").unwrap();
    let call = Arc::new(setup.call(Digest::of(b""), granted, &trace.id));
    let trace_id = || trace.id.clone();
    let refused = |message: &str| TraceError::TooLarge(message.to_owned());
    let looked = refused("the queries of an evaluation can scan at most 1024 MiB of traces");
    for (what, want) in [
        (
            HostRequest::Search { trace_id: trace_id(), text: "y".to_owned(), limit: 1 },
            HostReply::Search(Err(looked.clone())),
        ),
        (
            HostRequest::ReadRange {
                trace_id: trace_id(),
                observation_id: Trace::span_id(2),
                part: ObservationPart::Output,
                offset: 0,
                length: 0,
            },
            HostReply::ReadRange(Err(looked.clone())),
        ),
        (
            HostRequest::Outline { trace_id: trace_id(), parent_id: None, cursor: None, limit: 1 },
            HostReply::Outline(Err(looked)),
        ),
    ] {
        let spent: Arc<Allowance> = Arc::default();
        spent.count_scanned(MAX_SCANNED_BYTES - 100).unwrap();
        assert_eq!(setup.asks(&call, &spent, what).await, want);
    }
    let spent: Arc<Allowance> = Arc::default();
    for _ in 0..MAX_TRACE_QUERIES {
        spent.count_trace_query().unwrap();
    }
    let info = HostRequest::GetTrace { trace_id: trace_id() };
    let reply = setup.asks(&call, &spent, info).await;
    let enough = refused("an evaluation can make at most 10000 trace queries");
    assert_eq!(reply, HostReply::GetTrace(Err(enough)));
    setup.app.stop().await.unwrap();
}

const LIST: &str = r#"
    (import "perpend:evaluator/trace-reader@1.0.0" (instance $traces
      (type $kind' (enum "span" "generation" "event" "agent" "tool" "chain" "retriever" "evaluator"
        "embedding" "guardrail"))
      (export "observation-kind" (type $kind (eq $kind')))
      (type $severity' (enum "debug" "standard" "warning" "error"))
      (export "severity" (type $severity (eq $severity')))
      (type $head' (record (field "id" string) (field "parent-id" (option string)) (field "kind" $kind)
        (field "name" (option string)) (field "start" u64) (field "end" (option u64))
        (field "severity" $severity) (field "status-message" (option string))
        (field "model" (option string)) (field "input-tokens" (option u64))
        (field "output-tokens" (option u64)) (field "input-size" u64) (field "output-size" u64)))
      (export "observation-head" (type $head (eq $head')))
      (type $filter' (record (field "parent-id" (option string)) (field "kinds" (list $kind))
        (field "name" (option string))))
      (export "observation-filter" (type $filter (eq $filter')))
      (type $page' (record (field "observations" (list $head)) (field "next-cursor" (option string))))
      (export "observation-page" (type $page (eq $page')))
      (type $error' (variant (case "not-granted" string) (case "not-found" string)
        (case "too-large" string) (case "unavailable" string) (case "cancelled")))
      (export "trace-error" (type $error (eq $error')))
      (export "list-observations" (func (param "trace-id" string) (param "filter" $filter)
        (param "cursor" (option string)) (param "limit" u32)
        (result (result $page (error $error)))))))
    (core func $list (canon lower (func $traces "list-observations")
      (memory (core memory $side "memory")) (realloc (core func $side "realloc"))))"#;

/// Reads all observations of a trace in pages of two; returns their ids with a bar after each page.
async fn walked(setup: &BrokerSetup, grants: Grants, trace: &Trace) -> String {
    let data = [(64, trace.id.clone().into_bytes()), (120, b" |".to_vec())];
    let guest = Guest {
        imports: &[&side(&data), LIST].concat(),
        with: r#"(with "host" (instance (export "list" (func $list)) (export "load" (func $load))))"#,
        core_imports: r#"(import "host" "list" (func $list
              (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
            (import "host" "load" (func $load (param i32) (result i32)))"#,
        fields: APPEND,
        evaluate: "(local $n i32) (local $at i32) (local $has i32) (local $cursor i32) (local $length i32)
            (block $done (loop $page
              (call $list (i32.const 64) (i32.const 32)
                (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
                (i32.const 0) (i32.const 0) (i32.const 0)
                (local.get $has) (local.get $cursor) (local.get $length) (i32.const 2) (i32.const 256))
              (if (i32.and (call $load (i32.const 256)) (i32.const 255)) (then
                (call $append (call $load (i32.const 264)) (call $load (i32.const 268)))
                (br $done)))
              (local.set $at (call $load (i32.const 260)))
              (local.set $n (call $load (i32.const 264)))
              (loop $head (if (local.get $n) (then
                (call $append (call $load (local.get $at))
                              (call $load (i32.add (local.get $at) (i32.const 4))))
                (call $append (i32.const 120) (i32.const 1))
                (local.set $at (i32.add (local.get $at) (i32.const 144)))
                (local.set $n (i32.sub (local.get $n) (i32.const 1)))
                (br $head))))
              (call $append (i32.const 121) (i32.const 1))
              (local.set $has (i32.and (call $load (i32.const 268)) (i32.const 255)))
              (local.set $cursor (call $load (i32.const 272)))
              (local.set $length (call $load (i32.const 276)))
              (br_if $page (local.get $has))))",
        ..Guest::default()
    };
    setup.says(&guest, grants, &trace.id).await
}

#[tokio::test]
async fn a_guest_walks_over_the_observations_of_its_trace_page_by_page() {
    let setup = BrokerSetup::new().await;
    let trace = ["b", "c", "d", "e"]
        .into_iter()
        .fold(Trace::new(1, "a"), |trace, name| trace.generation(name, "said"));
    setup.app.ingest(&trace).await.unwrap();
    let id = Trace::span_id;
    let granted = Grants::NONE.with("trace").unwrap();
    let comment = walked(&setup, granted, &trace).await;
    let expected = format!("{} {} |{} {} |{} |", id(1), id(2), id(3), id(4), id(5));
    assert_eq!(comment, expected);
    let comment = walked(&setup, Grants::NONE, &trace).await;
    assert_eq!(comment, "the capability `trace` was not granted");
    setup.app.stop().await.unwrap();
}
