//! `/api/v1/plugins`: what evaluators can be made from, and registering more.
//!
//! A plug-in is immutable: its digest is its identity, and a project's name and version stand for one
//! digest. Evaluators pin digests, so nothing here changes what an evaluator does, save a rollback, which
//! makes new versions of evaluators and says so.

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

const LIST_PARAMS: &[Param] =
    &[param("name", "string", "Only the versions of this plug-in, `vendor/name`.")];

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listPlugins",
        LIST,
        "Plug-ins that the project may use, by name and version",
        PluginRead,
    );
    routes.add(list.query(LIST_PARAMS), list_plugins);
    let upload = Operation::post(
        "registerPlugin",
        LIST,
        "Upload a component (application/wasm, at most 64 MiB) and register it as a plug-in; the same bytes \
         again answer 200 with what is registered",
        PluginWrite,
    );
    routes.add(upload, upload::upload_plugin);
    let rollback = Operation::post(
        "rollBackPlugin",
        ROLLBACK,
        "Give the evaluators that use a plug-in a former version of it, as new versions of theirs",
        PluginWrite,
    );
    routes.add(rollback.body::<Rollback>(), rollback::roll_back);
    let get = Operation::get(
        "getPlugin",
        ONE,
        "One plug-in by digest, with its other versions and who uses it",
        PluginRead,
    );
    routes.add(get, get_plugin);
    let delete = Operation::delete(
        "deletePlugin",
        ONE,
        "Delete a plug-in that no evaluator is made from",
        PluginWrite,
    );
    routes.add(delete, delete_plugin);
    let component = Operation::get(
        "getPluginComponent",
        COMPONENT,
        "The component's bytes (application/wasm)",
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
    let wanted = plugins.iter().filter(|plugin| name.is_none_or(|name| plugin.info.name == name));
    Ok(Answer(Plugins { data: wanted.map(view::plugin).collect(), meta: view::offer() }))
}

/// The plug-in that a path names.
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
    // The name was checked: letters, digits and hyphens.
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
        let message = format!("{} comes with the server and cannot be deleted", plugin.info.name);
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

/// The refusal to delete what evaluators are made from, with their names.
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
        "{}@{} is in use: made from it are {}. Delete these evaluators first; their old versions too can be \
         run again",
        plugin.info.name,
        plugin.info.version,
        named.join(", ")
    );
    let users: Vec<_> = users.iter().map(view::user).collect();
    Problem::new(Code::Conflict, message).with("users", json!(users))
}
