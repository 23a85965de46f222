//! A script of requests to every operation, replayed on SQLite and on PostgreSQL and compared with a snapshot of the
//! responses: status, headers and body; of errors the code and the path, not the text.
//!
//! `PERPEND_RECORD=responses` writes the snapshot `responses.jsonl` again. Its diff is part of the review of a change.

mod audited;
mod contract;
mod masked;
mod recording;
pub(crate) mod script;
mod variants;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use perpend_db::DatabaseUrl;
use perpend_it::{Child, ORGANIZATION_KEYS};
use perpend_storage::testing::TempDatabase;
use serde_json::Value;

use audited::Exchange;
use contract::{Contract, Success};
use recording::{Answered, Snapshot};
use script::{Caller, Run, Script};

/// With the value `responses`, the snapshot is written instead of compared.
const RECORD: &str = "PERPEND_RECORD";

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded")
}

/// The result of a replay of the script.
struct Replay {
    answers: Vec<Answered>,
    successes: Vec<Success>,
    exchanges: Vec<Exchange>,
    /// The audit trail, by id of the request.
    trail: BTreeMap<String, Vec<Value>>,
}

/// Replays the script on an empty database.
async fn replay(script: &Script, database: &TempDatabase) -> anyhow::Result<Replay> {
    let data = tempfile::tempdir()?;
    let (public, secret) = ORGANIZATION_KEYS;
    let url = match database.url() {
        DatabaseUrl::Postgres(url) => url,
        DatabaseUrl::Sqlite(_) => "",
    };
    let more =
        ["--database-url", url, "--init-org-public-key", public, "--init-org-secret-key", secret];
    let mut server = Child::with(&data.path().join("data"), &more).await?;
    let mut run = Run::new(server.client.origin());
    let mut answers = Vec::new();
    for step in &script.steps {
        run.step(step, &mut answers).await.with_context(|| format!("step {}", step.name))?;
    }
    let trail = audited::trail(&run.client_of(Caller::Organization)).await?;
    server.terminate().await?;
    let Run { successes, exchanges, .. } = run;
    Ok(Replay { answers, successes, exchanges, trail })
}

#[tokio::test]
async fn every_operation_answers_as_recorded_on_both_databases() -> anyhow::Result<()> {
    let script = Script::read(&folder().join("script"))?;
    let path = folder().join("responses.jsonl");
    let is_recording = std::env::var(RECORD).is_ok_and(|what| what == "responses");
    for database in TempDatabase::each().await {
        eprintln!("on {}", database.url());
        let Replay { answers, .. } = replay(&script, &database).await?;
        if is_recording {
            return Snapshot(answers).write(&path);
        }
        Snapshot::read(&path)?.compare(&answers)?;
    }
    Ok(())
}

#[tokio::test]
async fn every_successful_response_has_the_members_of_its_schema_and_every_change_one_audit_record()
-> anyhow::Result<()> {
    let script = Script::read(&folder().join("script"))?;
    let document = document()?;
    let mut contract = Contract::new(&document)?;
    let database = TempDatabase::sqlite();
    let Replay { successes, exchanges, trail, .. } = replay(&script, &database).await?;
    let mut violations = BTreeSet::new();
    for success in &successes {
        violations.extend(contract.violations(success)?);
    }
    violations.extend(audited::violations(&document, &exchanges, &trail));
    violations.extend(audited::leaks(&trail));
    let violations: Vec<String> = violations.into_iter().collect();
    anyhow::ensure!(violations.is_empty(), "{}", violations.join("\n"));
    Ok(())
}

/// The OpenAPI document.
fn document() -> anyhow::Result<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

/// The operations that the script calls, such as `POST /api/public/datasets`.
fn called(document: &Value, script: &Script) -> anyhow::Result<BTreeSet<String>> {
    let paths = document["paths"].as_object().context("no paths")?;
    let mut called = BTreeSet::new();
    for step in &script.steps {
        let (method, path) = step.method_and_path()?;
        let path = path.split('?').next().unwrap_or_default();
        let matching = paths.keys().filter(|template| script::matches(template, path));
        // `/datasets/{name}` and `/datasets/items` both match: the one with fewer parameters is meant.
        let meant = matching.min_by_key(|template| template.matches('{').count());
        if let Some(template) = meant {
            called.insert(format!("{method} {template}"));
        }
    }
    Ok(called)
}

#[tokio::test]
async fn the_script_calls_every_operation_of_the_document() -> anyhow::Result<()> {
    let document = document()?;
    let script = Script::read(&folder().join("script"))?;
    let called = called(&document, &script)?;
    let mut missing = Vec::new();
    for (path, item) in document["paths"].as_object().context("no paths")? {
        for method in item.as_object().context("no operations")?.keys() {
            let operation = format!("{} {path}", method.to_uppercase());
            if !called.contains(&operation) {
                missing.push(operation);
            }
        }
    }
    anyhow::ensure!(missing.is_empty(), "never called:\n{}", missing.join("\n"));
    Ok(())
}
