//! One thing of each kind, so that bad input gets as far as it can.

use axum::http::Method;
use perpend_it::{TestApp, Trace, trace_id};
use serde_json::{Value, json};

use super::document::Known;

const PICTURE: &str = "LOonTQvtw57Eq2up5Z7IiePtb7VqHPCIpk2bODN43Jc=";

/// Creates the resources; returns their ids by the parameter names of the document.
///
/// # Errors
/// When one is refused.
pub(crate) async fn seeds(app: &TestApp) -> anyhow::Result<Known> {
    app.ingest(&Trace::new(1, "chat").generation("answer", "42")).await?;
    let project = app.client.get("/api/public/projects").await?.json();
    let mut known = Known::from([
        ("traceId", trace_id(1)),
        ("observationId", Trace::span_id(2)),
        ("projectId", string(&project["data"][0]["id"])),
        ("datasetName", "cases".to_owned()),
        ("promptName", "greeting".to_owned()),
        ("runName", "first".to_owned()),
        ("version", "1".to_owned()),
        ("sessionId", "session".to_owned()),
        ("plugin", "perpend/text".to_owned()),
        ("evaluator", "exact-match".to_owned()),
        ("provider", "house".to_owned()),
        ("matchPattern", "^house-model$".to_owned()),
    ]);
    let session = json!({ "id": "in-session", "sessionId": "session", "name": "chat" });
    make(app, Method::POST, "traces", &session).await?;
    let evaluator = json!({});
    let evaluator = app.evaluator("perpend/text", "exact-match", evaluator).await?;
    known.insert(
        "ruleId",
        app.rule(&evaluator, json!({ "enabled": false, "target": "trace" })).await?,
    );
    known.insert("evaluatorId", evaluator);
    let plugins = app.client.get("/api/v1/plugins").await?.json();
    known.insert("digest", string(&plugins["data"][0]["digest"]));
    let made = first_things(&trace_id(1), &known["projectId"]);
    for (name, method, path, body) in made {
        let answer = make(app, method, path, &body).await?;
        let id = match name {
            "mediaId" => &answer["mediaId"],
            _ => &answer["id"],
        };
        if !name.is_empty() {
            known.insert(name, string(id));
        }
    }
    let trace = trace_id(1);
    let mut runs = Vec::new();
    for name in ["first", "second"] {
        let run = json!({ "runName": name, "datasetItemId": known["id"], "traceId": trace });
        let link = make(app, Method::POST, "dataset-run-items", &run).await?;
        runs.push(string(&link["datasetRunId"]));
    }
    known.insert("runs", runs.join(","));
    let dataset = app.client.get("/api/public/v2/datasets/cases").await?.json();
    known.insert("datasetId", string(&dataset["id"]));
    known.insert("datasetItemId", known["id"].clone());
    let queue = json!({ "name": "to look at", "scoreConfigIds": [known["configId"]] });
    let queue = string(&make(app, Method::POST, "annotation-queues", &queue).await?["id"]);
    let item = json!({ "objectId": trace, "objectType": "TRACE" });
    let path = format!("annotation-queues/{queue}/items");
    known.insert("itemId", string(&make(app, Method::POST, &path, &item).await?["id"]));
    known.insert("queueId", queue);
    Ok(known)
}

/// Resources that one request each creates, with the parameter name of the id.
fn first_things(trace: &str, project: &str) -> Vec<(&'static str, Method, &'static str, Value)> {
    vec![
        (
            "configId",
            Method::POST,
            "score-configs",
            json!({ "name": "quality", "dataType": "NUMERIC" }),
        ),
        ("scoreId", Method::POST, "scores", json!({ "traceId": trace, "name": "s", "value": 1 })),
        (
            "",
            Method::POST,
            "v2/prompts",
            json!({ "name": "greeting", "prompt": "hi", "labels": ["production"] }),
        ),
        ("", Method::POST, "v2/datasets", json!({ "name": "cases" })),
        ("id", Method::POST, "dataset-items", json!({ "datasetName": "cases", "input": 1 })),
        (
            "commentId",
            Method::POST,
            "comments",
            json!({ "projectId": project, "objectType": "TRACE", "objectId": trace, "content": "so" }),
        ),
        (
            "modelId",
            Method::POST,
            "models",
            json!({ "modelName": "first-model", "matchPattern": "^first$", "inputPrice": 1 }),
        ),
        (
            "connectionId",
            Method::PUT,
            "llm-connections",
            json!({ "provider": "house", "adapter": "openai", "secretKey": "sk-house" }),
        ),
        (
            "mediaId",
            Method::POST,
            "media",
            json!({ "contentType": "image/png", "contentLength": 7, "sha256Hash": PICTURE, "field": "input", "traceId": trace }),
        ),
    ]
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

async fn make(app: &TestApp, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
    let path = format!("/api/public/{path}");
    let answer = app.client.json(method, &path, body).await?;
    anyhow::ensure!(answer.status.is_success(), "{path}: {}", answer.text());
    Ok(answer.json())
}
