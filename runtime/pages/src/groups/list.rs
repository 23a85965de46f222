//! `GET P/sessions` and `GET P/users`.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use perpend_domain::filter::Filter;
use perpend_domain::query::{Parsed, parse};
use perpend_domain::telemetry::{GroupKey, GroupQuery};
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::GroupSearchResult;
use perpend_views::{
    EmptyListCounts, FilterView, FilterableList, Focus, FocusView, GroupsPage, PageLinks, Pager,
    Parameter, SESSION_LIST, Section, StoppedSearch, TermChip, Text, USER_LIST, href, list_href,
};
use serde::Deserialize;

use crate::groups;
use crate::reference;
use crate::request::cursor::{self, ListLinks};
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::setup;
use crate::state::App;
use crate::trace;
use crate::traces;
use crate::traces::terms::terms;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GroupListParams {
    pub(crate) q: String,
    after: String,
    before: String,
    id: String,
    pub(crate) n: String,
    pub(crate) sort: String,
    pub(crate) cols: String,
}

/// The order of the list, for notices.
pub(crate) const RECENTLY_ACTIVE: &str = "recently active ones";

/// Whether the page is not the first one.
const fn is_later(query: &GroupQuery) -> bool {
    query.after.is_some() || query.is_backwards
}

/// Links to other pages of the list.
fn page_links(links: &ListLinks, query: &GroupQuery, tested: &GroupSearchResult) -> PageLinks {
    let found = &tested.page;
    let has_newer = match query.is_backwards {
        true => found.has_more,
        false => query.after.is_some(),
    };
    let has_older = match query.is_backwards {
        true => query.after.is_some(),
        false => found.has_more,
    };
    let newer = found.first.as_ref().filter(|_| has_newer);
    let older = found.last.as_ref().filter(|_| has_older);
    PageLinks {
        first: is_later(query).then(|| links.first()),
        ..links.ways([newer, older], tested.stopped.as_ref(), query.is_backwards)
    }
}

/// The sessions or users that match the filter.
pub(crate) async fn matching_groups(
    app: &App,
    viewer: &Viewer,
    query: &GroupQuery,
    filter: &Filter,
) -> Result<GroupSearchResult, Problem> {
    let (telemetry, project) = (&app.store.telemetry, &viewer.project);
    if !filter.conditions.is_empty() {
        return Ok(telemetry.search_groups(project, query, filter).await?);
    }
    Ok(GroupSearchResult {
        page: telemetry.trace_groups(project, query).await?,
        ..GroupSearchResult::default()
    })
}

/// Traces read to count all sessions or users.
const MAX_COUNTED: u32 = 10_000;

/// The position of the page in the list, with the total number if it is known or can be counted cheaply.
async fn position(
    app: &App,
    viewer: &Viewer,
    (query, is_filtered): (&GroupQuery, bool),
    tested: &GroupSearchResult,
) -> Result<String, Problem> {
    let n = tested.page.items.len() as u64;
    let is_whole = !is_later(query) && !tested.page.has_more && tested.stopped.is_none();
    let counted = |n| BoundedCount { n, is_more: false };
    let total = if is_whole {
        Some(counted(n))
    } else if is_filtered {
        None
    } else {
        let ever = (Timestamp::from_micros(i64::MIN), MAX_COUNTED);
        let telemetry = &app.store.telemetry;
        let found = telemetry.groups_since(&viewer.project, query, None, ever);
        let (n, is_more) = found.await?;
        (!is_more).then(|| counted(n))
    };
    Ok(Pager::of_page(!is_later(query), n, total).position())
}

/// A redirect to the page of the session or user with this id; absent if unknown.
async fn redirect_to_id(
    app: &App,
    viewer: &Viewer,
    by: GroupKey,
    id: &str,
) -> Result<Option<Response>, Problem> {
    let any = GroupQuery::new(by, 1);
    let known = app.store.telemetry.trace_group(&viewer.project, &any, id);
    let is_known = known.await?.is_some()
        || (by == GroupKey::Session && trace::scores_only::has_session(app, viewer, id).await?);
    let address = href(&viewer.base(), by, id);
    Ok(is_known.then(|| Redirect::to(&address).into_response()))
}

/// Terms whose matches are counted individually, and the limit of such a count.
const MAX_COUNTED_TERMS: usize = 5;
const TERM_COUNT_LIMIT: u32 = 100;

async fn count_matches(
    app: &App,
    viewer: &Viewer,
    query: &GroupQuery,
    filter: &Filter,
) -> Result<BoundedCount, Problem> {
    let tested = matching_groups(app, viewer, query, filter).await?;
    Ok(BoundedCount {
        n: tested.page.items.len() as u64,
        is_more: tested.page.has_more || tested.stopped.is_some(),
    })
}

/// Activity times of the first and the last match outside of the selected time range, if one is selected.
async fn elsewhere(
    app: &App,
    viewer: &Viewer,
    query: &GroupQuery,
    filter: &Filter,
) -> Result<Option<(Timestamp, Timestamp)>, Problem> {
    if !viewer.focus.has_time() {
        return Ok(None);
    }
    let end = async |is_backwards| {
        let query = GroupQuery { started: (None, None), is_backwards, limit: 1, ..query.clone() };
        let tested = matching_groups(app, viewer, &query, filter).await?;
        Ok::<_, Problem>(tested.page.items.first().map(|group| group.last))
    };
    Ok(end(true).await?.zip(end(false).await?))
}

/// For an empty list, counts the matches of each of the first terms, of the time range and of the environments individually.
async fn why(
    app: &App,
    viewer: &Viewer,
    (query, parsed): (&GroupQuery, &Parsed),
    chips: &mut [TermChip],
) -> Result<EmptyListCounts, Problem> {
    let mut why = EmptyListCounts::default();
    let all = GroupQuery::new(query.by, TERM_COUNT_LIMIT);
    for (chip, term) in chips.iter_mut().zip(&parsed.terms).take(MAX_COUNTED_TERMS) {
        if let Ok(conditions) = &term.outcome {
            let alone = Filter { conditions: conditions.clone() };
            chip.alone = Some(count_matches(app, viewer, &all, &alone).await?);
        }
    }
    let in_time = GroupQuery { started: query.started, ..all.clone() };
    let in_environments = GroupQuery { environments: query.environments.clone(), ..all };
    let parts =
        [(viewer.focus.has_time(), in_time), (!query.environments.is_empty(), in_environments)];
    for (alone, (is_chosen, query)) in why.by_focus.iter_mut().zip(parts) {
        if is_chosen {
            *alone = Some(count_matches(app, viewer, &query, &Filter::default()).await?);
        }
    }
    why.other_times = elsewhere(app, viewer, query, &parsed.filter).await?;
    Ok(why)
}

/// The section and the filter columns of the list.
pub(crate) const fn section_and_list(by: GroupKey) -> (Section, &'static FilterableList) {
    match by {
        GroupKey::Session => (Section::Sessions, &SESSION_LIST),
        GroupKey::User => (Section::Users, &USER_LIST),
    }
}

async fn list(
    app: &App,
    viewer: &Viewer,
    by: GroupKey,
    params: &GroupListParams,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let (section, filterable) = section_and_list(by);
    let base = viewer.base();
    let mut unknown = None;
    let id = params.id.trim();
    if !id.is_empty() {
        if let Some(page) = redirect_to_id(app, viewer, by, id).await? {
            return Ok(page);
        }
        unknown = Some(Text::from(id));
    }
    let mut notices = viewer.faults.clone();
    let q = traces::params::filter(&params.q, &mut notices);
    let parsed = parse(&q, filterable.columns);
    let of_table = (&*params.n, &*params.sort, &*params.cols);
    let (n, rows) = cursor::page_size(of_table, RECENTLY_ACTIVE, &mut notices);
    let mut query = groups::lines::group_query((app, viewer), by, n);
    (query.after, query.is_backwards) =
        cursor::parse_position(&params.after, &params.before, &mut notices);
    let mut tested = matching_groups(app, viewer, &query, &parsed.filter).await?;
    let filter = (!q.is_empty()).then(|| ("q".into(), q.clone()));
    let own: Vec<Parameter> = filter.into_iter().chain(rows.clone()).collect();
    let links = ListLinks {
        path: list_href(&base, by),
        pairs: [own.clone(), viewer.parameters()].concat(),
    };
    let of_focus = (links.path.clone(), [own, viewer.unknown_parameters()].concat());
    let ways = page_links(&links, &query, &tested);
    let on = tested.stopped.as_ref();
    let on = on.map(|at| links.at(at, query.is_backwards));
    let is_filtered = !parsed.filter.conditions.is_empty();
    let position = position(app, viewer, (&query, is_filtered), &tested).await?;
    let groups = std::mem::take(&mut tested.page.items);
    let is_later = is_later(&query);
    let is_whole = viewer.focus == Focus::default() && !is_later && q.is_empty();
    let mut chips = terms(&q, &parsed);
    let is_empty = groups.is_empty() && !is_later && on.is_none();
    let why = match is_empty && !is_whole {
        true => why(app, viewer, (&query, &parsed), &mut chips).await?,
        false => EmptyListCounts::default(),
    };
    let setup = match is_empty && is_whole {
        true => Some(setup::setup_guide(app, &viewer.project, headers).await?),
        false => None,
    };
    let view = GroupsPage {
        setup,
        shell: viewer.shell(section).with_api(reference::equivalent_requests::groups(
            viewer,
            &query,
            is_filtered,
        )),
        focus: FocusView::new(&viewer.focus, of_focus, ("All time", true)).in_all_environments(),
        notices,
        filter: FilterView {
            of: filterable,
            base,
            terms: chips,
            q,
            other_parameters: viewer.parameters().into_iter().chain(rows).collect(),
            sorts: Vec::new(),
            empty_counts: why,
        },
        stopped: on.map(|on| StoppedSearch {
            n_tested: tested.n_tested,
            n_found: groups.len() as u64,
            next_href: Some(on),
        }),
        n_scored: groups::lines::SCORED_TRACES,
        by,
        page_links: ways,
        position,
        lines: groups::lines::group_lines(app, viewer, &query, groups).await?,
        is_later,
        unknown,
    };
    page(StatusCode::OK, &view)
}

/// `GET P/sessions`
pub(crate) async fn sessions_page(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    Query(params): Query<GroupListParams>,
) -> Result<Response, Problem> {
    list(&app, &viewer, GroupKey::Session, &params, &headers).await
}

/// `GET P/users`
pub(crate) async fn users_page(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    Query(params): Query<GroupListParams>,
) -> Result<Response, Problem> {
    list(&app, &viewer, GroupKey::User, &params, &headers).await
}

#[cfg(test)]
mod tests {
    use perpend_domain::list::Cursor;

    use super::*;

    #[test]
    fn a_stopped_search_continues_in_its_direction_and_an_empty_page_links_to_the_first() {
        let cursor = |id: &str| {
            Some(Cursor { at: perpend_domain::time::Timestamp::from_micros(5), id: id.to_owned() })
        };
        let links = ListLinks { path: "/p".to_owned(), pairs: vec![("q".into(), "a".to_owned())] };
        let mut query = GroupQuery::new(GroupKey::User, 2);
        query.after = cursor("x");
        let tested = GroupSearchResult { stopped: cursor("y"), ..GroupSearchResult::default() };
        let ways = super::page_links(&links, &query, &tested);
        assert_eq!(ways.next, Some(("Continue search", "/p?q=a&after=5.y".to_owned())));
        assert_eq!((ways.previous, ways.first.as_deref()), (None, Some("/p?q=a")));
        query.is_backwards = true;
        let ways = super::page_links(&links, &query, &tested);
        assert_eq!(ways.previous, Some(("Continue search", "/p?q=a&before=5.y".to_owned())));
        assert_eq!(ways.next, None);
        // From the first page to the last one, which has no next page.
        let tested = GroupSearchResult {
            page: perpend_domain::telemetry::GroupPage {
                first: cursor("x"),
                last: cursor("y"),
                has_more: true,
                ..Default::default()
            },
            ..GroupSearchResult::default()
        };
        let end = Some("/p?q=a&before=end".to_owned());
        let first = super::page_links(&links, &GroupQuery::new(GroupKey::User, 2), &tested);
        assert_eq!((first.first, first.last), (None, end));
        query.after = None;
        let last = super::page_links(&links, &query, &tested);
        assert_eq!(last.previous, Some(("Newer", "/p?q=a&before=5.x".to_owned())));
        assert_eq!((last.next, last.last), (None, None));
        assert_eq!(last.first.as_deref(), Some("/p?q=a"));
    }
}
