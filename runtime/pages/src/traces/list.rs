//! `GET P/traces`: the traces that match the filter.

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use perpend_domain::access::Permission::{DatasetWrite, EvaluatorWrite, TraceMark};
use perpend_domain::evaluation::TargetKind;
use perpend_domain::filter::{Condition, Filter, TRACES, Test, TextOp, find};
use perpend_domain::ids::TraceId;
use perpend_domain::list::{BidirectionalPage, Cursor, ListPosition};
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;
use perpend_domain::trace_list::{TraceOrder, TraceQuery};
use perpend_http_kit::problem::Problem;
use perpend_telemetry::Bounds;
use perpend_views::{
    FocusView, ListPage, PageLinks, Pager, RejectedForm, SearchProgress, Section, StoppedSearch,
    TracesPage, TracesQuery,
};

use crate::list::empty::{ConditionCounts, empty_list_counts};
use crate::list::source::ListConditions;
use crate::read;
use crate::reference;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::rules::links::new_rule_href;
use crate::setup;
use crate::state::App;
use crate::traces::bars;
use crate::traces::conditions::{conditions, whole};
use crate::traces::facets;
use crate::traces::lines;
use crate::traces::params::TraceListParams;
use crate::traces::peek;
use crate::traces::terms::terms;

/// Limits of the count of a condition: matches, and traces tested without an index.
const TERM_COUNT_LIMITS: (Option<u64>, u64) = (Some(MAX_COUNTED), 2_000);
/// Matches that are counted if there is a filter.
const MAX_COUNTED: u64 = 10_000;

pub(crate) async fn list_page(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let params = TraceListParams::new(raw.as_deref());
    let view = load_page(&app, &viewer, &headers, params, RejectedForm::default());
    page(StatusCode::OK, &view.await?)
}

/// Whether the URL is that of the list of traces.
pub(crate) fn is_at(viewer: &Viewer, address: &str) -> bool {
    let path = address.split('?').next().unwrap_or_default();
    path == format!("{}/traces", viewer.base())
}

/// The list at `back` with a rejected form of the trace shown next to it.
pub(crate) async fn rejected_form_page(
    app: &App,
    viewer: &Viewer,
    trace: &TraceId,
    back: &str,
    tried: RejectedForm,
) -> Result<Response, Problem> {
    let params = TraceListParams {
        peek: Some(trace.as_str().to_owned()),
        ..TraceListParams::new(back.split_once('?').map(|(_, query)| query))
    };
    let viewer = viewer.with_return_path(back);
    let view = load_page(app, &viewer, &HeaderMap::new(), params, tried).await?;
    page(StatusCode::UNPROCESSABLE_ENTITY, &view)
}

async fn load_page(
    app: &App,
    viewer: &Viewer,
    headers: &HeaderMap,
    params: TraceListParams,
    tried: RejectedForm,
) -> Result<TracesPage, Problem> {
    let TraceListParams {
        query,
        page: which,
        position,
        peek,
        has_facets,
        has_bars,
        counts_all,
        searched,
        notices,
    } = params;
    let now = read::start_of_minute(app.web.clock.now());
    let (parsed, conditions) = conditions(&query, now);
    let filter = whole(&conditions);
    let notices = notices.into_iter().chain(viewer.faults.clone());
    let mut view = TracesPage {
        shell: viewer.shell(Section::Traces),
        terms: terms(&query.q, &parsed),
        focus: FocusView::new(
            &query.focus,
            (format!("{}/traces", viewer.base()), query.hidden_fields(&["from", "to", "env"])),
            ("All time", true),
        ),
        page: which,
        query,
        searched,
        notices: notices.collect(),
        ..TracesPage::default()
    };
    if conditions.hides_internal() {
        let all = format!("{} environment:set", view.query.q);
        let all = view.query.with(all.trim());
        view.with_evaluations = Some(all.first(view.shell.base()));
    }
    let request = reference::equivalent_requests::traces(
        viewer,
        (&view.query, &view.page),
        filter_json(&filter),
    );
    view.shell = view.shell.with_api([request]);
    let bounds =
        Bounds { max_tested: read::MAX_TESTED, max_counted: (!counts_all).then_some(MAX_COUNTED) };
    fill(app, viewer, (filter, bounds), &position, &mut view).await?;
    let is_without_any = match view.searched {
        Some(all) => all.n_found == 0,
        None => view.pager.is_first() && view.lines.is_empty(),
    };
    if is_without_any && view.stopped.is_none() {
        let list = TraceCounts { app, viewer };
        let searched = (&parsed, &conditions);
        view.empty_counts = empty_list_counts(&list, searched, &mut view.terms).await?;
    }
    let is_bare = view.lines.is_empty() && view.terms.is_empty();
    if is_bare && read::newest_traces(app, &viewer.project, Filter::default(), 1).await?.is_empty()
    {
        view.setup = Some(setup::setup_guide(app, &viewer.project, headers).await?);
    }
    if has_facets {
        view.facets = Some(facets::facets(app, viewer, &view.query).await?);
    }
    if has_bars {
        view.bars = Some(bars::traces_over_time(app, viewer, &view.query).await?);
    }
    if let Some(id) = peek {
        let close = view.query.address(view.shell.base(), &view.page);
        view.peek = Some(peek::peek(app, viewer, (id.as_str(), tried), close).await?);
    }
    Ok(view)
}

/// Reads for the counts of an empty list of traces.
struct TraceCounts<'a> {
    app: &'a App,
    viewer: &'a Viewer,
}

impl ConditionCounts for TraceCounts<'_> {
    async fn count(&self, conditions: &ListConditions) -> Result<BoundedCount, Problem> {
        let telemetry = &self.app.store.telemetry;
        let filter = whole(conditions);
        Ok(telemetry.count_traces(&self.viewer.project, &filter, TERM_COUNT_LIMITS).await?)
    }

    async fn ends(
        &self,
        conditions: &ListConditions,
    ) -> Result<Option<(Timestamp, Timestamp)>, Problem> {
        let mut ends = [None, None];
        for (end, ascending) in ends.iter_mut().zip([true, false]) {
            let filter = whole(conditions);
            let query = TraceQuery { filter, ascending, limit: 1, ..TraceQuery::default() };
            let found = read::first_traces(self.app, &self.viewer.project, query).await?;
            *end = found.first().map(|trace| trace.timestamp);
        }
        let [first, last] = ends;
        Ok(first.zip(last))
    }
}

/// The filter in the format of the API.
fn filter_json(filter: &Filter) -> String {
    let conditions: Vec<String> = filter
        .conditions
        .iter()
        .filter_map(Condition::to_json)
        .map(|condition| condition.to_string())
        .collect();
    match conditions.is_empty() {
        true => String::new(),
        false => format!("[{}]", conditions.join(",")),
    }
}

/// Texts of full-text conditions.
fn sought(filter: &Filter) -> Vec<String> {
    let text = |condition: &Condition| match &condition.test {
        Test::Text(TextOp::MatchesAnyCase, text) if condition.column == find(TRACES, "text") => {
            Some(text.clone())
        }
        _ => None,
    };
    filter.conditions.iter().filter_map(text).collect()
}

/// Links to other pages, and the URL that continues a stopped search. `more` is appended to the URL of its next page.
fn page_links<T>(
    query: &TracesQuery,
    base: &str,
    (part, is_backwards): (&BidirectionalPage<T>, bool),
    more: &str,
) -> (PageLinks, Option<String>) {
    let address = |page| query.address(base, &page);
    let before = |place: &Cursor| address(ListPage::Before(TraceOrder::cursor_text(place)));
    let after = |place: &Cursor| address(ListPage::After(TraceOrder::cursor_text(place)));
    let (resume_before, resume_after) = match (&part.stopped, is_backwards) {
        (Some(place), true) => (Some(before(place)), None),
        (Some(place), false) => (None, Some(format!("{}{more}", after(place)))),
        (None, _) => (None, None),
    };
    let on = resume_before.clone().or_else(|| resume_after.clone());
    let resume = |address: Option<String>| address.map(|address| ("Continue search", address));
    let previous = part.newer.as_ref();
    let next = part.older.as_ref();
    let ways = PageLinks {
        first: (part.n_before != Some(0)).then(|| address(ListPage::First)),
        previous: previous
            .map(|place| ("Previous", before(place)))
            .or_else(|| resume(resume_before)),
        next: next.map(|place| ("Next", after(place))).or_else(|| resume(resume_after)),
        last: next.map(|_| address(ListPage::Last)),
    };
    (ways, on)
}

async fn fill(
    app: &App,
    viewer: &Viewer,
    (filter, bounds): (Filter, Bounds),
    position: &ListPosition,
    view: &mut TracesPage,
) -> Result<(), Problem> {
    let sought = sought(&filter);
    let number = match view.page {
        ListPage::Number(number) => number,
        _ => 1,
    };
    let trace_query = TraceQuery {
        filter,
        order: view.query.sort.order.clone(),
        ascending: view.query.sort.ascending,
        page: number,
        limit: view.query.n,
        with_content: true,
        max_content: lines::MAX_CONTENT,
        ..TraceQuery::default()
    };
    let telemetry = &app.store.telemetry;
    let part = telemetry.traces_from(&viewer.project, &trace_query, position, bounds).await?;
    let n = part.items.len() as u64;
    let n_tested = part.n_tested.unwrap_or_default();
    let before = match position.is_later() {
        // A page with a number follows other pages, which were counted for it.
        false => Some(SearchProgress { n_tested: 0, n_found: part.n_before.unwrap_or_default() }),
        true => view.searched,
    };
    let so_far = before.map(|before| SearchProgress {
        n_tested: before.n_tested.saturating_add(n_tested),
        n_found: before.n_found.saturating_add(n),
    });
    view.searched = so_far.filter(|_| view.searched.is_some());
    let more = so_far.map_or_else(String::new, SearchProgress::more);
    let is_backwards = position.is_backwards;
    let (ways, on) = page_links(&view.query, &viewer.base(), (&part, is_backwards), &more);
    let total = part.total;
    view.stopped = (0 < part.n_left).then(|| StoppedSearch {
        n_tested,
        n_found: total.map_or(n, |total| total.n),
        next_href: on,
    });
    let is_counted = total.is_some_and(|total| !total.is_more);
    view.pager = Pager {
        n_before: part.n_before,
        n,
        total,
        // A stopped search has counted all traces that it tested.
        exact: (!is_counted
            && view.stopped.is_none()
            && !position.is_later()
            && bounds.max_counted.is_some())
        .then(|| view.query.counted(&viewer.base())),
        page_links: ways,
    };
    let traces: Vec<_> = part.items.into_iter().map(|stored| stored.trace).collect();
    let sought: Vec<&str> = sought.iter().map(String::as_str).collect();
    view.lines = lines::list_lines(app, &viewer.project, traces, &sought).await?;
    view.may_mark = viewer.may(TraceMark);
    view.may_write_datasets = viewer.may(DatasetWrite);
    view.may_run_rules = viewer.may(EvaluatorWrite);
    view.score_href = new_rule_href(viewer, TargetKind::Trace, &view.query.q);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_search_continues_with_its_progress_only_towards_the_end() {
        let query = TracesQuery::of("a");
        let stopped = query.sort.order.parse_cursor("_5_a");
        let part = BidirectionalPage::<()> { stopped, ..BidirectionalPage::default() };
        let more = "&looked=7&found=0";
        let (ways, on) = super::page_links(&query, "/p", (&part, false), more);
        let there = "/p/traces?q=a&after=_5_a&looked=7&found=0".to_owned();
        assert_eq!(ways.next, Some(("Continue search", there.clone())));
        assert_eq!((on, ways.previous), (Some(there), None));
        let (ways, on) = super::page_links(&query, "/p", (&part, true), more);
        let there = "/p/traces?q=a&before=_5_a".to_owned();
        assert_eq!(ways.previous, Some(("Continue search", there.clone())));
        assert_eq!((on, ways.next), (Some(there), None));
    }
}
