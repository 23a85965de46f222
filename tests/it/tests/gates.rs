//! Comparisons and gates over HTTP and with the commands, and the CI example.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use axum::http::Method;
use perpend_it::{KEYS, TestApp, Trace};
use serde_json::{Value, json};
use tokio::process::Command;

/// The folder of the CI example.
fn example() -> PathBuf {
    std::path::absolute("../../examples/ci").unwrap()
}

struct Output {
    code: i32,
    out: String,
    err: String,
}

async fn finished(mut command: Command) -> Output {
    let output = command.output().await.unwrap();
    Output {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// `perpend` in a folder, without a server.
async fn perpend(folder: &Path, args: &[&str]) -> Output {
    let mut command = perpend_it::command(args).unwrap();
    command.current_dir(folder);
    finished(command).await
}

/// `perpend` with the server and the keys of a test.
async fn perpend_at(app: &TestApp, folder: &Path, args: &[&str]) -> Output {
    let mut command = perpend_it::command(args).unwrap();
    command
        .current_dir(folder)
        .env("PERPEND_HOST", app.client.origin())
        .env("LANGFUSE_PUBLIC_KEY", KEYS.0)
        .env("LANGFUSE_SECRET_KEY", KEYS.1);
    finished(command).await
}

const FILES: [&str; 5] = ["gate", "--result", "result.json", "--baseline", "baseline.json"];

#[tokio::test]
async fn a_gate_over_files_needs_no_server_and_its_exit_status_is_the_outcome() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["gate.toml", "result.json", "baseline.json"] {
        fs::copy(example().join(name), folder.path().join(name)).unwrap();
    }
    let folder = folder.path();
    let with = |more: &[&'static str]| [&FILES[..], more].concat();
    let args = with(&["--json", "--junit", "gate.xml", "--markdown", "gate.md"]);
    let found = perpend(folder, &args).await;
    assert_eq!(found.code, 1, "{}{}", found.out, found.err);
    let report: Value = serde_json::from_str(&found.out).unwrap();
    assert_eq!(report["outcome"], "failed");
    assert_eq!(report["failures"][0]["rule"], "not_worse_than_baseline");
    assert_eq!(report["failures"][0]["verdict"], "worse");
    assert_eq!(report["worstItems"].as_array().unwrap().len(), 10);
    assert!(fs::read_to_string(folder.join("gate.xml")).unwrap().contains("<failure"));
    assert!(fs::read_to_string(folder.join("gate.md")).unwrap().contains("worse"));

    let swapped = ["gate", "--result", "baseline.json", "--baseline", "result.json"];
    assert_eq!(perpend(folder, &swapped).await.code, 0);
    let undecided = fs::read_to_string(folder.join("gate.toml")).unwrap();
    fs::write(folder.join("many.toml"), undecided.replace("min_items = 50", "min_items = 500"))
        .unwrap();
    let many =
        ["gate", "--result", "baseline.json", "--baseline", "result.json", "--config", "many.toml"];
    assert_eq!(perpend(folder, &many).await.code, 2);

    fs::write(folder.join("wrong.toml"), "[[require]]\nmetric = \"a\"\nmean_atleast = 1\n")
        .unwrap();
    let found = perpend(folder, &with(&["--config", "wrong.toml"])).await;
    assert_eq!(found.code, 3);
    assert!(found.err.contains("mean_atleast"), "{}", found.err);
    let grouped = fs::read_to_string(folder.join("gate.toml")).unwrap();
    fs::write(folder.join("grouped.toml"), format!("{grouped}\n[stats]\ncluster_by = \"topic\"\n"))
        .unwrap();
    let found = perpend(folder, &with(&["--config", "grouped.toml"])).await;
    assert_eq!(found.code, 3);
    assert!(found.err.contains("cluster_by"), "{}", found.err);
    let found = perpend(folder, &with(&["--config", "nothing.toml"])).await;
    assert_eq!(found.code, 3);
    assert!(found.err.contains("nothing.toml"), "{}", found.err);
    assert_eq!(perpend(folder, &["gate", "--unknown"]).await.code, 3);
    assert_eq!(perpend(folder, &["gate"]).await.code, 3);
    let no_server = [
        "gate",
        "--run",
        "r",
        "--server",
        "http://127.0.0.1:1",
        "--public-key",
        "p",
        "--secret-key",
        "s",
    ];
    assert_eq!(perpend(folder, &no_server).await.code, 3);
}

async fn post(app: &TestApp, path: &str, body: &Value) -> Value {
    let answer = app.client.json(Method::POST, path, body).await.unwrap();
    assert!(answer.status.is_success(), "{path}: {}", answer.text());
    answer.json()
}

async fn get(app: &TestApp, path: &str) -> Value {
    let answer = app.client.get(path).await.unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// A run over 24 items of which the first `n_passed` pass; returns its id. Traces are numbered from `first`.
async fn run(app: &TestApp, name: &str, n_passed: u64, first: u64) -> String {
    let mut id = String::new();
    for at in 0..24 {
        let trace = Trace::new(first + at, "answer");
        app.ingest(&trace).await.unwrap();
        let link = json!({
            "runName": name, "datasetItemId": format!("item {at}"), "traceId": trace.id,
            "metadata": { "branch": name },
        });
        let linked = post(app, "/api/public/dataset-run-items", &link).await;
        id = linked["datasetRunId"].as_str().unwrap().to_owned();
        let value = f64::from(u8::from(at < n_passed));
        let score = json!({
            "traceId": trace.id, "name": "accuracy", "value": value, "dataType": "BOOLEAN",
        });
        post(app, "/api/public/scores", &score).await;
    }
    id
}

#[tokio::test]
async fn runs_are_compared_and_gated_over_http_and_with_the_commands() {
    let app = TestApp::new().await.unwrap();
    post(&app, "/api/public/v2/datasets", &json!({ "name": "questions" })).await;
    for at in 0..24 {
        let item = json!({ "datasetName": "questions", "id": format!("item {at}"), "input": at });
        post(&app, "/api/public/dataset-items", &item).await;
    }
    let (base, new) = (run(&app, "main", 24, 1).await, run(&app, "new", 14, 101).await);
    let path = format!("/api/v1/experiments/compare?runs={base},{new}");
    let difference = |found: &Value| {
        let metric = found["metrics"].as_array().unwrap().iter();
        let metric = metric.filter(|metric| metric["name"] == "accuracy");
        metric.map(|metric| metric["runs"][1]["difference"].clone()).next().unwrap()
    };
    // The direction is unknown at first.
    let found = get(&app, &path).await;
    assert_eq!(difference(&found)["verdict"], "not_comparable", "{found}");
    let found = get(&app, &format!("{path}&direction=accuracy:lower_is_better")).await;
    assert_eq!(difference(&found)["verdict"], "better", "{found}");
    let direction = json!({ "direction": "higher_is_better", "dataType": "BOOLEAN" });
    let set = app.client.json(Method::PUT, "/api/v1/score-directions/accuracy", &direction);
    assert_eq!(set.await.unwrap().json()["direction"], "higher_is_better");
    let found = get(&app, &path).await;
    assert_eq!(difference(&found)["verdict"], "worse", "{found}");
    assert_eq!(difference(&found)["losses"], 10);
    assert_eq!(found["nItems"], 24);
    let found = get(&app, &format!("{path}&show=regressed&limit=3&offset=8")).await;
    assert_eq!(found["items"].as_array().unwrap().len(), 2);
    for (query, status) in [
        (format!("runs={base}"), 400),
        (format!("runs={base},{base}"), 400),
        (format!("runs={base},nothing"), 404),
        (format!("runs={base},{new}&base=nothing"), 400),
        (format!("runs={base},{new}&alpha=2"), 400),
        (format!("runs={base},{new}&reducer=best"), 400),
        (format!("runs={base},{new}&direction=accuracy:up"), 400),
        (format!("runs={base},{new}&direction=errors:higher_is_better"), 400),
        (format!("runs={base},{new}&unknown=1"), 400),
    ] {
        let answer = app.client.get(&format!("/api/v1/experiments/compare?{query}")).await;
        let answer = answer.unwrap();
        assert_eq!(answer.status, status, "{query}: {}", answer.text());
    }

    let gates = format!("/api/v1/experiments/{new}/gates");
    let config = json!({ "require": [{ "metric": "accuracy", "not_worse_than_baseline": 0.02 }] });
    let body = json!({ "config": config, "baseline": "branch:main" });
    let gate = post(&app, &gates, &body).await;
    assert_eq!(gate["report"]["outcome"], "failed", "{gate}");
    assert_eq!(gate["report"]["baseline"]["id"], base);
    let listed = get(&app, &gates).await;
    assert_eq!(listed["data"][0]["id"], gate["id"]);
    assert_eq!(listed["data"][0]["report"], gate["report"]);
    let wrong = json!({ "config": { "require": [{ "metric": "a", "mean": 1 }] } });
    assert_eq!(app.client.json(Method::POST, &gates, &wrong).await.unwrap().status, 400);

    commands(&app, &base).await;
    app.stop().await.unwrap();
}

async fn commands(app: &TestApp, base: &str) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let config = "[[require]]\nmetric = \"accuracy\"\nnot_worse_than_baseline = 0.02\n";
    fs::write(folder.join("gate.toml"), config).unwrap();
    let found = perpend_at(app, folder, &["experiment", "list"]).await;
    assert!(found.out.contains("main") && found.out.contains("new"), "{}{}", found.out, found.err);
    let found = perpend_at(app, folder, &["experiment", "compare", base, "new"]).await;
    assert!(found.out.contains("worse"), "{}{}", found.out, found.err);
    let found = perpend_at(app, folder, &["experiment", "show", "new"]).await;
    assert!(found.out.contains("accuracy"), "{}{}", found.out, found.err);
    let args = ["gate", "--run", "new", "--baseline", "main", "--markdown", "gate.md"];
    let found = perpend_at(app, folder, &args).await;
    assert_eq!(found.code, 1, "{}{}", found.out, found.err);
    let markdown = fs::read_to_string(folder.join("gate.md")).unwrap();
    // The first item that was lost.
    let links = [1, 101].map(|first| format!("/traces/{}", Trace::new(first + 14, "answer").id));
    let links = [format!("{}/project/", app.client.origin())].into_iter().chain(links);
    let links: Vec<String> = links.collect();
    assert!(links.iter().all(|link| markdown.contains(link)), "{markdown}");
    let found = perpend_at(app, folder, &["gate", "--run", "nothing"]).await;
    assert_eq!(found.code, 3, "{}", found.err);
    // The exported results give the same outcome without the server.
    for run in ["main", "new"] {
        let args = ["experiment", "show", run, "--json", "--items"];
        let found = perpend_at(app, folder, &args).await;
        assert_eq!(found.code, 0, "{}", found.err);
        fs::write(folder.join(format!("{run}.json")), found.out).unwrap();
    }
    let files = ["gate", "--result", "new.json", "--baseline", "main.json"];
    let found = perpend(folder, &files).await;
    assert_eq!(found.code, 1, "{}{}", found.out, found.err);
    // Items are cases with the server and without it.
    for run in [&["--run", "new", "--baseline", "main"][..], &files[1..]] {
        let args = [&["gate"][..], run, &["--items", "--junit", "gate.xml"]].concat();
        let found = perpend_at(app, folder, &args).await;
        assert_eq!(found.code, 1, "{}{}", found.out, found.err);
        let junit = fs::read_to_string(folder.join("gate.xml")).unwrap();
        assert!(junit.contains("classname=\"accuracy\" name=\"item 23\""), "{junit}");
    }
}

/// The scripts of the steps of the GitHub action: the blocks after `run: |`.
fn steps() -> Vec<String> {
    let text = fs::read_to_string(example().join("action.yml")).unwrap();
    let mut steps = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim() != "run: |" {
            continue;
        }
        let depth = line.len() - line.trim_start().len();
        let is_inside = |line: &&str| line.len() - line.trim_start().len() > depth;
        let mut step = String::new();
        while let Some(line) = lines.next_if(is_inside) {
            step.push_str(line.trim_start());
            step.push('\n');
        }
        steps.push(step);
    }
    steps
}

/// A step of the action, as a runner starts it.
async fn step(folder: &Path, script: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-e", "-c", script]).current_dir(folder).env_clear().kill_on_drop(true);
    command.env("GITHUB_ACTION_PATH", example()).env("GITHUB_OUTPUT", folder.join("output"));
    command.env("GITHUB_STEP_SUMMARY", folder.join("summary"));
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", folder.join("bin").display()));
    command.envs(variables.iter().copied());
    finished(command).await
}

/// A `gh` that logs its arguments and has the comment 7 if the file `commented` exists.
const GH: &str = "#!/bin/sh\necho \"$@\" >> gh.log\n\
    case \"$*\" in *--jq*) [ ! -f commented ] || echo 7;; *) : > commented;; esac\n";

#[tokio::test]
async fn the_action_reports_the_gate_and_updates_its_comment() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("bin")).unwrap();
    fs::write(folder.join("bin/gh"), GH).unwrap();
    let mut chmod = std::process::Command::new("chmod");
    assert!(chmod.arg("+x").arg(folder.join("bin/gh")).status().unwrap().success());
    let steps = steps();
    assert_eq!(steps.len(), 3);
    let program = perpend_it::program().unwrap();
    let example = example();
    let file = |name: &str| example.join(name).display().to_string();
    let variables = [
        ("PERPEND_PROGRAM", program.display().to_string()),
        ("GATE_RESULT", file("result.json")),
        ("GATE_BASELINE", file("baseline.json")),
        ("GATE_CONFIG", file("gate.toml")),
        ("GATE_REPORTS", "reports".to_owned()),
        ("GATE_RUN", String::new()),
    ];
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    // The step succeeds, so that the comment is written; the last one fails.
    let found = step(folder, &steps[0], &variables).await;
    assert_eq!(found.code, 0, "{}{}", found.out, found.err);
    assert_eq!(fs::read_to_string(folder.join("output")).unwrap(), "status=1\n");
    assert!(fs::read_to_string(folder.join("summary")).unwrap().contains("worse"));
    let github =
        [("GATE_REPORTS", "reports"), ("GITHUB_REPOSITORY", "acme/app"), ("PULL_REQUEST", "5")];
    for _ in 0..2 {
        let found = step(folder, &steps[1], &github).await;
        assert_eq!(found.code, 0, "{}{}", found.out, found.err);
    }
    let calls = fs::read_to_string(folder.join("gh.log")).unwrap();
    let calls: Vec<&str> = calls.lines().filter(|call| call.contains("--method")).collect();
    assert!(calls[0].contains("POST repos/acme/app/issues/5/comments"), "{calls:?}");
    assert!(calls[1].contains("PATCH repos/acme/app/issues/comments/7"), "{calls:?}");
    assert_eq!(step(folder, &steps[2], &[("STATUS", "1")]).await.code, 1);
}
