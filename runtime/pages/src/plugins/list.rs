//! `GET P/plugins`: the plug-ins that the project may use, of each name the newest version.

use std::collections::HashMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use perpend_catalog::Plugin;
use perpend_domain::access::Permission::PluginWrite;
use perpend_domain::plugin::Digest;
use perpend_http_kit::problem::Problem;
use perpend_views::{ApiRequest, PluginLine, PluginsPage, Section, Text, plural, size};

use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

/// URL of a version of a plug-in.
pub(crate) fn plugin_href(viewer: &Viewer, digest: &Digest) -> String {
    format!("{}/plugins/{digest}", viewer.base())
}

/// `GET P/plugins`
pub(crate) async fn list_page(State(app): State<App>, viewer: Viewer) -> Result<Response, Problem> {
    let catalog = &app.store.catalog;
    let mut all = catalog.plugins(&viewer.project).await?;
    all.sort_by(Plugin::by_name_and_newest);
    let users = catalog.plugin_user_counts(&viewer.project).await?;
    let api = ApiRequest::new(&viewer.origin, "/api/v1/plugins");
    let view = PluginsPage {
        shell: viewer.shell(Section::Plugins).with_api([api]),
        plugins: all
            .chunk_by(|a, b| a.info.name == b.info.name)
            .filter_map(|versions| line(&viewer, versions, &users))
            .collect(),
        may_write: viewer.may(PluginWrite),
    };
    page(StatusCode::OK, &view)
}

/// The line of the versions of one name, newest first.
fn line(viewer: &Viewer, versions: &[Plugin], users: &HashMap<String, u64>) -> Option<PluginLine> {
    let (newest, others) = versions.split_first()?;
    let n_users = users.get(&newest.info.name).copied().unwrap_or_default();
    Some(PluginLine {
        name: Text::from(newest.info.name.as_str()),
        href: plugin_href(viewer, &newest.digest),
        version: Text::from(newest.info.version.as_str()),
        others: (!others.is_empty()).then(|| plural(others.len() as u64, "other version")),
        description: description(&newest.info.description),
        is_first_party: newest.owner.is_none(),
        evaluators: plural(newest.info.evaluators.len() as u64, "evaluator"),
        capabilities: capabilities(newest),
        users: plural(n_users, "evaluator"),
        size: size(newest.size_bytes),
        created_at: newest.created_at,
    })
}

pub(super) fn capabilities(plugin: &Plugin) -> Text {
    Text::from(match plugin.info.capabilities.names().as_slice() {
        [] => "none".to_owned(),
        names => names.join(", "),
    })
}

pub(crate) fn description(text: &str) -> Option<Text> {
    (!text.trim().is_empty()).then(|| Text::from(text))
}
