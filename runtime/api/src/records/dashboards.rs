//! Dashboards: grids of tiles with widgets or presets.

use std::collections::HashSet;

use axum::extract::{Path, State};
use perpend_api_types::any_json::AnyJson;
use perpend_api_types::filter::Condition;
use perpend_api_types::list::{Confirmation, NumberedList};
use perpend_catalog::dashboards::{
    Dashboard, DashboardPatch, NewPlacement, PlacedChart, Placement, Tile,
};
use perpend_domain::access::Permission::{DashboardRead, DashboardWrite};
use perpend_domain::filter::Filter;
use perpend_domain::metrics::MetricView;
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, Params, must_be_one_of, object};
use perpend_http_kit::filters::filter_problem_at;
use perpend_http_kit::page;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::widgets::{check_length, checked_description, checked_name};
use crate::records::state::{App, Routes};

const ALL: &str = "/api/public/unstable/dashboards";
const ONE: &str = "/api/public/unstable/dashboards/{dashboardId}";
const PLACEMENTS: &str = "/api/public/unstable/dashboards/{dashboardId}/placements";
const PLACEMENT: &str = "/api/public/unstable/dashboards/{dashboardId}/placements/{placementId}";

/// Columns of the grid.
const N_COLUMNS: i64 = 12;
/// Default columns and rows of a tile.
const SIDE: i64 = 6;
/// Rows of the grid.
const MAX_ROWS: i64 = 100_000;
const MAX_PLACEMENTS: usize = 500;
const MAX_ID_CHARS: usize = 200;

pub(super) fn routes(routes: &mut Routes) {
    let list =
        Operation::get("listDashboards", ALL, "List dashboards, last changed first", DashboardRead);
    routes.add(list.query(page::PAGED), list_dashboards);
    let create = Operation::post("createDashboard", ALL, "Create a dashboard", DashboardWrite);
    routes.add(create.body::<NewDashboard>(), create_dashboard);
    routes
        .add(Operation::get("getDashboard", ONE, "Get a dashboard", DashboardRead), get_dashboard);
    let update = Operation::patch(
        "updateDashboard",
        ONE,
        "Update a dashboard; lists are replaced as a whole",
        DashboardWrite,
    );
    routes.add(update.body::<DashboardChange>(), update_dashboard);
    let delete = Operation::delete(
        "deleteDashboard",
        ONE,
        "Delete a dashboard; its widgets are kept",
        DashboardWrite,
    );
    routes.add(delete, delete_dashboard);
    let add = Operation::post(
        "createPlacement",
        PLACEMENTS,
        "Add a widget or a preset to a dashboard",
        DashboardWrite,
    );
    routes.add(add.body::<PlacementInput>(), add_placement);
    let change = Operation::patch(
        "updatePlacement",
        PLACEMENT,
        "Move or resize a placement",
        DashboardWrite,
    );
    routes.add(change.body::<TilePatch>(), move_placement);
    let remove = Operation::delete(
        "deletePlacement",
        PLACEMENT,
        "Remove a placement from a dashboard",
        DashboardWrite,
    );
    routes.add(remove, delete_placement);
}

/// A new dashboard.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct NewDashboard {
    name: String,
    description: Option<String>,
    #[serde(default, deserialize_with = "object")]
    definition: Option<Definition>,
    /// Conditions on all widgets.
    #[schema(value_type = Option<Vec<Condition>>)]
    filters: Option<Vec<Value>>,
}

/// Changes of a dashboard. At least one member is required.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DashboardChange {
    name: Option<String>,
    description: Option<String>,
    /// Replaces all placements.
    #[serde(default, deserialize_with = "object")]
    definition: Option<Definition>,
    #[schema(value_type = Option<Vec<Condition>>)]
    filters: Option<Vec<Value>>,
}

/// The tiles of a dashboard.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = DashboardDefinition)]
struct Definition {
    widgets: Vec<PlacementInput>,
}

/// A tile on the grid of 12 columns.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PlacementInput {
    /// `widget` or `preset`.
    #[serde(rename = "type")]
    kind: String,
    /// Unique on the dashboard; generated when absent.
    id: Option<String>,
    /// Id of the widget; required for the type `widget`.
    widget_id: Option<String>,
    /// Id of the preset; required for the type `preset`.
    preset_id: Option<String>,
    /// First column, starting at 0; 0 when absent.
    x: Option<i64>,
    /// First row, starting at 0; below all other tiles when absent.
    y: Option<i64>,
    /// Columns; 6 when absent.
    width: Option<i64>,
    /// Rows; 6 when absent.
    height: Option<i64>,
}

/// Changes of a tile. At least one member is required.
#[derive(Debug, Deserialize, ToSchema)]
struct TilePatch {
    x: Option<i64>,
    y: Option<i64>,
    width: Option<i64>,
    height: Option<i64>,
}

/// Validates a tile; `at` is the prefix of the fields.
fn checked_tile(at: &str, tile: Tile) -> Result<(), Problem> {
    let fields = [
        ("x", tile.x, 0, N_COLUMNS - 1),
        ("y", tile.y, 0, MAX_ROWS),
        ("width", tile.width, 1, N_COLUMNS),
        ("height", tile.height, 1, MAX_ROWS),
    ];
    for (name, value, min, max) in fields {
        if !(min..=max).contains(&value) {
            let message = format!("must be from {min} to {max}, got {value}");
            return Err(Problem::body(&format!("{at}{name}"), message));
        }
    }
    if tile.x + tile.width > N_COLUMNS {
        let message = format!("must be at most {N_COLUMNS} minus x, got {}", tile.width);
        return Err(Problem::body(&format!("{at}width"), message));
    }
    Ok(())
}

impl PlacementInput {
    /// Validates a placement; `fresh` is the id of one without.
    fn checked(self, at: &str, fresh: String) -> Result<NewPlacement, Problem> {
        let refuse = |name: &str, message: String| Problem::body(&format!("{at}{name}"), message);
        let (field, content_id) = match self.kind.as_str() {
            "widget" => ("widgetId", self.widget_id),
            "preset" => ("presetId", self.preset_id),
            other => {
                return Err(refuse("type", must_be_one_of(&["widget", "preset"], other)));
            }
        };
        let is_id = |id: &String| (1..=MAX_ID_CHARS).contains(&id.chars().count());
        let message = || format!("must have 1 to {MAX_ID_CHARS} characters");
        let content_id = content_id.filter(is_id).ok_or_else(|| refuse(field, message()))?;
        let id = self.id.unwrap_or(fresh);
        if !is_id(&id) || id.chars().any(char::is_control) {
            return Err(refuse("id", message()));
        }
        let new = NewPlacement {
            id,
            content: match field {
                "widgetId" => PlacedChart::Widget(content_id),
                _ => PlacedChart::Preset(content_id),
            },
            x: self.x.unwrap_or(0),
            y: self.y,
            width: self.width.unwrap_or(SIDE),
            height: self.height.unwrap_or(SIDE),
        };
        checked_tile(at, tile(&new, 0))?;
        Ok(new)
    }
}

const fn tile(new: &NewPlacement, end: i64) -> Tile {
    Tile {
        x: new.x,
        y: match new.y {
            Some(y) => y,
            None => end,
        },
        width: new.width,
        height: new.height,
    }
}

impl Definition {
    fn checked(self, app: &App) -> Result<Vec<Placement>, Problem> {
        if self.widgets.len() > MAX_PLACEMENTS {
            let message = format!("must contain at most {MAX_PLACEMENTS} placements");
            return Err(Problem::body("definition.widgets", message));
        }
        let mut seen = HashSet::new();
        let mut end = 0;
        let mut placements = Vec::with_capacity(self.widgets.len());
        for (n, input) in self.widgets.into_iter().enumerate() {
            let at = format!("definition.widgets[{n}].");
            let new = input.checked(&at, app.web.ids.uuid().to_string())?;
            if !seen.insert(new.id.clone()) {
                let message = "must be unique: another placement has this id";
                return Err(Problem::body(&format!("{at}id"), message));
            }
            let tile = tile(&new, end);
            end = end.max(tile.y + tile.height);
            placements.push(Placement { id: new.id, content: new.content, tile });
        }
        Ok(placements)
    }
}

/// Validates conditions on all widgets: each must be valid for some view.
fn checked_filters(filters: &[Value]) -> Result<(), Problem> {
    check_length("filters", filters.len())?;
    for condition in filters {
        let one = std::slice::from_ref(condition);
        let mut views = MetricView::ALL.iter();
        if !views.any(|view| Filter::parse(one, view.columns()).is_ok()) {
            Filter::parse(filters, MetricView::Observations.columns())
                .map_err(|errors| filter_problem_at("filters", errors))?;
        }
    }
    Ok(())
}

/// A placement of a widget or a preset on a dashboard.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DashboardPlacement)]
struct PlacementView {
    id: String,
    #[serde(flatten)]
    content: PlacementContent,
    /// First column, starting at 0.
    x: i64,
    /// First row, starting at 0.
    y: i64,
    /// Columns.
    width: i64,
    /// Rows.
    height: i64,
}

/// The content of a placement.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
enum PlacementContent {
    #[serde(rename_all = "camelCase")]
    Widget { widget_id: String },
    #[serde(rename_all = "camelCase")]
    Preset { preset_id: String },
}

/// A dashboard.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Dashboard)]
struct DashboardView {
    id: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    name: String,
    description: String,
    definition: PlacementList,
    /// Conditions on all widgets.
    #[schema(value_type = Vec<Condition>)]
    filters: Vec<AnyJson>,
}

/// The placements of a dashboard.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DashboardPlacements)]
struct PlacementList {
    widgets: Vec<PlacementView>,
}

fn placement_view(placement: &Placement) -> PlacementView {
    let tile = placement.tile;
    PlacementView {
        id: placement.id.clone(),
        content: match &placement.content {
            PlacedChart::Widget(id) => PlacementContent::Widget { widget_id: id.clone() },
            PlacedChart::Preset(id) => PlacementContent::Preset { preset_id: id.clone() },
        },
        x: tile.x,
        y: tile.y,
        width: tile.width,
        height: tile.height,
    }
}

fn view(dashboard: &Dashboard) -> DashboardView {
    DashboardView {
        id: dashboard.id.clone(),
        created_at: dashboard.created_at,
        updated_at: dashboard.updated_at,
        name: dashboard.name.clone(),
        description: dashboard.description.clone(),
        definition: PlacementList {
            widgets: dashboard.placements.iter().map(placement_view).collect(),
        },
        filters: dashboard.filters.iter().map(AnyJson::from).collect(),
    }
}

fn missing() -> Problem {
    Problem::not_found("dashboard")
}

/// The dashboard. A later `NotFound` of the store is about a widget.
async fn find(app: &App, caller: &Act, id: &str) -> Result<Dashboard, Problem> {
    let found = app.store.catalog.dashboard(&caller.project, id).await?;
    found.ok_or_else(missing)
}

fn no_widget(error: perpend_db::Error) -> Problem {
    match error {
        perpend_db::Error::NotFound => Problem::not_found("dashboard widget"),
        error => error.into(),
    }
}

async fn list_dashboards(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<NumberedList<DashboardView>>, Problem> {
    let paging = page::paging(&params)?;
    let found = app.store.catalog.dashboards(&caller.project, paging).await?;
    Ok(page::list(paging, &found, view))
}

async fn create_dashboard(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<NewDashboard>,
) -> Result<Answer<DashboardView>, Problem> {
    checked_name(&input.name)?;
    let description = input.description.unwrap_or_default();
    checked_description(&description)?;
    let filters = input.filters.unwrap_or_default();
    checked_filters(&filters)?;
    let placements = input.definition.map(|definition| definition.checked(&app));
    let now = app.web.clock.now();
    let dashboard = Dashboard {
        id: app.web.ids.uuid().to_string(),
        name: input.name,
        description,
        filters,
        placements: placements.transpose()?.unwrap_or_default(),
        created_at: now,
        updated_at: now,
    };
    let made = app.store.catalog.create_dashboard(&caller.project, &dashboard);
    made.await.map_err(no_widget)?;
    Ok(Answer(view(&dashboard)))
}

async fn get_dashboard(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<DashboardView>, Problem> {
    let found = app.store.catalog.dashboard(&caller.project, &id).await?;
    Ok(Answer(view(&found.ok_or_else(missing)?)))
}

async fn update_dashboard(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<DashboardChange>,
) -> Result<Answer<DashboardView>, Problem> {
    find(&app, &caller, &id).await?;
    input.name.as_deref().map_or(Ok(()), checked_name)?;
    let description = input.description.as_deref();
    description.map_or(Ok(()), checked_description)?;
    input.filters.as_deref().map_or(Ok(()), checked_filters)?;
    let placements = input.definition.map(|definition| definition.checked(&app));
    let patch = DashboardPatch {
        name: input.name,
        description: input.description,
        filters: input.filters,
        placements: placements.transpose()?,
    };
    if patch == DashboardPatch::default() {
        return Err(Problem::body("", "at least one field is required"));
    }
    let now = app.web.clock.now();
    let changed = app.store.catalog.update_dashboard(&caller.project, &id, &patch, now);
    Ok(Answer(view(&changed.await.map_err(no_widget)?)))
}

async fn delete_dashboard(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<Confirmation>, Problem> {
    let deleted = app.store.catalog.delete_dashboard(&caller.project, &id).await;
    deleted.map_err(|error| match error {
        perpend_db::Error::NotFound => missing(),
        error => error.into(),
    })?;
    Ok(Answer(Confirmation::new("Dashboard successfully deleted")))
}

async fn add_placement(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<PlacementInput>,
) -> Result<Answer<PlacementView>, Problem> {
    find(&app, &caller, &id).await?;
    let new = input.checked("", app.web.ids.uuid().to_string())?;
    let max = i64::try_from(MAX_PLACEMENTS).unwrap_or(i64::MAX);
    let now = app.web.clock.now();
    let added = app.store.catalog.add_placement(&caller.project, &id, &new, max, now);
    Ok(Answer(placement_view(&added.await.map_err(no_widget)?)))
}

fn no_placement() -> Problem {
    Problem::not_found("dashboard placement")
}

async fn move_placement(
    State(app): State<App>,
    caller: Act,
    Path((id, placement)): Path<(String, String)>,
    Body(patch): Body<TilePatch>,
) -> Result<Answer<PlacementView>, Problem> {
    let dashboard = find(&app, &caller, &id).await?;
    let mut all = dashboard.placements.into_iter();
    let found = all.find(|one| one.id == placement);
    let mut found = found.ok_or_else(no_placement)?;
    let parts = [patch.x, patch.y, patch.width, patch.height];
    if parts.iter().all(Option::is_none) {
        return Err(Problem::body("", "at least one of x, y, width, height is required"));
    }
    let current = found.tile;
    found.tile = Tile {
        x: patch.x.unwrap_or(current.x),
        y: patch.y.unwrap_or(current.y),
        width: patch.width.unwrap_or(current.width),
        height: patch.height.unwrap_or(current.height),
    };
    checked_tile("", found.tile)?;
    let now = app.web.clock.now();
    let moved =
        app.store.catalog.move_placement(&caller.project, &id, &placement, found.tile, now).await;
    moved.map_err(|error| match error {
        perpend_db::Error::NotFound => no_placement(),
        error => Problem::from(error),
    })?;
    Ok(Answer(placement_view(&found)))
}

async fn delete_placement(
    State(app): State<App>,
    caller: Act,
    Path((id, placement)): Path<(String, String)>,
) -> Result<Answer<Confirmation>, Problem> {
    let now = app.web.clock.now();
    let deleted = app.store.catalog.delete_placement(&caller.project, &id, &placement, now).await;
    deleted.map_err(|error| match error {
        perpend_db::Error::NotFound => {
            Problem::new(Code::NotFound, "no such placement on a dashboard of this project")
        }
        error => error.into(),
    })?;
    Ok(Answer(Confirmation::new("Dashboard placement successfully deleted")))
}
