//! `GET P/plugins/{digest}`: a version of a plug-in; `GET …/component` is its component.

use std::cmp::Ordering;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_catalog::{Plugin, PluginUser};
use perpend_domain::access::Permission::{EvaluatorWrite, PluginWrite};
use perpend_domain::plugin::{Digest, EvaluatorInfo, ScoreDomain, ScoreSpec};
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ApiRequest, PluginChanges, PluginEvaluatorView, PluginGrant, PluginMoveLine, PluginPage,
    PluginUserLine, PluginVersionLine, RejectedForm, ResourceLink, Section, Text, size,
};
use serde::Deserialize;
use serde_json::Value;

use super::changes::changes;
use super::list::{capabilities, description, plugin_href};
use crate::request::operations::send;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Evaluators of the project on the page.
const MAX_USERS: usize = 100;
/// Digits of a digest in a table.
const DIGITS: usize = 12;

/// The path of a plug-in.
#[derive(Debug, Deserialize)]
pub(crate) struct PluginPath {
    digest: String,
}

impl PluginPath {
    /// The plug-in.
    pub(super) async fn find(&self, app: &App, viewer: &Viewer) -> Result<Plugin, Problem> {
        let missing = || Problem::not_found("plug-in");
        let digest: Digest = self.digest.parse().map_err(|_| missing())?;
        let plugin = app.store.catalog.plugin(&viewer.project, &digest).await?;
        plugin.ok_or_else(missing)
    }
}

/// The preview of a rollback, or the rejected form.
#[derive(Default)]
pub(super) struct PluginForms {
    /// The selected version.
    pub(super) to: Option<String>,
    /// The evaluators that it would move.
    pub(super) moves: Option<Vec<PluginMoveLine>>,
    pub(super) rejected: RejectedForm,
}

/// `GET P/plugins/{digest}`
pub(crate) async fn plugin_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<PluginPath>,
) -> Result<Response, Problem> {
    let plugin = path.find(&app, &viewer).await?;
    let view = view(&app, &viewer, &plugin, PluginForms::default()).await?;
    page(StatusCode::OK, &view)
}

/// `GET P/plugins/{digest}/component`
pub(crate) async fn component(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<PluginPath>,
) -> Result<Response, Problem> {
    let plugin = path.find(&app, &viewer).await?;
    let operation = format!("/api/v1/plugins/{}/component", plugin.digest);
    let nothing = ("application/json", Body::empty());
    let response = send(&app, &viewer, (Method::GET, &operation), nothing).await?;
    match response.extensions().get::<Problem>() {
        Some(problem) => Err(problem.clone()),
        None => Ok(response),
    }
}

pub(super) async fn view(
    app: &App,
    viewer: &Viewer,
    plugin: &Plugin,
    forms: PluginForms,
) -> Result<PluginPage, Problem> {
    let (catalog, project) = (&app.store.catalog, &viewer.project);
    let mut versions = catalog.plugins(project).await?;
    versions.retain(|other| other.info.name == plugin.info.name);
    versions.sort_by(Plugin::by_name_and_newest);
    let users = catalog.plugin_users(project, &plugin.digest).await?;
    let mut lines = Vec::new();
    for user in users.iter().take(MAX_USERS) {
        lines.push(user_line(app, viewer, plugin, user).await?);
    }
    let path = format!("/api/v1/plugins/{}", plugin.digest);
    let may_write = viewer.may(PluginWrite);
    Ok(PluginPage {
        shell: viewer.shell(Section::Plugins).with_api([ApiRequest::new(&viewer.origin, &path)]),
        name: Text::from(plugin.info.name.as_str()),
        version: Text::from(plugin.info.version.as_str()),
        href: plugin_href(viewer, &plugin.digest),
        description: description(&plugin.info.description),
        facts: facts(plugin),
        evaluators: plugin.info.evaluators.iter().map(evaluator_view).collect(),
        changes: former(&versions, plugin).map(|former| PluginChanges {
            since: Text::from(former.info.version.as_str()),
            lines: changes(&former.info, &plugin.info),
        }),
        capabilities: plugin.info.capabilities.names(),
        users: lines,
        targets: targets(&versions, plugin, forms.to.as_deref()),
        versions: versions.iter().map(|version| version_line(viewer, version, plugin)).collect(),
        moves: forms.moves,
        rejected_form: forms.rejected,
        is_deletable: may_write && plugin.owner.is_some() && users.is_empty(),
        may_write,
        may_grant: viewer.may(EvaluatorWrite),
    })
}

fn facts(plugin: &Plugin) -> Vec<(&'static str, Text)> {
    let origin = match plugin.owner {
        None => "this server",
        Some(_) => "this project",
    };
    vec![
        ("Digest", Text::from(format!("sha256:{}", plugin.digest))),
        ("Origin", Text::from(origin)),
        ("Requested capabilities", capabilities(plugin)),
        ("Size", Text::from(size(plugin.size_bytes))),
        ("Registered", Text::from(plugin.created_at.to_string())),
    ]
}

/// A function of a plug-in.
pub(crate) fn evaluator_view(info: &EvaluatorInfo) -> PluginEvaluatorView {
    let needs = [
        ("input", info.needs.input),
        ("output", info.needs.output),
        ("expected output", info.needs.expected_output),
        ("metadata", info.needs.metadata),
        ("trace", info.needs.trace),
    ];
    let needs: Vec<&str> =
        needs.into_iter().filter(|(_, is_needed)| *is_needed).map(|(name, _)| name).collect();
    let scores: Vec<String> = info.scores.iter().map(score).collect();
    let scores = match (scores.is_empty(), info.dynamic_scores) {
        (true, _) => "named by configuration or data".to_owned(),
        (false, true) => {
            format!("{}, and others named by configuration or data", scores.join(", "))
        }
        (false, false) => scores.join(", "),
    };
    let slots = info.slots.iter().map(|slot| match slot.required {
        true => format!("{} (required)", slot.name),
        false => slot.name.clone(),
    });
    let slots: Vec<String> = slots.collect();
    let schema: Value = serde_json::from_str(&info.config_schema).unwrap_or_default();
    PluginEvaluatorView {
        id: Text::from(info.id.as_str()),
        title: Text::from(info.title.as_str()),
        description: description(&info.description),
        needs: Text::from(if needs.is_empty() { "nothing".to_owned() } else { needs.join(", ") }),
        scores: Text::from(scores),
        slots: (!slots.is_empty()).then(|| Text::from(slots.join(", "))),
        schema: Text::lines(serde_json::to_string_pretty(&schema).unwrap_or_default()),
    }
}

/// Such as `tone (0 to 1)`.
fn score(spec: &ScoreSpec) -> String {
    let domain = match &spec.domain {
        ScoreDomain::Boolean => "boolean".to_owned(),
        ScoreDomain::Categorical(values) if values.is_empty() => "categorical".to_owned(),
        ScoreDomain::Categorical(values) => values.join(", "),
        ScoreDomain::Numeric { min: Some(min), max: Some(max), .. } => format!("{min} to {max}"),
        ScoreDomain::Numeric { min: Some(min), max: None, .. } => format!("at least {min}"),
        ScoreDomain::Numeric { min: None, max: Some(max), .. } => format!("at most {max}"),
        ScoreDomain::Numeric { min: None, max: None, .. } => "numeric".to_owned(),
    };
    format!("{} ({domain})", spec.name)
}

fn version_line(viewer: &Viewer, version: &Plugin, shown: &Plugin) -> PluginVersionLine {
    PluginVersionLine {
        version: Text::from(version.info.version.as_str()),
        digest: version.digest.to_string().chars().take(DIGITS).collect(),
        href: plugin_href(viewer, &version.digest),
        is_current: version.digest == shown.digest,
        created_at: version.created_at,
    }
}

/// The version before this one. `versions` are newest first.
fn former<'p>(versions: &'p [Plugin], plugin: &Plugin) -> Option<&'p Plugin> {
    let mut older = versions.iter();
    older.find(|other| Plugin::by_name_and_newest(other, plugin) == Ordering::Greater)
}

/// The versions to which evaluators can be moved, and whether each is selected: all if there are several.
fn targets(versions: &[Plugin], plugin: &Plugin, to: Option<&str>) -> Vec<(String, bool)> {
    let mut names: Vec<&str> = Vec::new();
    for version in versions {
        let name = version.info.version.as_str();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.len() < 2 {
        return Vec::new();
    }
    let selected = to.unwrap_or(plugin.info.version.as_str());
    names.into_iter().map(|name| (name.to_owned(), name == selected)).collect()
}

/// An evaluator with its capabilities.
async fn user_line(
    app: &App,
    viewer: &Viewer,
    plugin: &Plugin,
    user: &PluginUser,
) -> Result<PluginUserLine, Problem> {
    let found = match user.is_current {
        true => app.store.catalog.evaluator(&viewer.project, &user.evaluator).await?,
        false => None,
    };
    let version = found.map(|evaluator| evaluator.version);
    let info = version.as_ref().and_then(|version| {
        plugin.info.evaluators.iter().find(|info| info.id == version.plugin_evaluator)
    });
    let grants: Option<Vec<PluginGrant>> = version.as_ref().map(|version| {
        let granted = version.grants.names();
        let required = info.map(|info| plugin.info.required(info).names()).unwrap_or_default();
        let requested = plugin.info.capabilities.names().into_iter();
        let grants = requested.map(|name| PluginGrant {
            name,
            is_granted: granted.contains(&name),
            is_required: required.contains(&name),
        });
        grants.collect()
    });
    let versions: Vec<String> = user.versions.iter().map(u32::to_string).collect();
    Ok(PluginUserLine {
        evaluator: ResourceLink::new(&user.name, user.evaluator.as_str()),
        id: user.evaluator.to_string(),
        function: version.map(|version| Text::from(version.plugin_evaluator)),
        versions: versions.join(", "),
        grants: grants.unwrap_or_default(),
    })
}
