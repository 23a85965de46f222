//! The page of a list.

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use perpend_domain::list::{BidirectionalPage, ListPosition};
use perpend_http_kit::problem::Problem;
use perpend_views::{
    CellContext, ChoiceButton, ChoicePage, EmptyListCounts, FilterView, FocusView, ListChoice,
    ListDeclaration, ListNote, ListParts, ListTable, ListView, MAX_LIST, PageActions, PageLinks,
    Parameter, SearchProgress, StoppedSearch, Text, UrlCondition, encode, export_links,
    position_text, with_query,
};

use crate::list::empty::empty_list_counts;
use crate::list::source::{ListParams, ListQuery, ListRequest, ListScope, ListSource, ShownPage};
use crate::list::terms::terms;
use crate::request::cursor::ListLinks;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::rules::links::new_rule_href;
use crate::state::App;

/// Bytes of the URL of a list that other pages repeat.
const MAX_URL: usize = 4_000;

/// `GET P/{list}`
pub(crate) async fn list_page<L: ListSource>(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let request = ListRequest::<L>::new(ListScope { app, viewer }, raw.as_deref())?;
    if let Some(address) = request.source.redirect(&request.scope).await? {
        return Ok(Redirect::to(&address).into_response());
    }
    page(StatusCode::OK, &load_page(&request).await?)
}

/// Reads the page of a list.
pub(crate) async fn load_page<L: ListSource>(
    request: &ListRequest<L>,
) -> Result<ListView, Problem> {
    let ListRequest { scope, conditions, params } = request;
    let query = ListQuery {
        conditions,
        position: &params.position,
        page: params.page,
        limit: params.n,
        max_tested: L::MAX_TESTED,
    };
    let part = params.source.read(scope, query).await?;
    let view = view(request, part).await?;
    params.source.complete(request, view).await
}

/// Whether a page is the first one, and the rows before it, if known.
fn start_of<T>(part: &BidirectionalPage<T>, position: &ListPosition) -> (bool, Option<u64>) {
    let n_before = part.n_before.or_else(|| (!position.is_later()).then_some(0));
    (n_before == Some(0), n_before)
}

/// Progress of the search from the start of the list to the end of this page.
fn progress<L: ListSource>(
    params: &ListParams<L>,
    part: &BidirectionalPage<L::Item>,
) -> Option<SearchProgress> {
    let before = match params.position.is_later() {
        // A page with a number follows other pages, which were counted for it.
        false => SearchProgress { n_tested: 0, n_found: part.n_before.unwrap_or_default() },
        true => params.searched?,
    };
    Some(SearchProgress {
        n_tested: before.n_tested.saturating_add(part.n_tested.unwrap_or_default()),
        n_found: before.n_found.saturating_add(part.items.len() as u64),
    })
}

/// Links to other pages, and the search if it stopped before the end of the list.
fn page_links<L: ListSource>(
    links: &ListLinks,
    params: &ListParams<L>,
    part: &BidirectionalPage<L::Item>,
) -> (PageLinks, Option<StoppedSearch>) {
    let is_backwards = params.position.is_backwards;
    let so_far = progress(params, part).filter(|_| L::HAS_PROGRESS && !is_backwards);
    let more = so_far.map_or_else(String::new, SearchProgress::more);
    let resume = part.stopped.as_ref();
    let resume = resume.map(|cursor| format!("{}{more}", links.at(cursor, is_backwards)));
    let ends = [part.newer.as_ref(), part.older.as_ref()];
    let (is_first, _) = start_of(part, &params.position);
    let page_links = PageLinks {
        first: (!is_first).then(|| links.first()),
        ..links.ways(ends, resume.as_deref(), is_backwards)
    };
    let n = part.items.len() as u64;
    let stopped = (resume.is_some() || 0 < part.n_left).then(|| StoppedSearch {
        n_tested: part.n_tested.unwrap_or(L::MAX_TESTED),
        n_found: part.total.filter(|_| 0 < part.n_left).map_or(n, |total| total.n),
        next_href: resume,
    });
    (page_links, stopped)
}

/// The form of selected rows, if the viewer has the permission and the URL of the list is not too long.
fn row_choice<R: 'static>(
    viewer: &Viewer,
    list: &ListDeclaration<R>,
    url: String,
) -> Option<ListChoice> {
    let choice = list.choice.as_ref()?;
    let pages: Vec<_> = choice.pages.iter().filter(|page| viewer.may(page.needs)).collect();
    if pages.is_empty() || MAX_URL < url.len() {
        return None;
    }
    let base = viewer.base();
    let href = |page: &ChoicePage| format!("{base}{}", page.path);
    let all = pages.iter().filter_map(|page| {
        let all = format!("{}?in={}", href(page), encode(&url));
        Some((page.all?, all))
    });
    let button =
        |page: &&ChoicePage| ChoiceButton { label: page.label, href: href(page), pair: page.pair };
    let has_pair = pages.iter().any(|page| page.pair.is_some());
    let choose = has_pair.then(|| ("choose", "1".to_owned()));
    Some(ListChoice {
        all: all.collect(),
        buttons: pages.iter().map(button).collect(),
        fields: choose.into_iter().chain([("in", url)]).collect(),
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
    let empty_counts = match is_empty && !request.is_whole() {
        true => empty_list_counts(request, &mut chips).await?,
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
        sorts: request.source.orders(&request.columns),
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
    let ListRequest { scope, conditions, params } = request;
    let (list, q) = (L::LIST, &params.q);
    let mut notes = params.source.notes(scope, items, (links, &params.position)).await?;
    if list.filter.is_some() && !list.in_all_environments && conditions.hides_internal() {
        let all = format!("{q} environment:set");
        let q: Parameter = ("q".into(), all.trim().to_owned());
        let pairs = [vec![q], request.other_parameters()].concat();
        notes.push(ListNote {
            text: format!("evaluation and experiment {} hidden", list.texts.name),
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

/// The rows of a page with their actions.
async fn table<L: ListSource>(
    request: &ListRequest<L>,
    items: Vec<L::Item>,
    filter: Option<&FilterView>,
) -> Result<ListTable, Problem> {
    let ListRequest { scope, params, .. } = request;
    let (list, viewer) = (L::LIST, &scope.viewer);
    let (base, url) = (viewer.base(), request.url());
    let own = url.strip_prefix(&base).filter(|own| own.len() <= MAX_LIST);
    let within = own.map_or_else(String::new, |own| format!("?in={}", encode(own)));
    let rows = params.source.rows(scope, items).await?;
    let context = CellContext::new(&base, &viewer.focus, viewer.form_context());
    let context = CellContext { within: &within, ..context };
    let table = list.table(&params.columns, &rows, &context).ordered(|column| {
        let (source, state) = params.source.ordered_by(column)?;
        Some((request.links_with(&source).first(), state))
    });
    let (Some(filter), Some(actions)) = (filter, &list.actions) else {
        return Ok(table);
    };
    let (peeked_id, may_bookmark) = (params.source.peeked_id(), viewer.may(actions.bookmarks.1));
    let page = PageActions { url, peeked_id, may_bookmark };
    Ok(table.with_actions((list, rows.as_slice()), filter, &page))
}

/// Optional parts that the list declares or its source has.
fn parts<L: ListSource>(
    request: &ListRequest<L>,
    part: &BidirectionalPage<L::Item>,
    links: &ListLinks,
) -> ListParts {
    let (source, viewer) = (&request.source, &request.scope.viewer);
    let is_counted = part.total.is_some_and(|total| !total.is_more);
    let is_over = part.stopped.is_some() || 0 < part.n_left;
    let count = source.count_parameter();
    let count = count.filter(|_| !is_counted && !is_over && !request.position.is_later());
    let bookmarks = L::LIST.actions.as_ref().map(|actions| actions.bookmarks);
    let bookmarks = bookmarks.filter(|(_, needs)| viewer.may(*needs));
    ListParts {
        news_href: source.news_href(request, &part.items),
        count_href: count
            .map(|count| with_query(&links.path, &[links.pairs.clone(), vec![count]].concat())),
        searched: progress(&request.params, part).filter(|_| request.searched.is_some()),
        bookmarks: bookmarks.map(|(path, _)| format!("{}{path}", viewer.base())),
        ..ListParts::default()
    }
}

async fn view<L: ListSource>(
    request: &ListRequest<L>,
    part: BidirectionalPage<L::Item>,
) -> Result<ListView, Problem> {
    let ListRequest { scope, conditions, params } = request;
    let (list, viewer, source) = (L::LIST, &scope.viewer, &params.source);
    let base = viewer.base();
    let links = request.links();
    let n = part.items.len() as u64;
    let (is_first, n_before) = start_of(&part, &params.position);
    let parts = parts(request, &part, &links);
    let has_none = parts.searched.map_or(is_first && n == 0, |all| all.n_found == 0);
    let is_empty = has_none && part.stopped.is_none() && part.n_left == 0;
    let (filter, focus) = filters(request, (links.path.as_str(), is_empty)).await?.unzip();
    let is_later = !is_first;
    let shown = ShownPage {
        conditions,
        items: &part.items,
        n: params.n,
        number: params.page,
        is_later: params.position.is_later(),
    };
    let api = source.api(viewer, shown);
    let (page_links, stopped) = page_links(&links, params, &part);
    let notes = notes(request, &part.items, &links).await?;
    let total = source.total(scope, conditions, &part, is_later).await?;
    let table = table(request, part.items, filter.as_ref()).await?;
    let choice = row_choice(viewer, list, list_path(list, &links));
    Ok(ListView {
        shell: viewer.shell(list.texts.section).with_api(api),
        texts: &list.texts,
        focus,
        filter,
        selects: Vec::new(),
        other_parameters: [viewer.parameters(), params.table_parameters.clone()].concat(),
        notices: params.notices.clone(),
        stopped,
        action: None,
        score_href: L::RULE_TARGET.and_then(|kind| new_rule_href(viewer, kind, &params.q)),
        table: match (&list.choice, &choice) {
            (Some(declared), Some(_)) => table.with_choice(declared.name),
            _ => table,
        },
        choice,
        picker: list.picker(&links.path, &links.pairs, (params.columns.as_slice(), params.n)),
        page_links,
        position: position_text(n_before, n, total),
        is_later,
        has_news: list.news.is_some() || parts.news_href.is_some(),
        narrowed: narrowed(request, &links),
        notes,
        open_by_id: None,
        setup: None,
        exports: export_links(&base, list.texts.name, &links.pairs),
        path: links.path,
        parts,
    })
}

/// URL of the list below the project.
fn list_path<R: 'static>(list: &ListDeclaration<R>, links: &ListLinks) -> String {
    with_query(&format!("/{}", list.texts.path), &links.pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::list::Traces;

    #[test]
    fn a_stopped_search_continues_with_its_progress_only_towards_the_end() {
        let params = |query| ListParams::<Traces>::parse(Some(query), Vec::new()).unwrap();
        let links = ListLinks {
            path: "/p/traces".to_owned(),
            pairs: vec![("q".into(), "a".to_owned())],
            labels: Traces::PAGE_LABELS,
            cursor_text: Traces::cursor_text,
        };
        let stopped = Traces::default().parse_cursor("_5_a");
        let part = BidirectionalPage { stopped, n_tested: Some(7), ..BidirectionalPage::default() };
        let (ways, stopped) = page_links(&links, &params("q=a"), &part);
        let there = "/p/traces?q=a&after=_5_a&looked=7&found=0".to_owned();
        assert_eq!(ways.next, Some(("Continue search", there.clone())));
        assert_eq!((stopped.unwrap().next_href, ways.previous), (Some(there), None));
        let (ways, stopped) = page_links(&links, &params("q=a&before=_9_a"), &part);
        let there = "/p/traces?q=a&before=_5_a".to_owned();
        assert_eq!(ways.previous, Some(("Continue search", there.clone())));
        assert_eq!((stopped.unwrap().next_href, ways.next), (Some(there), None));
    }
}
