//! `GET /experiment-items`: spans of items, and links to traces without such spans.

mod item;
mod view;

use axum::extract::State;
use perpend_api_types::list::CursorList;
use perpend_domain::filter::{Cell, Column, ColumnKind, Filter, Row};
use perpend_domain::ids::ProjectId;
use perpend_domain::list::Cursor;
use perpend_domain::telemetry::{Period, SpanQuery};
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::cursor;
use perpend_http_kit::extract::{Param, Params, param};
use perpend_http_kit::filters::filter_problem;
use perpend_http_kit::problem::Problem;

use super::params::{groups, period};
use crate::experiments::items::item::Item;
use crate::state::App;
use view::{ItemFields, ItemView};

pub(super) const LIST: &[Param] = &[
    param("fromStartTime", "date-time", "Start of the items, inclusive.").required(),
    param("toStartTime", "date-time", "Start of the items, exclusive."),
    param(
        "fields",
        "string",
        "Comma-separated list of `core`, `dataset`, `io`, `metadata`, `itemMetadata`, `experimentMetadata`, `scores`; `core` and \
         `dataset` when absent.",
    ),
    param("limit", "integer", "Items per page, 1 to 100; 50 when absent."),
    param("scoreLimit", "integer", "Scores per item, 1 to 50; 50 when absent."),
    param("cursor", "string", "`meta.cursor` of the previous page."),
    param("experimentId", "string", "Comma-separated list."),
    param("experimentName", "string", "Comma-separated list."),
    param("experimentItemId", "string", "Comma-separated list."),
    param("datasetId", "string", "Comma-separated list."),
    param(
        "filter",
        "string",
        "JSON array of conditions on `experimentId`, `experimentName`, `experimentItemId` and `datasetId`.",
    ),
];

const GROUPS: &[&str] =
    &["core", "dataset", "io", "metadata", "itemMetadata", "experimentMetadata", "scores"];
const COLUMNS: &[Column] = &[
    Column::new("experimentId", ColumnKind::Options),
    Column::new("experimentName", ColumnKind::Options),
    Column::new("experimentItemId", ColumnKind::Options),
    Column::new("datasetId", ColumnKind::Options),
];
/// Rows per query.
const PER_READ: u32 = 500;

pub(super) async fn list_items(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<CursorList<ItemView>>, Problem> {
    let period = period(&params)?;
    let fields = groups(&params, GROUPS, &["core", "dataset"])?;
    let limit = params.int("limit", 1, 100, 50)? as usize;
    let score_limit = params.int("scoreLimit", 1, 50, 50)?;
    let filter = Filter::parse(&params.filter()?, COLUMNS).map_err(filter_problem)?;
    let after = cursor::position(&params)?;
    let lists = COLUMNS.iter().map(|column| (column.id, params.list(column.id)));
    let lists: Vec<_> = lists.filter(|(_, list)| !list.is_empty()).collect();
    let is_selected = |item: &Item| {
        let is_listed = lists.iter().all(|(column, list)| match item.cell(column) {
            Cell::Text(text) => list.iter().any(|member| *member == text),
            _ => false,
        });
        is_listed && filter.matches(item)
    };
    // One microsecond after the last item, so that items of equal time are read again and compared.
    let to = match &after {
        Some(cursor) => {
            let bound = Timestamp::from_micros(cursor.at.as_micros().saturating_add(1));
            Some(period.to.map_or(bound, |to| to.min(bound)))
        }
        None => period.to,
    };
    let is_after = |item: &Item| {
        after.as_ref().is_none_or(|cursor| {
            let (at, id) = item.position();
            (at, &id) < (cursor.at, &cursor.id)
        })
    };
    let selection = ItemSelection {
        period: Period { to, ..period },
        experiment_ids: params.list("experimentId"),
        limit: limit + 1,
        is_selected: |item: &Item| is_selected(item) && is_after(item),
    };
    let mut found = spans(&app, &caller.project, &selection).await?;
    found.extend(links(&app, &caller.project, &selection).await?);
    found.sort_by_cached_key(|item| std::cmp::Reverse(item.position()));
    let more = limit < found.len();
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|last| {
        let (at, id) = last.position();
        Cursor::new(at, id)
    });
    let fields = ItemFields { fields, score_limit };
    let data = view::views(&app, &caller.project, &found, &fields).await?;
    Ok(Answer(CursorList { data, meta: cursor::meta(next.as_ref()) }))
}

/// Selection of items.
struct ItemSelection<F> {
    period: Period,
    /// Ids of experiments; all when empty.
    experiment_ids: Vec<String>,
    limit: usize,
    is_selected: F,
}

impl<F: Fn(&Item) -> bool> ItemSelection<F> {
    /// Adds a selected item. True when the limit is reached and all items of the time of the last one were read, because
    /// the order among those differs from that of the store.
    fn add(&self, found: &mut Vec<Item>, item: Item) -> bool {
        if self.limit <= found.len()
            && let Some(last) = found.last()
            && item.position().0 < last.position().0
        {
            return true;
        }
        if (self.is_selected)(&item) {
            found.push(item);
        }
        false
    }
}

/// The newest selected spans.
async fn spans(
    app: &App,
    project: &ProjectId,
    selection: &ItemSelection<impl Fn(&Item) -> bool>,
) -> Result<Vec<Item>, Problem> {
    let mut found: Vec<Item> = Vec::new();
    let mut query = SpanQuery {
        period: selection.period,
        experiment_ids: selection.experiment_ids.clone(),
        limit: PER_READ,
        after: None,
    };
    loop {
        let (page, next) = app.store.telemetry.experiment_spans(project, &query).await?;
        for span in page {
            if selection.add(&mut found, Item::Span(Box::new(span))) {
                return Ok(found);
            }
        }
        match next {
            Some(next) => query.after = Some(next),
            None => return Ok(found),
        }
    }
}

/// The newest selected links whose trace has no span for the item.
async fn links(
    app: &App,
    project: &ProjectId,
    selection: &ItemSelection<impl Fn(&Item) -> bool>,
) -> Result<Vec<Item>, Problem> {
    let mut found: Vec<Item> = Vec::new();
    let mut after: Option<Cursor> = None;
    let which = (selection.period, selection.experiment_ids.as_slice());
    loop {
        let page = app
            .store
            .telemetry
            .links_without_spans(project, which, after.as_ref(), PER_READ)
            .await?;
        let is_last = page.len() < PER_READ as usize;
        after = page.last().map(|(link, _)| Cursor::new(link.created_at, link.id.clone()));
        for parts in page {
            if selection.add(&mut found, Item::Link(Box::new(parts))) {
                return Ok(found);
            }
        }
        if is_last {
            return Ok(found);
        }
    }
}
