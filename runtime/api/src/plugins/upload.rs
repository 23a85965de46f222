//! Registration of a component.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use perpend_api_types::plugin::Plugin;
use perpend_broker::components::MAX_COMPONENT_BYTES;
use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::{Digest, PluginInfo, is_first_party_name};
use perpend_http_kit::admission::read;
use perpend_http_kit::answer::{Answer, Either};
use perpend_http_kit::auth::Act;
use perpend_http_kit::problem::{Code, MAX_LISTED, Problem};
use perpend_worker_protocol::ComponentProblem;
use serde_json::json;

use super::{report, view};
use crate::state::App;

const MEDIA_TYPES: [&str; 2] = ["application/wasm", "application/octet-stream"];

/// Validates the media type of an upload before the body is read.
fn check_media_type(headers: &HeaderMap) -> Result<(), Problem> {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = text.map(|raw| raw.split(';').next().unwrap_or(raw));
    if let Some(media_type) = media_type.map(str::trim)
        && !MEDIA_TYPES.iter().any(|known| known.eq_ignore_ascii_case(media_type))
    {
        let message = format!("Content-Type must be application/wasm, got {media_type:?}");
        return Err(Problem::new(Code::UnsupportedMediaType, message));
    }
    Ok(())
}

fn too_large() -> Problem {
    let limit = MAX_COMPONENT_BYTES >> 20;
    let message = format!("the component must have at most {limit} MiB");
    let steps = report::failed_at("file", &message);
    Problem::new(Code::TooLarge, message).with("maxBytes", MAX_COMPONENT_BYTES).with("steps", steps)
}

pub(super) async fn upload_plugin(
    State(app): State<App>,
    caller: Act,
    request: Request,
) -> Result<Either<Answer<Plugin>, Answer<Plugin, 201>>, Problem> {
    check_media_type(request.headers())?;
    let project = &caller.project;
    let body = read(&app.web, request, MAX_COMPONENT_BYTES).await;
    let body = body.map_err(|problem| match problem.code() {
        Code::TooLarge => too_large(),
        _ => problem,
    })?;
    let bytes = body.bytes;
    // The digest is the identity: a registered component is neither compiled nor stored again.
    let digest = Digest::of(&bytes);
    if let Some(known) = app.store.catalog.plugin(project, &digest).await? {
        return Ok(Either::One(Answer(view::plugin(&known))));
    }
    let _turn = app.inspections.wait(project).await?;
    let info = app.engine.inspect(&bytes).await.map_err(refused)?;
    check_name(&app, project, &info, digest).await?;
    let digest =
        app.store.catalog.put_plugin(Some(project), &info, &bytes, app.web.clock.now()).await?;
    let plugin = app.store.catalog.plugin(project, &digest).await?;
    let plugin = plugin.ok_or_else(Problem::internal)?;
    Ok(Either::Other(Answer(view::plugin(&plugin))))
}

/// The problem for an invalid component, with its faults and the supported contracts.
fn refused(problems: Vec<ComponentProblem>) -> Problem {
    let is_server_fault =
        |problem: &ComponentProblem| problem.at == "host" || problem.at == "cache";
    if problems.iter().any(is_server_fault) {
        for problem in &problems {
            tracing::error!(error = %problem, "component not inspected");
        }
        return Problem::unavailable(
            "the component could not be inspected; nothing was registered",
        );
    }
    let lines = problems.iter().take(MAX_LISTED).map(ToString::to_string);
    let message = format!(
        "the component cannot be used as a plug-in: {}",
        lines.collect::<Vec<_>>().join("; ")
    );
    let listed = problems.iter().map(|problem| json!(problem));
    let problem = Problem::new(Code::InvalidComponent, message).with_list("problems", listed);
    let problem = problem.with("steps", report::steps(&problems));
    let offer = view::offer();
    problem.with("contracts", offer.contracts).with("maxComponentBytes", offer.max_component_bytes)
}

/// Refuses reserved names, and another component under a registered name and version.
async fn check_name(
    app: &App,
    project: &ProjectId,
    info: &PluginInfo,
    digest: Digest,
) -> Result<(), Problem> {
    let (name, version) = (&info.name, &info.version);
    if is_first_party_name(name) {
        let message = format!(
            "the vendor perpend is reserved, got {name:?}: use the name of your \
             organization, such as acme/{}",
            name.split_once('/').map_or("name", |(_, rest)| rest)
        );
        let problem = refused(vec![ComponentProblem::new("name", message)]);
        return Err(problem.with("field", "name"));
    }
    let all = app.store.catalog.plugins(project).await?;
    let mut same_name = all.iter().filter(|plugin| plugin.info.name == *name);
    if same_name.clone().any(|plugin| plugin.owner.is_none()) {
        let message = format!("the name {name} is used by a built-in plug-in: choose another name");
        let steps = report::failed_at(report::REGISTRATION, &message);
        let problem = Problem::new(Code::NameConflict, message).with("field", "name");
        return Err(problem.with("steps", steps));
    }
    let current = same_name.find(|plugin| plugin.info.version == *version);
    match current {
        Some(other) if other.digest != digest => {
            let message = format!(
                "{name}@{version} is registered as sha256:{} and cannot change; this component is \
                 sha256:{digest}: increase the version of the plug-in and build it again",
                other.digest
            );
            let steps = report::failed_at(report::REGISTRATION, &message);
            let problem = Problem::new(Code::Conflict, message).with("steps", steps);
            Err(problem.with("digest", json!(other.digest)))
        }
        _ => Ok(()),
    }
}
