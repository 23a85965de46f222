//! `/api/v1/plugins`: list and registration of plug-ins.
//!
//! A plug-in is immutable: its digest is its identity, and name and version identify one
//! digest in a project. Evaluators pin digests, so only a rollback changes evaluators, by
//! new versions.

mod report;
mod rollback;
mod upload;
mod view;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, header};
use perpend_api_types::plugin::{DeletedPlugin, PluginWithUsers, Plugins, Rollback};
use perpend_catalog::{Plugin, PluginUser};
use perpend_domain::access::Permission::{PluginRead, PluginWrite};
use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::Digest;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Param, Params, param};
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use serde_json::json;

use crate::state::{App, Routes};

const LIST: &str = "/api/v1/plugins";
const ONE: &str = "/api/v1/plugins/{digest}";
const COMPONENT: &str = "/api/v1/plugins/{digest}/component";
const ROLLBACK: &str = "/api/v1/plugins/rollback";

const LIST_PARAMS: &[Param] = &[param("name", "string", "Name of the plug-in, `vendor/name`.")];

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listPlugins",
        LIST,
        "List the plug-ins of the project by name and version",
        PluginRead,
    );
    routes.add(list.query(LIST_PARAMS), list_plugins);
    let upload = Operation::post(
        "registerPlugin",
        LIST,
        "Upload a component (application/wasm, at most 64 MiB) and register it as a plug-in; a registered \
         component gives 200",
        PluginWrite,
    );
    routes.add(upload, upload::upload_plugin);
    let rollback = Operation::post(
        "rollBackPlugin",
        ROLLBACK,
        "Create new versions of the evaluators of a plug-in with a former version of it",
        PluginWrite,
    );
    routes.add(rollback.body::<Rollback>(), rollback::roll_back);
    let get = Operation::get(
        "getPlugin",
        ONE,
        "Get a plug-in by digest, with its versions and its evaluators",
        PluginRead,
    );
    routes.add(get, get_plugin);
    let delete =
        Operation::delete("deletePlugin", ONE, "Delete a plug-in without evaluators", PluginWrite);
    routes.add(delete, delete_plugin);
    let component = Operation::get(
        "getPluginComponent",
        COMPONENT,
        "Download the component of a plug-in (application/wasm)",
        PluginRead,
    );
    routes.add(component.bytes("application/wasm"), get_component);
}

async fn list_plugins(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<Plugins>, Problem> {
    let plugins = app.store.catalog.plugins(&caller.project).await?;
    let name = params.text("name");
    let matching = plugins.iter().filter(|plugin| name.is_none_or(|name| plugin.info.name == name));
    Ok(Answer(Plugins { data: matching.map(view::plugin).collect(), meta: view::offer() }))
}

/// The plug-in with a digest.
async fn find(app: &App, project: &ProjectId, digest: &str) -> Result<Plugin, Problem> {
    let missing = || Problem::not_found("plug-in");
    let digest: Digest =
        digest.strip_prefix("sha256:").unwrap_or(digest).parse().map_err(|_| missing())?;
    let plugin = app.store.catalog.plugin(project, &digest).await?;
    plugin.ok_or_else(missing)
}

async fn get_plugin(
    State(app): State<App>,
    caller: Act,
    Path(digest): Path<String>,
) -> Result<Answer<PluginWithUsers>, Problem> {
    let project = &caller.project;
    let plugin = find(&app, project, &digest).await?;
    let all = app.store.catalog.plugins(project).await?;
    let users = app.store.catalog.plugin_users(project, &plugin.digest).await?;
    Ok(Answer(view::detailed(&plugin, &all, &users)))
}

async fn get_component(
    State(app): State<App>,
    caller: Act,
    Path(digest): Path<String>,
) -> Result<(HeaderMap, Vec<u8>), Problem> {
    let plugin = find(&app, &caller.project, &digest).await?;
    let bytes = app.store.catalog.component(&plugin.digest).await?;
    let bytes = bytes.ok_or_else(|| Problem::not_found("plug-in"))?;
    let mut headers = HeaderMap::new();
    let wasm = HeaderValue::from_static("application/wasm");
    headers.insert(header::CONTENT_TYPE, wasm);
    // The name consists of letters, digits and hyphens.
    let short = plugin.info.name.replace('/', "-");
    let file = format!("attachment; filename=\"{short}.wasm\"");
    if let Ok(file) = HeaderValue::from_str(&file) {
        headers.insert(header::CONTENT_DISPOSITION, file);
    }
    if let Ok(tag) = HeaderValue::from_str(&format!("\"sha256:{}\"", plugin.digest)) {
        headers.insert(header::ETAG, tag);
    }
    Ok((headers, bytes))
}

async fn delete_plugin(
    State(app): State<App>,
    caller: Act,
    Path(digest): Path<String>,
) -> Result<Answer<DeletedPlugin>, Problem> {
    let project = &caller.project;
    let plugin = find(&app, project, &digest).await?;
    if plugin.owner.is_none() {
        let message = format!("{} is built in and cannot be deleted", plugin.info.name);
        return Err(Problem::new(Code::AccessDenied, message));
    }
    let users = app.store.catalog.plugin_users(project, &plugin.digest).await?;
    if !users.is_empty() {
        return Err(in_use(&plugin, &users));
    }
    app.store.catalog.delete_plugin(project, &plugin.digest).await?;
    let digest = plugin.digest;
    Ok(Answer(DeletedPlugin { digest }))
}

/// The problem for the deletion of a plug-in with evaluators.
fn in_use(plugin: &Plugin, users: &[PluginUser]) -> Problem {
    const MAX_NAMED: usize = 10;
    let mut named: Vec<String> = users
        .iter()
        .take(MAX_NAMED)
        .map(|user| {
            let numbers: Vec<String> = user.versions.iter().map(u32::to_string).collect();
            let noun = if numbers.len() == 1 { "version" } else { "versions" };
            format!("{:?} ({noun} {})", user.name, numbers.join(", "))
        })
        .collect();
    if MAX_NAMED < users.len() {
        named.push(format!("{} more", users.len() - MAX_NAMED));
    }
    let message = format!(
        "{}@{} is used by {}: delete these evaluators first, because their former versions can be \
         run again",
        plugin.info.name,
        plugin.info.version,
        named.join(", ")
    );
    let users: Vec<_> = users.iter().map(view::user).collect();
    Problem::new(Code::Conflict, message).with("users", json!(users))
}
