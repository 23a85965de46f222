//! Prompts: versions, labels, tags, and included prompts.

pub(super) mod compose;
mod list;
mod view;
mod write;

pub(super) use compose::resolve;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use perpend_catalog::prompts::{LabelChange, Prompt, PromptDeletion};
use perpend_domain::access::Permission::{PromptRead, PromptRelease, PromptWrite};
use perpend_domain::ids::ProjectId;
use perpend_domain::prompt::compose::VersionSelector;
use perpend_domain::prompt::{LATEST, PRODUCTION, PromptName};
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::{Act, OrganizationAct};
use perpend_http_kit::extract::{Body, MISSING, Param, Params, param};
use perpend_http_kit::otlp;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::HttpMethod;

use super::etag::{self, Tagged};
use crate::state::{App, Routes};
use view::PromptView;

const ALL: &str = "/api/public/v2/prompts";
const ONE: &str = "/api/public/v2/prompts/{promptName}";
const VERSION: &str = "/api/public/v2/prompts/{promptName}/versions/{version}";
const V1: &str = "/api/public/prompts";
const PROTECTED: &str = "/api/v1/prompts/protected-labels";

const GET: &[Param] = &[
    param("version", "integer", "Number of the version. Excludes `label`."),
    param("label", "string", "Label of the version; `production` when both are absent."),
    param("resolve", "boolean", "Whether included prompts are inserted; true when absent."),
];
const GET_V1: &[Param] = &[
    param("name", "string", "Name of the prompt.").required(),
    param(
        "version",
        "integer",
        "Number of the version; the one with the label `production` when absent.",
    ),
];
const DELETE: &[Param] = &[
    param("version", "integer", "Number of the version to delete."),
    param("label", "string", "Label of the version to delete."),
];

pub(super) fn routes(routes: &mut Routes) {
    let create =
        Operation::post("createPrompt", ALL, "Create the next version of a prompt", PromptWrite);
    routes.add(create.body::<write::PromptInput>(), write::create_prompt);
    let list = Operation::get("listPrompts", ALL, "List prompts, newest first", PromptRead)
        .query(list::LIST);
    routes.add(list, list::list_prompts);
    let get = Operation::get(
        "getPrompt",
        ONE,
        "Get a version of a prompt with its included prompts",
        PromptRead,
    )
    .query(GET);
    routes.add(get, get_prompt);
    let delete =
        Operation::delete("deletePrompt", ONE, "Delete a prompt or a version of it", PromptWrite)
            .status(204);
    routes.add(delete.query(DELETE), delete_prompt);
    let update = Operation::patch(
        "updatePromptLabels",
        VERSION,
        "Update the labels of a version",
        PromptWrite,
    );
    routes.add(update.body::<Labels>(), update_labels);
    let create = Operation::post(
        "createPromptV1",
        V1,
        "Create the next version of a prompt (v1)",
        PromptWrite,
    );
    routes.add(create.body::<write::OldPromptInput>(), write::create_old_prompt);
    let get = Operation::get("getPromptV1", V1, "Get a version of a prompt (v1)", PromptRead)
        .query(GET_V1);
    routes.add(get, get_old_prompt);
    let get = Operation::get(
        "listProtectedLabels",
        PROTECTED,
        "List the protected labels of the project",
        PromptRead,
    );
    routes.add(get, get_protected);
    let set = Operation::new(
        HttpMethod::Put,
        "putProtectedLabels",
        PROTECTED,
        "Replace the protected labels of the project in `x-perpend-project-id`",
        PromptRelease,
    );
    routes.add(set.body::<ProtectedLabels>(), set_protected);
}

/// Parses the name of a prompt in a path. An invalid name is not found.
fn parse_name(raw: &str) -> Result<PromptName, Problem> {
    PromptName::new(raw).map_err(|_| Problem::not_found("prompt"))
}

fn selector(params: &Params) -> Result<Option<VersionSelector>, Problem> {
    let version = params.int("version", 1, i32::MAX.cast_unsigned(), 0)?;
    match (version, params.text("label")) {
        (0, None) => Ok(None),
        (0, Some(label)) => Ok(Some(VersionSelector::Label(label.to_owned()))),
        (version, None) => Ok(Some(VersionSelector::Version(version.into()))),
        (_, Some(_)) => Err(Problem::query("label", "must be absent with version")),
    }
}

async fn find(
    app: &App,
    caller: &Act,
    name: &PromptName,
    selector: &VersionSelector,
) -> Result<Prompt, Problem> {
    let found = app.store.catalog.prompt(&caller.project, name, selector).await?;
    found.ok_or_else(|| {
        let name = name.as_str();
        let which = match selector {
            VersionSelector::Version(version) => format!("prompt {name:?} with version {version}"),
            VersionSelector::Label(label) => format!("prompt {name:?} with label {label:?}"),
        };
        Problem::not_found(&which)
    })
}

async fn get_prompt(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    params: Params,
    headers: HeaderMap,
) -> Result<Tagged<PromptView>, Problem> {
    let selector = selector(&params)?;
    let selector = selector.unwrap_or_else(|| VersionSelector::Label(PRODUCTION.to_owned()));
    let resolve = params.flag("resolve")?.unwrap_or(true);
    let prompt = find(&app, &caller, &parse_name(&name)?, &selector).await?;
    let view = prompt_view(&app, &caller, &prompt, resolve).await?;
    etag::answer(&headers, &view)
}

/// The response for a prompt.
async fn prompt_view(
    app: &App,
    caller: &Act,
    prompt: &Prompt,
    resolve: bool,
) -> Result<PromptView, Problem> {
    let composed = match resolve {
        true => compose::resolve(app, &caller.project, &prompt.part()).await?,
        false => None,
    };
    Ok(view::prompt(&caller.project, prompt, composed.as_ref()))
}

async fn get_old_prompt(
    State(app): State<App>,
    caller: Act,
    params: Params,
    headers: HeaderMap,
) -> Result<Tagged<PromptView>, Problem> {
    let name = params.text("name").ok_or_else(|| Problem::query("name", MISSING))?;
    let selector = selector(&params)?;
    let selector = selector.unwrap_or_else(|| VersionSelector::Label(PRODUCTION.to_owned()));
    let prompt = find(&app, &caller, &parse_name(name)?, &selector).await?;
    let view = prompt_view(&app, &caller, &prompt, true).await?;
    etag::answer(&headers, &view)
}

/// Changes of the labels of a version.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PromptLabels)]
struct Labels {
    /// Labels to add; other labels are kept.
    new_labels: Vec<String>,
    /// Labels to remove.
    #[serde(default)]
    remove_labels: Vec<String>,
}

async fn update_labels(
    State(app): State<App>,
    caller: Act,
    Path((name, version)): Path<(String, String)>,
    headers: HeaderMap,
    Body(input): Body<Labels>,
) -> Result<Answer<PromptView>, Problem> {
    let name = parse_name(&name)?;
    let missing = || Problem::not_found("prompt version");
    let version: i64 = version.parse().map_err(|_| missing())?;
    for (field, labels, latest) in [
        (
            "newLabels",
            &input.new_labels,
            "must not contain latest, which is always the newest version",
        ),
        (
            "removeLabels",
            &input.remove_labels,
            "must not contain latest, which is always the newest version",
        ),
    ] {
        write::check_labels(field, labels)?;
        if labels.iter().any(|label| label == perpend_domain::prompt::LATEST) {
            return Err(Problem::body(field, latest));
        }
    }
    // The state that `If-Match` is compared with.
    let seen = find(&app, &caller, &name, &VersionSelector::Version(version)).await?;
    if input.new_labels.is_empty() && input.remove_labels.is_empty() {
        let message = "must contain at least one label when removeLabels is empty";
        return Err(Problem::body("newLabels", message));
    }
    let seen = prompt_view(&app, &caller, &seen, true).await?;
    etag::check_unchanged(&headers, &seen)?;
    let now = app.web.clock.now();
    let change = LabelChange { added: &input.new_labels, removed: &input.remove_labels };
    let labelled =
        app.store.catalog.label_prompt(&caller.project, &name, version, change, now).await;
    let prompt = labelled.map_err(|error| match error {
        perpend_db::Error::NotFound => missing(),
        error => error.into(),
    })?;
    Ok(Answer(view::prompt(&caller.project, &prompt, None)))
}

async fn delete_prompt(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    params: Params,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let name = parse_name(&name)?;
    let which = selector(&params)?;
    if let (Some(which), true) = (&which, etag::is_conditional(&headers)) {
        let seen = find(&app, &caller, &name, which).await?;
        etag::check_unchanged(&headers, &prompt_view(&app, &caller, &seen, true).await?)?;
    }
    let now = app.web.clock.now();
    let deleted = app.store.catalog.delete_prompt(&caller.project, &name, which.as_ref(), now);
    match deleted.await? {
        PromptDeletion::Done => Ok(StatusCode::NO_CONTENT),
        PromptDeletion::NotFound => Err(Problem::not_found("prompt")),
        PromptDeletion::IncludedBy(versions) => {
            let shown: Vec<String> = versions
                .iter()
                .map(|(name, version)| format!("{name} version {version}"))
                .collect();
            let message = format!(
                "the prompt is included by {}; change or delete those first",
                shown.join(", ")
            );
            let versions = versions
                .into_iter()
                .map(|(name, version)| json!({ "name": name, "version": version }))
                .collect::<Vec<_>>();
            Err(Problem::new(Code::InvalidRequest, message).with("includedBy", versions))
        }
    }
}

/// Labels that key pairs of the project can neither move nor delete.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
struct ProtectedLabels {
    labels: Vec<String>,
}

/// The project in the header, if it belongs to the organization.
async fn project_in_header(
    app: &App,
    caller: &OrganizationAct,
    headers: &HeaderMap,
) -> Result<ProjectId, Problem> {
    let id = otlp::either(headers, "project-id").ok_or_else(|| {
        let message = "the header x-perpend-project-id is required";
        Problem::new(Code::InvalidRequest, message)
    })?;
    let found = match ProjectId::new(&id) {
        Ok(id) => {
            let catalog = &app.store.catalog;
            catalog.organization_project(&caller.organization, &id).await?
        }
        Err(_) => None,
    };
    let missing = || Problem::new(Code::NotFound, "no such project in this organization");
    Ok(found.ok_or_else(missing)?.id)
}

async fn get_protected(
    State(app): State<App>,
    caller: Act,
) -> Result<Answer<ProtectedLabels>, Problem> {
    let labels = app.store.catalog.protected_labels(&caller.project).await?;
    Ok(Answer(ProtectedLabels { labels }))
}

async fn set_protected(
    State(app): State<App>,
    caller: OrganizationAct,
    headers: HeaderMap,
    Body(mut input): Body<ProtectedLabels>,
) -> Result<Answer<ProtectedLabels>, Problem> {
    write::check_labels("labels", &input.labels)?;
    if let Some(at) = input.labels.iter().position(|label| label == LATEST) {
        let message = "must not be latest, which moves with each new version";
        return Err(Problem::body(&format!("labels[{at}]"), message));
    }
    let project = project_in_header(&app, &caller, &headers).await?;
    input.labels.sort_unstable();
    input.labels.dedup();
    app.store.catalog.protect_labels(&project, &input.labels).await?;
    Ok(Answer(input))
}
