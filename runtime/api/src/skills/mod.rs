//! Skills: versioned folders of instructions and files for agents.

mod files;
mod front_matter;

use axum::extract::{Path, State};
use perpend_api_types::any_json::AnyJson;
use perpend_api_types::list::PageMeta;
use perpend_catalog::skills::{Skill, SkillFile, SkillQuery, SkillSummary};
use perpend_domain::access::Permission::{PromptRead, PromptWrite};
use perpend_domain::ids::ProjectId;
use perpend_domain::prompt::compose::VersionSelector;
use perpend_domain::prompt::{LATEST, PRODUCTION, check_label};
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, Param, Params, param};
use perpend_http_kit::page;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::state::{App, Routes};
use files::{NewVersion, content_type, is_hash};

const ALL: &str = "/api/public/unstable/skills";
const ONE: &str = "/api/public/unstable/skills/{skillName}";
const VERSION: &str = "/api/public/unstable/skills/{skillName}/versions/{version}";
const CONTENT: &str = "/api/public/unstable/skills/files/content";

const LIST: &[Param] = &[
    page::PAGE,
    page::LIMIT,
    param("name", "string", "Name of the skill."),
    param("search", "string", "Text in name or description, case-insensitive."),
    param("tag", "string", "Tag of the skill."),
    param("fromUpdatedAt", "date-time", "Last change of the newest version, inclusive."),
    param("toUpdatedAt", "date-time", "Last change of the newest version, exclusive."),
];
const GET: &[Param] = &[
    param("version", "integer", "Number of the version. Excludes `label`."),
    param("label", "string", "Label of the version; `production` when both are absent."),
];
const HASHES: &[Param] =
    &[param("sha256Hashes", "string", "Comma-separated list of 1 to 50 values of `sha256Hash`.")
        .required()];

const MAX_HASHES: usize = 50;
/// Bytes of the contents of one response. A single content may be larger.
const MAX_CONTENTS: u64 = 8 << 20;
const MAX_LABELS: usize = 50;
const MAX_TAGS: usize = 100;
const MAX_TAG_CHARS: usize = 200;

pub(super) fn routes(routes: &mut Routes) {
    let list =
        Operation::get("listSkills", ALL, "List skills, newest first", PromptRead).query(LIST);
    routes.add(list, list_skills);
    let create = Operation::post(
        "createSkillVersion",
        ALL,
        "Create the next version of a skill",
        PromptWrite,
    );
    routes.add(create.body::<NewVersion>(), create_version);
    let read =
        Operation::get("listSkillContents", CONTENT, "List contents of files by hash", PromptRead)
            .query(HASHES);
    routes.add(read, get_contents);
    let get = Operation::get(
        "getSkill",
        ONE,
        "Get a version of a skill without the contents of its files",
        PromptRead,
    )
    .query(GET);
    routes.add(get, get_skill);
    let tag = Operation::patch("updateSkillTags", ONE, "Replace the tags of a skill", PromptWrite)
        .body::<Tags>();
    routes.add(tag, update_tags);
    let label = Operation::patch(
        "updateSkillLabels",
        VERSION,
        "Replace the labels of a version",
        PromptWrite,
    );
    routes.add(label.body::<Labels>(), set_labels);
    let delete = Operation::delete(
        "deleteSkillVersion",
        VERSION,
        "Delete a version of a skill",
        PromptWrite,
    );
    routes.add(delete, delete_version);
}

/// New tags of a skill.
#[derive(Debug, Deserialize, ToSchema)]
struct Tags {
    tags: Vec<String>,
}

/// New labels of a version. They are removed from other versions.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = SkillLabels)]
struct Labels {
    labels: Vec<String>,
}

/// A file of a skill.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SkillFile)]
struct FileView {
    id: String,
    path: String,
    /// Equal to `sha256Hash`.
    blob_id: String,
    /// SHA-256 of the content in base64.
    sha256_hash: String,
    /// MIME type.
    content_type: &'static str,
    /// Number of bytes.
    content_length: u64,
}

/// A version of a skill.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Skill)]
struct SkillView {
    id: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    project_id: ProjectId,
    created_by: String,
    name: String,
    description: String,
    /// Front matter of the main file.
    frontmatter: AnyJson,
    version: i64,
    /// Tags of the skill.
    tags: Vec<String>,
    labels: Vec<String>,
    commit_message: Option<String>,
    files: Vec<FileView>,
}

/// A skill in a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SkillInList {
    name: String,
    description: String,
    tags: Vec<String>,
    latest_version: i64,
    latest_version_created_at: Timestamp,
    latest_version_last_updated_at: Timestamp,
    /// The version with the label `production`.
    production_version: Option<i64>,
}

/// A page of skills.
#[derive(Debug, Serialize, ToSchema)]
struct SkillList {
    data: Vec<SkillInList>,
    meta: SkillListMeta,
}

/// The position of a page of skills.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SkillListMeta {
    #[serde(flatten)]
    page: PageMeta,
    has_next_page: bool,
}

/// A deleted version of a skill.
#[derive(Debug, Serialize, ToSchema)]
struct DeletedSkillVersion {
    /// Always true.
    deleted: bool,
}

/// Contents of files in the order of the request.
#[derive(Debug, Serialize, ToSchema)]
struct SkillContents {
    data: Vec<SkillContent>,
}

/// The content of a file.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SkillContent {
    sha256_hash: String,
    content: String,
}

fn file_view(file: &SkillFile) -> FileView {
    FileView {
        id: file.id.clone(),
        path: file.path.clone(),
        blob_id: file.sha256.clone(),
        sha256_hash: file.sha256.clone(),
        content_type: content_type(&file.path),
        content_length: file.size,
    }
}

fn view(project: &ProjectId, skill: &Skill) -> SkillView {
    SkillView {
        id: skill.id.clone(),
        created_at: skill.created_at,
        updated_at: skill.updated_at,
        project_id: project.clone(),
        created_by: skill.created_by.clone(),
        name: skill.name.clone(),
        description: skill.description.clone(),
        frontmatter: (&skill.frontmatter).into(),
        version: skill.version,
        tags: skill.tags.clone(),
        labels: skill.labels.clone(),
        commit_message: skill.commit_message.clone(),
        files: skill.files.iter().map(file_view).collect(),
    }
}

fn summary(skill: &SkillSummary) -> SkillInList {
    SkillInList {
        name: skill.name.clone(),
        description: skill.description.clone(),
        tags: skill.tags.clone(),
        latest_version: skill.latest,
        latest_version_created_at: skill.created_at,
        latest_version_last_updated_at: skill.updated_at,
        production_version: skill.production,
    }
}

fn missing() -> Problem {
    Problem::not_found("skill")
}

fn or_missing(error: perpend_db::Error) -> Problem {
    match error {
        perpend_db::Error::NotFound => missing(),
        error => error.into(),
    }
}

/// Parses the number of a version in a path. An invalid number is not found.
fn parse_version(version: &str) -> Result<i64, Problem> {
    version.parse().map_err(|_| missing())
}

async fn list_skills(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<SkillList>, Problem> {
    let paging = page::paging(&params)?;
    let text = |name| params.text(name).map(str::to_owned);
    let query = SkillQuery {
        name: text("name"),
        search: text("search"),
        tag: text("tag"),
        from: params.time("fromUpdatedAt")?,
        to: params.time("toUpdatedAt")?,
    };
    let found = app.store.catalog.skills(&caller.project, &query, paging).await?;
    let seen = paging.offset().saturating_add(paging.limit.into());
    let meta = SkillListMeta {
        page: PageMeta::new(paging, found.n_total),
        has_next_page: seen < found.n_total,
    };
    Ok(Answer(SkillList { data: found.items.iter().map(summary).collect(), meta }))
}

async fn create_version(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<NewVersion>,
) -> Result<Answer<SkillView>, Problem> {
    let new = input.read(&app, &caller.project).await?;
    let made = app.store.catalog.create_skill(&caller.project, &new, app.web.clock.now()).await?;
    Ok(Answer(view(&caller.project, &made)))
}

async fn get_skill(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    params: Params,
) -> Result<Answer<SkillView>, Problem> {
    let version = params.int("version", 1, i32::MAX.cast_unsigned(), 0)?;
    let which = match (version, params.text("label")) {
        (0, label) => VersionSelector::Label(label.unwrap_or(PRODUCTION).to_owned()),
        (version, None) => VersionSelector::Version(version.into()),
        (_, Some(_)) => {
            let message = "must be absent with version";
            return Err(Problem::query("label", message));
        }
    };
    let found = app.store.catalog.skill(&caller.project, &name, &which).await?;
    Ok(Answer(view(&caller.project, &found.ok_or_else(missing)?)))
}

async fn update_tags(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    Body(mut input): Body<Tags>,
) -> Result<Answer<SkillView>, Problem> {
    let fits = |tag: &String| {
        (1..=MAX_TAG_CHARS).contains(&tag.chars().count()) && !tag.chars().any(char::is_control)
    };
    if input.tags.len() > MAX_TAGS || !input.tags.iter().all(fits) {
        let message = format!(
            "must contain at most {MAX_TAGS} tags of 1 to {MAX_TAG_CHARS} characters, without control characters"
        );
        return Err(Problem::body("tags", message));
    }
    let mut seen = std::collections::HashSet::new();
    input.tags.retain(|tag| seen.insert(tag.clone()));
    let now = app.web.clock.now();
    let tagged = app.store.catalog.tag_skill(&caller.project, &name, &input.tags, now);
    Ok(Answer(view(&caller.project, &tagged.await.map_err(or_missing)?)))
}

async fn set_labels(
    State(app): State<App>,
    caller: Act,
    Path((name, version)): Path<(String, String)>,
    Body(input): Body<Labels>,
) -> Result<Answer<SkillView>, Problem> {
    let version = parse_version(&version)?;
    if input.labels.len() > MAX_LABELS {
        let message =
            format!("must contain at most {MAX_LABELS} labels, got {}", input.labels.len());
        return Err(Problem::body("labels", message));
    }
    for (n, label) in input.labels.iter().enumerate() {
        let refuse = |error: perpend_domain::prompt::InvalidPrompt| {
            Problem::body(&format!("labels[{n}]"), error.to_string())
        };
        check_label(label).map_err(refuse)?;
    }
    let which = VersionSelector::Version(version);
    let current = app.store.catalog.skill(&caller.project, &name, &which).await?;
    let current = current.ok_or_else(missing)?;
    let is_latest = |label: &String| label == LATEST;
    if input.labels.iter().any(is_latest) && !current.labels.iter().any(is_latest) {
        let message = "must not contain latest, which is always the newest version";
        return Err(Problem::body("labels", message));
    }
    let labels = input.labels.into_iter().filter(|label| !is_latest(label));
    let labels: Vec<String> = labels.collect();
    let now = app.web.clock.now();
    let labelled = app.store.catalog.label_skill(&caller.project, &name, version, &labels, now);
    Ok(Answer(view(&caller.project, &labelled.await.map_err(or_missing)?)))
}

async fn delete_version(
    State(app): State<App>,
    caller: Act,
    Path((name, version)): Path<(String, String)>,
) -> Result<Answer<DeletedSkillVersion>, Problem> {
    let version = parse_version(&version)?;
    let now = app.web.clock.now();
    let deleted = app.store.catalog.delete_skill(&caller.project, &name, version, now);
    deleted.await.map_err(or_missing)?;
    Ok(Answer(DeletedSkillVersion { deleted: true }))
}

async fn get_contents(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<SkillContents>, Problem> {
    let refuse = |message: String| Err(Problem::query("sha256Hashes", message));
    let hashes = params.list("sha256Hashes");
    if hashes.is_empty() || hashes.len() > MAX_HASHES {
        return refuse(format!("must contain 1 to {MAX_HASHES} hashes, got {}", hashes.len()));
    }
    // An unescaped plus is decoded as a space.
    let mut hashes: Vec<String> = hashes.iter().map(|hash| hash.replace(' ', "+")).collect();
    if let Some(bad) = hashes.iter().find(|hash| !is_hash(hash)) {
        return refuse(format!("must be SHA-256 hashes in base64, got {bad:?}"));
    }
    // Each content is returned and counted once.
    let mut seen = std::collections::HashSet::new();
    hashes.retain(|hash| seen.insert(hash.clone()));
    let sizes = app.store.catalog.skill_sizes(&caller.project, &hashes).await?;
    let n_bytes: u64 = sizes.values().sum();
    if 1 < sizes.len() && MAX_CONTENTS < n_bytes {
        let max = MAX_CONTENTS;
        return refuse(format!(
            "the contents must have at most {max} bytes, got {n_bytes}: request fewer hashes"
        ));
    }
    let found = app.store.catalog.skill_contents(&caller.project, &hashes).await?;
    let mut data = Vec::with_capacity(hashes.len());
    for hash in &hashes {
        let text = found.iter().find(|(known, _)| known == hash);
        let (_, text) = text.ok_or_else(|| Problem::not_found("content of a skill"))?;
        data.push(SkillContent { sha256_hash: hash.clone(), content: text.clone() });
    }
    Ok(Answer(SkillContents { data }))
}
