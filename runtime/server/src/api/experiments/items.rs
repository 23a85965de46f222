//! `GET /experiment-items`: spans that stand for items, and links to traces without such spans.

use std::borrow::Cow;

use assay_domain::dataset::{DatasetRun, DatasetRunItem};
use assay_domain::filter::{Cell, Column, ColumnKind, Filter, Row};
use assay_domain::ids::{ObservationId, ProjectId, TraceId};
use assay_domain::payload::Payload;
use assay_domain::time::Timestamp;
use assay_store::Paging;
use assay_store::datasets::{ExperimentSpan, LinkQuery, SpanQuery};
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::{Range, groups, object, scores_of_item};
use crate::App;
use crate::api::cursor;
use crate::api::rules::filter_problem;
use crate::auth::Reader;
use crate::extract::{Param, Params, param};
use crate::problem::Problem;

pub(super) const LIST: &[Param] = &[
    param(
        "fromStartTime",
        "date-time",
        "Items started at or after; needed.",
    ),
    param("toStartTime", "date-time", "Items started before."),
    param(
        "fields",
        "string",
        "Comma list of core, dataset, io, metadata, itemMetadata, experimentMetadata, scores; core and \
         dataset when absent.",
    ),
    param("limit", "integer", "1 to 100, 50 when absent."),
    param(
        "scoreLimit",
        "integer",
        "Scores per item, 1 to 50, 50 when absent.",
    ),
    param("cursor", "string", "`meta.cursor` of the page before."),
    param("experimentId", "string", "Comma list."),
    param("experimentName", "string", "Comma list."),
    param("experimentItemId", "string", "Comma list."),
    param("datasetId", "string", "Comma list."),
    param(
        "filter",
        "string",
        "Conditions on experimentId, experimentName, experimentItemId and datasetId as JSON.",
    ),
];

const GROUPS: &[&str] = &[
    "core",
    "dataset",
    "io",
    "metadata",
    "itemMetadata",
    "experimentMetadata",
    "scores",
];
const COLUMNS: &[Column] = &[
    Column::new("experimentId", ColumnKind::Options),
    Column::new("experimentName", ColumnKind::Options),
    Column::new("experimentItemId", ColumnKind::Options),
    Column::new("datasetId", ColumnKind::Options),
];
/// Rows read in one go.
const PER_READ: u32 = 500;

/// One item, from wherever it is known.
#[derive(Clone, Debug)]
enum Item {
    Span(Box<ExperimentSpan>),
    Link(Box<(DatasetRunItem, DatasetRun)>),
}

impl Item {
    /// Its place in the list.
    fn place(&self) -> (Timestamp, String) {
        match self {
            Self::Span(span) => (span.start, format!("{}/{}", span.trace_id, span.id)),
            Self::Link(parts) => (
                parts.0.created_at,
                format!("{}/{}", parts.0.trace_id, parts.0.id),
            ),
        }
    }

    fn dataset_id(&self) -> Option<&str> {
        match self {
            Self::Span(span) => span.link.dataset_id.as_deref(),
            Self::Link(parts) => Some(&parts.1.dataset_id),
        }
    }

    fn experiment(&self) -> (&str, &str) {
        match self {
            Self::Span(span) => {
                let id = span.link.id.as_deref().unwrap_or_default();
                (id, span.link.name.as_deref().unwrap_or(id))
            }
            Self::Link(parts) => (&parts.1.id, &parts.1.name),
        }
    }

    fn item_id(&self) -> &str {
        match self {
            Self::Span(span) => span.link.item_id.as_deref().unwrap_or(span.id.as_str()),
            Self::Link(parts) => &parts.0.item_id,
        }
    }
}

impl Row for Item {
    fn cell(&self, column: &'static str) -> Cell<'_> {
        match column {
            "experimentId" => Cell::Text(Cow::Borrowed(self.experiment().0)),
            "experimentName" => Cell::Text(Cow::Borrowed(self.experiment().1)),
            "experimentItemId" => Cell::Text(Cow::Borrowed(self.item_id())),
            "datasetId" => Cell::text(self.dataset_id()),
            _ => Cell::Null,
        }
    }
}

pub(super) async fn list_items(
    State(app): State<App>,
    caller: Reader,
    params: Params,
) -> Result<Json<Value>, Problem> {
    let range = Range::read(&params)?;
    let fields = groups(&params, GROUPS, &["core", "dataset"])?;
    let limit = params.int("limit", 1, 100, 50)? as usize;
    let score_limit = params.int("scoreLimit", 1, 50, 50)?;
    let filter = Filter::parse(&params.filter()?, COLUMNS).map_err(filter_problem)?;
    let after = cursor::place(&params)?;
    let lists = COLUMNS
        .iter()
        .map(|column| (column.id, params.list(column.id)));
    let lists: Vec<_> = lists.filter(|(_, list)| !list.is_empty()).collect();
    let is_wanted = |item: &Item| {
        let is_listed = lists.iter().all(|(column, list)| match item.cell(column) {
            Cell::Text(text) => list.iter().any(|member| *member == text),
            _ => false,
        });
        is_listed && filter.matches(item)
    };
    // The first instant after the last item's, so that those of equal time are read again and compared.
    let to = match &after {
        Some(place) => {
            let bound = Timestamp::from_micros(place.at.as_micros().saturating_add(1));
            Some(range.to.map_or(bound, |to| to.min(bound)))
        }
        None => range.to,
    };
    let range = Range { to, ..range };
    let is_after = |item: &Item| {
        after.as_ref().is_none_or(|place| {
            let (at, id) = item.place();
            (at, &id) < (place.at, &place.id)
        })
    };
    let mut found = spans(&app, &caller.project, range, limit + 1, |i| {
        is_wanted(i) && is_after(i)
    })
    .await?;
    found.extend(
        links(&app, &caller.project, range, limit + 1, |i| {
            is_wanted(i) && is_after(i)
        })
        .await?,
    );
    found.sort_by_cached_key(|item| std::cmp::Reverse(item.place()));
    let more = limit < found.len();
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|last| {
        let (at, id) = last.place();
        assay_store::catalog::Cursor { at, id }
    });
    let mut data = Vec::with_capacity(found.len());
    for item in &found {
        data.push(view(&app, &caller.project, item, &fields, score_limit).await?);
    }
    Ok(Json(
        json!({ "data": data, "meta": cursor::meta(next.as_ref()) }),
    ))
}

/// The newest spans that are wanted; all of the last one's instant, because the order among those is
/// not that of the store.
async fn spans(
    app: &App,
    project: &ProjectId,
    range: Range,
    n_wanted: usize,
    is_wanted: impl Fn(&Item) -> bool,
) -> Result<Vec<Item>, Problem> {
    let mut found: Vec<Item> = Vec::new();
    let mut query = SpanQuery {
        from: range.from,
        to: range.to,
        limit: PER_READ,
        ..SpanQuery::default()
    };
    loop {
        let (page, next) = app.store.experiment_spans(project, &query).await?;
        for span in page {
            let item = Item::Span(Box::new(span));
            let is_enough = n_wanted <= found.len();
            if is_enough
                && found
                    .last()
                    .is_some_and(|last| item.place().0 < last.place().0)
            {
                return Ok(found);
            }
            if is_wanted(&item) {
                found.push(item);
            }
        }
        match next {
            Some(next) => query.after = Some(next),
            None => return Ok(found),
        }
    }
}

/// The newest links that are wanted and whose trace has no span for the item.
async fn links(
    app: &App,
    project: &ProjectId,
    range: Range,
    n_wanted: usize,
    is_wanted: impl Fn(&Item) -> bool,
) -> Result<Vec<Item>, Problem> {
    let mut found: Vec<Item> = Vec::new();
    let runs = app.store.dataset_runs(project, None).await?;
    let query = LinkQuery {
        from: range.from,
        to: range.to,
        ..LinkQuery::default()
    };
    for page in 1.. {
        let paging = Paging {
            page,
            limit: PER_READ,
        };
        let links = app.store.run_items(project, &query, paging).await?.items;
        let is_last = links.len() < PER_READ as usize;
        for link in links {
            let is_enough = n_wanted <= found.len();
            if is_enough
                && found
                    .last()
                    .is_some_and(|last| link.created_at < last.place().0)
            {
                return Ok(found);
            }
            let Some(run) = runs.iter().find(|run| run.id == link.run_id) else {
                continue;
            };
            let item = Item::Link(Box::new((link, run.clone())));
            if is_wanted(&item) && !has_span(app, project, &item).await? {
                found.push(item);
            }
        }
        if is_last {
            break;
        }
    }
    Ok(found)
}

/// Whether the trace of a link has a span that stands for the same item.
async fn has_span(app: &App, project: &ProjectId, item: &Item) -> Result<bool, Problem> {
    let Item::Link(parts) = item else {
        return Ok(true);
    };
    let Ok(trace_id) = TraceId::new(&parts.0.trace_id) else {
        return Ok(false);
    };
    let query = SpanQuery {
        trace_id: Some(trace_id),
        limit: PER_READ,
        ..SpanQuery::default()
    };
    let (spans, _) = app.store.experiment_spans(project, &query).await?;
    Ok(spans
        .iter()
        .any(|span| span.link.id.as_ref() == Some(&parts.1.id)))
}

/// What is read of the observation that stands for an item.
struct Root {
    id: String,
    start: Timestamp,
    end: Option<Timestamp>,
    level: &'static str,
    environment: String,
    input: Option<Payload>,
    output: Option<Payload>,
    metadata: Value,
}

async fn root(
    app: &App,
    project: &ProjectId,
    item: &Item,
    with_content: bool,
) -> Result<Option<Root>, Problem> {
    let (trace_id, id) = match item {
        Item::Span(span) if !with_content => {
            return Ok(Some(Root {
                id: span.id.to_string(),
                start: span.start,
                end: span.end,
                level: span.level.as_str(),
                environment: span.environment.clone(),
                input: None,
                output: None,
                metadata: Value::Null,
            }));
        }
        Item::Span(span) => (span.trace_id.clone(), Some(span.id.clone())),
        Item::Link(parts) => {
            let Ok(trace_id) = TraceId::new(&parts.0.trace_id) else {
                return Ok(None);
            };
            let linked = parts.0.observation_id.as_deref();
            (trace_id, linked.and_then(|id| ObservationId::new(id).ok()))
        }
    };
    let id = match id {
        Some(id) => Some(id),
        None => {
            let trace = app.store.trace(project, &trace_id, false).await?;
            trace.and_then(|stored| stored.trace.root)
        }
    };
    let Some(id) = id else { return Ok(None) };
    let stored = app.store.observation_of(project, &trace_id, &id).await?;
    Ok(stored.map(|stored| {
        let observation = stored.observation;
        Root {
            id: observation.id.to_string(),
            start: observation.start,
            end: observation.end,
            level: observation.level.as_str(),
            environment: observation.environment,
            input: observation.content.input,
            output: observation.content.output,
            metadata: Value::Object(observation.content.metadata),
        }
    }))
}

async fn view(
    app: &App,
    project: &ProjectId,
    item: &Item,
    fields: &[String],
    score_limit: u32,
) -> Result<Value, Problem> {
    let has = |name: &str| fields.iter().any(|field| field == name);
    let root = root(app, project, item, has("io") || has("metadata")).await?;
    let (experiment_id, experiment_name) = item.experiment();
    let (trace_id, fallback_id, fallback_start) = match item {
        Item::Span(span) => (span.trace_id.as_str(), span.id.as_str(), span.start),
        Item::Link(parts) => (
            parts.0.trace_id.as_str(),
            parts.0.id.as_str(),
            parts.0.created_at,
        ),
    };
    let mut view = json!({
        "id": root.as_ref().map_or(fallback_id, |root| &root.id),
        "traceId": trace_id,
        "startTime": root.as_ref().map_or(fallback_start, |root| root.start),
        "endTime": root.as_ref().and_then(|root| root.end),
        "level": root.as_ref().map_or("DEFAULT", |root| root.level),
        "environment": root.as_ref().map_or("default", |root| &root.environment),
        "experimentId": experiment_id,
        "experimentName": experiment_name,
        "experimentItemId": item.item_id(),
    });
    if has("dataset") {
        view["experimentDatasetId"] = json!(item.dataset_id());
        view["experimentItemVersion"] = json!(match item {
            Item::Span(span) => span.link.item_version,
            Item::Link(parts) => parts.0.dataset_version,
        });
    }
    if has("metadata") {
        view["metadata"] = object(root.as_ref().map(|root| &root.metadata));
    }
    more(app, project, item, &mut view, &has).await?;
    if has("io") {
        view["input"] = json!(
            root.as_ref()
                .and_then(|r| r.input.as_ref())
                .map(Payload::as_str)
        );
        view["output"] = json!(
            root.as_ref()
                .and_then(|r| r.output.as_ref())
                .map(Payload::as_str)
        );
    }
    if has("scores") {
        let trace = TraceId::new(trace_id);
        let id = root
            .as_ref()
            .and_then(|root| ObservationId::new(&root.id).ok());
        view["scores"] = match trace {
            Ok(trace) => scores_of_item(app, project, &trace, id.as_ref(), score_limit).await?,
            Err(_) => json!([]),
        };
    }
    Ok(view)
}

/// What the item of the dataset and the experiment say.
async fn more(
    app: &App,
    project: &ProjectId,
    item: &Item,
    view: &mut Value,
    has: &impl Fn(&str) -> bool,
) -> Result<(), Problem> {
    let (expected, item_metadata, metadata, description) = match item {
        Item::Span(span) => {
            let link = &span.link;
            let expected = link
                .item_expected_output
                .as_ref()
                .map(|p| p.as_str().to_owned());
            (
                expected,
                link.item_metadata.clone(),
                link.metadata.clone(),
                link.description.clone(),
            )
        }
        Item::Link(parts) => {
            let (link, run) = parts.as_ref();
            let needs_item = has("io") || has("itemMetadata");
            let stored = match needs_item {
                true => app.store.dataset_item(project, &link.item_id).await?,
                false => None,
            };
            let stored = stored.map(|version| version.item);
            let expected = stored
                .as_ref()
                .filter(|item| !item.expected_output.is_null());
            let expected = expected.map(|item| {
                Payload::from_value(item.expected_output.clone())
                    .as_str()
                    .to_owned()
            });
            let item_metadata = stored.map(|item| item.metadata);
            (
                expected,
                item_metadata,
                Some(run.metadata.clone()),
                run.description.clone(),
            )
        }
    };
    if has("io") {
        view["expectedOutput"] = json!(expected);
    }
    if has("itemMetadata") {
        view["experimentItemMetadata"] = object(item_metadata.as_ref());
    }
    if has("experimentMetadata") {
        view["experimentMetadata"] = object(metadata.as_ref());
        view["experimentDescription"] = json!(description);
    }
    Ok(())
}
