//! Components of an installation, components that an operator adds, and the demo that uses them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Stdio;

use axum::http::Method;
use perpend_it::{Child, command, origin_in};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

const PLUGINS: &str = "/api/v1/plugins";
const EVALUATORS: &str = "/api/public/v2/evaluators";

/// The component of `perpend/text`, which calls itself `name`, as a file.
async fn renamed(child: &Child, name: &str, folder: &Path) -> PathBuf {
    let path = format!("{PLUGINS}?name=perpend/text");
    let found = child.client.get(&path).await.unwrap().json();
    let digest = found["data"][0]["digest"].as_str().unwrap();
    let path = format!("{PLUGINS}/{digest}/component");
    let mut component = child.client.get(&path).await.unwrap().body.to_vec();
    let own = b"perpend/text";
    assert_eq!(own.len(), name.len());
    let places: Vec<usize> = component
        .windows(own.len())
        .enumerate()
        .filter_map(|(at, window)| (window == own).then_some(at))
        .collect();
    assert!(!places.is_empty());
    for at in places {
        component[at..at + name.len()].copy_from_slice(name.as_bytes());
    }
    let file = folder.join("added.wasm");
    std::fs::write(&file, component).unwrap();
    file
}

/// `perpend plugin add`: whether it succeeded, and its output.
async fn add(file: &Path, data: &Path) -> (bool, String) {
    add_with(file, data, &[]).await
}

/// As [`add`], with further arguments.
async fn add_with(file: &Path, data: &Path, more: &[&str]) -> (bool, String) {
    let mut add = command(&["plugin", "add"]).unwrap();
    let done = add.arg(file).arg("--data-dir").arg(data).args(more).output();
    let done = done.await.unwrap();
    let output = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8_lossy(&output).into_owned())
}

async fn make(child: &Child, plugin: &str) -> (u16, Value) {
    let body = json!({
        "type": "plugin", "name": "same", "plugin": plugin, "evaluator": "exact-match",
    });
    let made = child.client.json(Method::POST, EVALUATORS, &body).await;
    let made = made.unwrap();
    (made.status.as_u16(), made.json())
}

#[tokio::test]
async fn a_component_that_the_operator_adds_is_used_by_the_server_that_runs() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let child = Child::start(&data).await.unwrap();
    let file = renamed(&child, "perpend/word", scratch.path()).await;
    assert_eq!(make(&child, "perpend/word").await.0, 404);
    // Twice is once.
    for _ in 0..2 {
        let (is_added, output) = add(&file, &data).await;
        assert!(is_added, "{output}");
        assert!(output.contains("perpend/word@0.1.0"), "{output}");
    }
    let (status, made) = make(&child, "perpend/word").await;
    assert_eq!(status, 200, "{made}");
    let path = format!("{PLUGINS}?name=perpend/word");
    let listed = child.client.get(&path).await.unwrap().json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["data"][0]["isFirstParty"], true, "{listed}");
}

#[tokio::test]
async fn a_cache_that_cannot_be_used_is_not_blamed_on_the_component() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    let scratch = tempfile::tempdir().unwrap();
    let (data, cache) = (scratch.path().join("data"), scratch.path().join("cache"));
    let child = Child::start(&data).await.unwrap();
    let file = renamed(&child, "perpend/word", scratch.path()).await;
    std::fs::create_dir(&cache).unwrap();
    let set_mode = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&cache, mode).unwrap();
    };
    let given = ["--data-plugin-cache", cache.to_str().unwrap()];
    set_mode(0o777);
    let (is_added, output) = add_with(&file, &data, &given).await;
    assert!(!is_added && output.contains("set its mode to 0700"), "{output}");
    assert!(!output.contains("cannot be used as a plug-in"), "{output}");
    set_mode(0o700);
    // That of another user is left alone. Only root can make one.
    if chown(&cache, Some(65_534), None).is_ok() {
        let (is_added, output) = add_with(&file, &data, &given).await;
        assert!(is_added, "{output}");
        assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn only_first_party_components_that_are_not_embedded_can_be_added() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let refused = async |file: &Path, why: &str| {
        let (is_added, output) = add(file, &data).await;
        assert!(!is_added && output.contains(why), "{output}");
    };
    let file = scratch.path().join("text.wasm");
    std::fs::write(&file, "no component").unwrap();
    refused(&file, "--data-dir").await;
    let child = Child::start(&data).await.unwrap();
    refused(&file, "cannot be used as a plug-in").await;
    refused(&scratch.path().join("missing.wasm"), "missing.wasm").await;
    refused(Path::new("perpend/nothing"), "share/perpend/components").await;
    let theirs = renamed(&child, "example/text", scratch.path()).await;
    refused(&theirs, "perpend plugin push").await;
    let embedded = renamed(&child, "perpend/text", scratch.path()).await;
    refused(&embedded, "embedded").await;
}

/// A demo that stays up: its lines until it invites, and the process.
async fn demo_until(mut demo: Command, last: &str) -> (tokio::process::Child, Vec<String>) {
    let mut process = demo.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut output = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        let is_last = line.contains(last);
        output.push(line);
        if is_last {
            return (process, output);
        }
    }
    (process, output)
}

#[tokio::test]
async fn the_demo_listens_on_the_configured_address_and_reports_that_its_data_remain() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("kept");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    let mut taken = command(&["demo", "--once", "--listen", &address]).unwrap();
    let taken = taken.output().await.unwrap();
    assert!(!taken.status.success());
    assert!(String::from_utf8_lossy(&taken.stderr).contains("--listen"));
    drop(free);
    for is_flag in [true, false] {
        let data = data.join(is_flag.to_string());
        let mut demo = command(&["demo", "--data-dir"]).unwrap();
        demo.arg(&data);
        match is_flag {
            true => demo.args(["--listen", &address]),
            false => demo.env("PERPEND_LISTEN", &address),
        };
        let (mut process, output) = demo_until(demo, "Stop with Ctrl+C").await;
        let output = output.join("\n");
        assert_eq!(origin_in(&output).unwrap(), format!("http://{address}"), "{output}");
        assert!(output.contains("The data remain in"), "{output}");
        process.kill().await.unwrap();
        assert!(data.join("perpend.db").exists());
    }
}

#[tokio::test]
async fn a_demo_without_components_skips_their_evaluators_and_scores_the_rest() {
    // The same program in an empty folder has no components next to it.
    let usual = command(&[]).unwrap();
    let program = Path::new(usual.as_std().get_program()).to_owned();
    let prefix = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
    let alone = prefix.path().join("bin/perpend");
    std::fs::create_dir(prefix.path().join("bin")).unwrap();
    std::fs::hard_link(&program, &alone).unwrap();
    let mut demo = Command::new(alone);
    let demo = demo.args(["demo", "--once", "--listen", "127.0.0.1:0"]);
    let done = demo.env_clear().output().await.unwrap();
    let output = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{output}");
    for part in ["perpend/python", "perpend/javascript", "perpend/autoevals-js"] {
        let left_out = output.lines().any(|line| {
            line.contains("skipped") && line.contains(part) && line.contains("perpend plugin add")
        });
        assert!(left_out, "{part}: {output}");
    }
    assert!(output.contains("All 30 scores arrived"), "{output}");
}
