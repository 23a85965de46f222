//! The page of a list.

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use perpend_domain::list::BidirectionalPage;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    CellContext, ChoicePage, EmptyListCounts, FilterView, FocusView, ListChoice, ListDeclaration,
    ListNote, ListView, PageLinks, Pager, Parameter, StoppedSearch, Text, UrlCondition, encode,
    export_links, with_query,
};

use crate::list::empty::empty_list_counts;
use crate::list::params::ListRequest;
use crate::list::source::{ListQuery, ListScope, ListSource, ShownPage};
use crate::request::cursor::ListLinks;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::rules::links::new_rule_href;
use crate::state::App;
use crate::traces::terms::terms;

/// Bytes of the URL of a list that other pages repeat.
const MAX_URL: usize = 4_000;

/// `GET P/{list}`
pub(crate) async fn list_page<L: ListSource>(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let request = ListRequest::<L>::new(ListScope { app, viewer }, raw.as_deref())?;
    let ListRequest { source, scope, conditions, position, .. } = &request;
    if let Some(address) = source.redirect(scope).await? {
        return Ok(Redirect::to(&address).into_response());
    }
    let query = ListQuery { conditions, position, limit: request.n, max_tested: L::MAX_TESTED };
    let part = source.read(scope, query).await?;
    let view = view(&request, part).await?;
    page(StatusCode::OK, &source.complete(scope, view).await?)
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

/// The form of selected rows, if the viewer has the permission and the URL of the list is not too long.
fn row_choice<R: 'static>(
    viewer: &Viewer,
    list: &ListDeclaration<R>,
    links: &ListLinks,
) -> Option<ListChoice> {
    let choice = list.choice.as_ref()?;
    let pages: Vec<_> = choice.pages.iter().filter(|page| viewer.may(page.needs)).collect();
    let url = with_query(&format!("/{}", list.texts.path), &links.pairs);
    if pages.is_empty() || MAX_URL < url.len() {
        return None;
    }
    let base = viewer.base();
    let href = |page: &ChoicePage| format!("{base}{}", page.path);
    let all = pages.iter().filter_map(|page| {
        let all = format!("{}?in={}", href(page), encode(&url));
        Some((page.all?, all))
    });
    Some(ListChoice {
        all: all.collect(),
        buttons: pages.iter().map(|page| (page.label, href(page))).collect(),
        fields: vec![("in", url)],
    })
}

/// The text filter and the form for time range and environments, if the list has a text filter.
async fn filters<L: ListSource>(
    request: &ListRequest<L>,
    (path, is_empty): (&str, bool),
) -> Result<Option<(FilterView, FocusView)>, Problem> {
    let Some(of) = L::LIST.filter else {
        return Ok(None);
    };
    let viewer = &request.scope.viewer;
    let mut chips = terms(&request.q, &request.parsed);
    let searched = (&request.parsed, &request.conditions);
    let empty_counts = match is_empty && !request.is_whole() {
        true => empty_list_counts(request, searched, &mut chips).await?,
        false => EmptyListCounts::default(),
    };
    let others = request.unfiltered_parameters();
    let hidden_fields = request.filter_parameter().into_iter().chain(others).collect();
    let focus = FocusView::new(&viewer.focus, (path.to_owned(), hidden_fields), ("All time", true));
    let focus = match L::LIST.in_all_environments {
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
    let ListRequest { source, scope, conditions, position, q, .. } = request;
    let list = L::LIST;
    let mut notes = source.notes(scope, items, (links, position)).await?;
    if list.filter.is_some() && !list.in_all_environments && conditions.hides_internal() {
        let all = format!("{q} environment:set");
        let q: Parameter = ("q".into(), all.trim().to_owned());
        let pairs: Vec<Parameter> = request.other_parameters().into_iter().chain([q]).collect();
        notes.push(ListNote {
            text: format!("{} of evaluations and experiments hidden", list.texts.name),
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
    let ListRequest { scope, source, conditions, position, .. } = request;
    let (list, viewer) = (L::LIST, &scope.viewer);
    let base = viewer.base();
    let links = request.links();
    let is_later = position.is_later();
    let n = part.items.len() as u64;
    let is_empty = n == 0 && !is_later && part.stopped.is_none();
    let (filter, focus) = filters(request, (links.path.as_str(), is_empty)).await?.unzip();
    let shown = ShownPage { conditions, items: &part.items, n: request.n, is_later };
    let api = source.api(viewer, shown);
    let page_links = page_links(&links, request, &part);
    let notes = notes(request, &part.items, &links).await?;
    let total = source.total(scope, conditions, &part, is_later).await?;
    let rows = source.rows(scope, part.items).await?;
    let forms = viewer.form_context();
    let context = CellContext::new(&base, &viewer.focus, forms);
    let table = list.table(&request.columns, &rows, &context);
    let choice = row_choice(viewer, list, &links);
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
        score_href: L::RULE_TARGET.and_then(|kind| new_rule_href(viewer, kind, &request.q)),
        table: match (&list.choice, &choice) {
            (Some(declared), Some(_)) => table.with_choice(declared.name),
            _ => table,
        },
        choice,
        picker: list.picker(&links.path, &links.pairs, (request.columns.as_slice(), request.n)),
        page_links,
        position: Pager::of_page(!is_later, n, total).position(),
        is_later,
        has_news: list.news.is_some(),
        narrowed: narrowed(request, &links),
        notes,
        open_by_id: None,
        setup: None,
        exports: export_links(&base, list.texts.name, &links.pairs),
        path: links.path,
    })
}
