//! `/api/v1/plugins`: what evaluators can be made from, and uploading more.

use assay_domain::plugin::{EvaluatorInfo, ItemParts};
use assay_store::catalog::Plugin;
use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::routes::{Operation, Routes};
use crate::App;
use crate::auth::{Reader, Writer};
use crate::extract::read;
use crate::problem::{Code, Problem};

/// Largest component.
const MAX_COMPONENT_BYTES: usize = 64 << 20;
const LIST: &str = "/api/v1/plugins";

pub(super) fn routes(routes: &mut Routes) {
    routes.add(
        Operation::get(LIST, "Plug-ins that the project may use"),
        list_plugins,
    );
    let upload = Operation::post(
        LIST,
        "Upload a component (application/wasm) and register it as a plug-in",
    );
    routes.add(upload.status(201), upload_plugin);
    let get = Operation::get("/api/v1/plugins/{digest}", "One plug-in by digest");
    routes.add(get, get_plugin);
}

fn needs(parts: ItemParts) -> Vec<&'static str> {
    let all = [
        ("input", parts.input),
        ("output", parts.output),
        ("expectedOutput", parts.expected_output),
        ("metadata", parts.metadata),
        ("trace", parts.trace),
    ];
    all.into_iter()
        .filter(|(_, is_needed)| *is_needed)
        .map(|(name, _)| name)
        .collect()
}

fn evaluator_view(info: &EvaluatorInfo) -> Value {
    let schema: Value = serde_json::from_str(&info.config_schema).unwrap_or(Value::Null);
    json!({
        "id": info.id,
        "title": info.title,
        "description": info.description,
        "configSchema": schema,
        "needs": needs(info.needs),
        "slots": info.slots,
        "scores": info.scores,
        "dynamicScores": info.dynamic_scores,
        "deterministic": info.deterministic,
    })
}

fn view(plugin: &Plugin) -> Value {
    let evaluators: Vec<Value> = plugin.info.evaluators.iter().map(evaluator_view).collect();
    json!({
        "name": plugin.info.name,
        "version": plugin.info.version,
        "digest": plugin.digest,
        "description": plugin.info.description,
        "isFirstParty": plugin.owner.is_none(),
        "capabilities": plugin.info.capabilities.names(),
        "sizeBytes": plugin.size_bytes,
        "evaluators": evaluators,
        "createdAt": plugin.created_at,
    })
}

async fn list_plugins(State(app): State<App>, caller: Reader) -> Result<Json<Value>, Problem> {
    let plugins = app.store.plugins(&caller.project).await?;
    let data: Vec<Value> = plugins.iter().map(view).collect();
    Ok(Json(json!({ "data": data })))
}

async fn get_plugin(
    State(app): State<App>,
    caller: Reader,
    Path(digest): Path<String>,
) -> Result<Json<Value>, Problem> {
    let missing = || Problem::not_found("plug-in");
    let digest = digest
        .strip_prefix("sha256:")
        .unwrap_or(&digest)
        .parse()
        .map_err(|_| missing())?;
    let plugin = app.store.plugin(&caller.project, &digest).await?;
    Ok(Json(view(&plugin.ok_or_else(missing)?)))
}

async fn upload_plugin(
    State(app): State<App>,
    caller: Writer,
    request: Request,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let bytes = read(request, MAX_COMPONENT_BYTES).await?;
    let info = app.engine.inspect(&bytes).await.map_err(|problems| {
        let lines: Vec<_> = problems
            .iter()
            .map(|p| format!("{}: {}", p.at, p.message))
            .collect();
        let message = format!(
            "the component cannot be used as a plug-in: {}",
            lines.join("; ")
        );
        Problem::new(Code::InvalidComponent, message).with("problems", json!(problems))
    })?;
    let project = &caller.project;
    let digest = app
        .store
        .put_plugin(Some(project), &info, &bytes, app.clock.now())
        .await?;
    let plugin = app
        .store
        .plugin(project, &digest)
        .await?
        .ok_or_else(Problem::internal)?;
    Ok((StatusCode::CREATED, Json(view(&plugin))))
}
