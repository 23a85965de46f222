//! Exports to buckets, as far as no bucket is needed: validation, secrets, and access. `tests/sdk` tests the exported
//! rows with an S3 server.

use axum::http::Method;
use perpend_it::{TestApp, wait_for};
use perpend_jobs::exports;
use perpend_server::client::Client;
use serde_json::{Value, json};

const INTEGRATIONS: &str = "/api/public/integrations/blob-storage";

async fn project(client: &Client) -> anyhow::Result<String> {
    let projects = client.get("/api/public/projects").await?.json();
    Ok(projects["data"][0]["id"].as_str().unwrap_or_default().to_owned())
}

/// A disabled export, so that nothing is sent.
fn export(project: &str, more: Value) -> Value {
    let mut body = json!({
        "projectId": project, "type": "S3", "bucketName": "our-bucket", "region": "eu-central-1",
        "accessKeyId": "AKIA", "secretAccessKey": "very secret", "exportFrequency": "daily",
        "enabled": false, "forcePathStyle": false, "fileType": "JSONL", "exportMode": "FULL_HISTORY",
    });
    if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
        body.extend(more);
    }
    body
}

async fn put(client: &Client, body: &Value) -> anyhow::Result<(u16, Value)> {
    let answer = client.json(Method::PUT, INTEGRATIONS, body).await?;
    Ok((answer.status.as_u16(), answer.json()))
}

#[tokio::test]
async fn a_project_has_one_export_which_keeps_omitted_members() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let (organizer, project) = (app.organizer(), project(&app.client).await?);
    let more = json!({ "prefix": "a/b/", "compressed": false, "exportSource": "OBSERVATIONS_V2",
                       "exportFieldGroups": ["core", "io"] });
    let (status, made) = put(&organizer, &export(&project, more)).await?;
    assert_eq!(status, 200, "{made}");
    assert_eq!((&made["prefix"], &made["accessKeyId"]), (&json!("a/b/"), &json!("AKIA")));
    assert!(made["endpoint"].is_null() && made["exportStartDate"].is_null(), "{made}");
    assert!(made["nextSyncAt"].is_null() && made["lastSyncAt"].is_null(), "{made}");
    assert!(!made.to_string().contains("very secret"), "{made}");

    let null = Value::Null;
    let again = json!({ "secretAccessKey": null, "accessKeyId": null, "region": "us-east-1",
                        "exportSource": null, "exportFieldGroups": null });
    let (status, changed) = put(&organizer, &export(&project, again)).await?;
    assert_eq!(status, 200, "{changed}");
    assert_eq!((&changed["id"], &changed["createdAt"]), (&made["id"], &made["createdAt"]));
    assert_eq!(changed["region"], "us-east-1");
    for kept in ["accessKeyId", "exportSource", "exportFieldGroups"] {
        assert_eq!(changed[kept], made[kept], "{kept}");
    }
    let listed = organizer.get(INTEGRATIONS).await?.json();
    assert_eq!(listed, json!({ "data": [changed] }));

    let path = format!("{INTEGRATIONS}/{}", made["id"].as_str().unwrap_or_default());
    let shown = organizer.get(&path).await?.json();
    assert_eq!(
        shown,
        json!({ "id": made["id"], "projectId": project, "syncStatus": "disabled", "enabled": false,
                "nextSyncAt": null, "lastSyncAt": null, "lastError": null, "lastErrorAt": null })
    );
    let gone = organizer.json(Method::DELETE, &path, &null).await?;
    assert!(gone.status == 200 && gone.json()["message"].is_string());
    assert_eq!(organizer.get(&path).await?.status, 404);
    assert_eq!(organizer.get(INTEGRATIONS).await?.json(), json!({ "data": [] }));
    app.stop().await
}

#[tokio::test]
async fn a_kept_secret_goes_nowhere_but_where_it_was_given_for() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let (organizer, project) = (app.organizer(), project(&app.client).await?);
    let theirs = json!({ "type": "AZURE_BLOB_STORAGE", "accessKeyId": "account",
                         "secretAccessKey": "dmVyeSBzZWNyZXQ=", "endpoint": "https://store.example.com/" });
    let (status, made) = put(&organizer, &export(&project, theirs.clone())).await?;
    assert_eq!(status, 200, "{made}");
    let again = |more: Value| {
        let mut body = export(&project, theirs.clone());
        body["secretAccessKey"] = Value::Null;
        if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
            body.extend(more);
        }
        body
    };
    for elsewhere in [
        json!({ "type": "S3_COMPATIBLE" }),
        json!({ "endpoint": "https://evil.example.com" }),
        json!({ "endpoint": "http://store.example.com" }),
        json!({ "endpoint": null }),
        json!({ "accessKeyId": "another" }),
    ] {
        let (status, response) = put(&organizer, &again(elsewhere.clone())).await?;
        let named = response["error"][0]["path"][0].as_str().unwrap_or_default();
        assert_eq!((status, named), (400, "secretAccessKey"), "{elsewhere}: {response}");
    }
    for same in [
        json!({ "bucketName": "another" }),
        json!({ "endpoint": "https://store.example.com", "accessKeyId": null }),
    ] {
        let (status, kept) = put(&organizer, &again(same)).await?;
        assert_eq!((status, &kept["accessKeyId"]), (200, &json!("account")), "{kept}");
    }
    app.stop().await
}

#[tokio::test]
async fn an_export_of_another_organization_responds_like_a_missing_one() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let other = app.other_project().await?;
    let theirs = Client::new(&app.origin).with_keys("pk-other-org", "sk-other-org");
    let (status, made) = put(&theirs, &export(&project(&other).await?, json!({}))).await?;
    assert_eq!(status, 200, "{made}");
    let organizer = app.organizer();
    let path = |id: &str| format!("{INTEGRATIONS}/{id}");
    let id = made["id"].as_str().unwrap_or_default();
    for method in [Method::GET, Method::DELETE] {
        let foreign = organizer.json(method.clone(), &path(id), &json!({})).await?;
        let missing = organizer.json(method, &path("none"), &json!({})).await?;
        assert_eq!((foreign.status, foreign.text()), (missing.status, missing.text()));
    }
    let (status, _) = put(&organizer, &export(&project(&other).await?, json!({}))).await?;
    assert_eq!(status, 404);
    assert_eq!(organizer.get(INTEGRATIONS).await?.json(), json!({ "data": [] }));
    app.stop().await
}

#[tokio::test]
async fn invalid_members_are_refused_by_name() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let (organizer, project) = (app.organizer(), project(&app.client).await?);
    for (field, more) in [
        ("type", json!({ "type": "FTP" })),
        ("fileType", json!({ "fileType": "PARQUET" })),
        ("exportFrequency", json!({ "exportFrequency": "yearly" })),
        ("exportMode", json!({ "exportMode": "FROM_YESTERDAY" })),
        ("exportStartDate", json!({ "exportMode": "FROM_CUSTOM_DATE" })),
        (
            "exportStartDate",
            json!({ "exportMode": "FROM_CUSTOM_DATE", "exportStartDate": "2999-01-01T00:00:00Z" }),
        ),
        ("bucketName", json!({ "bucketName": "evil.example.com/" })),
        ("bucketName", json!({ "bucketName": "Upper" })),
        (
            "bucketName",
            json!({ "type": "AZURE_BLOB_STORAGE", "accessKeyId": "account", "bucketName": "a--b" }),
        ),
        ("region", json!({ "region": "eu.example.com/" })),
        ("region", json!({ "region": "" })),
        ("endpoint", json!({ "type": "S3_COMPATIBLE" })),
        ("endpoint", json!({ "endpoint": "ftp://store.example.com" })),
        ("endpoint", json!({ "endpoint": "https://user:password@store.example.com" })),
        ("accessKeyId", json!({ "accessKeyId": null })),
        ("accessKeyId", json!({ "type": "AZURE_BLOB_STORAGE", "accessKeyId": "a.example.com/" })),
        ("secretAccessKey", json!({ "secretAccessKey": null })),
        ("secretAccessKey", json!({ "type": "GOOGLE_CLOUD_STORAGE" })),
        (
            "endpoint",
            json!({ "type": "GOOGLE_CLOUD_STORAGE", "endpoint": "http://store.example.com" }),
        ),
        ("prefix", json!({ "prefix": "no-slash" })),
        ("prefix", json!({ "prefix": "../up/" })),
        ("prefix", json!({ "prefix": "/" })),
        ("exportFieldGroups", json!({ "exportFieldGroups": ["core"] })),
        (
            "exportFieldGroups",
            json!({ "exportSource": "OBSERVATIONS_V2", "exportFieldGroups": ["io"] }),
        ),
        (
            "exportFieldGroups",
            json!({ "exportSource": "OBSERVATIONS_V2", "exportFieldGroups": ["core", "all"] }),
        ),
    ] {
        let (status, response) = put(&organizer, &export(&project, more.clone())).await?;
        let named = response["error"][0]["path"][0].as_str().unwrap_or_default();
        assert_eq!((status, named), (400, field), "{more}: {response}");
    }
    let (_, parquet) = put(&organizer, &export(&project, json!({ "fileType": "PARQUET" }))).await?;
    let response = parquet["message"].as_str().unwrap_or_default();
    assert!(["JSON", "CSV", "JSONL"].iter().all(|known| response.contains(known)), "{response}");
    app.stop().await
}

#[tokio::test]
async fn the_same_date_again_does_not_restart_the_history() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let (organizer, project) = (app.organizer(), project(&app.client).await?);
    let since = json!({ "exportMode": "FROM_CUSTOM_DATE",
                        "exportStartDate": "2026-01-02T03:04:05.678901Z" });
    let (status, made) = put(&organizer, &export(&project, since.clone())).await?;
    assert_eq!(status, 200, "{made}");
    let id = perpend_domain::ids::ProjectId::new(&project)?;
    let stored = app.app.store.catalog.blob_export(&id).await?;
    let mut stored = stored.ok_or(anyhow::anyhow!("gone"))?;
    stored.state.last_sync_at = Some(stored.created_at);
    app.app.store.catalog.put_blob_export(&stored).await?;
    let (_, again) = put(&organizer, &export(&project, since)).await?;
    assert!(again["lastSyncAt"].is_string(), "{again}");
    app.stop().await
}

#[tokio::test]
async fn an_endpoint_is_an_address_with_the_bucket_before_it_too() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let (organizer, project) = (app.organizer(), project(&app.client).await?);
    for (field, more) in [
        ("endpoint", json!({ "endpoint": "http://1.2.3.4.5", "forcePathStyle": true })),
        ("forcePathStyle", json!({ "endpoint": "http://127.0.0.1:9", "forcePathStyle": false })),
    ] {
        let (status, response) = put(&organizer, &export(&project, more.clone())).await?;
        let named = response["error"][0]["path"][0].as_str().unwrap_or_default();
        assert_eq!((status, named), (400, field), "{more}: {response}");
    }
    app.stop().await
}

#[tokio::test]
async fn an_export_does_not_reach_private_addresses() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let (organizer, project) = (app.organizer(), project(&app.client).await?);
    let inside = |endpoint: &str, enabled: bool| {
        let more = json!({ "type": "S3_COMPATIBLE", "endpoint": endpoint, "forcePathStyle": true, "enabled": enabled });
        export(&project, more)
    };
    for endpoint in [
        app.origin.clone(),
        "http://localhost:9".to_owned(),
        "http://169.254.169.254".to_owned(),
        "http://[::ffff:127.0.0.1]:9".to_owned(),
        "http://2130706433:9".to_owned(),
    ] {
        let (status, response) = put(&organizer, &inside(&endpoint, true)).await?;
        let message = response["message"].as_str().unwrap_or_default();
        assert_eq!(status, 400, "{endpoint}: {response}");
        assert!(message.contains("is not a public address"), "{endpoint}: {message}");
    }
    // One that was made before, or by a name that has moved since, fails where it can be seen.
    let (status, made) = put(&organizer, &inside(&app.origin, false)).await?;
    assert_eq!(status, 200, "{made}");
    let id = perpend_domain::ids::ProjectId::new(&project)?;
    let mut stored =
        app.app.store.catalog.blob_export(&id).await?.ok_or(anyhow::anyhow!("gone"))?;
    stored.is_enabled = true;
    stored.state.next_sync_at = Some(stored.created_at);
    app.app.store.catalog.put_blob_export(&stored).await?;
    exports::write_due(&app.app.exports).await?;
    let path = format!("{INTEGRATIONS}/{}", stored.id);
    let failed = wait_for(&organizer, &path, |status| status["syncStatus"] == "error").await?;
    let response = failed["lastError"].as_str().unwrap_or_default();
    assert!(response.contains("is not a public address"), "{response}");
    assert!(failed["lastSyncAt"].is_null(), "{failed}");
    app.stop().await
}
