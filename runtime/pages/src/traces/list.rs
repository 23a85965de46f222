//! `GET P/traces`: the traces that match the filter, in an order that the reader chooses, and the same list as a file.

use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::evaluation::TargetKind;
use perpend_domain::filter::{Condition, Filter, OBSERVATIONS, TRACES, Test, TextOp, find};
use perpend_domain::ids::TraceId;
use perpend_domain::list::Cursor;
use perpend_domain::query::parse;
use perpend_domain::telemetry::StoredTrace;
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;
use perpend_domain::trace::Trace;
use perpend_domain::trace_list::{TraceOrder, TraceQuery};
use perpend_http_kit::problem::Problem;
use perpend_telemetry::Bounds;
use perpend_views::{
    ApiRequest, ChosenColumn, DeferredPart, ListDeclaration, ListView, Parameter, PeekPanel,
    RejectedForm, Sort, TRACE_ROWS, Text, TraceLine, TracesQuery, UnknownParameters, encode,
    with_query,
};

use crate::export::PAGE_ROWS;
use crate::list::page::load_page;
use crate::list::source::{
    ListConditions, ListQuery, ListRequest, ListScope, ListSource, OwnParameter, OwnParameters,
    PageResult, ShownPage, ViewResult,
};
use crate::read;
use crate::reference::equivalent_requests;
use crate::request::cursor::truncated;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::setup;
use crate::state::App;
use crate::traces::{bars, facets, lines, peek};

/// Limits of the count of a condition: matches, and traces tested without an index.
const TERM_COUNT_LIMITS: (Option<u64>, u64) = (Some(MAX_COUNTED), 2_000);
/// Matches that are counted if there is a filter.
const MAX_COUNTED: u64 = 10_000;
/// Rows of a file that are read at a time if they have inputs, outputs or metadata.
const FILE_ROWS_WITH_CONTENT: u32 = 20;
/// A time after all traces.
const NEVER: &str = "9999-12-01T00:00:00Z";

/// The traces of a project.
#[derive(Default)]
pub(crate) struct Traces {
    pub(crate) sort: Sort,
    own: OwnParameters,
    /// Texts of full-text conditions.
    sought: Vec<String>,
    /// Data of the columns of a file; absent for a page.
    file: Option<FileContent>,
    /// A rejected form of the trace in the preview.
    rejected_form: RejectedForm,
}

/// Whether the columns of a file need the content of the root, and scores.
#[derive(Clone, Copy)]
struct FileContent {
    has_content: bool,
    has_scores: bool,
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
    let query = back.split_once('?').map(|(_, query)| query);
    let viewer = viewer.with_return_path(back);
    let mut request = ListRequest::<Traces>::of_url(app, &viewer, query)?;
    let source = &mut request.params.source;
    source.own.0.insert("peek", trace.to_string());
    source.rejected_form = tried;
    let view = Box::pin(load_page(&request)).await?;
    page(StatusCode::UNPROCESSABLE_ENTITY, &view)
}

/// The query of the list, for links to it.
pub(crate) fn query_of(request: &ListRequest<Traces>) -> TracesQuery {
    let columns = TRACE_ROWS.columns_parameter(&request.columns);
    let viewer = &request.scope.viewer;
    TracesQuery {
        q: request.q.clone(),
        focus: viewer.focus.clone(),
        sort: request.source.sort.clone(),
        columns: columns.map(|(_, names)| names).unwrap_or_default(),
        n: request.n,
        others: UnknownParameters::of(viewer.unknown_parameters().into_iter()),
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

/// A part of the page that is loaded later.
fn deferred<T>(request: &ListRequest<Traces>, part: &str, content: Option<T>) -> DeferredPart<T> {
    let links = request.links();
    let requested: Parameter = (part.to_owned().into(), "1".to_owned());
    let fragment = format!("{}/_/traces/{part}", request.scope.viewer.base());
    let query = with_query("", &links.pairs);
    DeferredPart {
        page_href: with_query(&links.path, &[links.pairs.clone(), vec![requested]].concat()),
        fragment_href: format!("{fragment}?{}", query.trim_start_matches('?')),
        content,
    }
}

/// URL of the list of observations with this filter, if it has the same columns. Scores of observations match only there.
fn observations_href(request: &ListRequest<Traces>) -> Option<String> {
    let viewer = &request.scope.viewer;
    let is_valid = parse(&request.q, OBSERVATIONS).faults().next().is_none();
    let own = std::iter::once(("q", request.q.clone()));
    let pairs: Vec<(&str, String)> = own.chain(viewer.focus.pairs()).collect();
    let path = format!("{}/observations", viewer.base());
    (is_valid && !request.q.is_empty()).then(|| with_query(&path, &pairs))
}

impl ListSource for Traces {
    type Item = StoredTrace;
    type Row = TraceLine;

    const LIST: &'static ListDeclaration<TraceLine> = &TRACE_ROWS;
    const PARAMETERS: &'static [OwnParameter] = &[
        OwnParameter::transient("peek"),
        OwnParameter::transient("facets"),
        OwnParameter::transient("bars"),
        OwnParameter::transient("count"),
    ];
    const RULE_TARGET: Option<TargetKind> = Some(TargetKind::Trace);
    const HAS_PAGE_NUMBERS: bool = true;
    const HAS_PROGRESS: bool = true;
    const CURSORS_OF: &'static str = "order";
    const PAGE_LABELS: [&'static str; 2] = ["Previous", "Next"];

    fn apply(&mut self, own: &OwnParameters, filter: &Filter, _: &mut Vec<Text>) {
        self.own = own.clone();
        self.sought = sought(filter);
    }

    fn set_order(&mut self, raw: &str, notices: &mut Vec<Text>) {
        if raw.is_empty() {
            return;
        }
        self.sort = Sort::from_name(raw).unwrap_or_else(|| {
            let all: Vec<String> = Sort::all().map(|(sort, _)| sort.to_parameter()).collect();
            notices.push(Text::from(format!(
                "`sort` must be one of {}; got `{}`. Showing the newest first.",
                all.join(", "),
                truncated(raw)
            )));
            Sort::default()
        });
    }

    fn order_parameter(&self) -> Option<String> {
        (self.sort != Sort::default()).then(|| self.sort.to_parameter())
    }

    /// They include scores that have a column or are the current order.
    fn orders(&self, columns: &[ChosenColumn<TraceLine>]) -> Vec<(String, Text, bool)> {
        let names = columns.iter().filter_map(|column| match Sort::order_of(&column.id()) {
            Some(TraceOrder::Score(name)) => Some(name),
            _ => None,
        });
        let mut names: Vec<String> = names.collect();
        let own = self.sort.score().map(str::to_owned);
        names.extend(own.filter(|name| !names.contains(name)));
        let scores = names.iter().flat_map(|name| Sort::of_score(name));
        let all = Sort::all().map(|(sort, label)| (sort, label.to_owned()));
        all.chain(scores)
            .map(|(sort, label)| (sort.to_parameter(), Text::from(label), sort == self.sort))
            .collect()
    }

    fn ordered_by(&self, column: &str) -> Option<(Self, Option<&'static str>)> {
        let order = Sort::order_of(column)?;
        let state = self.sort.state_of(&order);
        Some((Self { sort: self.sort.of_heading(order), ..Self::default() }, state))
    }

    fn cursor_text(cursor: &Cursor) -> String {
        TraceOrder::cursor_text(cursor)
    }

    fn parse_cursor(&self, raw: &str) -> Option<Cursor> {
        self.sort.order.parse_cursor(raw)
    }

    fn prepare_file(&mut self, columns: &[ChosenColumn<TraceLine>]) {
        let names: Vec<_> = columns.iter().map(ChosenColumn::id).collect();
        let has = |name: &str, prefix: &str| {
            names.iter().any(|own| own == name || own.starts_with(prefix))
        };
        let has_content = has("input", "metadata.") || has("output", "metadata.");
        self.file = Some(FileContent { has_content, has_scores: has("scores", "score.") });
    }

    fn rows_per_read(&self) -> u32 {
        match self.file {
            Some(FileContent { has_content: true, .. }) => FILE_ROWS_WITH_CONTENT,
            _ => PAGE_ROWS,
        }
    }

    async fn read(&self, scope: &ListScope, query: ListQuery<'_>) -> PageResult<StoredTrace> {
        let (telemetry, project) = scope.telemetry();
        let trace_query = TraceQuery {
            filter: query.conditions.whole(TRACES, Self::TIME_COLUMN),
            order: self.sort.order.clone(),
            ascending: self.sort.ascending,
            page: query.page,
            limit: query.limit,
            with_content: self.file.is_none_or(|file| file.has_content),
            max_content: lines::MAX_CONTENT,
            ..TraceQuery::default()
        };
        let max_counted = match (self.file, self.own.text("count")) {
            (Some(_), _) => read::LIST_BOUNDS.max_counted,
            (None, "exact") => None,
            (None, _) => Some(MAX_COUNTED),
        };
        let bounds = Bounds { max_tested: query.max_tested, max_counted };
        Ok(telemetry.traces_from(project, &trace_query, query.position, bounds).await?)
    }

    async fn rows(
        &self,
        ListScope { app, viewer }: &ListScope,
        items: Vec<StoredTrace>,
    ) -> Result<Vec<TraceLine>, Problem> {
        let traces: Vec<Trace> = items.into_iter().map(|stored| stored.trace).collect();
        let Some(file) = self.file else {
            let sought: Vec<&str> = self.sought.iter().map(String::as_str).collect();
            return lines::list_lines(app, &viewer.project, traces, &sought).await;
        };
        let scores = match file.has_scores {
            true => lines::scores_of(app, &viewer.project, &traces).await?,
            false => traces.iter().map(|_| Vec::new()).collect(),
        };
        let rows = traces.into_iter().zip(scores);
        Ok(rows.map(|(trace, scores)| lines::file_line(trace, scores)).collect())
    }

    fn time_of(item: &StoredTrace) -> Timestamp {
        item.trace.timestamp
    }

    fn api(&self, viewer: &Viewer, page: ShownPage<'_, StoredTrace>) -> Vec<ApiRequest> {
        let filter = page.conditions.whole(TRACES, Self::TIME_COLUMN);
        let page = (page.n, page.number, page.is_later);
        vec![equivalent_requests::traces(viewer, &filter, self.sort.order_by(), page)]
    }

    async fn count_matches(
        &self,
        scope: &ListScope,
        conditions: &ListConditions,
    ) -> Result<BoundedCount, Problem> {
        let (telemetry, project) = scope.telemetry();
        let filter = conditions.whole(TRACES, Self::TIME_COLUMN);
        Ok(telemetry.count_traces(project, &filter, TERM_COUNT_LIMITS).await?)
    }

    /// The list may have another order than that of time.
    async fn ends(
        &self,
        ListScope { app, viewer }: &ListScope,
        conditions: &ListConditions,
    ) -> Result<Option<(Timestamp, Timestamp)>, Problem> {
        let mut ends = [None, None];
        for (end, ascending) in ends.iter_mut().zip([true, false]) {
            let filter = conditions.whole(TRACES, Self::TIME_COLUMN);
            let query = TraceQuery { filter, ascending, limit: 1, ..TraceQuery::default() };
            let found = read::first_traces(app, &viewer.project, query).await?;
            *end = found.first().map(|trace| trace.timestamp);
        }
        let [first, last] = ends;
        Ok(first.zip(last))
    }

    /// New traces are counted from the newest start on the page. With a filter or another order, or without rows, only traces
    /// that arrive from now on are counted.
    fn news_href(&self, request: &ListRequest<Self>, items: &[StoredTrace]) -> Option<String> {
        let is_all = request.parsed.terms.is_empty() && self.sort == Sort::default();
        let newest = items.first().filter(|_| is_all);
        let since = newest
            .map_or_else(|| NEVER.to_owned(), |stored| stored.trace.timestamp.to_iso_micros());
        let more = request.links().pairs.into_iter();
        let more = more.map(|(name, value)| format!("&{}={}", encode(&name), encode(&value)));
        let base = request.scope.viewer.base();
        Some(format!("{base}/_/news?since={since}{}", more.collect::<String>()))
    }

    fn count_parameter(&self) -> Option<Parameter> {
        (self.own.text("count") != "exact").then(|| ("count".into(), "exact".to_owned()))
    }

    fn peeked_id(&self) -> Option<String> {
        Some(self.own.text("peek").to_owned()).filter(|id| !id.is_empty())
    }

    async fn complete(&self, request: &ListRequest<Self>, mut view: ListView) -> ViewResult {
        let ListScope { app, viewer } = &request.scope;
        let is_bare = view.table.is_empty() && request.parsed.terms.is_empty();
        if is_bare
            && read::newest_traces(app, &viewer.project, Filter::default(), 1).await?.is_empty()
        {
            let setup = setup::guide_at(app, &viewer.project, viewer.origin.clone()).await?;
            view.setup = setup.html(&view.shell);
            return Ok(view);
        }
        let query = query_of(request);
        let facets = match self.own.text("facets") {
            "1" => Some(facets::facets(request, &query).await?),
            _ => None,
        };
        let chart = match self.own.text("bars") {
            "1" => Some(bars::traces_over_time(app, viewer, &query).await?),
            _ => None,
        };
        let peek = match self.peeked_id() {
            Some(id) => {
                let shown = (id.as_str(), self.rejected_form.clone());
                Some(peek::peek(app, viewer, shown, request.url()).await?)
            }
            None => None,
        };
        view.parts.facets = Some(deferred(request, "facets", facets));
        view.parts.chart = Some(deferred(request, "bars", chart));
        let fragments = format!("{}/_/traces", viewer.base());
        view.parts.peek = Some(PeekPanel { fragments, peek });
        view.parts.other_list = observations_href(request).map(|href| {
            let label = "Conditions on one observation and its scores";
            (label, "search the observations of all traces", href)
        });
        Ok(view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::source::ListParams;

    #[test]
    fn the_orders_to_choose_include_scores_with_a_column_and_the_current_one() {
        let query = "sort=-score.tone&cols=score.quality,id";
        let ListParams { source, columns, .. } =
            ListParams::<Traces>::parse(Some(query), Vec::new()).unwrap();
        let orders = source.orders(&columns);
        let has = |name: &str| orders.iter().any(|(parameter, ..)| parameter == name);
        assert!(has("-timestamp") && has("-score.quality") && has("score.tone"));
        let current = orders.iter().filter(|(.., is_current)| *is_current);
        assert_eq!(current.map(|(name, ..)| name).collect::<Vec<_>>(), ["-score.tone"]);
        let (slowest, state) = source.ordered_by("latency").unwrap();
        assert_eq!((slowest.order_parameter().as_deref(), state), (Some("-latency"), None));
    }
}
