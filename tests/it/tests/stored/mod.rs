//! Databases of 0.1 load in this version, and the API returns the same from them.
//!
//! `tests/corpus/stored/0.1` holds a database of each kind, made by the program of 0.1, and the responses of
//! that program. They are created with `PERPEND_RECORD=stored` and `PERPEND_TEST_PROGRAM` naming that program, and never
//! change: `differs` lists the intended differences.

mod made;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;
use perpend_db::testing::patient;
use perpend_db::{
    Breakpoints, CURRENT, DatabaseUrl, Error, KNOWN, MigrationMode, Options, Pool, STATEMENT,
    STEPS, in_transaction, migrate, query_scalar,
};
use perpend_domain::time::Timestamp;
use perpend_it::{KEYS, ORGANIZATION_KEYS, PATIENCE, TestApp, TestClock};
use perpend_server::client::Client;
use perpend_storage::testing::TempDatabase;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::recorded::script::Caller;

/// When 0.1 stored and answered. What waited then, for a day at most, waits still: later it would be scored.
const RECORDED_AT: &str = "2026-11-23T17:32:00Z";

/// An answer as it was given.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Answer {
    path: String,
    is_of_organization: bool,
    status: u16,
    body: Value,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/stored/0.1")
}

const fn kind(database: &TempDatabase) -> &'static str {
    match database.url() {
        DatabaseUrl::Sqlite(_) => "sqlite",
        DatabaseUrl::Postgres(_) => "postgres",
    }
}

fn unpacked(name: &str) -> anyhow::Result<Vec<u8>> {
    let path = folder().join(name);
    let packed = std::fs::read(&path).with_context(|| path.display().to_string())?;
    Ok(zstd::decode_all(packed.as_slice())?)
}

fn packed(name: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let packed = zstd::encode_all(bytes, 19)?;
    Ok(std::fs::write(folder().join(name), packed)?)
}

/// Fills an empty database with what 0.1 stored.
async fn restore(database: &TempDatabase) -> anyhow::Result<()> {
    match database.url() {
        DatabaseUrl::Sqlite(path) => std::fs::write(path, unpacked("sqlite.db.zst")?)?,
        url @ DatabaseUrl::Postgres(_) => {
            let dump = String::from_utf8(unpacked("postgres.sql.zst")?)?;
            let pool = Pool::open(url, &patient()).await?;
            let filled: Result<(), Error> = async {
                in_transaction!(&pool, |tx| {
                    tx.run_script(dump).await?;
                });
                Ok(())
            }
            .await;
            filled?;
            pool.close().await;
        }
    }
    Ok(())
}

async fn version(pool: &Pool) -> anyhow::Result<i64> {
    Ok(query_scalar(CURRENT).fetch_one(pool).await?)
}

/// Migrates, killed after the first statement, then after the second, and so on until none is left; how many
/// statements there were.
async fn migrate_killed_at_every_statement(url: &DatabaseUrl) -> anyhow::Result<u32> {
    for n_allowed in 0.. {
        let n_left = Arc::new(AtomicU32::new(n_allowed));
        let options = Options {
            breakpoints: Breakpoints::new(move |at| {
                at == STATEMENT && n_left.fetch_sub(1, Ordering::SeqCst) == 0
            }),
            ..patient()
        };
        let pool = Pool::open(url, &options).await?;
        let before = version(&pool).await?;
        let migrated = migrate(&pool, STEPS, MigrationMode::Migrate).await;
        let after = version(&pool).await?;
        pool.close().await;
        match migrated {
            Ok(()) => {
                anyhow::ensure!(after == KNOWN, "{after} of {KNOWN} steps");
                return Ok(n_allowed);
            }
            Err(Error::Stopped(_)) => {
                anyhow::ensure!(after == before, "half migrated: {before}, then {after}");
            }
            Err(error) => return Err(error.into()),
        }
    }
    anyhow::bail!("never ends")
}

/// The database URL in the form of the setting `database.url`.
fn url_text(database: &TempDatabase) -> String {
    match database.url() {
        DatabaseUrl::Sqlite(path) => format!("sqlite:{}", path.display()),
        DatabaseUrl::Postgres(url) => url.clone(),
    }
}

fn client(origin: &str, is_of_organization: bool) -> Client {
    let (public, secret) = match is_of_organization {
        true => ORGANIZATION_KEYS,
        false => KEYS,
    };
    Client::new(origin).with_keys(public, secret).with_timeout(PATIENCE)
}

/// Hides where the server listens, and what an address is signed with.
fn shown(origin: &str, body: &[u8]) -> Value {
    match serde_json::from_slice(body) {
        Ok(mut json) => {
            hide(origin, &mut json);
            json
        }
        Err(_) => Value::String(String::from_utf8_lossy(body).replace(origin, "<origin>")),
    }
}

fn hide(origin: &str, value: &mut Value) {
    match value {
        Value::String(text) if text.contains("&signature=") => "<signed>".clone_into(text),
        Value::String(text) => *text = text.replace(origin, "<origin>"),
        Value::Array(items) => items.iter_mut().for_each(|item| hide(origin, item)),
        Value::Object(members) => {
            for (name, value) in members {
                match name.as_str() {
                    // Asking with a key is a use of it.
                    "lastUsedAt" | "urlExpiry" => *value = Value::Null,
                    _ => hide(origin, value),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether an answer is another one than it is meant to be.
fn differs(before: &Answer, now: &Answer) -> bool {
    // A rule that waits for something outside of it takes its targets all the same.
    if before.body["step"] == "rule_paused" && now.status == 200 {
        return false;
    }
    let mut expected = before.body.clone();
    // Texts are free to change: `step` is the code of `explanation`.
    if expected["step"].is_string() && now.body["explanation"].is_string() {
        expected["explanation"] = now.body["explanation"].clone();
    }
    // A list of prompts by label shows the versions that have it, not all versions.
    if before.path.contains("/prompts?") && before.path.contains("label=") {
        let lists = (expected["data"].as_array_mut(), now.body["data"].as_array());
        if let (Some(expected), Some(now)) = lists {
            for (expected, now) in expected.iter_mut().zip(now) {
                expected["versions"] = now["versions"].clone();
            }
        }
    }
    // Runs made of spans are runs of their dataset.
    if before.path.starts_with("/api/public/datasets?") {
        let lists = (expected["data"].as_array_mut(), now.body["data"].as_array());
        if let (Some(expected), Some(now)) = lists {
            for (expected, now) in expected.iter_mut().zip(now) {
                expected["runs"] = now["runs"].clone();
            }
        }
    }
    let mut actual = without_new(&now.body);
    if before.path.starts_with("/api/public/scim/Schemas") {
        remove_descriptions(&mut expected);
        remove_descriptions(&mut actual);
    }
    (now.status, actual) != (before.status, expected)
}

/// Removes the texts of SCIM attributes, which are free to change.
fn remove_descriptions(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| name != "description");
            members.values_mut().for_each(remove_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_descriptions),
        _ => {}
    }
}

/// Removes members that 0.1 did not have, if they have the value for data of 0.1.
fn without_new(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_new).collect(),
        Value::Object(members) => {
            let is_new = |(name, value): &(&String, &Value)| {
                let is_list = ["budget", "lostToBudget"].contains(&name.as_str());
                is_list && **value == Value::Array(vec![])
                    || name.as_str() == "scope" && *value == "full"
                    || name.as_str() == "direction" && value.is_null()
                    || name.as_str() == "revision" && value.is_string()
                    || name.as_str() == "funnel" && value.is_object()
            };
            let old = members.iter().filter(|member| !is_new(member));
            Value::Object(old.map(|(name, value)| (name.clone(), without_new(value))).collect())
        }
        other => other.clone(),
    }
}

async fn ask(origin: &str, path: &str, is_of_organization: bool) -> anyhow::Result<Answer> {
    let answer = client(origin, is_of_organization).get(path).await?;
    Ok(Answer {
        path: path.to_owned(),
        is_of_organization,
        status: answer.status.as_u16(),
        body: shown(origin, &answer.body),
    })
}

#[tokio::test]
async fn databases_of_0_1_respond_as_before_after_a_migration_killed_at_every_statement()
-> anyhow::Result<()> {
    for database in TempDatabase::each().await {
        if std::env::var("PERPEND_RECORD").is_ok_and(|what| what == "stored") {
            made::make(&database).await?;
            continue;
        }
        eprintln!("on {}", database.url());
        restore(&database).await?;
        let n_statements = migrate_killed_at_every_statement(database.url()).await?;
        eprintln!("{n_statements} statements");
        let data = tempfile::tempdir()?;
        let url = url_text(&database);
        let clock = TestClock::stopped_at(Timestamp::parse(RECORDED_AT)?);
        let stops = Breakpoints::default();
        let app = TestApp::in_dir(data.path(), &[("database.url", &url)], clock, stops).await?;
        let answers = unpacked(&format!("{}.answers.jsonl.zst", kind(&database)))?;
        let mut wrong = Vec::new();
        for line in String::from_utf8(answers)?.lines() {
            let before: Answer = serde_json::from_str(line)?;
            let now = ask(&app.origin, &before.path, before.is_of_organization).await?;
            if differs(&before, &now) {
                wrong.push(format!(
                    "{}\n  before {} {}\n  now    {} {}",
                    before.path, before.status, before.body, now.status, now.body
                ));
            }
        }
        app.stop().await?;
        anyhow::ensure!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    }
    Ok(())
}

/// Whether the lists of the organization or of the project are compared; `None` for other callers.
const fn list_scope(caller: Caller) -> Option<bool> {
    match caller {
        Caller::Project => Some(false),
        Caller::Organization => Some(true),
        Caller::Other | Caller::PublicKey | Caller::Anyone => None,
    }
}
