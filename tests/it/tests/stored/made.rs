//! How the databases of a version are made: by its program, from the script of the recording.
//!
//! A program leaves no execution waiting for long. Some that it completed are put into each of the other states
//! afterwards, with a time far away, so that they stay there.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use axum::http::Method;
use perpend_db::testing::patient;
use perpend_db::{DatabaseUrl, Pool};
use perpend_it::{Child, KEYS, ORGANIZATION_KEYS, OTLP, PATIENCE, wait_for};
use perpend_it::{Trace, trace_id};
use perpend_storage::testing::TempDatabase;

use super::{ask, kind, list_scope, packed};
use crate::recorded::script::{Run, Script};

/// From here on the script deletes what there is.
const LAST: &str = "delete a rule";
/// They keep secrets, and no key of a server belongs here.
const SEALED: [&str; 2] = ["blob-storage", "llm-connections"];
/// Responses that contain the time or the bundled plug-ins.
const PASSING: [&str; 3] = ["hours=", "/plugins", "/health"];
const FIRST_TRACE: u64 = 0x5700;
/// A time at which nothing is due, microseconds.
const FAR: i64 = 9_000_000_000_000_000;

/// Changes of a completed execution: state, further columns, and its attempt.
const STATES: [(&str, Option<&str>); 6] = [
    (
        "state = 0, finished_at = NULL, first_attempt_at = NULL, attempts = 0, evaluator_version_id = NULL",
        None,
    ),
    ("state = 1, fence = 7, finished_at = NULL", None),
    (
        "state = 2, finished_at = NULL, error_class = 'transient', error_message = 'later'",
        Some("transient"),
    ),
    (
        "state = 3, finished_at = NULL, error_class = 'worker_lost', error_message = 'held'",
        Some("worker_lost"),
    ),
    (
        "state = 5, error_class = 'not_applicable', error_message = 'nothing to measure'",
        Some("not_applicable"),
    ),
    ("state = 7, error_class = 'rule_deleted', error_message = 'its rule was deleted'", None),
];

fn postgres_tool(name: &str) -> anyhow::Result<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql")?;
    let tools = versions.filter_map(|version| Some(version.ok()?.path().join("bin").join(name)));
    tools.filter(|tool| tool.exists()).max().context("no PostgreSQL")
}

/// The tables and rows of a database as statements that need no settings of their own.
fn dump(url: &str) -> anyhow::Result<String> {
    let output = Command::new(postgres_tool("pg_dump")?)
        .args(["--inserts", "--no-owner", "--no-privileges", "--no-comments", "--dbname", url])
        .output()?;
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all = String::from_utf8(output.stdout)?;
    let of_settings = ["SET ", "SELECT pg_catalog.set_config", "\\"];
    let kept = all.lines().filter(|line| !of_settings.iter().any(|start| line.starts_with(start)));
    Ok(kept.collect::<Vec<_>>().join("\n"))
}

/// Puts an execution of each further trace into another state.
async fn spread(url: &DatabaseUrl) -> anyhow::Result<()> {
    let pool = Pool::open(url, &patient()).await?;
    for (n, (set, attempt)) in STATES.iter().enumerate() {
        let trace = trace_id(FIRST_TRACE + n as u64);
        let sql = format!("UPDATE executions SET due_at = $1, {set} WHERE trace_id = $2");
        let changed = pool.change(&sql, &[FAR.into(), trace.as_str().into()]).await?;
        anyhow::ensure!(changed == 1, "{changed} executions of {trace}");
        pool.change("DELETE FROM scores WHERE trace_id = $1", &[trace.as_str().into()]).await?;
        if let Some(class) = attempt {
            let sql = "INSERT INTO attempts (execution_seq, number, ended_at, class, message, cpu_us)
                       SELECT seq, 1, created_at, $1, 'told', 7 FROM executions WHERE trace_id = $2";
            pool.change(sql, &[(*class).into(), trace.as_str().into()]).await?;
        }
    }
    // Held executions whose rule is not paused are resumed.
    let pause = "UPDATE rules SET paused_reason = 'manual', paused_message = 'for now', paused_at = created_at
                  WHERE id IN (SELECT rule_id FROM executions WHERE state = 3)";
    pool.change(pause, &[]).await?;
    // The secrets of the server are created again by the next one.
    pool.change("DELETE FROM server_secrets", &[]).await?;
    pool.close().await;
    Ok(())
}

/// Creates the database and its responses, and stores both.
pub(super) async fn make(database: &TempDatabase) -> anyhow::Result<()> {
    let data = tempfile::tempdir()?;
    let script = Script::read(&crate::recorded::folder().join("script"))?;
    let url = super::url_text(database);
    let (public, secret) = ORGANIZATION_KEYS;
    let more =
        ["--database-url", &url, "--init-org-public-key", public, "--init-org-secret-key", secret];
    let mut server = Child::with(&data.path().join("data"), &more).await?;
    let origin = server.client.origin().to_owned();
    let mut run = Run::new(&origin);
    let steps = script.steps.into_iter().take_while(|step| step.name != LAST);
    let steps: Vec<_> =
        steps.filter(|step| !SEALED.iter().any(|part| step.call.contains(part))).collect();
    for step in &steps {
        let mut step = step.clone();
        step.plain = true;
        run.step(&step, &mut Vec::new()).await.with_context(|| format!("step {}", step.name))?;
    }
    let client = server.client.clone().with_keys(KEYS.0, KEYS.1).with_timeout(PATIENCE);
    for n in 0..STATES.len() as u64 {
        let trace = Trace::new(FIRST_TRACE + n, "further")
            .generation("answer with an order", "Your order is here.");
        let sent = client.json(Method::POST, OTLP, &trace.to_json()).await?;
        anyhow::ensure!(sent.status == 200, "{}", sent.text());
        let path = format!("/api/v1/executions?traceId={}", trace_id(FIRST_TRACE + n));
        wait_for(&client, &path, |answer| answer["data"][0]["state"] == "completed").await?;
    }
    spread(database.url()).await?;
    let mut paths: Vec<(String, bool)> = Vec::new();
    for step in &steps {
        let (method, path) = step.method_and_path()?;
        if let (Method::GET, Some(of_organization)) = (method, list_scope(step.caller)) {
            paths.push((run.filled(path)?, of_organization));
        }
    }
    let further = (0..STATES.len() as u64).map(|n| trace_id(FIRST_TRACE + n));
    paths.extend(further.map(|trace| (format!("/api/v1/executions?traceId={trace}"), false)));
    paths.sort();
    paths.dedup();
    paths.retain(|(path, _)| !PASSING.iter().any(|part| path.contains(part)));
    let mut answers = String::new();
    for (path, is_of_organization) in paths {
        let answer = ask(&origin, &path, is_of_organization).await?;
        if answer.status == 200 {
            answers.push_str(&serde_json::to_string(&answer)?);
            answers.push('\n');
        }
    }
    server.terminate().await?;
    packed(&format!("{}.answers.jsonl.zst", kind(database)), answers.as_bytes())?;
    match database.url() {
        DatabaseUrl::Sqlite(path) => packed("sqlite.db.zst", &std::fs::read(path)?),
        DatabaseUrl::Postgres(url) => packed("postgres.sql.zst", dump(url)?.as_bytes()),
    }
}
