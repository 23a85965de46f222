//! The API answers what it answered before: a script of requests, recorded with the program of 0.1 and
//! replayed on SQLite and on PostgreSQL.
//!
//! `before.jsonl` is that recording and stays as it is. An answer that is meant to be another one stands in
//! `changed.jsonl` with the reason. `PERPEND_RECORD=changed` writes the differences there with an empty reason,
//! which the test refuses. `PERPEND_RECORD=before` records the steps that are new in the script, with the
//! program of 0.1, which `PERPEND_TEST_PROGRAM` names.

mod masked;
mod recording;
pub(crate) mod script;
mod variants;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use perpend_db::DatabaseUrl;
use perpend_it::{Child, ORGANIZATION_KEYS};
use perpend_storage::testing::TempDatabase;
use serde_json::Value;

use recording::{Answered, Recording};
use script::{Run, Script};

/// What to write instead of comparing.
const RECORD: &str = "PERPEND_RECORD";

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded")
}

/// All answers to the script, on an empty database.
async fn replay(script: &Script, database: &TempDatabase) -> anyhow::Result<Vec<Answered>> {
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
    server.terminate().await?;
    Ok(answers)
}

#[tokio::test]
async fn every_operation_answers_as_recorded_on_both_databases() -> anyhow::Result<()> {
    let script = Script::read(&folder().join("script"))?;
    let mut recording = Recording::read(&folder())?;
    let record = std::env::var(RECORD).unwrap_or_default();
    for database in TempDatabase::each().await {
        eprintln!("on {}", database.url());
        let answers = replay(&script, &database).await?;
        match record.as_str() {
            "" => recording.compare(&answers)?,
            "before" => recording.add_new(&answers),
            "changed" => recording.note_changes(&answers),
            other => anyhow::bail!("{RECORD}={other}: before or changed"),
        }
        if !record.is_empty() {
            return recording.write(&folder());
        }
    }
    recording.check_reasons()
}

/// What the script calls, as `POST /api/public/datasets`.
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
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let document: Value = serde_json::from_slice(&std::fs::read(document)?)?;
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
