//! Dashboard widgets: charts of metrics.

use axum::extract::{Path, State};
use perpend_api_types::filter::Condition;
use perpend_api_types::list::{Confirmation, NumberedList};
use perpend_catalog::dashboards::Widget;
use perpend_domain::access::Permission::{DashboardRead, DashboardWrite};
use perpend_domain::filter::Filter;
use perpend_domain::metrics::MetricView;
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, Params};
use perpend_http_kit::filters::filter_problem_at;
use perpend_http_kit::page;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::metrics::names;
use crate::records::state::{App, Routes};

const ALL: &str = "/api/public/unstable/dashboard-widgets";
const ONE: &str = "/api/public/unstable/dashboard-widgets/{widgetId}";

const MAX_NAME_CHARS: usize = 200;
const MAX_DESCRIPTION_CHARS: usize = 5_000;
/// Most dimensions, metrics or conditions of one chart.
const MAX_PARTS: usize = 50;
/// Views of widgets.
const VIEWS: [MetricView; 4] = [
    MetricView::Observations,
    MetricView::ScoresNumeric,
    MetricView::ScoresBoolean,
    MetricView::ScoresCategorical,
];

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listWidgets",
        ALL,
        "List dashboard widgets, last changed first",
        DashboardRead,
    );
    routes.add(list.query(page::PAGED), list_widgets);
    let create = Operation::post("createWidget", ALL, "Create a dashboard widget", DashboardWrite);
    routes.add(create.body::<NewWidget>(), create_widget);
    routes
        .add(Operation::get("getWidget", ONE, "Get a dashboard widget", DashboardRead), get_widget);
    let update = Operation::patch("updateWidget", ONE, "Update a dashboard widget", DashboardWrite);
    routes.add(update.body::<WidgetPatch>(), update_widget);
    let delete = Operation::delete(
        "deleteWidget",
        ONE,
        "Delete a dashboard widget without placements",
        DashboardWrite,
    );
    routes.add(delete, delete_widget);
}

/// A new widget.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct NewWidget {
    name: String,
    description: Option<String>,
    /// `observations`, `scores-numeric`, `scores-boolean` or `scores-categorical`.
    view: String,
    dimensions: Vec<WidgetDimension>,
    metrics: Vec<WidgetMetric>,
    /// Conditions, all of which must hold.
    #[schema(value_type = Vec<Condition>)]
    filters: Vec<Value>,
    chart_type: ChartType,
    chart_config: Option<ChartConfig>,
}

/// Changes of a widget. At least one member is required.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct WidgetPatch {
    name: Option<String>,
    description: Option<String>,
    view: Option<String>,
    dimensions: Option<Vec<WidgetDimension>>,
    metrics: Option<Vec<WidgetMetric>>,
    #[schema(value_type = Option<Vec<Condition>>)]
    filters: Option<Vec<Value>>,
    /// Without `chartConfig`, a new type resets it.
    chart_type: Option<ChartType>,
    chart_config: Option<ChartConfig>,
}

/// A dimension of a chart.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
struct WidgetDimension {
    /// Name of a dimension of the view.
    field: String,
}

/// A metric of a chart.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
struct WidgetMetric {
    /// Name of a measure of the view.
    measure: String,
    /// `sum`, `avg`, `count`, `max`, `min`, `p50`, `p75`, `p90`, `p95`, `p99`, `histogram` or `uniq`.
    agg: String,
}

/// Type of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum ChartType {
    LineTimeSeries,
    AreaTimeSeries,
    BarTimeSeries,
    HorizontalBar,
    VerticalBar,
    Pie,
    Number,
    Histogram,
    PivotTable,
}

/// Options of a chart.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
struct ChartConfig {
    /// Absent or equal to `chartType`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<ChartType>,
    /// 1 to 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    row_limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    show_value_labels: Option<bool>,
    /// 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    bins: Option<u32>,
    #[serde(rename = "defaultSort", skip_serializing_if = "Option::is_none")]
    default_sort: Option<DefaultSort>,
}

/// Default order of a table.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
struct DefaultSort {
    column: String,
    order: SortOrder,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
enum SortOrder {
    Asc,
    Desc,
}

/// The stored definition of a chart.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WidgetChart)]
struct Chart {
    view: String,
    dimensions: Vec<WidgetDimension>,
    metrics: Vec<WidgetMetric>,
    /// Conditions, all of which must hold.
    #[schema(value_type = Vec<Condition>)]
    filters: Vec<Value>,
    chart_type: ChartType,
    chart_config: ChartConfig,
}

fn refuse(field: &str, message: String) -> Problem {
    Problem::body(field, message)
}

/// Validates the name of a widget or a dashboard.
pub(super) fn checked_name(name: &str) -> Result<(), Problem> {
    let n_chars = name.trim().chars().count();
    if n_chars == 0 || n_chars > MAX_NAME_CHARS || name.chars().any(char::is_control) {
        let message =
            format!("must have 1 to {MAX_NAME_CHARS} characters, without control characters");
        return Err(Problem::body("name", message));
    }
    Ok(())
}

pub(super) fn checked_description(description: &str) -> Result<(), Problem> {
    match description.chars().count() {
        0..=MAX_DESCRIPTION_CHARS => Ok(()),
        _ => {
            let message = format!("must have at most {MAX_DESCRIPTION_CHARS} characters");
            Err(Problem::body("description", message))
        }
    }
}

pub(super) fn check_length(field: &str, n: usize) -> Result<(), Problem> {
    match n {
        0..=MAX_PARTS => Ok(()),
        _ => {
            Err(Problem::body(field, format!("must contain at most {MAX_PARTS} elements, got {n}")))
        }
    }
}

fn within(field: &str, value: Option<u32>, max: u32) -> Result<(), Problem> {
    match value {
        Some(value) if !(1..=max).contains(&value) => {
            let field = format!("chartConfig.{field}");
            Err(Problem::body(&field, format!("must be from 1 to {max}, got {value}")))
        }
        _ => Ok(()),
    }
}

impl Chart {
    /// Validates the chart against its view and sets the type in the options.
    fn checked(mut self) -> Result<Value, Problem> {
        check_length("dimensions", self.dimensions.len())?;
        check_length("metrics", self.metrics.len())?;
        check_length("filters", self.filters.len())?;
        let view = names::view(&self.view, &VIEWS, refuse)?;
        let fields = self.dimensions.iter().map(|one| one.field.as_str());
        let dimensions = names::dimensions(view, fields, refuse)?;
        let metrics = self.metrics.iter();
        let metrics = metrics.map(|one| (one.measure.as_str(), one.agg.as_str()));
        names::metrics(view, &dimensions, metrics, "agg", refuse)?;
        Filter::parse(&self.filters, view.columns())
            .map_err(|errors| filter_problem_at("filters", errors))?;
        let config = &mut self.chart_config;
        if config.kind.is_some_and(|kind| kind != self.chart_type) {
            let message = "must be absent or equal to chartType";
            return Err(Problem::body("chartConfig.type", message));
        }
        config.kind = Some(self.chart_type);
        within("row_limit", config.row_limit, 1_000)?;
        within("bins", config.bins, 100)?;
        let sort = config.default_sort.as_ref();
        if sort.is_some_and(|sort| !(1..=MAX_NAME_CHARS).contains(&sort.column.chars().count())) {
            let message = format!("must have 1 to {MAX_NAME_CHARS} characters");
            return Err(Problem::body("chartConfig.defaultSort.column", message));
        }
        serde_json::to_value(self).map_err(|_| Problem::internal())
    }

    /// Parses a stored chart.
    fn stored(widget: &Widget) -> Result<Self, Problem> {
        serde_json::from_value(widget.chart.clone()).map_err(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, widget.id = widget.id, "parsing a stored chart failed");
            Problem::internal()
        })
    }
}

impl NewWidget {
    fn checked(self, id: String, now: Timestamp) -> Result<Widget, Problem> {
        checked_name(&self.name)?;
        let description = self.description.unwrap_or_default();
        checked_description(&description)?;
        let chart = Chart {
            view: self.view,
            dimensions: self.dimensions,
            metrics: self.metrics,
            filters: self.filters,
            chart_type: self.chart_type,
            chart_config: self.chart_config.unwrap_or_default(),
        };
        Ok(Widget {
            id,
            name: self.name,
            description,
            chart: chart.checked()?,
            created_at: now,
            updated_at: now,
        })
    }
}

impl WidgetPatch {
    const fn is_empty(&self) -> bool {
        self.name.is_none()
            && self.description.is_none()
            && self.view.is_none()
            && self.dimensions.is_none()
            && self.metrics.is_none()
            && self.filters.is_none()
            && self.chart_type.is_none()
            && self.chart_config.is_none()
    }

    /// Applies the changes and validates the widget.
    fn apply(self, widget: &mut Widget) -> Result<(), Problem> {
        if let Some(name) = self.name {
            checked_name(&name)?;
            widget.name = name;
        }
        if let Some(description) = self.description {
            checked_description(&description)?;
            widget.description = description;
        }
        let current = Chart::stored(widget)?;
        let chart_type = self.chart_type.unwrap_or(current.chart_type);
        let same_type = chart_type == current.chart_type;
        let chart = Chart {
            view: self.view.unwrap_or(current.view),
            dimensions: self.dimensions.unwrap_or(current.dimensions),
            metrics: self.metrics.unwrap_or(current.metrics),
            filters: self.filters.unwrap_or(current.filters),
            chart_type,
            chart_config: match self.chart_config {
                Some(config) => config,
                None if same_type => current.chart_config,
                None => ChartConfig::default(),
            },
        };
        widget.chart = chart.checked()?;
        Ok(())
    }
}

/// A dashboard widget.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Widget)]
struct WidgetView {
    id: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    name: String,
    description: String,
    #[serde(flatten)]
    #[schema(value_type = Chart)]
    chart: Value,
}

fn view(widget: &Widget) -> WidgetView {
    WidgetView {
        id: widget.id.clone(),
        created_at: widget.created_at,
        updated_at: widget.updated_at,
        name: widget.name.clone(),
        description: widget.description.clone(),
        chart: widget.chart.clone(),
    }
}

fn missing() -> Problem {
    Problem::not_found("dashboard widget")
}

async fn list_widgets(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<NumberedList<WidgetView>>, Problem> {
    let paging = page::paging(&params)?;
    let found = app.store.catalog.widgets(&caller.project, paging).await?;
    Ok(page::list(paging, &found, view))
}

async fn create_widget(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<NewWidget>,
) -> Result<Answer<WidgetView>, Problem> {
    let widget = input.checked(app.web.ids.uuid().to_string(), app.web.clock.now())?;
    app.store.catalog.create_widget(&caller.project, &widget).await?;
    Ok(Answer(view(&widget)))
}

async fn get_widget(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<WidgetView>, Problem> {
    let widget = app.store.catalog.widget(&caller.project, &id).await?;
    Ok(Answer(view(&widget.ok_or_else(missing)?)))
}

async fn update_widget(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(patch): Body<WidgetPatch>,
) -> Result<Answer<WidgetView>, Problem> {
    let widget = app.store.catalog.widget(&caller.project, &id).await?;
    let mut widget = widget.ok_or_else(missing)?;
    if patch.is_empty() {
        return Err(Problem::body("", "at least one field is required"));
    }
    let seen = widget.updated_at;
    patch.apply(&mut widget)?;
    widget.updated_at = app.web.clock.now().max(seen);
    app.store.catalog.update_widget(&caller.project, &widget, seen).await?;
    Ok(Answer(view(&widget)))
}

async fn delete_widget(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<Confirmation>, Problem> {
    let deleted = app.store.catalog.delete_widget(&caller.project, &id).await;
    deleted.map_err(|error| match error {
        perpend_db::Error::NotFound => missing(),
        error => error.into(),
    })?;
    Ok(Answer(Confirmation::new("Dashboard widget successfully deleted")))
}
