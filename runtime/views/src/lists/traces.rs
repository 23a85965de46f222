//! The list of traces.

use crate::markup::{encode, with_query};
use crate::urls::{Column, ListPage, MAX_LIST, Sort, TRACE_LIST, TracesQuery};
use askama::Template;
use perpend_domain::filter::OBSERVATIONS;
use perpend_domain::query::parse;
use perpend_domain::text_search::BoundedCount;

use crate::format::{count, plural};
use crate::layout::setup::Setup;
use crate::lists::column::{CellContext, ListTable};
use crate::lists::facets::FacetsView;
use crate::lists::filter::{EmptyListCounts, FilterView, SearchProgress, StoppedSearch, TermChip};
use crate::lists::focus::FocusView;
use crate::lists::list::ChosenColumns;
use crate::lists::page_links::PageLinks;
use crate::lists::picker::ColumnPicker;
use crate::lists::row_actions::PageActions;
use crate::lists::trace_line::TraceLine;
use crate::lists::trace_rows::TRACE_ROWS;
use crate::overview::trends::Trend;
use crate::trace::peek::Peek;
use crate::{Shell, Text};

/// The list of traces.
#[derive(Clone, Debug, Default, Template)]
#[template(path = "traces.html")]
pub struct TracesPage {
    /// Page frame.
    pub shell: Shell,
    /// Time range and environments.
    pub focus: FocusView,
    /// Query parameters.
    pub query: TracesQuery,
    /// Terms of the filter.
    pub terms: Vec<TermChip>,
    /// Matches of single conditions, if no trace matches.
    pub empty_counts: EmptyListCounts,
    /// The page.
    pub page: ListPage,
    /// Rows of this page.
    pub lines: Vec<TraceLine>,
    /// Whether the user can bookmark traces.
    pub may_mark: bool,
    /// Whether the user can create items of datasets.
    pub may_write_datasets: bool,
    /// Whether the user can apply rules to traces.
    pub may_run_rules: bool,
    /// URL of the form of a rule that scores the traces.
    pub score_href: Option<String>,
    /// Position of the page in the list.
    pub pager: Pager,
    /// Progress of the search, if it stopped before the end.
    pub stopped: Option<StoppedSearch>,
    /// Total progress of a search that was continued from earlier pages.
    pub searched: Option<SearchProgress>,
    /// URL of the list with evaluation and experiment traces, if these are hidden.
    pub with_evaluations: Option<String>,
    /// Errors in the query string.
    pub notices: Vec<Text>,
    /// Facets, if requested.
    pub facets: Option<FacetsView>,
    /// Chart of traces over time, if requested.
    pub bars: Option<Trend>,
    /// The preview of a trace.
    pub peek: Option<Peek>,
    /// Setup instructions, if the project has no data.
    pub setup: Option<Setup>,
}

/// A time after all traces.
const NEVER: &str = "9999-12-01T00:00:00Z";

impl TracesPage {
    /// The newest start on the page, from which new traces are counted. With a filter or another order, or without rows, it
    /// is [`NEVER`]: then only traces that arrive from now on are counted.
    fn since(&self) -> String {
        let is_all = self.terms.is_empty() && self.query.sort == Sort::default();
        let newest = self.lines.first().filter(|_| is_all);
        newest.map_or_else(|| NEVER.to_owned(), |line| line.at.to_iso_micros())
    }

    fn filter(&self) -> FilterView {
        FilterView {
            of: &TRACE_LIST,
            base: self.shell.base().to_owned(),
            q: self.query.q.clone(),
            terms: self.terms.clone(),
            other_parameters: self.query.hidden_fields(&["q"]),
            sorts: self.sorts(),
            empty_counts: self.empty_counts,
        }
    }

    /// Time range and environments: label, value, number of matches and URL without it.
    fn focus_counts(&self) -> Vec<(&'static str, Text, Option<String>, String)> {
        self.filter().focus_counts(&self.query.focus)
    }

    /// URL of the list of observations with this filter, if it has the same columns. Scores of observations match only there.
    fn observations_href(&self) -> Option<String> {
        let q = &self.query.q;
        let is_valid = parse(q, OBSERVATIONS).faults().next().is_none();
        let own = std::iter::once(("q", q.clone()));
        let pairs: Vec<(&str, String)> = own.chain(self.query.focus.pairs()).collect();
        let path = format!("{}/observations", self.shell.base());
        (is_valid && !q.is_empty()).then(|| with_query(&path, &pairs))
    }

    /// Whether the list has no matches. An empty page after other pages shows this only if those were empty.
    fn has_no_matches(&self) -> bool {
        self.pager.is_first() || self.searched.is_some_and(|all| all.n_found == 0)
    }

    /// Progress of a search that was continued from earlier pages, in words.
    fn search_progress(&self) -> Option<String> {
        let n = self.searched?.n_tested;
        Some(format!("{} searched, to the end of the list", plural(n, "trace")))
    }

    /// The same if all matches are on earlier pages.
    fn earlier_matches(&self) -> Option<String> {
        let found = match self.searched?.n_found {
            0 => return None,
            1 => "1 match".to_owned(),
            n => format!("{} matches", count(n)),
        };
        Some(format!("{}: {found} on earlier pages.", self.search_progress()?))
    }

    fn first_page(&self) -> String {
        self.query.first(self.shell.base())
    }

    /// URLs of the page with a part that is loaded later, and of the part as a fragment.
    fn part_hrefs(&self, part: &str) -> [String; 2] {
        self.query.with_part(self.shell.base(), part)
    }

    /// Choices of the order: value, label and whether it is the current one. They include scores that have a column or are
    /// the current order.
    fn sorts(&self) -> Vec<(String, Text, bool)> {
        let own = &self.query.sort;
        let mut names: Vec<&str> = self.query.columns.scores().collect();
        names.extend(own.score().filter(|name| !names.contains(name)));
        let scores = names.into_iter().flat_map(Sort::of_score);
        let all = Sort::all().map(|(sort, label)| (sort, label.to_owned()));
        all.chain(scores)
            .map(|(sort, label)| (sort.to_parameter(), Text::from(label), sort == *own))
            .collect()
    }

    /// The chosen columns.
    fn columns(&self) -> ChosenColumns<TraceLine> {
        TRACE_ROWS.choose(&self.query.columns.to_parameter()).0
    }

    /// The table. Headings of sortable columns are links.
    fn table(&self) -> ListTable {
        let (query, base) = (&self.query, self.shell.base());
        let list = self.list();
        let within = list.map_or_else(String::new, |list| format!("?in={}", encode(&list)));
        let context = CellContext::new(base, &query.focus, &self.shell.forms);
        let context = CellContext { within: &within, ..context };
        let order = |name: &str| {
            let order = Column::from_name(name)?.order()?;
            let state = query.sort.state_of(&order);
            let turned = TracesQuery { sort: query.sort.of_heading(order), ..query.clone() };
            Some((turned.first(base), state))
        };
        let page = PageActions {
            url: query.address(base, &self.page),
            peeked_id: self.peek.as_ref().and_then(Peek::id).map(str::to_owned),
            may_bookmark: self.may_mark,
        };
        let rows = self.lines.as_slice();
        TRACE_ROWS
            .table(&self.columns(), rows, &context)
            .ordered(order)
            .with_choice("trace")
            .with_actions((&TRACE_ROWS, rows), &self.filter(), &page)
    }

    /// URL of this page relative to the project, for links that return to it; `None` if it is too long.
    fn list(&self) -> Option<String> {
        let base = self.shell.base();
        let list = self.query.address(base, &self.page);
        let list = list.strip_prefix(base).unwrap_or_default();
        (list.len() <= MAX_LIST).then(|| list.to_owned())
    }

    /// The form that chooses columns.
    fn picker(&self) -> ColumnPicker {
        let path = format!("{}/traces", self.shell.base());
        let columns = self.columns();
        TRACE_ROWS.picker(&path, &self.query.hidden_fields(&[]), (&columns, self.query.n))
    }
}

/// The position of a page in a list.
#[derive(Clone, Debug, Default)]
pub struct Pager {
    /// Number of rows before the page, if known.
    pub n_before: Option<u64>,
    /// Number of rows of the page.
    pub n: u64,
    /// Number of all rows, if counted.
    pub total: Option<BoundedCount>,
    /// URL of the page with an exact count, if the count is a lower bound.
    pub exact: Option<String>,
    /// Links to other pages.
    pub page_links: PageLinks,
}

impl Pager {
    /// Whether it is the first page.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.n_before == Some(0)
    }

    /// For a list that does not count the rows before a page.
    #[must_use]
    pub fn of_page(is_first: bool, n: u64, total: Option<BoundedCount>) -> Self {
        Self { n_before: is_first.then_some(0), n, total, ..Self::default() }
    }

    /// `1–50 of 1,234`
    #[must_use]
    pub fn position(&self) -> String {
        let range = match self.n_before {
            Some(before) => format!("{}–{}", count(before + 1), count(before + self.n)),
            None => count(self.n),
        };
        match self.total {
            Some(BoundedCount { n, is_more }) => {
                format!("{range} of {}{}", count(n), if is_more { "+" } else { "" })
            }
            None => format!("{range} shown"),
        }
    }
}
