//! The commands for plug-in authors, as in the first steps of the documentation: the real program in an empty folder.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{self, Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

use perpend_it::{KEYS, PATIENCE, TestApp};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

/// The result of a command.
struct Did {
    code: i32,
    out: String,
    err: String,
}

impl Did {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| self.out.clone().into())
    }

    #[track_caller]
    fn well(self) -> Self {
        assert_eq!(self.code, 0, "{}\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    fn badly(self, parts: &[&str]) {
        assert_eq!(self.code, 1, "{}\n{}", self.out, self.err);
        for part in parts {
            assert!(self.err.contains(part), "{part}: {}", self.err);
        }
    }
}

/// `perpend plugin ...` in a folder, with what an author's shell has.
fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = perpend_it::command(&["plugin"]).unwrap();
    command.args(args).current_dir(dir);
    for name in ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    // Compiled components are kept from run to run.
    command
        .env("XDG_CACHE_HOME", target_dir().join("author-cache"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn target_dir() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().to_owned()
}

async fn run(dir: &Path, args: &[&str]) -> Did {
    let output = command(dir, args).output().await.unwrap();
    Did {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Copies a folder as it is.
fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success());
}

/// A new project in Rust; its libraries at the versions of the example, which are on this machine.
async fn new_project(folder: &Path) -> PathBuf {
    let new = ["new", "acme/tone", "--lang", "rust"];
    run(folder, &new).await.well();
    let dir = folder.join("tone");
    let lock = "../../examples/plugin-rust/Cargo.lock";
    let lock = path::absolute(lock).unwrap();
    fs::copy(lock, dir.join("Cargo.lock")).unwrap();
    let compiled = compiled_libraries();
    if compiled.is_dir() {
        copy(&compiled, &dir.join("target"));
    }
    dir
}

/// The build results of the first project: further projects start with a copy.
fn compiled_libraries() -> PathBuf {
    target_dir().join("author-libraries")
}

/// A project that was built: once for all tests, and copied.
async fn built_project() -> (TempDir, PathBuf) {
    static BUILT: OnceLock<tokio::sync::Mutex<Option<(TempDir, PathBuf)>>> = OnceLock::new();
    let mut built = BUILT.get_or_init(tokio::sync::Mutex::default).lock().await;
    if built.is_none() {
        let folder = tempfile::tempdir().unwrap();
        let dir = new_project(folder.path()).await;
        run(&dir, &["build"]).await.well();
        let compiled = compiled_libraries();
        if !compiled.is_dir() {
            // Renamed when complete: an interrupted run leaves no partial file.
            let half = compiled.with_extension(std::process::id().to_string());
            copy(&dir.join("target"), &half);
            drop(fs::rename(&half, &compiled));
        }
        *built = Some((folder, dir));
    }
    let (_, dir) = built.as_ref().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("tone");
    fs::create_dir(&own).unwrap();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "target" {
            copy(&entry.path(), &own);
        }
    }
    (folder, own)
}

/// A built project, with the build results for a fast second build.
async fn buildable_project() -> (TempDir, PathBuf) {
    let (folder, dir) = built_project().await;
    copy(&compiled_libraries(), &dir.join("target"));
    (folder, dir)
}

#[tokio::test]
async fn a_new_project_is_built_checked_run_tested_and_measured_as_it_is() {
    built_project().await; // so that the libraries are compiled
    let folder = tempfile::tempdir().unwrap();
    let dir = new_project(folder.path()).await;
    run(&dir, &["run"]).await.badly(&["plugin.wasm does not exist", "perpend plugin build"]);
    run(&dir, &["build"]).await.well();

    let checked = run(&dir, &["check", "--json"]).await.well().json();
    let findings = checked["findings"].as_array().unwrap();
    let of = |what: &str| findings.iter().find(|finding| finding["what"] == what).unwrap();
    assert_eq!(of("determinism")["outcome"], "ok", "{checked}");
    assert!(of("world")["text"].as_str().unwrap().starts_with("scorer"), "{checked}");
    assert_eq!(checked["plugin"]["name"], "acme/tone");

    let table = run(&dir, &["run"]).await.well().out;
    assert!(table.contains("within_limit") && table.contains("3 scored"), "{table}");
    let args = ["run", "plugin.wasm", "--evaluator", "max-length", "--config"];
    let args = [&args[..], &["{\"max_chars\": 6}", "--items", "items.jsonl", "--json"]].concat();
    let first = run(&dir, &args).await.well().json();
    let values: Vec<&Value> = first["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| &result["scores"][0]["value"])
        .collect();
    assert_eq!(values, [true, false, false], "{first}");

    let tested = run(&dir, &["test"]).await.well().out;
    assert!(tested.contains("4 passed, 0 failed"), "{tested}");
    let args = ["bench", "--seconds", "0.2", "--json"];
    let measured = run(&dir, &args).await.well().json();
    assert!(measured["measured"]["callsPerSecond"].as_f64().unwrap() > 0.0, "{measured}");
    assert_eq!(measured["floor"]["evaluator"], "perpend/text exact-match");
    assert_eq!(measured["measured"]["nFailed"], 0);
}

#[tokio::test]
async fn problems_are_reported_with_file_evaluator_and_field() {
    let (_folder, dir) = built_project().await;
    run(&dir, &["run", "--evaluator", "shortness"]).await.badly(&[
        "plugin.wasm",
        "max-length",
        "shortness",
    ]);
    run(&dir, &["run", "--config", "{\"max_chars\": -1, \"trimm\": true}"]).await.badly(&[
        "--config",
        "max-length",
        "/max_chars",
        "trimm",
    ]);
    run(&dir, &["run", "--config", "{"]).await.badly(&["--config", "not JSON"]);
    fs::write(dir.join("more.jsonl"), "{\"output\": \"a\"}\n{\"outptu\": 1}\n").unwrap();
    run(&dir, &["run", "--items", "more.jsonl"]).await.badly(&[
        "more.jsonl:2",
        "outptu",
        "expectedOutput",
    ]);
    run(&dir, &["check", "src/lib.rs"]).await.badly(&["src/lib.rs", "not a WebAssembly component"]);
    let as_json = run(&dir, &["run", "--evaluator", "shortness", "--json"]).await;
    assert_eq!((as_json.code, as_json.err.as_str()), (1, ""));
    assert!(as_json.json()["error"].as_str().unwrap().contains("max-length"));

    let empty = tempfile::tempdir().unwrap();
    run(empty.path(), &["build"]).await.badly(&["plugin.toml", "perpend plugin new"]);
    run(empty.path(), &["new", "Tone!", "--lang", "rust"]).await.badly(&["Tone!", "a-z"]);
    run(&dir, &["new", "src", "--lang", "rust"]).await.badly(&["src", "not empty"]);
    let mut no_tools = command(&dir, &["build"]);
    let output = no_tools.env("PATH", empty.path()).output().await.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(stderr.contains("cargo is needed") && stderr.contains("rustup"), "{stderr}");
}

#[tokio::test]
async fn a_test_that_does_not_pass_shows_both_sides_and_fails_the_command() {
    let (_folder, dir) = built_project().await;
    let tests = "{\"name\": \"long is fine\", \"config\": {\"max_chars\": 1}, \"item\": {\"output\": \"four\"}, \
                 \"scores\": {\"within_limit\": true, \"length\": 4}}\n\
                 {\"name\": \"no output\", \"item\": {}, \"error\": \"invalid_input\"}\n";
    fs::write(dir.join("tests.jsonl"), tests).unwrap();
    let tested = run(&dir, &["test"]).await;
    assert_eq!(tested.code, 1);
    for part in [
        "FAILED  long is fine",
        "within_limit: expected true, got false",
        "length: expected 4, got no such score",
        "tests.jsonl:1",
        "ok      no output",
        "1 passed, 1 failed",
    ] {
        assert!(tested.out.contains(part), "{part}: {}", tested.out);
    }
}

#[tokio::test]
async fn an_item_that_fails_fails_the_run_in_the_words_of_the_server() {
    let (_folder, dir) = built_project().await;
    fs::write(
        dir.join("items.jsonl"),
        "{\"id\": \"none\"}\n{\"id\": \"some\", \"output\": \"x\"}\n",
    )
    .unwrap();
    let ran = run(&dir, &["run", "--json"]).await;
    assert_eq!(ran.code, 1, "{}", ran.err);
    let shown = ran.json();
    assert_eq!(shown["results"][0]["error"]["class"], "invalid_input", "{shown}");
    assert_eq!(shown["summary"], json!({ "scored": 1, "skipped": 0, "failed": 1 }));
}

#[tokio::test]
async fn a_watched_run_builds_and_scores_again_after_a_change() {
    let (_folder, dir) = buildable_project().await;
    let mut child = command(&dir, &["run", "--watch"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut until = async |part: &str| {
        let found = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.contains(part) {
                    return true;
                }
            }
            false
        };
        tokio::time::timeout(2 * PATIENCE, found).await.unwrap_or(false)
    };
    assert!(until("3 scored").await);
    let source = fs::read_to_string(dir.join("src/lib.rs")).unwrap();
    let source = source.replace("{length} of {} characters", "{length} out of {} characters");
    fs::write(dir.join("src/lib.rs"), source).unwrap();
    assert!(until("6 out of 80 characters").await, "the new source is what runs");
    child.kill().await.unwrap();
}

#[tokio::test]
async fn an_old_sdk_is_named_and_an_update_mends_it() {
    let (_folder, dir) = buildable_project().await;
    let manifest = fs::read_to_string(dir.join("plugin.toml")).unwrap();
    let old = manifest.replace("template = \"", "template = \"0.0.1-rc.");
    fs::write(dir.join("plugin.toml"), &old).unwrap();
    let built = run(&dir, &["build"]).await.well();
    assert!(
        built.err.contains("is older") && built.err.contains("perpend plugin update"),
        "{}",
        built.err
    );
    run(&dir, &["update"]).await.well();
    assert_eq!(fs::read_to_string(dir.join("plugin.toml")).unwrap(), manifest);
}

#[tokio::test]
async fn a_component_is_pushed_once_listed_shown_and_rolled_back() {
    let app = TestApp::new().await.unwrap();
    let (_folder, dir) = buildable_project().await;
    let access = ["--server", &app.origin.clone(), "--public-key", KEYS.0, "--secret-key", KEYS.1];
    let with = |args: &[&str]| -> Vec<String> {
        let all = args.iter().chain(&access);
        all.map(|arg| (*arg).to_owned()).collect()
    };
    let at_server = async |args: &[&str]| {
        let args = with(args);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        run(&dir, &args).await
    };
    run(&dir, &["push"]).await.badly(&["PERPEND_PUBLIC_KEY"]);
    let pushed = at_server(&["push"]).await.well();
    assert!(pushed.out.contains("acme/tone@0.1.0 is registered"), "{}", pushed.out);
    let again = at_server(&["push"]).await.well();
    assert!(again.out.contains("nothing was sent"), "{}", again.out);

    // The same version with other bytes, as a build after a change without a new version gives them.
    let file = dir.join("plugin.wasm");
    let first = fs::read(&file).unwrap();
    fs::write(&file, [&first[..], &[0, 5, 4, b'n', b'o', b't', b'e']].concat()).unwrap();
    at_server(&["push"]).await.badly(&["acme/tone 0.1.0", "Give the plug-in a new version"]);

    let cargo = fs::read_to_string(dir.join("Cargo.toml")).unwrap();
    fs::write(dir.join("Cargo.toml"), cargo.replace("0.1.0", "0.2.0")).unwrap();
    run(&dir, &["build"]).await.well();
    at_server(&["push"]).await.well();
    let listed = at_server(&["list"]).await.well().out;
    assert!(listed.contains("0.1.0") && listed.contains("0.2.0"), "{listed}");
    let shown = at_server(&["show", "acme/tone"]).await.well().out;
    assert!(shown.contains("acme/tone 0.2.0") && shown.contains("max_chars"), "{shown}");
    at_server(&["show", "acme/none"]).await.badly(&["acme/none", "acme/tone@0.2.0"]);

    app.evaluator("acme/tone", "max-length", json!({})).await.unwrap();
    let planned = at_server(&["rollback", "acme/tone", "--dry-run"]).await.well().out;
    assert!(planned.contains("would change"), "{planned}");
    let done = at_server(&["rollback", "acme/tone", "--json"]).await.well().json();
    assert_eq!(done["data"][0]["after"]["pluginVersion"], "0.1.0", "{done}");
    at_server(&["rollback", "acme/tone", "--to", "3.0.0"])
        .await
        .badly(&["no version \"3.0.0\"", "0.1.0, 0.2.0"]);
    app.stop().await.unwrap();
    at_server(&["list"]).await.badly(&["no response", "--server"]);
}
