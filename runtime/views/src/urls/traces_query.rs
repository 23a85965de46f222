//! What is asked of the list of traces, as its address says it.

use crate::markup::{encode, with_query};
use perpend_domain::filter::{Condition, SetOp, TRACES, Test, TextOp, find};
use perpend_domain::query::print_condition;

use crate::urls::columns::Columns;
use crate::urls::focus::Focus;
use crate::urls::sort::Sort;
use crate::urls::unknown_parameters::{Parameter, UnknownParameters};

/// How many rows a page may have; the first is the usual number.
pub const ROWS: [u32; 3] = [50, 25, 100];

/// What is opened from a list with a longer address does not know of it.
pub const MAX_LIST: usize = 1024;

/// Where an address has a cursor: the end of the list.
pub const END: &str = "end";

/// Which page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListPage {
    /// The first one.
    #[default]
    First,
    /// By its number, from 1. What arrives meanwhile moves traces from one page to another.
    Number(u32),
    /// The one behind this cursor.
    After(String),
    /// The one right before this cursor.
    Before(String),
    /// The last one.
    Last,
}

impl ListPage {
    fn parameter(&self) -> Option<(&'static str, String)> {
        match self {
            Self::First | Self::Number(1) => None,
            Self::Number(number) => Some(("page", number.to_string())),
            Self::After(place) => Some(("after", place.clone())),
            Self::Before(place) => Some(("before", place.clone())),
            Self::Last => Some(("before", END.to_owned())),
        }
    }
}

/// What is asked of the list of traces, as its address says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracesQuery {
    /// The filter as text.
    pub q: String,
    /// The time and the environments.
    pub focus: Focus,
    /// What comes first.
    pub sort: Sort,
    /// What is shown of each trace.
    pub columns: Columns,
    /// Rows of a page.
    pub n: u32,
    /// What no page reads.
    pub others: UnknownParameters,
}

impl Default for TracesQuery {
    fn default() -> Self {
        Self {
            q: String::new(),
            focus: Focus::default(),
            sort: Sort::default(),
            columns: Columns::default(),
            n: ROWS[0],
            others: UnknownParameters::default(),
        }
    }
}

impl TracesQuery {
    /// The filter, in the usual order.
    #[must_use]
    pub fn of(q: impl Into<String>) -> Self {
        Self { q: q.into(), ..Self::default() }
    }

    /// The same with another filter.
    #[must_use]
    pub fn with(&self, q: &str) -> Self {
        Self { q: q.to_owned(), ..self.clone() }
    }

    /// The parameters that differ from the usual, but the number of the page.
    fn parameters(&self) -> Vec<Parameter> {
        let usual = Self::default();
        let all = [
            ("q", self.q.clone(), self.q != usual.q),
            ("sort", self.sort.in_address(), self.sort != usual.sort),
            ("cols", self.columns.in_address(), self.columns != usual.columns),
            ("n", self.n.to_string(), self.n != usual.n),
        ];
        let other = all.into_iter().filter(|(.., differs)| *differs);
        let other = other.map(|(name, value, _)| (name.into(), value));
        let all = other.chain(self.focus.parameters());
        all.chain(self.others.parameters()).collect()
    }

    /// What a form says besides its own fields, so that they are all that it changes.
    #[must_use]
    pub fn kept(&self, own: &[&str]) -> Vec<Parameter> {
        let mut kept = self.parameters();
        kept.retain(|(name, _)| !own.contains(&name.as_ref()));
        kept
    }

    /// The same as the end of another address.
    #[must_use]
    pub fn more(&self) -> String {
        let pairs = self.parameters().into_iter();
        pairs.map(|(name, value)| format!("&{}={}", encode(&name), encode(&value))).collect()
    }

    /// The address of the first page of this list, in the project at `base`.
    #[must_use]
    pub fn first(&self, base: &str) -> String {
        self.address(base, &ListPage::First)
    }

    /// The address of the first page with all of the list counted.
    #[must_use]
    pub fn counted(&self, base: &str) -> String {
        let list = self.first(base);
        let sign = if list.contains('?') { '&' } else { '?' };
        format!("{list}{sign}count=exact")
    }

    /// The address of a page of this list.
    #[must_use]
    pub fn address(&self, base: &str, page: &ListPage) -> String {
        let mut parameters = self.parameters();
        let place = page.parameter();
        parameters.extend(place.map(|(name, value)| (name.into(), value)));
        with_query(&format!("{base}/traces"), &parameters)
    }
}

impl TracesQuery {
    /// The address of the first page with a part on it that takes longer, by its name, and of this part alone.
    #[must_use]
    pub fn with_part(&self, base: &str, part: &str) -> [String; 2] {
        let list = self.first(base);
        let (path, query) = list.split_once('?').unwrap_or((&list, ""));
        let sign = if query.is_empty() { "" } else { "&" };
        [format!("{path}?{query}{sign}{part}=1"), format!("{base}/_/traces/{part}?{query}")]
    }

    /// The address of a page with a trace beside it, up to the id of the trace.
    #[must_use]
    pub fn peeking(&self, base: &str, page: &ListPage) -> String {
        let list = self.address(base, page);
        let sign = if list.contains('?') { '&' } else { '?' };
        format!("{list}{sign}peek=")
    }
}

/// The address of the list of traces that have this value in this column.
#[must_use]
pub fn traces_with_value(base: &str, column: &str, value: &str) -> String {
    traces_matching(base, column, Test::Text(TextOp::Equal, value.to_owned()))
}

/// The address of the list of the traces of a session that contain this text.
#[must_use]
pub fn traces_containing(base: &str, session: &str, text: &str) -> String {
    let said = |op, value: &str| Test::Text(op, value.to_owned());
    let conditions = [
        ("sessionId", said(TextOp::Equal, session)),
        ("text", said(TextOp::MatchesAnyCase, text)),
        // Those of evaluations too: the session has them.
        ("environment", Test::IsNotNull),
    ];
    let terms = conditions.into_iter().filter_map(|(column, test)| {
        print_condition(&Condition { column: find(TRACES, column), test })
    });
    TracesQuery::of(terms.collect::<Vec<_>>().join(" ")).first(base)
}

/// The address of the list of traces with this tag.
#[must_use]
pub fn traces_with_tag(base: &str, tag: &str) -> String {
    traces_matching(base, "tags", Test::List(SetOp::AnyOf, vec![tag.to_owned()]))
}

/// The address of the list of traces that pass this test of a column.
#[must_use]
pub fn traces_matching(base: &str, column: &str, test: Test) -> String {
    let condition = Condition { column: find(TRACES, column), test };
    let q = print_condition(&condition).unwrap_or_default();
    TracesQuery::of(q).first(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_carries_what_is_asked_encoded_and_nothing_usual() {
        let mut query = TracesQuery::of("name:\"a&b\"");
        assert_eq!(
            query.address("/p", &ListPage::Number(2)),
            "/p/traces?q=name%3A%22a%26b%22&page=2"
        );
        query.sort = Sort::from_name("-latency").unwrap();
        assert!(query.first("/p").ends_with("&sort=-latency"));
        query.columns = Columns::parse("trace,metadata.a b").columns;
        query.n = 100;
        let address = query.first("/p");
        assert!(address.ends_with("&cols=trace%2Cmetadata.a%20b&n=100"), "{address}");
        let kept = query.kept(&["q", "sort"]);
        assert_eq!(kept[0], ("cols".into(), "trace,metadata.a b".to_owned()));
        query.others.take("utm source", "a&b");
        let address = query.address("/p", &ListPage::Last);
        assert!(address.ends_with("&n=100&utm%20source=a%26b&before=end"), "{address}");
        assert!(query.more().ends_with("&utm%20source=a%26b"));
        let kept = query.kept(&["q", "sort"]);
        assert_eq!(kept[2], ("utm source".into(), "a&b".to_owned()));
        assert_eq!(TracesQuery::default().first("/p"), "/p/traces");
        let behind = ListPage::After("_5_a b".to_owned());
        let address = TracesQuery::default().address("/p", &behind);
        assert_eq!(address, "/p/traces?after=_5_a%20b");
    }
}
