//! The URL of the list of traces.

use crate::markup::with_query;
use perpend_domain::filter::{Condition, SetOp, TRACES, Test, TextOp, find};
use perpend_domain::query::print_condition;

use crate::urls::focus::Focus;
use crate::urls::sort::Sort;
use crate::urls::unknown_parameters::{Parameter, UnknownParameters};

/// The available page sizes; the first one is the default.
pub const ROWS: [u32; 3] = [50, 25, 100];

/// Maximum length in bytes of a list URL that links from the list pass on.
pub const MAX_LIST: usize = 1024;

/// Cursor value for the end of the list.
pub const END: &str = "end";

/// The parameters of the list of traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracesQuery {
    /// Filter.
    pub q: String,
    /// Time range and environments.
    pub focus: Focus,
    /// Order.
    pub sort: Sort,
    /// Names of the columns; empty for the default.
    pub columns: String,
    /// Rows per page.
    pub n: u32,
    /// Unknown parameters.
    pub others: UnknownParameters,
}

impl Default for TracesQuery {
    fn default() -> Self {
        Self {
            q: String::new(),
            focus: Focus::default(),
            sort: Sort::default(),
            columns: String::new(),
            n: ROWS[0],
            others: UnknownParameters::default(),
        }
    }
}

impl TracesQuery {
    /// A query with this filter.
    #[must_use]
    pub fn of(q: impl Into<String>) -> Self {
        Self { q: q.into(), ..Self::default() }
    }

    /// A copy with another filter.
    #[must_use]
    pub fn with(&self, q: &str) -> Self {
        Self { q: q.to_owned(), ..self.clone() }
    }

    /// The parameters that differ from the defaults, without the page.
    fn parameters(&self) -> Vec<Parameter> {
        let default = Self::default();
        let all = [
            ("q", self.q.clone(), self.q != default.q),
            ("sort", self.sort.to_parameter(), self.sort != default.sort),
            ("cols", self.columns.clone(), self.columns != default.columns),
            ("n", self.n.to_string(), self.n != default.n),
        ];
        let other = all.into_iter().filter(|(.., differs)| *differs);
        let other = other.map(|(name, value, _)| (name.into(), value));
        let all = other.chain(self.focus.parameters());
        all.chain(self.others.parameters()).collect()
    }

    /// URL of the first page in the project at `base`.
    #[must_use]
    pub fn first(&self, base: &str) -> String {
        with_query(&format!("{base}/traces"), &self.parameters())
    }
}

/// URL of the list of traces with this value in a column.
#[must_use]
pub fn traces_with_value(base: &str, column: &str, value: &str) -> String {
    traces_matching(base, column, Test::Text(TextOp::Equal, value.to_owned()))
}

/// URL of the list of traces of a session that contain this text.
#[must_use]
pub fn traces_containing(base: &str, session: &str, text: &str) -> String {
    let text_test = |op, value: &str| Test::Text(op, value.to_owned());
    let conditions = [
        ("sessionId", text_test(TextOp::Equal, session)),
        ("text", text_test(TextOp::MatchesAnyCase, text)),
        // Includes evaluation traces, which the list hides by default.
        ("environment", Test::IsNotNull),
    ];
    let terms = conditions.into_iter().filter_map(|(column, test)| {
        print_condition(&Condition { column: find(TRACES, column), test })
    });
    TracesQuery::of(terms.collect::<Vec<_>>().join(" ")).first(base)
}

/// URL of the list of traces with this tag.
#[must_use]
pub fn traces_with_tag(base: &str, tag: &str) -> String {
    traces_matching(base, "tags", Test::List(SetOp::AnyOf, vec![tag.to_owned()]))
}

/// URL of the list of traces that match a test of a column.
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
    fn url_contains_encoded_parameters_without_defaults() {
        let mut query = TracesQuery::of("name:\"a&b\"");
        assert_eq!(query.first("/p"), "/p/traces?q=name%3A%22a%26b%22");
        query.sort = Sort::from_name("-latency").unwrap();
        assert!(query.first("/p").ends_with("&sort=-latency"));
        query.columns = "trace,metadata.a b".to_owned();
        query.n = 100;
        let address = query.first("/p");
        assert!(address.ends_with("&cols=trace%2Cmetadata.a%20b&n=100"), "{address}");
        query.others.take("utm source", "a&b");
        let address = query.first("/p");
        assert!(address.ends_with("&n=100&utm%20source=a%26b"), "{address}");
        assert_eq!(TracesQuery::default().first("/p"), "/p/traces");
    }
}
