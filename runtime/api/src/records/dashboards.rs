//! Dashboards: grids of tiles, each of which shows a widget or a preset.

use std::collections::HashSet;

use axum::Json;
use axum::extract::{Path, State};
use perpend_catalog::dashboards::{
    Content, Dashboard, DashboardPatch, NewPlacement, Placement, Tile,
};
use perpend_domain::access::Permission::{DashboardRead, DashboardWrite};
use perpend_domain::filter::Filter;
use perpend_domain::metrics::MetricView;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, Params, object};
use perpend_http_kit::filters::filter_problem_at;
use perpend_http_kit::page;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::widgets::{checked_description, checked_name, not_too_many};
use crate::records::state::{App, Routes};

const ALL: &str = "/api/public/unstable/dashboards";
const ONE: &str = "/api/public/unstable/dashboards/{dashboardId}";
const PLACEMENTS: &str = "/api/public/unstable/dashboards/{dashboardId}/placements";
const PLACEMENT: &str = "/api/public/unstable/dashboards/{dashboardId}/placements/{placementId}";

/// Columns of the grid.
const N_COLUMNS: i64 = 12;
/// Columns and rows of a tile that says nothing about it.
const SIDE: i64 = 6;
/// Rows of the grid.
const MAX_ROWS: i64 = 100_000;
const MAX_PLACEMENTS: usize = 500;
const MAX_ID_CHARS: usize = 200;

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listDashboards",
        ALL,
        "Dashboards by page, the last changed first",
        DashboardRead,
    );
    routes.add(list.query(page::PAGED), list_dashboards);
    let create = Operation::post("createDashboard", ALL, "Make a dashboard", DashboardWrite);
    routes.add(create.body::<NewDashboard>(), create_dashboard);
    routes.add(Operation::get("getDashboard", ONE, "One dashboard", DashboardRead), get_dashboard);
    let update = Operation::patch(
        "updateDashboard",
        ONE,
        "Change a dashboard; its lists are replaced whole",
        DashboardWrite,
    );
    routes.add(update.body::<DashboardChange>(), update_dashboard);
    let delete = Operation::delete(
        "deleteDashboard",
        ONE,
        "Delete a dashboard; its widgets stay",
        DashboardWrite,
    );
    routes.add(delete, delete_dashboard);
    let add = Operation::post(
        "createPlacement",
        PLACEMENTS,
        "Put a widget or a preset on a dashboard",
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
        "Take a placement away; what it shows stays",
        DashboardWrite,
    );
    routes.add(remove, delete_placement);
}

/// A dashboard to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct NewDashboard {
    name: String,
    description: Option<String>,
    #[serde(default, deserialize_with = "object")]
    definition: Option<Definition>,
    /// Conditions on everything it shows.
    #[schema(value_type = Option<Vec<Object>>)]
    filters: Option<Vec<Value>>,
}

/// What to change of a dashboard: at least one member.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DashboardChange {
    name: Option<String>,
    description: Option<String>,
    /// Other placements instead of all there are.
    #[serde(default, deserialize_with = "object")]
    definition: Option<Definition>,
    #[schema(value_type = Option<Vec<Object>>)]
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
    /// widget or preset.
    #[serde(rename = "type")]
    kind: String,
    /// Unique on the dashboard; made when absent.
    id: Option<String>,
    /// The widget to show, of a placement of that type.
    widget_id: Option<String>,
    /// The preset to show, of a placement of that type.
    preset_id: Option<String>,
    /// First column, from 0; 0 when absent.
    x: Option<i64>,
    /// First row, from 0; below all there are when absent.
    y: Option<i64>,
    /// Columns; 6 when absent.
    width: Option<i64>,
    /// Rows; 6 when absent.
    height: Option<i64>,
}

/// Where a tile goes: at least one member.
#[derive(Debug, Deserialize, ToSchema)]
struct TilePatch {
    x: Option<i64>,
    y: Option<i64>,
    width: Option<i64>,
    height: Option<i64>,
}

/// Checks where a tile stands; fields are named below `at`.
fn checked_tile(at: &str, tile: Tile) -> Result<(), Problem> {
    let fields = [
        ("x", tile.x, 0, N_COLUMNS - 1),
        ("y", tile.y, 0, MAX_ROWS),
        ("width", tile.width, 1, N_COLUMNS),
        ("height", tile.height, 1, MAX_ROWS),
    ];
    for (name, value, min, max) in fields {
        if !(min..=max).contains(&value) {
            let message = format!("a whole number from {min} to {max} is expected");
            return Err(Problem::body(&format!("{at}{name}"), message));
        }
    }
    if tile.x + tile.width > N_COLUMNS {
        let message = format!("x and width together exceed the {N_COLUMNS} columns of the grid");
        return Err(Problem::body(&format!("{at}width"), message));
    }
    Ok(())
}

impl PlacementInput {
    /// What it shows, and where; `fresh` is its id when it has none.
    fn checked(self, at: &str, fresh: String) -> Result<NewPlacement, Problem> {
        let refuse = |name: &str, message: String| Problem::body(&format!("{at}{name}"), message);
        let (field, shown) = match self.kind.as_str() {
            "widget" => ("widgetId", self.widget_id),
            "preset" => ("presetId", self.preset_id),
            other => {
                return Err(refuse("type", format!("{other:?} is none of widget, preset")));
            }
        };
        let is_id = |id: &String| (1..=MAX_ID_CHARS).contains(&id.chars().count());
        let message = || format!("1 to {MAX_ID_CHARS} characters are expected");
        let shown = shown.filter(is_id).ok_or_else(|| refuse(field, message()))?;
        let id = self.id.unwrap_or(fresh);
        if !is_id(&id) || id.chars().any(char::is_control) {
            return Err(refuse("id", message()));
        }
        let new = NewPlacement {
            id,
            content: match field {
                "widgetId" => Content::Widget(shown),
                _ => Content::Preset(shown),
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
            let message = format!("at most {MAX_PLACEMENTS} placements");
            return Err(Problem::body("definition.widgets", message));
        }
        let mut seen = HashSet::new();
        let mut end = 0;
        let mut placements = Vec::with_capacity(self.widgets.len());
        for (n, input) in self.widgets.into_iter().enumerate() {
            let at = format!("definition.widgets[{n}].");
            let new = input.checked(&at, app.web.ids.uuid().to_string())?;
            if !seen.insert(new.id.clone()) {
                let message = "another placement has this id";
                return Err(Problem::body(&format!("{at}id"), message));
            }
            let tile = tile(&new, end);
            end = end.max(tile.y + tile.height);
            placements.push(Placement { id: new.id, content: new.content, tile });
        }
        Ok(placements)
    }
}

/// Conditions on whatever stands there: each has to be one of some view.
fn checked_filters(filters: &[Value]) -> Result<(), Problem> {
    not_too_many("filters", filters.len())?;
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

fn placement_view(placement: &Placement) -> Value {
    let tile = placement.tile;
    let mut view = json!({ "id": placement.id });
    match &placement.content {
        Content::Widget(id) => {
            view["type"] = "widget".into();
            view["widgetId"] = id.as_str().into();
        }
        Content::Preset(id) => {
            view["type"] = "preset".into();
            view["presetId"] = id.as_str().into();
        }
    }
    for (name, value) in
        [("x", tile.x), ("y", tile.y), ("width", tile.width), ("height", tile.height)]
    {
        view[name] = value.into();
    }
    view
}

fn view(dashboard: &Dashboard) -> Value {
    let placements = dashboard.placements.iter().map(placement_view);
    json!({
        "id": dashboard.id,
        "createdAt": dashboard.created_at,
        "updatedAt": dashboard.updated_at,
        "name": dashboard.name,
        "description": dashboard.description,
        "definition": { "widgets": placements.collect::<Vec<_>>() },
        "filters": dashboard.filters,
    })
}

fn missing() -> Problem {
    Problem::not_found("dashboard")
}

/// A dashboard that is there, so that what is not found afterwards is a widget.
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
) -> Result<Json<Value>, Problem> {
    let paging = page::paging(&params)?;
    let found = app.store.catalog.dashboards(&caller.project, paging).await?;
    Ok(page::answer(paging, &found, view))
}

async fn create_dashboard(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<NewDashboard>,
) -> Result<Json<Value>, Problem> {
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
    Ok(Json(view(&dashboard)))
}

async fn get_dashboard(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let found = app.store.catalog.dashboard(&caller.project, &id).await?;
    Ok(Json(view(&found.ok_or_else(missing)?)))
}

async fn update_dashboard(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<DashboardChange>,
) -> Result<Json<Value>, Problem> {
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
        return Err(Problem::body("", "at least one field to change is expected"));
    }
    let now = app.web.clock.now();
    let changed = app.store.catalog.update_dashboard(&caller.project, &id, &patch, now);
    Ok(Json(view(&changed.await.map_err(no_widget)?)))
}

async fn delete_dashboard(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let deleted = app.store.catalog.delete_dashboard(&caller.project, &id).await;
    deleted.map_err(|error| match error {
        perpend_db::Error::NotFound => missing(),
        error => error.into(),
    })?;
    Ok(Json(json!({ "message": "Dashboard successfully deleted" })))
}

async fn add_placement(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<PlacementInput>,
) -> Result<Json<Value>, Problem> {
    find(&app, &caller, &id).await?;
    let new = input.checked("", app.web.ids.uuid().to_string())?;
    let max = i64::try_from(MAX_PLACEMENTS).unwrap_or(i64::MAX);
    let now = app.web.clock.now();
    let added = app.store.catalog.add_placement(&caller.project, &id, &new, max, now);
    Ok(Json(placement_view(&added.await.map_err(no_widget)?)))
}

fn no_placement() -> Problem {
    Problem::not_found("dashboard placement")
}

async fn move_placement(
    State(app): State<App>,
    caller: Act,
    Path((id, placement)): Path<(String, String)>,
    Body(patch): Body<TilePatch>,
) -> Result<Json<Value>, Problem> {
    let dashboard = find(&app, &caller, &id).await?;
    let mut all = dashboard.placements.into_iter();
    let found = all.find(|one| one.id == placement);
    let mut found = found.ok_or_else(no_placement)?;
    let parts = [patch.x, patch.y, patch.width, patch.height];
    if parts.iter().all(Option::is_none) {
        return Err(Problem::body("", "at least one of x, y, width, height is expected"));
    }
    let was = found.tile;
    found.tile = Tile {
        x: patch.x.unwrap_or(was.x),
        y: patch.y.unwrap_or(was.y),
        width: patch.width.unwrap_or(was.width),
        height: patch.height.unwrap_or(was.height),
    };
    checked_tile("", found.tile)?;
    let now = app.web.clock.now();
    let moved =
        app.store.catalog.move_placement(&caller.project, &id, &placement, found.tile, now).await;
    moved.map_err(|error| match error {
        perpend_db::Error::NotFound => no_placement(),
        error => Problem::from(error),
    })?;
    Ok(Json(placement_view(&found)))
}

async fn delete_placement(
    State(app): State<App>,
    caller: Act,
    Path((id, placement)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let now = app.web.clock.now();
    let deleted = app.store.catalog.delete_placement(&caller.project, &id, &placement, now).await;
    deleted.map_err(|error| match error {
        perpend_db::Error::NotFound => {
            Problem::new(Code::NotFound, "no such placement on a dashboard of this project")
        }
        error => error.into(),
    })?;
    Ok(Json(json!({ "message": "Dashboard placement successfully deleted" })))
}
