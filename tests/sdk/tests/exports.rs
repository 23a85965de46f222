//! Exports to a bucket: data sent to the API are written to files on an S3 server.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context as _;
use axum::http::Method;
use futures_util::FutureExt as _;
use libtest_mimic::Trial;
use perpend_catalog::blob_exports::{ExportLease, ExportPlace};
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Clock as _;
use perpend_it::{TestApp, Trace, trace_id, wait_for};
use perpend_jobs::exports;
use perpend_tests_sdk::{Database, S3, Story, with_s3};
use serde_json::{Value, json};

const INTEGRATIONS: &str = "/api/public/integrations/blob-storage";
const HOUR: Duration = Duration::from_secs(3_600);

/// A server of ours, its project, and a bucket for it.
struct Ground {
    app: TestApp,
    s3: S3,
    project: String,
}

impl Ground {
    async fn new(s3: S3, settings: &[(&'static str, String)]) -> anyhow::Result<Self> {
        let mut all = vec![("exports.private_endpoints", "127.0.0.1")];
        all.extend(settings.iter().map(|(key, value)| (*key, value.as_str())));
        let app = TestApp::with(&all).await?;
        s3.make_bucket("bucket").await?;
        let projects = app.client.get("/api/public/projects").await?.json();
        let project = projects["data"][0]["id"].as_str().context("no project")?;
        Ok(Self { project: project.to_owned(), app, s3 })
    }

    /// Sets the export up; `more` are further members. Its id.
    async fn export(&self, more: Value) -> anyhow::Result<String> {
        let mut body = json!({
            "projectId": self.project, "type": "S3_COMPATIBLE", "bucketName": "bucket",
            "endpoint": self.s3.origin, "region": "us-east-1", "accessKeyId": "key",
            "secretAccessKey": "secret", "prefix": "exports/daily/", "exportFrequency": "hourly",
            "enabled": true, "forcePathStyle": true, "fileType": "JSONL", "exportMode": "FULL_HISTORY",
        });
        if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
            body.extend(more);
        }
        let organizer = self.app.organizer();
        let made = organizer.json(Method::PUT, INTEGRATIONS, &body).await?;
        anyhow::ensure!(made.status == 200, "{} {}", made.status, made.text());
        Ok(made.json()["id"].as_str().unwrap_or_default().to_owned())
    }

    /// Runs due exports and waits until they have ended; returns the status.
    async fn sync(&self, id: &str) -> anyhow::Result<Value> {
        exports::write_due(&self.app.app.exports).await?;
        let path = format!("{INTEGRATIONS}/{id}");
        let is_over =
            |status: &Value| matches!(status["syncStatus"].as_str(), Some("up_to_date" | "error"));
        wait_for(&self.app.organizer(), &path, is_over).await
    }

    /// Names of the files of a table, in the order of their names.
    async fn files(&self, table: &str) -> anyhow::Result<Vec<String>> {
        let folder = format!("exports/daily/{}/{table}/", self.project);
        let mut names = self.s3.names("bucket").await?;
        names.retain(|name| name.starts_with(&folder));
        names.sort();
        Ok(names)
    }

    /// The rows in the lines of some files.
    async fn rows(&self, files: &[String]) -> anyhow::Result<Vec<Value>> {
        let mut rows = Vec::new();
        for name in files {
            for line in self.s3.text("bucket", name).await?.lines() {
                rows.push(serde_json::from_str(line)?);
            }
        }
        Ok(rows)
    }

    async fn score(&self, id: &str, value: f64) -> anyhow::Result<()> {
        let body = json!({ "id": id, "traceId": trace_id(1), "name": "quality", "value": value });
        let path = "/api/public/scores";
        let made = self.app.client.json(Method::POST, path, &body).await?;
        anyhow::ensure!(made.status.is_success(), "{}", made.text());
        Ok(())
    }
}

fn ids(rows: &[Value]) -> Vec<&str> {
    rows.iter().filter_map(|row| row["id"].as_str()).collect()
}

/// Each window holds what was received or changed in it, and nothing twice.
async fn each_window_is_written_once(
    s3: S3,
    settings: Vec<(&'static str, String)>,
) -> anyhow::Result<()> {
    let ground = Ground::new(s3, &settings).await?;
    let app = &ground.app;
    let trace = Trace::new(1, "checkout").generation("answer", "it's \"42\",\nreally");
    app.ingest(&trace).await?;
    ground.score("s1", 0.5).await?;
    app.clock.advance(HOUR);
    let id = ground.export(json!({})).await?;
    let status = ground.sync(&id).await?;
    assert_eq!(status["syncStatus"], "up_to_date", "{status}");
    let first_sync = status["lastSyncAt"].as_str().context("no sync")?.to_owned();

    let files = ground.files("observations").await?;
    let name = first_sync.replace([':', '.'], "-");
    assert!(files[0].ends_with(&format!("/{name}.jsonl.gz")), "{files:?}");
    let rows = ground.rows(&files).await?;
    let shown = app.client.get("/api/public/observations").await?.json();
    assert_eq!((rows.len(), shown["data"].as_array().map(Vec::len)), (2, Some(2)));
    for row in &rows {
        let shown = shown["data"].as_array().context("no list")?;
        let same = shown.iter().find(|one| one["id"] == row["id"]).context("not listed")?;
        for (column, field) in [
            ("trace_id", "traceId"),
            ("type", "type"),
            ("start_time", "startTime"),
            ("parent_observation_id", "parentObservationId"),
            ("input", "input"),
            ("output", "output"),
            ("metadata", "metadata"),
            ("updated_at", "updatedAt"),
        ] {
            assert_eq!(row[column], same[field], "{column}");
        }
        assert_eq!(row["project_id"], ground.project.as_str());
    }
    let traces = ground.rows(&ground.files("traces").await?).await?;
    assert_eq!((ids(&traces), &traces[0]["name"]), (vec![trace.id.as_str()], &json!("checkout")));
    let scores = ground.rows(&ground.files("scores").await?).await?;
    assert_eq!((ids(&scores), &scores[0]["value"]), (vec!["s1"], &json!(0.5)));

    // Late by its own time, new by that of its arrival; and one that changes.
    app.ingest(&Trace::new(2, "late")).await?;
    ground.score("s1", 1.0).await?;
    app.clock.advance(2 * HOUR);
    let status = ground.sync(&id).await?;
    assert_eq!(status["syncStatus"], "up_to_date", "{status}");
    let later = ground.files("traces").await?;
    assert_eq!(later.len(), 2);
    let rows = ground.rows(&later[1..]).await?;
    assert_eq!(ids(&rows), [trace_id(2)]);
    let scores = ground.rows(&ground.files("scores").await?[1..]).await?;
    assert_eq!((ids(&scores), &scores[0]["value"]), (vec!["s1"], &json!(1.0)));
    app.clock.advance(2 * HOUR);
    ground.sync(&id).await?;
    let empty = ground.rows(&ground.files("observations").await?[2..]).await?;
    assert!(empty.is_empty(), "{empty:?}");
    ground.app.stop().await
}

/// The next owner of the export writes the missing files under their intended names.
async fn an_interrupted_window_continues(
    s3: S3,
    mut settings: Vec<(&'static str, String)>,
) -> anyhow::Result<()> {
    settings.push(("exports.max_file_mib", "1".to_owned()));
    let ground = Ground::new(s3, &settings).await?;
    let app = &ground.app;
    let long = "word ".repeat(10_000);
    for n in 1..=120 {
        app.ingest(&Trace::new(n, "step").generation("answer", &long)).await?;
    }
    app.clock.advance(HOUR);
    let id = ground.export(json!({ "compressed": false })).await?;
    ground.sync(&id).await?;
    let whole = ground.files("observations").await?;
    assert!(2 < whole.len(), "{whole:?}");
    let rows = ground.rows(&whole).await?;
    let unique: BTreeSet<_> =
        rows.iter().map(|row| (row["trace_id"].as_str(), row["id"].as_str())).collect();
    assert_eq!((rows.len(), unique.len()), (240, 240));

    // As a server leaves it that ends after the second file of another window.
    app.ingest(&Trace::new(500, "one more")).await?;
    app.clock.advance(2 * HOUR);
    let (fence, now) = (77, app.clock.now());
    let store = &app.app.store;
    let claimed = store.catalog.claim_blob_export(fence, now.plus_millis(1_000), now).await?;
    if claimed.is_some() {
        let project = ProjectId::new(&ground.project)?;
        let lease = ExportLease { project, fence };
        let position = ExportPlace { n_tables: 1, n_files: 1, after: None };
        let end = now.plus_millis(-30 * 60_000);
        let until = now.plus_millis(1_000);
        assert!(store.catalog.advance_blob_export(&lease, until, end, &position).await?);
        app.clock.advance(Duration::from_secs(2));
        ground.sync(&id).await?;
        let end = end.to_string().replace([':', '.'], "-");
        let mut written = ground.files("observations").await?;
        written.retain(|name| !whole.contains(name));
        assert!(written[0].ends_with(&format!("/{end}-0002.jsonl")), "{written:?}");
        assert_eq!(ground.rows(&written).await?.len(), 1);
        assert_eq!(
            ground.files("traces").await?.iter().filter(|name| name.contains(&end)).count(),
            0
        );
        assert_eq!(ground.files("scores").await?.len(), 2);
    }
    ground.app.stop().await
}

/// A failure is shown, and over once the cause is.
async fn a_failure_is_shown_until_a_retry_succeeds(
    s3: S3,
    settings: Vec<(&'static str, String)>,
) -> anyhow::Result<()> {
    let ground = Ground::new(s3, &settings).await?;
    let app = &ground.app;
    app.ingest(&Trace::new(1, "checkout")).await?;
    let nowhere = ground.export(json!({ "bucketName": "nowhere" })).await;
    let refused = nowhere.err().context("a bucket that is not there was taken")?.to_string();
    assert!(refused.contains("bucketName") && refused.contains("NoSuchBucket"), "{refused}");

    let id = ground.export(json!({})).await?;
    ground.sync(&id).await?;
    ground.s3.delete_bucket("bucket").await?;
    app.clock.advance(HOUR);
    let status = ground.sync(&id).await?;
    assert_eq!(status["syncStatus"], "error", "{status}");
    let error = status["lastError"].as_str().unwrap_or_default();
    assert!(error.contains("NoSuchBucket"), "{error}");
    assert!(status["lastErrorAt"].is_string() && status["nextSyncAt"].is_string());

    ground.s3.make_bucket("bucket").await?;
    app.clock.advance(HOUR);
    exports::write_due(&app.app.exports).await?;
    let path = format!("{INTEGRATIONS}/{id}");
    let is_over = |status: &Value| status["syncStatus"] == "up_to_date";
    let status = wait_for(&app.organizer(), &path, is_over).await?;
    assert!(status["lastError"].is_null() && status["lastErrorAt"].is_null(), "{status}");
    let rows = ground.rows(&ground.files("traces").await?).await?;
    assert_eq!(ids(&rows), [trace_id(1)]);
    ground.app.stop().await
}

/// Types of files, sources and groups of columns.
async fn files_have_the_requested_type_and_columns(
    s3: S3,
    settings: Vec<(&'static str, String)>,
) -> anyhow::Result<()> {
    let ground = Ground::new(s3, &settings).await?;
    let app = &ground.app;
    app.ingest(&Trace::new(1, "checkout").generation("answer", "a, \"b\"")).await?;
    app.clock.advance(HOUR);
    let id = ground
        .export(json!({
            "fileType": "CSV", "compressed": false, "exportSource": "OBSERVATIONS_V2",
            "exportFieldGroups": ["core", "io", "trace_context"],
        }))
        .await?;
    ground.sync(&id).await?;
    let files = ground.files("observations_v2").await?;
    let text = ground.s3.text("bucket", &files[0]).await?;
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some(
            "id,trace_id,project_id,parent_observation_id,type,start_time,end_time,input,output,tags,\
             release,trace_name"
        )
    );
    assert!(text.contains(",question,\"a, \"\"b\"\"\",[],,checkout\r\n"), "{text}");
    assert!(ground.files("traces").await?.is_empty());
    assert!(ground.files("observations").await?.is_empty());
    assert_eq!(ground.files("scores").await?.len(), 1);

    // Another start of the export starts another history: all of it is written again with the current settings.
    let id = ground
        .export(json!({
            "fileType": "JSON", "exportMode": "FROM_CUSTOM_DATE", "exportStartDate": "2020-01-01T00:00:00Z",
            "exportSource": "LEGACY_TRACES_AND_ENRICHED_OBSERVATIONS", "exportFieldGroups": ["core"],
        }))
        .await?;
    ground.sync(&id).await?;
    let files = ground.files("observations").await?;
    assert!(files[0].ends_with(".json.gz"), "{files:?}");
    let rows: Value = serde_json::from_str(&ground.s3.text("bucket", &files[0]).await?)?;
    let columns: Vec<_> = rows[0].as_object().context("no row")?.keys().collect();
    assert_eq!(columns.len(), 7, "{columns:?}");
    assert_eq!(ground.files("observations_v2").await?.len(), 2);

    // Nothing from before today, and today ends in the past.
    let id = ground.export(json!({ "exportMode": "FROM_TODAY" })).await?;
    let status = ground.app.organizer().get(&format!("{INTEGRATIONS}/{id}")).await?.json();
    assert!(status["lastSyncAt"].is_null(), "{status}");
    ground.app.stop().await
}

macro_rules! stories {
    ($($name:ident),+) => {
        [$((stringify!($name), (|s3, settings| $name(s3, settings).boxed_local()) as Story)),+]
    };
}

pub(crate) fn all() -> Vec<Trial> {
    let stories: [(&str, Story); 4] = stories!(
        each_window_is_written_once,
        an_interrupted_window_continues,
        a_failure_is_shown_until_a_retry_succeeds,
        files_have_the_requested_type_and_columns
    );
    let trials = stories
        .iter()
        .flat_map(|(name, story)| Database::ALL.map(|database| with_s3(name, database, *story)));
    trials.collect()
}
