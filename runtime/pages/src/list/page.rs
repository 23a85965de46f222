//! The page of a list.

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use perpend_domain::list::BidirectionalPage;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    CellContext, EmptyListCounts, FilterView, Focus, FocusView, ListNote, ListView, PageLinks,
    Pager, Parameter, StoppedSearch, Text, UrlCondition, with_query,
};

use crate::list::empty::empty_list_counts;
use crate::list::params::ListRequest;
use crate::list::source::{ListBounds, ListSource};
use crate::request::cursor::ListLinks;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces::terms::terms;

/// `GET P/{list}`
pub(crate) async fn list_page<L: ListSource>(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let request = ListRequest::<L>::new(&app, viewer, raw.as_deref())?;
    if let Some(address) = request.source.redirect().await? {
        return Ok(Redirect::to(&address).into_response());
    }
    let bounds = ListBounds { limit: request.n, max_tested: L::MAX_TESTED };
    let part = request.source.read(&request.conditions, &request.position, bounds).await?;
    let view = view(&request, part).await?;
    page(StatusCode::OK, &request.source.complete(view).await?)
}

/// Links to other pages.
fn page_links<L: ListSource>(
    links: &ListLinks,
    request: &ListRequest<L>,
    part: &BidirectionalPage<L::Item>,
) -> PageLinks {
    let ends = [part.newer.as_ref(), part.older.as_ref()];
    let position = &request.position;
    PageLinks {
        first: position.is_later().then(|| links.first()),
        ..links.ways(ends, part.stopped.as_ref(), position.is_backwards)
    }
}

/// Labels and URLs of the list as a file.
fn exports(base: &str, name: &str, parameters: &[Parameter]) -> [(&'static str, String); 2] {
    [("Export CSV", "csv"), ("Export JSONL", "jsonl")].map(|(label, format)| {
        let others = parameters.iter().filter(|(name, _)| name != "n").cloned();
        let format: Parameter = ("format".into(), format.to_owned());
        let pairs: Vec<Parameter> = std::iter::once(format).chain(others).collect();
        (label, with_query(&format!("{base}/export/{name}"), &pairs))
    })
}

/// The text filter and the form for time range and environments, if the list has a text filter.
async fn filters<L: ListSource>(
    request: &ListRequest<L>,
    (path, is_empty): (&str, bool),
) -> Result<Option<(FilterView, FocusView)>, Problem> {
    let Some(of) = L::declaration().filter else {
        return Ok(None);
    };
    let viewer = &request.viewer;
    let mut chips = terms(&request.q, &request.parsed);
    let own = request.source.parameters();
    let is_whole = chips.is_empty() && own.is_empty() && viewer.focus == Focus::default();
    let empty_counts = match is_empty && !is_whole {
        true => empty_list_counts(request, &mut chips).await?,
        false => EmptyListCounts::default(),
    };
    let own = [own, request.table_parameters.clone(), viewer.unknown_parameters()].concat();
    let hidden_fields: Vec<Parameter> = request.filter_parameter().into_iter().chain(own).collect();
    let focus = FocusView::new(&viewer.focus, (path.to_owned(), hidden_fields), ("All time", true));
    let focus = match L::declaration().in_all_environments {
        true => focus.in_all_environments(),
        false => focus,
    };
    let filter = FilterView {
        of,
        base: viewer.base(),
        q: request.q.clone(),
        terms: chips,
        other_parameters: request.other_parameters(),
        sorts: Vec::new(),
        empty_counts,
    };
    Ok(Some((filter, focus)))
}

/// Notes about hidden rows.
async fn notes<L: ListSource>(
    request: &ListRequest<L>,
    items: &[L::Item],
    links: &ListLinks,
) -> Result<Vec<ListNote>, Problem> {
    let ListRequest { source, conditions, position, q, .. } = request;
    let mut notes = source.notes(items, (links, position)).await?;
    if source.hides_internal(conditions) {
        let all = format!("{q} environment:set");
        let q: Parameter = ("q".into(), all.trim().to_owned());
        let pairs: Vec<Parameter> = request.other_parameters().into_iter().chain([q]).collect();
        notes.push(ListNote {
            text: format!("{} of evaluations and experiments hidden", L::declaration().texts.name),
            label: "show",
            href: with_query(&links.path, &pairs),
        });
    }
    Ok(notes)
}

/// Conditions of the list's own parameters, each with the URL of the list without it.
fn narrowed<L: ListSource>(request: &ListRequest<L>, links: &ListLinks) -> Vec<UrlCondition> {
    let condition = |(name, value, parameter): (&'static str, Text, &'static str)| {
        let others = links.pairs.iter().filter(|(name, _)| name != parameter).cloned();
        let without = with_query(&links.path, &others.collect::<Vec<_>>());
        UrlCondition { name, value, without }
    };
    request.source.narrowed().into_iter().map(condition).collect()
}

async fn view<L: ListSource>(
    request: &ListRequest<L>,
    part: BidirectionalPage<L::Item>,
) -> Result<ListView, Problem> {
    let ListRequest { viewer, source, conditions, position, .. } = request;
    let list = L::declaration();
    let base = viewer.base();
    let path = format!("{base}/{}", list.texts.name);
    let pairs: Vec<Parameter> =
        request.other_parameters().into_iter().chain(request.filter_parameter()).collect();
    let links = ListLinks { path: path.clone(), pairs };
    let is_later = position.is_later();
    let n = part.items.len() as u64;
    let is_empty = n == 0 && !is_later && part.stopped.is_none();
    let (filter, focus) = filters(request, (path.as_str(), is_empty)).await?.unzip();
    let api = source.api(conditions, &part.items, (request.n, is_later));
    let page_links = page_links(&links, request, &part);
    let notes = notes(request, &part.items, &links).await?;
    let total = source.total(conditions, &part, is_later).await?;
    let rows = source.rows(part.items).await?;
    let forms = viewer.form_context();
    let context = CellContext { base: &base, focus: &viewer.focus, forms };
    Ok(ListView {
        shell: viewer.shell(list.texts.section).with_api(api),
        texts: &list.texts,
        focus,
        filter,
        selects: Vec::new(),
        other_parameters: [viewer.parameters(), request.table_parameters.clone()].concat(),
        notices: request.notices.clone(),
        stopped: part.stopped.as_ref().map(|at| StoppedSearch {
            n_tested: part.n_tested.unwrap_or(L::MAX_TESTED),
            n_found: n,
            next_href: Some(links.at(at, position.is_backwards)),
        }),
        action: None,
        choice: None,
        score_href: None,
        table: list.table(&request.columns, &rows, &context),
        picker: list.picker(&path, &links.pairs, (request.columns.as_slice(), request.n)),
        page_links,
        position: Pager::of_page(!is_later, n, total).position(),
        is_later,
        has_news: list.has_news,
        narrowed: narrowed(request, &links),
        notes,
        open_by_id: None,
        setup: None,
        exports: exports(&base, list.texts.name, &links.pairs),
        path,
    })
}
