//! Plug-ins on their pages, without a script.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::TestApp;
use perpend_server::client::Answer;
use serde_json::{Value, json};

use crate::guest::Guest;
use crate::pages::{OURS, Visitor, rows};

/// A visitor of the pages with a client of the API.
struct PluginTest {
    app: TestApp,
    visitor: Visitor,
}

impl PluginTest {
    async fn new() -> Self {
        let app = TestApp::new().await.unwrap();
        let visitor = Visitor::of(&app).await;
        Self { app, visitor }
    }

    /// Uploads a file with the form of the page.
    async fn upload(&self, bytes: &[u8]) -> Answer {
        let page = format!("{}/plugins/new", self.visitor.base);
        let token = self.visitor.token(&page).await;
        let head = format!(
            "--b0\r\nContent-Disposition: form-data; name=\"form\"\r\n\r\n{token}\r\n--b0\r\n\
             Content-Disposition: form-data; name=\"file\"; filename=\"guest.wasm\"\r\n\r\n"
        );
        let body = [head.as_bytes(), bytes, b"\r\n--b0--\r\n"].concat();
        let headers = [("content-type", "multipart/form-data; boundary=b0"), OURS];
        self.visitor.client.send(Method::POST, &page, &headers, body).await.unwrap()
    }

    /// Registers a component; the path of its page below the project.
    async fn registered(&self, bytes: &[u8]) -> String {
        let answer = self.upload(bytes).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        let location = answer.headers["location"].to_str().unwrap();
        location.strip_prefix(&self.visitor.base).unwrap().to_owned()
    }

    /// Creates an evaluator of a plug-in; its id.
    async fn evaluator(&self, plugin: &str, grants: Value) -> String {
        let body = json!({
            "type": "plugin", "name": "guest", "plugin": plugin, "evaluator": "one", "grants": grants,
        });
        let path = "/api/public/v2/evaluators";
        let made = self.app.client.json(Method::POST, path, &body).await.unwrap();
        assert_eq!(made.status, 200, "{}", made.text());
        made.json()["id"].as_str().unwrap().to_owned()
    }

    async fn evaluator_now(&self, id: &str) -> Value {
        let path = format!("/api/public/v2/evaluators/{id}");
        self.app.client.get(&path).await.unwrap().json()
    }
}

fn component(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

/// The component of a guest with version `1.0.0` or another one of this length.
fn guest(version: &str) -> Vec<u8> {
    let bytes = Guest::default().bytes();
    let old = b"1.0.0";
    assert_eq!(version.len(), old.len());
    // The names of the interfaces have the version of the contract, after an `@`.
    let is_own = |at: usize| bytes[at..].starts_with(old) && bytes[at - 1] != b'@';
    let at = (1..bytes.len()).find(|at| is_own(*at)).unwrap();
    let mut changed = bytes.clone();
    changed[at..at + old.len()].copy_from_slice(version.as_bytes());
    changed
}

/// Imports of a guest that requests a model and never calls it.
const MODEL: &str = r#"(import "perpend:evaluator/model@1.0.0" (instance $model
    (type $error' (variant (case "not-granted" string) (case "invalid-request" string)
      (case "budget-exhausted" string) (case "timeout" string) (case "rate-limited" string)
      (case "refused" string) (case "invalid-response" string) (case "unavailable" string)
      (case "cancelled")))
    (export "model-error" (type $error (eq $error')))
    (export "embed" (func (param "slot" (option string)) (param "texts" (list string))
      (result (result (list (list f32)) (error $error)))))))"#;

#[tokio::test]
async fn the_plugins_of_the_server_are_listed_with_their_evaluators_and_components() {
    let test = PluginTest::new().await;
    let list = test.visitor.page("/plugins").await;
    assert!(rows(&list).contains(&"perpend/text".to_owned()), "{list}");
    let (_, rest) = list.split_once("/plugins/new").unwrap();
    let (_, rest) = rest.split_once("<bdi>perpend/text</bdi>").unwrap();
    assert!(rest.contains("this server"), "{rest}");
    let found = test.app.client.get("/api/v1/plugins?name=perpend/text").await.unwrap().json();
    let digest = found["data"][0]["digest"].as_str().unwrap();
    let page = test.visitor.page(&format!("/plugins/{digest}")).await;
    assert!(page.contains("exact-match") && page.contains("Schema of the configuration"), "{page}");
    assert!(!page.contains("/delete\""), "a plug-in of the server cannot be deleted");
    let component = format!("{}/plugins/{digest}/component", test.visitor.base);
    let component = test.visitor.client.get(&component).await.unwrap();
    assert_eq!(component.headers["content-type"], "application/wasm");
    assert!(component.body.starts_with(b"\0asm"));
    for unknown in ["/plugins/none", &format!("/plugins/{}", "0".repeat(64))] {
        let unknown = format!("{}{unknown}", test.visitor.base);
        assert_eq!(test.visitor.client.get(&unknown).await.unwrap().status, 404);
    }
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn each_hostile_component_gives_a_report_of_its_steps_and_registers_nothing() {
    let test = PluginTest::new().await;
    let before = test.app.client.get("/api/v1/plugins").await.unwrap().json();
    let description = "(i32.store (i32.const 0x204) (i32.const 4))
        (i32.store (i32.const 0x20c) (i32.const 0))
        (i32.store (i32.const 0x304) (i32.const 0))";
    let describe = |describe| Guest { describe, ..Guest::default() }.bytes();
    let wrong_export = r#"(component
        (core module $m (func (export "f")))
        (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f")))
        (instance $e (export "describe" (func $f)) (export "evaluate" (func $f)))
        (export "perpend:evaluator/evaluator@1.0.0" (instance $e)))"#;
    let imports = r#"(component
        (import "wasi:http/outgoing-handler@0.2.3" (instance))
        (import "evil:host/shell" (instance)))"#;
    let all: [(Vec<u8>, &str, &str); 12] = [
        (Vec::new(), "File", "not a WebAssembly component"),
        (b"hello <b>".to_vec(), "File", "not a WebAssembly component"),
        (b"(component)".to_vec(), "File", "text format"),
        (component("(module)"), "File", "core module"),
        (b"\x7fELF....".to_vec(), "File", "precompiled"),
        (vec![0, b'a', b's', b'm', 0x0d, 0, 1, 0, 0xff], "Compilation", "compile"),
        (component(imports), "Imports", "capability `http`"),
        (component("(component)"), "Exports", "missing"),
        (component(wrong_export), "Description", "type mismatch"),
        (describe("unreachable"), "Description", "plugin_trap"),
        (describe("(loop $forever (br $forever))"), "Description", "fuel_exhausted"),
        (describe(description), "Description", "version"),
    ];
    for (bytes, step, reason) in all {
        let answer = test.upload(&bytes).await;
        let page = answer.text();
        assert_eq!(answer.status, 422, "{step}, {reason}: {page}");
        let (_, report) = page.split_once("id=\"report\"").unwrap();
        let (_, failed) = report.split_once(&format!("<li>{step}")).unwrap();
        let (status, _) = failed.split_once("</span>").unwrap();
        assert!(status.ends_with("failed"), "{step}, {reason}: {report}");
        assert!(failed.contains(reason), "{step}, {reason}: {report}");
    }
    let after = test.app.client.get("/api/v1/plugins").await.unwrap().json();
    assert_eq!(after, before);
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_component_is_uploaded_moved_back_and_deleted() {
    let test = PluginTest::new().await;
    let first = test.registered(&guest("1.0.0")).await;
    let id = test.evaluator("acme/guest", json!([])).await;
    let second = test.registered(&guest("1.0.1")).await;
    assert_eq!(test.registered(&guest("1.0.1")).await, second, "it is registered once");
    let taken = Guest { pages: 5, ..Guest::default() }.bytes();
    let taken = test.upload(&taken).await;
    assert_eq!(taken.status, 422, "{}", taken.text());
    assert!(taken.text().contains("increase the version"), "{}", taken.text());

    let page = test.visitor.page(&first).await;
    assert!(page.contains(">guest</bdi>") && page.contains("1.0.1"), "{page}");
    let page = test.visitor.page(&second).await;
    assert!(page.contains("are the same"), "{page}");
    let rollback = format!("{second}/rollback");
    let preview = [("to", "1.0.1"), ("action", "preview")];
    let preview = test.visitor.submit(&second, &rollback, &preview).await;
    assert_eq!(preview.status, 200, "{}", preview.text());
    let preview = preview.text();
    assert!(preview.contains("id=\"moves\"") && preview.contains("guest"), "{preview}");
    assert_eq!(test.evaluator_now(&id).await["version"], 1, "a preview changes nothing");
    let moved =
        test.visitor.submit(&second, &rollback, &[("to", "1.0.1"), ("action", "move")]).await;
    assert_eq!(moved.status, 303, "{}", moved.text());
    let back =
        test.visitor.submit(&second, &rollback, &[("to", "1.0.0"), ("action", "move")]).await;
    assert_eq!(back.status, 303, "{}", back.text());
    assert_eq!(test.evaluator_now(&id).await["version"], 3);
    let unknown =
        test.visitor.submit(&second, &rollback, &[("to", "9.9.9"), ("action", "move")]).await;
    assert_eq!(unknown.status, 422, "{}", unknown.text());

    let unused = test.registered(&guest("1.0.2")).await;
    let confirmation = test.visitor.page(&format!("{unused}/delete")).await;
    assert!(confirmation.contains("acme/guest 1.0.2"), "{confirmation}");
    let delete = format!("{unused}/delete");
    let deleted = test.visitor.submit(&delete, &delete, &[]).await;
    assert_eq!(deleted.status, 303, "{}", deleted.text());
    let gone = format!("{}{unused}", test.visitor.base);
    assert_eq!(test.visitor.client.get(&gone).await.unwrap().status, 404);
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_capability_is_granted_and_withdrawn_by_a_new_version_of_the_evaluator() {
    let test = PluginTest::new().await;
    let bytes = Guest { imports: MODEL, ..Guest::default() }.bytes();
    let path = test.registered(&bytes).await;
    let id = test.evaluator("acme/guest", json!([])).await;
    let page = test.visitor.page(&path).await;
    assert!(page.contains("name=\"grant\" value=\"model\">"), "{page}");
    let action = format!("{path}/grants");
    let granted =
        test.visitor.submit(&path, &action, &[("evaluator", &id), ("grant", "model")]).await;
    assert_eq!(granted.status, 303, "{}", granted.text());
    let evaluator = test.evaluator_now(&id).await;
    assert_eq!((&evaluator["version"], &evaluator["grants"]), (&json!(2), &json!(["model"])));
    let page = test.visitor.page(&path).await;
    assert!(page.contains("name=\"grant\" value=\"model\" checked"), "{page}");
    let operation = format!("/api/v1/evaluators/{id}/grants");
    let same = json!({ "grants": ["model"] });
    let same = test.app.client.json(Method::PUT, &operation, &same).await.unwrap();
    assert_eq!(same.json()["version"], 2, "the same capabilities change nothing");
    let foreign =
        test.visitor.submit(&path, &action, &[("evaluator", &id), ("grant", "trace")]).await;
    assert_eq!(foreign.status, 422, "{}", foreign.text());
    assert!(foreign.text().contains("does not request"), "{}", foreign.text());
    let withdrawn = test.visitor.submit(&path, &action, &[("evaluator", &id)]).await;
    assert_eq!(withdrawn.status, 303, "{}", withdrawn.text());
    assert_eq!(test.evaluator_now(&id).await["grants"], json!([]));
    test.app.stop().await.unwrap();
}
