//! Score configs. They are archived, never deleted, because scores refer to them.

use axum::extract::{Path, State};
use perpend_api_types::list::NumberedList;
use perpend_domain::access::Permission::{ScoreConfigRead, ScoreConfigWrite};
use perpend_domain::ids::ProjectId;
use perpend_domain::issue::Issue;
use perpend_domain::score::ScoreDataType;
use perpend_domain::score_config::{Category, ScoreConfig, ScoreDirection, boolean_categories};
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, Params, must_be_one_of};
use perpend_http_kit::page;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::state::{App, Routes};

const LIST: &str = "/api/public/score-configs";
const ONE: &str = "/api/public/score-configs/{configId}";
const DIRECTION: &str = "/api/v1/score-directions/{scoreName}";
const DATA_TYPES: [&str; 4] = ["NUMERIC", "BOOLEAN", "CATEGORICAL", "TEXT"];

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listScoreConfigs",
        LIST,
        "List score configs, newest first",
        ScoreConfigRead,
    );
    routes.add(list.query(page::PAGED), list_configs);
    let create =
        Operation::post("createScoreConfig", LIST, "Create a score config", ScoreConfigWrite);
    routes.add(create.body::<NewConfig>(), create_config);
    routes.add(
        Operation::get("getScoreConfig", ONE, "Get a score config", ScoreConfigRead),
        get_config,
    );
    let update = Operation::patch(
        "updateScoreConfig",
        ONE,
        "Update or archive a score config",
        ScoreConfigWrite,
    );
    routes.add(update.body::<ConfigPatch>(), update_config);
    let direction = Operation::put(
        "setScoreDirection",
        DIRECTION,
        "Set the better direction of a score in its newest score config, or in a new one",
        ScoreConfigWrite,
    );
    routes.add(direction.body::<NewDirection>(), set_direction);
}

/// A category.
#[derive(Clone, Debug, Deserialize, ToSchema)]
struct CategoryInput {
    value: f64,
    label: String,
}

/// A new score config.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct NewConfig {
    /// 1 to 35 letters, digits, spaces and `_ . ( ) -`.
    name: String,
    /// `NUMERIC`, `BOOLEAN`, `CATEGORICAL` or `TEXT`.
    data_type: String,
    categories: Option<Vec<CategoryInput>>,
    min_value: Option<f64>,
    max_value: Option<f64>,
    /// `higher_is_better` or `lower_is_better`; unknown when absent.
    direction: Option<String>,
    description: Option<String>,
}

/// The direction of a score.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewDirection {
    /// `higher_is_better` or `lower_is_better`; unknown when `null`.
    direction: Option<String>,
    /// `NUMERIC` or `BOOLEAN`: the type of a new score config; `NUMERIC` when absent.
    data_type: Option<String>,
}

/// Changes of a score config. At least one member is required.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ConfigPatch {
    is_archived: Option<bool>,
    name: Option<String>,
    categories: Option<Vec<CategoryInput>>,
    min_value: Option<f64>,
    max_value: Option<f64>,
    /// `higher_is_better` or `lower_is_better`; `null` makes it unknown.
    direction: Option<String>,
    description: Option<String>,
}

fn direction(raw: Option<String>) -> Result<Option<ScoreDirection>, Problem> {
    let names: Vec<&str> = ScoreDirection::ALL.iter().map(|each| each.as_str()).collect();
    let parse = |raw: String| {
        let found = ScoreDirection::ALL.iter().find(|each| each.as_str() == raw);
        found.copied().ok_or_else(|| Problem::body("direction", must_be_one_of(&names, &raw)))
    };
    raw.map(parse).transpose()
}

fn categories(list: Vec<CategoryInput>) -> Vec<Category> {
    let category = |input: CategoryInput| Category { value: input.value, label: input.label };
    list.into_iter().map(category).collect()
}

fn checked(config: ScoreConfig, faults: Vec<Issue>) -> Result<ScoreConfig, Problem> {
    match faults.is_empty() {
        true => Ok(config),
        false => Err(Problem::issues(Code::InvalidBody, faults)),
    }
}

/// A score config.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ScoreConfig)]
struct ConfigView {
    id: String,
    name: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    project_id: ProjectId,
    data_type: ScoreDataType,
    /// New scores must not refer to an archived config.
    is_archived: bool,
    /// Smallest value of `NUMERIC` scores.
    min_value: Option<f64>,
    /// Largest value of `NUMERIC` scores.
    max_value: Option<f64>,
    /// Of `CATEGORICAL` and `BOOLEAN` scores.
    categories: Option<Vec<Category>>,
    /// The better direction of the values; `null` if unknown.
    direction: Option<ScoreDirection>,
    description: Option<String>,
}

fn view(project: &ProjectId, config: &ScoreConfig) -> ConfigView {
    ConfigView {
        id: config.id.clone(),
        name: config.name.clone(),
        created_at: config.created_at,
        updated_at: config.updated_at,
        project_id: project.clone(),
        data_type: config.data_type,
        is_archived: config.is_archived,
        min_value: config.min_value,
        max_value: config.max_value,
        categories: config.categories.clone(),
        direction: config.direction,
        description: config.description.clone(),
    }
}

async fn find(app: &App, project: &ProjectId, id: &str) -> Result<ScoreConfig, Problem> {
    let found = app.store.catalog.score_config(project, id).await?;
    found.ok_or_else(|| Problem::not_found("score config"))
}

async fn create_config(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<NewConfig>,
) -> Result<Answer<ConfigView>, Problem> {
    let data_type: ScoreDataType = input
        .data_type
        .parse()
        .map_err(|_| Problem::body("dataType", must_be_one_of(&DATA_TYPES, &input.data_type)))?;
    let categories = input.categories.map(categories);
    let now = app.web.clock.now();
    let config = ScoreConfig {
        id: app.web.ids.uuid().to_string(),
        name: input.name,
        data_type,
        is_archived: false,
        min_value: input.min_value,
        max_value: input.max_value,
        categories: match data_type {
            ScoreDataType::Boolean => categories.or_else(|| Some(boolean_categories())),
            _ => categories,
        },
        direction: direction(input.direction)?,
        description: input.description,
        created_at: now,
        updated_at: now,
    };
    let faults = config.faults();
    let config = checked(config, faults)?;
    app.store.catalog.create_score_config(&caller.project, &config).await?;
    Ok(Answer(view(&caller.project, &config)))
}

async fn list_configs(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<NumberedList<ConfigView>>, Problem> {
    let paging = page::paging(&params)?;
    let found = app.store.catalog.score_configs(&caller.project, paging).await?;
    Ok(page::list(paging, &found, |config| view(&caller.project, config)))
}

async fn get_config(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<ConfigView>, Problem> {
    let config = find(&app, &caller.project, &id).await?;
    Ok(Answer(view(&caller.project, &config)))
}

async fn update_config(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(patch): Body<Value>,
) -> Result<Answer<ConfigView>, Problem> {
    if patch.as_object().is_none_or(serde_json::Map::is_empty) {
        return Err(Problem::body("", "at least one field is required"));
    }
    let clears_direction = patch.get("direction").is_some_and(Value::is_null);
    let patch: ConfigPatch = perpend_http_kit::extract::from_value(&patch)?;
    let mut config = find(&app, &caller.project, &id).await?;
    let seen = config.updated_at;
    let is_renamed = patch.name.is_some();
    config.is_archived = patch.is_archived.unwrap_or(config.is_archived);
    config.name = patch.name.unwrap_or(config.name);
    config.min_value = patch.min_value.or(config.min_value);
    config.max_value = patch.max_value.or(config.max_value);
    config.description = patch.description.or(config.description);
    config.categories = patch.categories.map(categories).or(config.categories);
    config.direction = match clears_direction {
        true => None,
        false => direction(patch.direction)?.or(config.direction),
    };
    config.updated_at = app.web.clock.now().max(seen.plus_millis(1));
    // A config that only stores the direction of a score may have another name.
    let faults = if is_renamed { config.faults() } else { config.value_faults() };
    let config = checked(config, faults)?;
    app.store.catalog.update_score_config(&caller.project, &config, seen).await?;
    Ok(Answer(view(&caller.project, &config)))
}

async fn set_direction(
    State(app): State<App>,
    caller: Act,
    Path(name): Path<String>,
    Body(input): Body<NewDirection>,
) -> Result<Answer<ConfigView>, Problem> {
    let raw = input.data_type.as_deref().unwrap_or("NUMERIC");
    let data_type = match raw {
        "NUMERIC" => ScoreDataType::Numeric,
        "BOOLEAN" => ScoreDataType::Boolean,
        _ => return Err(Problem::body("dataType", must_be_one_of(&["NUMERIC", "BOOLEAN"], raw))),
    };
    let now = app.web.clock.now();
    let new = ScoreConfig {
        id: app.web.ids.uuid().to_string(),
        name,
        data_type,
        is_archived: false,
        min_value: None,
        max_value: None,
        categories: None,
        direction: direction(input.direction)?,
        description: None,
        created_at: now,
        updated_at: now,
    };
    let faults = new.direction_faults();
    let new = checked(new, faults)?;
    let config = app.store.catalog.set_score_direction(&caller.project, new).await?;
    Ok(Answer(view(&caller.project, &config)))
}
