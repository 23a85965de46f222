//! The list of latest traces with its filter.

use crate::markup::encode;
use crate::urls::{Column, ListPage, MAX_LIST, ROWS, Sort, TRACE_LIST, TracesQuery};
use askama::Template;
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;

use crate::facts::utc_time;
use crate::format::{count, plural};
use crate::layout::setup::Setup;
use crate::lists::facets::FacetsView;
use crate::lists::filter::{EmptyListCounts, FilterView, SearchProgress, StoppedSearch, TermChip};
use crate::lists::focus::FocusView;
use crate::lists::menu;
use crate::lists::page_links::PageLinks;
use crate::lists::table::{Head, Table};
use crate::lists::trace_line::TraceLine;
use crate::overview::trends::Trend;
use crate::trace::peek::Peek;
use crate::{Html, Shell, Text};

/// A longer filter is not repeated in each row, so that the rows have no peek.
const MAX_PEEKED: usize = 2 * MAX_LIST;

/// Traces that fit a filter.
#[derive(Clone, Debug, Default, Template)]
#[template(path = "traces.html")]
pub struct TracesPage {
    /// Page frame.
    pub shell: Shell,
    /// Time range and environments.
    pub focus: FocusView,
    /// Where matching traces are in other times, where there is none in this one.
    pub elsewhere: Option<(Timestamp, Timestamp)>,
    /// What was asked for.
    pub query: TracesQuery,
    /// What the filter was read as, term by term.
    pub terms: Vec<TermChip>,
    /// Where no trace fits: how many the time alone leaves, and how many the environments alone.
    pub alone: [Option<BoundedCount>; 2],
    /// Which page this is.
    pub page: ListPage,
    /// The traces of this page.
    pub lines: Vec<TraceLine>,
    /// Whether the reader may bookmark traces.
    pub may_mark: bool,
    /// Where in the list this page is.
    pub pager: Pager,
    /// Where the search stopped, because what is asked takes long to find.
    pub stopped: Option<StoppedSearch>,
    /// Where it went on from pages before: how far it came with this one.
    pub searched: Option<SearchProgress>,
    /// What evaluations record of themselves is left out: the address of the list with it.
    pub with_evaluations: Option<String>,
    /// What the address asks for and cannot have.
    pub notices: Vec<Text>,
    /// The values of some columns, where they are asked for.
    pub facets: Option<FacetsView>,
    /// The traces over time, where they are asked for.
    pub bars: Option<Trend>,
    /// A trace beside the list.
    pub peek: Option<Peek>,
    /// Setup instructions, if the project has no data.
    pub setup: Option<Setup>,
}

/// A column to choose.
struct Pick {
    name: String,
    label: Text,
    is_shown: bool,
    /// The list with it one place earlier.
    earlier: Option<String>,
}

impl Pick {
    fn of(column: &Column, is_shown: bool) -> Self {
        Self { name: column.name(), label: column.label(), is_shown, earlier: None }
    }
}

/// Later than any trace starts.
const NEVER: &str = "9999-12-01T00:00:00Z";

impl TracesPage {
    /// The newest start on the page. Where a filter leaves some out, another order has others first, or nothing is there,
    /// only what arrives from now on is new: what is not shown may have started later.
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
            kept: self.query.hidden_fields(&["q"]),
            sorts: self.sorts(),
            empty_counts: EmptyListCounts { by_focus: self.alone, other_times: self.elsewhere },
        }
    }

    /// The time and the environments: in words, how many traces each alone leaves, and the list without it.
    fn around(&self) -> Vec<(&'static str, Text, Option<String>, String)> {
        self.filter().narrowing(&self.query.focus)
    }

    /// Whether nothing in the list fits. An empty page with others before it does not say so, unless those were empty too.
    fn is_without_any(&self) -> bool {
        self.pager.is_first() || self.searched.is_some_and(|all| all.n_found == 0)
    }

    /// How far a search came that went on from pages before.
    fn looked(&self) -> Option<String> {
        let n = self.searched?.n_tested;
        Some(format!("{} searched, to the end of the list", plural(n, "trace")))
    }

    /// The same where the pages before have all that fits.
    fn searched_to_the_end(&self) -> Option<String> {
        let found = match self.searched?.n_found {
            0 => return None,
            1 => "1 match".to_owned(),
            n => format!("{} matches", count(n)),
        };
        Some(format!("{}: {found} on earlier pages.", self.looked()?))
    }

    fn first_page(&self) -> String {
        self.query.first(self.shell.base())
    }

    /// The page with a part on it that takes longer, and this part alone.
    fn with_part(&self, part: &str) -> [String; 2] {
        self.query.with_part(self.shell.base(), part)
    }

    /// Orders with their labels, and whether they are this list's: those of every list, and those of the scores that
    /// have a column or order the list.
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

    /// The table, with headings that order as links.
    fn table(&self) -> Table {
        let (query, base) = (&self.query, self.shell.base());
        let mut table = Table::new(&query.columns, |head| {
            let Some(order) = head.column.order() else {
                return head;
            };
            let state = query.sort.state_of(&order);
            let turned = TracesQuery { sort: query.sort.of_heading(order), ..query.clone() };
            Head { href: Some(turned.first(base)), state, ..head }
        });
        let beside = self.peek.as_ref().and_then(Peek::id);
        table.beside = beside.map(str::to_owned);
        table.peek = (query.q.len() <= MAX_PEEKED).then(|| query.peeking(base, &self.page));
        table.choice = Some("choice");
        let list = self.list();
        table.within = list.map_or_else(String::new, |list| format!("?in={}", encode(&list)));
        let lines = self.lines.iter();
        let menus = lines.map(|line| (line.id.clone(), menu::of(line, query, base)));
        table.menus = menus.collect();
        table
    }

    /// The address of this page below that of the project, for what is opened from it; none when it is too long for that.
    fn list(&self) -> Option<String> {
        let base = self.shell.base();
        let list = self.query.address(base, &self.page);
        let list = list.strip_prefix(base).unwrap_or_default();
        (list.len() <= MAX_LIST).then(|| list.to_owned())
    }

    /// The columns to choose from, those that are shown first and in their order.
    fn picks(&self) -> Vec<Pick> {
        let columns = &self.query.columns;
        let shown = columns.iter().enumerate().map(|(at, column)| {
            let moved = TracesQuery { columns: columns.moved(at), ..self.query.clone() };
            Pick {
                earlier: (0 < at).then(|| moved.first(self.shell.base())),
                ..Pick::of(column, true)
            }
        });
        let others = columns.others().map(|column| Pick::of(&column, false));
        shown.chain(others).collect()
    }

    /// How many rows a page may have, and whether it has.
    fn rows(&self) -> [(u32, bool); ROWS.len()] {
        let mut rows = ROWS;
        rows.sort_unstable();
        rows.map(|n| (n, n == self.query.n))
    }

    /// The list with its usual columns and rows.
    fn usual_columns(&self) -> String {
        let usual = TracesQuery::default();
        let query = TracesQuery { columns: usual.columns, n: usual.n, ..self.query.clone() };
        query.first(self.shell.base())
    }

    /// When the traces that fit in other times began, and the list with them.
    fn in_any_time(&self) -> Option<(Html, Html, String)> {
        let (first, last) = self.elsewhere?;
        let query = TracesQuery { focus: self.query.focus.without_time(), ..self.query.clone() };
        Some((utc_time(first), utc_time(last), query.first(self.shell.base())))
    }
}

/// Where in a list a page is.
#[derive(Clone, Debug, Default)]
pub struct Pager {
    /// How many lines stand before it, when that is known.
    pub n_before: Option<u64>,
    /// Its lines.
    pub n: u64,
    /// Lines in all, as far as they were counted.
    pub total: Option<BoundedCount>,
    /// The page with all of them counted, where they are not.
    pub exact: Option<String>,
    /// The pages before and behind.
    pub page_links: PageLinks,
}

impl Pager {
    /// Whether the list begins here.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.n_before == Some(0)
    }

    /// Of a list that knows no number before a page but the first one.
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
