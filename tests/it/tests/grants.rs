//! Capabilities of plug-ins: imports are shown, an evaluator without the required grants is refused, and a guest has
//! access to the granted data of its item only. Its scores refer to nothing else.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::guest::{Guest, RESULT, SCORE};
use axum::http::Method;
use perpend_db::DatabaseUrl;
use perpend_it::{KEYS, OTLP, PROCESSES, TestApp, Trace, count};
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};

/// Copies `$len` bytes from `$ptr` of the other memory into the comment of the score.
const SAY: &str = r#"(func $say (param $ptr i32) (param $len i32)
  (local $n i32)
  (block $done (loop $more
    (br_if $done (i32.ge_u (local.get $n) (local.get $len)))
    (i32.store8 (i32.add (i32.const 0x20000) (local.get $n))
      (call $load (i32.add (local.get $ptr) (local.get $n))))
    (local.set $n (i32.add (local.get $n) (i32.const 1)))
    (br $more)))
  (i32.store (i32.const 0x624) (i32.const 1))
  (i32.store (i32.const 0x628) (i32.const 0x20000))
  (i32.store (i32.const 0x62c) (local.get $len)))"#;

/// The memory of lowered functions, with two texts in it: at 64 and at 128.
fn side(first: &str, second: &str) -> String {
    format!(
        r#"(core module $side (memory (export "memory") 4)
          (data (i32.const 64) "{first}") (data (i32.const 128) "{second}")
          (global $next (mut i32) (i32.const 0x1000))
          (func (export "realloc") (param i32 i32 i32 i32) (result i32)
            (local $at i32)
            (local.set $at (i32.and (i32.add (global.get $next) (i32.const 15)) (i32.const -8)))
            (global.set $next (i32.add (local.get $at) (local.get 3)))
            (local.get $at))
          (func (export "load") (param i32) (result i32) (i32.load (local.get 0))))
        (core instance $side (instantiate $side))
        (alias core export $side "load" (core func $load))"#
    )
}

/// Returns the output of `observation` of `trace`, or the reason why it cannot be read.
fn trace_guest(trace: &str, observation: &str) -> Vec<u8> {
    let imports = [
        &side(trace, observation),
        r#"(alias export $types "payload" (type $payload))
        (import "perpend:evaluator/trace-reader@1.0.0" (instance $traces
          (alias outer 1 $payload (type $outer)) (export "payload" (type $payload (eq $outer)))
          (type $error' (variant (case "not-granted" string) (case "not-found" string)
            (case "too-large" string) (case "unavailable" string) (case "cancelled")))
          (export "trace-error" (type $error (eq $error')))
          (export "read-output" (func (param "trace-id" string) (param "observation-id" string)
            (result (result (option $payload) (error $error)))))))
        (core func $read (canon lower (func $traces "read-output")
          (memory (core memory $side "memory")) (realloc (core func $side "realloc"))))"#,
    ]
    .concat();
    Guest {
        imports: &imports,
        with: r#"(with "host" (instance (export "read" (func $read)) (export "load" (func $load))))"#,
        core_imports: r#"(import "host" "read" (func $read (param i32 i32 i32 i32 i32)))
            (import "host" "load" (func $load (param i32) (result i32)))"#,
        fields: SAY,
        evaluate: "(call $read (i32.const 64) (i32.const 32) (i32.const 128) (i32.const 16) (i32.const 256))
            (if (i32.and (call $load (i32.const 256)) (i32.const 255))
              (then (call $say (call $load (i32.const 264)) (call $load (i32.const 268))))
              (else (call $say (call $load (i32.const 268)) (call $load (i32.const 272)))))",
        // It needs the output and the trace of the item.
        describe: "(i32.store8 (i32.const 0x320) (i32.const 0x12))",
        ..Guest::default()
    }
    .bytes()
}

/// Returns the error of a model call.
fn model_guest() -> Vec<u8> {
    let imports = [
        &side("", ""),
        r#"(import "perpend:evaluator/model@1.0.0" (instance $model
          (type $error' (variant (case "not-granted" string) (case "invalid-request" string)
            (case "budget-exhausted" string) (case "timeout" string) (case "rate-limited" string)
            (case "refused" string) (case "invalid-response" string) (case "unavailable" string)
            (case "cancelled")))
          (export "model-error" (type $error (eq $error')))
          (export "embed" (func (param "slot" (option string)) (param "texts" (list string))
            (result (result (list (list f32)) (error $error)))))))
        (core func $embed (canon lower (func $model "embed")
          (memory (core memory $side "memory")) (realloc (core func $side "realloc"))))"#,
    ]
    .concat();
    Guest {
        imports: &imports,
        with: r#"(with "host" (instance (export "embed" (func $embed)) (export "load" (func $load))))"#,
        core_imports: r#"(import "host" "embed" (func $embed (param i32 i32 i32 i32 i32 i32)))
            (import "host" "load" (func $load (param i32) (result i32)))"#,
        fields: SAY,
        evaluate: "(call $embed (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 256))
            (if (i32.ne (i32.and (call $load (i32.const 256)) (i32.const 255)) (i32.const 1)) (then unreachable))
            (call $say (call $load (i32.const 264)) (call $load (i32.const 268)))",
        // One slot for embeddings, which has to be filled.
        describe: "(i32.store (i32.const 0x324) (i32.const 0x700)) (i32.store (i32.const 0x328) (i32.const 1))
            (i32.store (i32.const 0x700) (i32.const 0x160)) (i32.store (i32.const 0x704) (i32.const 3))
            (i32.store (i32.const 0x708) (i32.const 0x160)) (i32.store (i32.const 0x70c) (i32.const 0))
            (i32.store16 (i32.const 0x710) (i32.const 0x0101))",
        ..Guest::default()
    }
    .bytes()
}

/// Registers a component; the answer, and the reference to it.
async fn upload(app: &TestApp, bytes: Vec<u8>) -> (Value, String) {
    let headers = [("content-type", "application/wasm")];
    let answer = app.client.send(Method::POST, "/api/v1/plugins", &headers, bytes).await.unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text());
    let plugin = answer.json();
    let digest = plugin["digest"].as_str().unwrap().to_owned();
    (plugin, format!("sha256:{digest}"))
}

fn evaluator(plugin: &str, grants: &Value) -> Value {
    json!({ "type": "plugin", "name": "guest", "plugin": plugin, "evaluator": "one", "grants": grants })
}

/// The comment of the only score, once a generation of `trace` was scored by an evaluator with `grants`.
async fn comment(app: &TestApp, plugin: &str, grants: Value, trace: &Trace) -> String {
    let body = evaluator(plugin, &grants);
    let path = "/api/public/v2/evaluators";
    let made = app.client.json(Method::POST, path, &body).await.unwrap();
    assert_eq!(made.status, 200, "{}", made.text());
    assert_eq!(made.json()["grants"], grants);
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let filter = json!([{ "type": "stringOptions", "column": "name", "operator": "any of", "value": ["answer"] }]);
    app.rule(&id, json!({ "filter": filter })).await.unwrap();
    app.ingest(trace).await.unwrap();
    let scores = app.scores(1).await.unwrap();
    scores[0]["comment"].as_str().unwrap_or_default().to_owned()
}

fn two_steps(number: u64) -> Trace {
    Trace::new(number, "root")
        .generation("lookup", "what the lookup gave")
        .generation("answer", "what is scored")
}

async fn reads_the_trace_of_its_item(app: TestApp) {
    let trace = two_steps(1);
    let (plugin, reference) = upload(&app, trace_guest(&trace.id, &Trace::span_id(2))).await;
    assert_eq!(plugin["capabilities"], json!(["trace"]));

    // Not granted: there is no such evaluator, and the answer names the capability.
    for grants in [Value::Null, json!([])] {
        let body = evaluator(&reference, &grants);
        let refused =
            app.client.json(Method::POST, "/api/public/v2/evaluators", &body).await.unwrap();
        assert_eq!(refused.status, 422, "{}", refused.text());
        assert!(refused.text().contains("`trace`"), "{}", refused.text());
    }
    let comment_text = comment(&app, &reference, json!(["trace"]), &trace).await;
    assert_eq!(comment_text, "what the lookup gave");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn an_evaluator_that_was_granted_it_reads_the_trace_of_its_item() {
    reads_the_trace_of_its_item(TestApp::new().await.unwrap()).await;
}

#[tokio::test]
async fn in_a_worker_process_an_evaluator_reads_the_trace_of_its_item() {
    reads_the_trace_of_its_item(TestApp::with(&[PROCESSES]).await.unwrap()).await;
}

#[tokio::test]
async fn another_trace_cannot_be_read_not_even_of_the_same_project() {
    let app = TestApp::new().await.unwrap();
    let other = two_steps(2);
    app.ingest(&other).await.unwrap();
    let (_, reference) = upload(&app, trace_guest(&other.id, &Trace::span_id(2))).await;
    let comment_text = comment(&app, &reference, json!(["trace"]), &two_steps(1)).await;
    assert_eq!(comment_text, "only the trace of the item can be read");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_missing_model_is_reported() {
    let app = TestApp::new().await.unwrap();
    let (plugin, reference) = upload(&app, model_guest()).await;
    assert_eq!(plugin["capabilities"], json!(["model"]));
    let unused = evaluator(&reference, &json!(["model", "trace"]));
    let path = "/api/public/v2/evaluators";
    let refused = app.client.json(Method::POST, path, &unused).await.unwrap();
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(refused.text().contains("does not request"), "{}", refused.text());
    let without = evaluator(&reference, &json!(["model"]));
    let refused = app.client.json(Method::POST, path, &without).await.unwrap();
    assert_eq!(refused.status, 422, "{}", refused.text());
    let comment_text = refused.text();
    assert!(comment_text.contains("no default evaluation model"), "{comment_text}");
    app.stop().await.unwrap();
}

/// Puts secrets wherever a server has some, and gives all that no guest may say.
async fn canaries(app: &TestApp) -> Vec<String> {
    std::fs::write(app.data_dir().join("canary"), "canary-in-a-file").unwrap();
    let connection = json!({
        "provider": "canary", "adapter": "openai", "secretKey": "canary-in-a-connection",
        "extraHeaders": { "x-canary": "canary-in-a-header" },
    });
    let path = "/api/public/llm-connections";
    let made = app.client.json(Method::PUT, path, &connection).await.unwrap();
    assert!(made.status.is_success(), "{}", made.text());
    // A trace of another project under the very ids that a guest here reads.
    let foreign =
        Trace::new(1, "canary-in-a-name").generation("answer", "canary-of-another-project");
    let other = app.other_project().await.unwrap();
    let sent = other.json(Method::POST, OTLP, &foreign.to_json()).await;
    assert_eq!(sent.unwrap().status, 200);
    let mut secrets = hashes_of_keys(app);
    assert!(1 < secrets.len(), "both projects have a key");
    secrets.extend(
        [
            KEYS.1,
            "sk-other",
            "canary-in-a-file",
            "canary-in-a-connection",
            "canary-in-a-header",
            "canary-in-a-name",
            "canary-of-another-project",
        ]
        .map(str::to_owned),
    );
    secrets
}

/// The hashes of the secrets of API keys, as they stand in the files of the database.
fn hashes_of_keys(app: &TestApp) -> Vec<String> {
    let mut found = std::collections::BTreeSet::new();
    for file in std::fs::read_dir(app.data_dir()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap_or_default();
        let starts = bytes.windows(7).enumerate();
        for (at, _) in starts.filter(|(_, window)| window == b"sha256:") {
            let rest = bytes[at + 7..].iter();
            let hash = rest.take_while(|byte| byte.is_ascii_hexdigit() || **byte == b':');
            let hash: String = hash.map(|byte| char::from(*byte)).collect();
            // Of a salt and a digest.
            if hash.contains(':') && 64 < hash.len() {
                found.insert(hash);
            }
        }
    }
    found.into_iter().collect()
}

/// Asserts that nothing that guests returned or logged contains any of `secrets`.
async fn assert_not_exposed(app: &TestApp, secrets: &[String]) {
    for path in ["/api/public/v3/scores?fields=details,subject", "/api/v1/executions"] {
        let text = app.client.get(path).await.unwrap().text();
        for secret in secrets {
            assert!(!text.contains(secret), "{secret} in {path}");
        }
    }
}

#[tokio::test]
async fn a_guest_that_reads_ids_of_another_project_gets_its_own() {
    let app = TestApp::with(&[PROCESSES]).await.unwrap();
    let secrets = canaries(&app).await;
    let trace = two_steps(1);
    let (_, reference) = upload(&app, trace_guest(&trace.id, &Trace::span_id(2))).await;
    let comment_text = comment(&app, &reference, json!(["trace"]), &trace).await;
    assert_eq!(comment_text, "what the lookup gave");
    assert_not_exposed(&app, &secrets).await;
    app.stop().await.unwrap();
}

/// Reads its environment and its arguments, and returns them as its comment.
#[tokio::test]
async fn secrets_of_the_server_are_not_in_outputs_of_guests() {
    let app = TestApp::with(&[PROCESSES]).await.unwrap();
    let secrets = canaries(&app).await;
    let imports = [
        &side("", ""),
        r#"(import "wasi:cli/environment@0.2.0" (instance $environment
            (export "get-environment" (func (result (list (tuple string string)))))
            (export "get-arguments" (func (result (list string))))))
          (core func $env (canon lower (func $environment "get-environment")
            (memory (core memory $side "memory")) (realloc (core func $side "realloc"))))
          (core func $args (canon lower (func $environment "get-arguments")
            (memory (core memory $side "memory")) (realloc (core func $side "realloc"))))"#,
    ]
    .concat();
    let guest = Guest {
        imports: &imports,
        with: r#"(with "host" (instance (export "env" (func $env)) (export "args" (func $args))
            (export "load" (func $load))))"#,
        core_imports: r#"(import "host" "env" (func $env (param i32)))
            (import "host" "args" (func $args (param i32)))
            (import "host" "load" (func $load (param i32) (result i32)))"#,
        fields: SAY,
        // The received data start at 0x1000 and become the comment.
        evaluate: "(local $at i32)
            (call $env (i32.const 256)) (call $args (i32.const 264))
            (local.set $at (i32.const 0x1000))
            (loop $look
              (if (call $load (local.get $at)) (then (call $say (local.get $at) (i32.const 0x1000))))
              (local.set $at (i32.add (local.get $at) (i32.const 4)))
              (br_if $look (i32.lt_u (local.get $at) (i32.const 0x8000))))",
        ..Guest::default()
    };
    let (_, reference) = upload(&app, guest.bytes()).await;
    let comment_text = comment(&app, &reference, json!([]), &two_steps(1)).await;
    assert_eq!(comment_text, "", "a guest was handed something");
    assert_not_exposed(&app, &secrets).await;
    app.stop().await.unwrap();
}

/// Gives a score whose observation id is the output of its item.
fn pointing_guest() -> Vec<u8> {
    Guest {
        evaluate: "(i32.store (i32.const 0x618) (i32.const 1))
            (i32.store (i32.const 0x61c) (i32.load offset=40 (local.get 0)))
            (i32.store (i32.const 0x620) (i32.load offset=44 (local.get 0)))",
        ..Guest::default()
    }
    .bytes()
}

async fn points_into_its_trace(app: TestApp) {
    let (_, reference) = upload(&app, pointing_guest()).await;
    let body = evaluator(&reference, &json!([]));
    let path = "/api/public/v2/evaluators";
    let made = app.client.json(Method::POST, path, &body).await.unwrap();
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let filter = json!([{ "type": "stringOptions", "column": "type", "operator": "any of", "value": ["GENERATION"] }]);
    app.rule(&id, json!({ "filter": filter })).await.unwrap();
    let of_traces = json!({ "target": "trace", "name": "of traces", "onMissing": "empty" });
    app.rule(&id, of_traces).await.unwrap();

    // The same trace in another project has a fifth span, another trace of this project a seventh.
    let five = Trace::new(1, "r").generation("b", "").generation("c", "");
    let five = five.generation("d", "").generation("e", "");
    let other = app.other_project().await.unwrap();
    let sent = other.json(Method::POST, OTLP, &five.to_json()).await;
    assert_eq!(sent.unwrap().status, 200);
    let own = Trace::span_id(1);
    let seven = (2..=7).fold(Trace::new(2, "r"), |trace, _| trace.generation("g", &own));
    let seven = seven.attribute("perpend.observation.output", &Trace::span_id(7));
    app.ingest(&seven).await.unwrap();
    let trace = Trace::new(1, "r")
        .attribute("perpend.observation.output", &Trace::span_id(7))
        .generation("sibling", &own)
        .generation("of another project", &Trace::span_id(5))
        .generation("no id", "no\u{7}id");
    app.ingest(&trace).await.unwrap();

    let failed = "/api/v1/failed-executions";
    let listed = app.wait_for(failed, |answer| count(answer) == 3).await;
    for execution in listed.unwrap()["data"].as_array().unwrap() {
        assert_eq!(execution["errorClass"], "invalid_result", "{execution}");
        let message = execution["errorMessage"].as_str().unwrap();
        assert!(message.contains("no observation of the item's trace"), "{message}");
    }
    // Six generations and the other trace itself, and one of this trace.
    let scores = app.scores(8).await.unwrap();
    assert_eq!(scores.len(), 8, "{scores:?}");
    let mut subjects: Vec<(&Value, &Value)> = scores
        .iter()
        .map(|score| (&score["subject"]["traceId"], &score["subject"]["id"]))
        .collect();
    subjects.sort_by_key(|subject| format!("{subject:?}"));
    subjects.dedup();
    let expected = [(&trace.id, 1), (&seven.id, 1), (&seven.id, 7)];
    let expected = expected.map(|(trace, n)| (json!(trace), json!(Trace::span_id(n))));
    let expected: Vec<_> = expected.iter().map(|(trace, id)| (trace, id)).collect();
    assert_eq!(subjects, expected);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_score_that_points_outside_the_trace_of_its_item_fails_the_call() {
    points_into_its_trace(TestApp::new().await.unwrap()).await;
}

#[tokio::test]
async fn on_postgresql_a_score_that_points_outside_the_trace_of_its_item_fails_the_call() {
    let Some(database) = TempDatabase::postgres().await else {
        return;
    };
    let DatabaseUrl::Postgres(url) = database.url() else {
        unreachable!("a PostgreSQL database was created");
    };
    let settings = [("database.url", url.as_str())];
    points_into_its_trace(TestApp::with(&settings).await.unwrap()).await;
}

#[test]
fn the_frame_of_the_guests_is_where_these_tests_think() {
    // The texts above write to these addresses.
    assert_eq!((RESULT, SCORE), (0x500, 0x600));
}
