//! The list of latest traces with its filter.

use askama::Template;
use perpend_domain::filter::{Condition, SetOp, TRACES, Test, TextOp, find};
use perpend_domain::telemetry::{GroupedBy, TraceOrder};
use perpend_domain::time::Timestamp;
use perpend_query::print_condition;

use crate::format::{clock, count, duration, known_dollars};
use crate::scores::Chip;
use crate::setup::Setup;
use crate::shell::{encode, href};
use crate::sort::Sort;
use crate::ways::Ways;
use crate::{Shell, Text};

/// Chips shown on a line; the rest is counted.
const CHIPS: usize = 5;
/// Tags shown on a line.
const TAGS: usize = 3;

/// Traces that fit a filter.
#[derive(Clone, Debug, Default, Template)]
#[template(path = "traces.html")]
pub struct TracesPage {
    /// Around the page.
    pub shell: Shell,
    /// What was asked for.
    pub query: TracesQuery,
    /// What the filter was read as, term by term.
    pub terms: Vec<TermChip>,
    /// The filter as the API takes it.
    pub json: String,
    /// What the columns of a filter are called.
    pub columns: Vec<&'static str>,
    /// Scheme, host and port of this server, for the same question over the API.
    pub origin: String,
    /// The traces of this page.
    pub lines: Vec<TraceLine>,
    /// Where in the list this page is.
    pub pager: Pager,
    /// How many traces were not looked through, because what is asked takes long to find.
    pub n_left: u64,
    /// What evaluations record of themselves is left out: the address of the list with it.
    pub with_own: Option<String>,
    /// What the address asks for and cannot have.
    pub notices: Vec<Text>,
    /// Nothing was recorded yet: how to change that.
    pub setup: Option<Setup>,
}

/// What is asked of the list of traces, as its address says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracesQuery {
    /// The filter as text.
    pub q: String,
    /// What comes first; the newest where nothing is said.
    pub sort: Sort,
}

/// One term of the filter.
#[derive(Clone, Debug)]
pub struct TermChip {
    /// As typed.
    pub text: Text,
    /// What is wrong with it; the other terms hold all the same.
    pub problem: Option<Text>,
    /// The filter without it.
    pub without: String,
}

impl TracesQuery {
    /// The filter, in the usual order.
    #[must_use]
    pub fn of(q: impl Into<String>) -> Self {
        Self {
            q: q.into(),
            sort: Sort::default(),
        }
    }

    /// The same with another filter.
    #[must_use]
    pub fn with(&self, q: &str) -> Self {
        Self {
            q: q.to_owned(),
            ..self.clone()
        }
    }

    /// The address of a page of this list, in the project at `base`.
    #[must_use]
    pub fn address(&self, base: &str, page: u64) -> String {
        let mut pairs = Vec::new();
        if !self.q.is_empty() {
            pairs.push(format!("q={}", encode(&self.q)));
        }
        if self.sort != Sort::default() {
            pairs.push(format!("sort={}", self.sort.in_address()));
        }
        if page > 1 {
            pairs.push(format!("page={page}"));
        }
        if pairs.is_empty() {
            format!("{base}/traces")
        } else {
            format!("{base}/traces?{}", pairs.join("&"))
        }
    }
}

impl TracesPage {
    fn without(&self, chip: &TermChip) -> String {
        self.query.with(&chip.without).address(self.shell.base(), 1)
    }

    fn left(&self) -> String {
        count(self.n_left)
    }

    /// Filters to begin with.
    fn quick(&self) -> [(&'static str, String); 4] {
        [
            ("With errors", "level:ERROR"),
            ("Slow", "latency:>5"),
            ("In a session", "sessionId:set"),
            ("Of a user", "userId:set"),
        ]
        .map(|(label, q)| (label, TracesQuery::of(q).address(self.shell.base(), 1)))
    }

    fn sorts(&self) -> impl Iterator<Item = (String, &'static str, bool)> {
        let own = self.query.sort;
        Sort::all().map(move |(sort, label)| (sort.in_address(), label, sort == own))
    }

    /// The headings, those of columns that order as links.
    fn heads(&self) -> Vec<Head> {
        let (query, base) = (&self.query, self.shell.base());
        let sorting = |head: Head| {
            let Some(order) = head.order else { return head };
            let turned = TracesQuery {
                sort: query.sort.of_heading(order),
                ..query.clone()
            };
            Head {
                href: Some(turned.address(base, 1)),
                state: query.sort.state_of(order),
                ..head
            }
        };
        Head::usual().into_iter().map(sorting).collect()
    }

    /// The same question over the API.
    fn as_api(&self) -> String {
        let filter = match self.json.is_empty() {
            true => String::new(),
            false => format!(
                " \\\n  --data-urlencode 'filter={}'",
                self.json.replace('\'', r"'\''")
            ),
        };
        format!(
            "curl -u \"$PUBLIC_KEY:$SECRET_KEY\" -G \"{}/api/public/traces?limit=50&orderBy={}\"{filter}",
            self.origin,
            self.query.sort.order_by()
        )
    }
}

/// The heading of a column of a list of traces.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) label: &'static str,
    pub(crate) is_figure: bool,
    /// The order that it stands for.
    order: Option<TraceOrder>,
    /// The list in that order.
    pub(crate) href: Option<String>,
    /// As `aria-sort` says it, where the list is in that order.
    pub(crate) state: Option<&'static str>,
}

impl Head {
    /// Those of the usual columns, without links.
    pub(crate) fn usual() -> Vec<Self> {
        let columns = [
            ("Trace", None),
            ("Started, UTC", Some(TraceOrder::Timestamp)),
            ("User and session", None),
            ("Scores", None),
            ("Latency", Some(TraceOrder::Latency)),
            ("Tokens", Some(TraceOrder::TotalTokens)),
            ("Cost", Some(TraceOrder::TotalCost)),
            ("Steps", None),
        ];
        let head = |(label, order): (&'static str, Option<TraceOrder>)| Self {
            label,
            is_figure: label == "Steps" || order.is_some_and(TraceOrder::is_figure),
            order,
            href: None,
            state: None,
        };
        columns.into_iter().map(head).collect()
    }
}

/// Where in a list a page is.
#[derive(Clone, Debug, Default)]
pub struct Pager {
    /// Number of the first line, from 1.
    pub first: u64,
    /// Number of the last line.
    pub last: u64,
    /// Lines in all, when that is known.
    pub total: Option<u64>,
    /// The pages before and behind.
    pub ways: Ways,
}

impl Pager {
    fn position(&self) -> String {
        let range = format!("{}–{}", count(self.first), count(self.last));
        match self.total {
            Some(total) => format!("{range} of {}", count(total)),
            None => range,
        }
    }
}

/// The address of the list of traces that have this value in this column.
pub(crate) fn only(base: &str, column: &str, value: &str) -> String {
    passing(base, column, Test::Text(TextOp::Equal, value.to_owned()))
}

/// The address of the list of traces with this tag.
pub(crate) fn tagged(base: &str, tag: &str) -> String {
    passing(base, "tags", Test::List(SetOp::AnyOf, vec![tag.to_owned()]))
}

fn passing(base: &str, column: &str, test: Test) -> String {
    let condition = Condition {
        column: find(TRACES, column),
        test,
    };
    let q = print_condition(&condition).unwrap_or_default();
    TracesQuery::of(q).address(base, 1)
}

/// One trace in the list.
#[derive(Clone, Debug)]
pub struct TraceLine {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<Text>,
    /// When it started.
    pub at: Timestamp,
    /// Environment.
    pub environment: Text,
    /// End user.
    pub user: Option<Text>,
    /// Session.
    pub session: Option<Text>,
    /// Tags.
    pub tags: Vec<Text>,
    /// Latest end minus earliest start.
    pub latency_us: i64,
    /// Tokens in all.
    pub tokens: u64,
    /// US dollars.
    pub cost: f64,
    /// Observations.
    pub n_observations: u32,
    /// Of these with level error.
    pub n_errors: u32,
    /// Of these with level warning.
    pub n_warnings: u32,
    /// Its scores.
    pub scores: Vec<Chip>,
    /// How its input begins.
    pub input: Option<Text>,
    /// How its output begins.
    pub output: Option<Text>,
}

impl TraceLine {
    pub(crate) fn href(&self, base: &str) -> String {
        format!("{base}/traces/{}", encode(&self.id))
    }

    pub(crate) fn user_href(&self, base: &str) -> String {
        href(
            base,
            GroupedBy::User,
            self.user.as_ref().map_or("", Text::raw),
        )
    }

    pub(crate) fn session_href(&self, base: &str) -> String {
        let session = self.session.as_ref().map_or("", Text::raw);
        href(base, GroupedBy::Session, session)
    }

    pub(crate) fn time(&self) -> String {
        clock(self.at)
    }

    pub(crate) fn latency(&self) -> String {
        duration(self.latency_us)
    }

    pub(crate) fn token_text(&self) -> String {
        if self.tokens == 0 {
            crate::format::NONE.to_owned()
        } else {
            count(self.tokens)
        }
    }

    pub(crate) fn cost_text(&self) -> String {
        known_dollars(self.cost)
    }

    pub(crate) fn first_chips(&self) -> &[Chip] {
        &self.scores[..self.scores.len().min(CHIPS)]
    }

    pub(crate) fn more_chips(&self) -> usize {
        self.scores.len().saturating_sub(CHIPS)
    }

    pub(crate) fn first_tags(&self) -> &[Text] {
        &self.tags[..self.tags.len().min(TAGS)]
    }

    pub(crate) fn more_tags(&self) -> usize {
        self.tags.len().saturating_sub(TAGS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_carries_the_filter_encoded_and_the_order() {
        let mut query = TracesQuery::of("name:\"a&b\"");
        assert_eq!(
            query.address("/p", 2),
            "/p/traces?q=name%3A%22a%26b%22&page=2"
        );
        query.sort = Sort::named("-latency").unwrap();
        assert!(query.address("/p", 1).ends_with("&sort=-latency"));
        assert_eq!(TracesQuery::default().address("/p", 1), "/p/traces");
    }
}
