//! The filter field of a list and its parsed terms.

use std::borrow::Cow;

use crate::format::{count, plural};
use crate::lists::trace_rows::TRACE_ROWS;
use crate::markup::with_query;
use crate::urls::{FilterableList, Focus, Parameter};
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;

use crate::facts::utc_time;
use crate::{Html, Text};

/// Example terms with their meaning.
pub(crate) const EXAMPLES: [(&str, &str); 8] = [
    ("column:value", "equals the value; separate terms with spaces, all must match"),
    ("column:a,b", "is one of these"),
    ("-column:a,b", "is not one of these"),
    ("column:~part", "contains the text; ^part: starts with it, $part: ends with it"),
    ("column:>2", "is greater than; also >=, <, <= and !="),
    ("column:1..5", "is between 1 and 5"),
    ("column:all(a,b)", "contains all of these; any(a,b): contains one of them"),
    ("column:set", "has a value; null: has no value"),
];

/// Maximum number of rows of an exported list.
pub const MAX_EXPORTED: usize = 100_000;

/// Labels and URLs of a list as a file. `parameters` are its query parameters without the position.
#[must_use]
pub fn export_links(
    base: &str,
    list: &str,
    parameters: &[Parameter],
) -> [(&'static str, String); 2] {
    [("Export CSV", "csv"), ("Export JSONL", "jsonl")].map(|(label, format)| {
        let format: Parameter = ("format".into(), format.to_owned());
        let others = parameters.iter().filter(|(name, _)| name != "n").cloned();
        let pairs: Vec<Parameter> = std::iter::once(format).chain(others).collect();
        (label, with_query(&format!("{base}/export/{list}"), &pairs))
    })
}

/// Rows of a file with a list, in words.
pub(crate) fn exported_rows(row: &str) -> String {
    format!("all matching {row}s, at most {}", count(MAX_EXPORTED as u64))
}

/// Label of a filter column: the column heading, or else its id in words.
pub(crate) fn title(id: &str) -> String {
    // `timestamp` has different headings in different lists.
    let known = TRACE_ROWS.columns.iter().find(|column| column.id == id && id != "timestamp");
    if let Some(column) = known {
        return column.label.to_owned();
    }
    let mut words = String::new();
    for c in id.chars() {
        match c {
            '_' => words.push(' '),
            _ if words.is_empty() => words.push(c.to_ascii_uppercase()),
            'A'..='Z' => words.extend([' ', c.to_ascii_lowercase()]),
            _ => words.push(c),
        }
    }
    words
}

/// The filter of a list.
#[derive(Clone, Debug)]
pub struct FilterView {
    /// The list.
    pub of: &'static FilterableList,
    /// Base URL of the project.
    pub base: String,
    /// The filter text.
    pub q: String,
    /// Terms of the filter.
    pub terms: Vec<TermChip>,
    /// The other query parameters of the list, without the position.
    pub other_parameters: Vec<Parameter>,
    /// Choices of `sort`: value, label and whether it is the current one.
    pub sorts: Vec<(String, Text, bool)>,
    /// Matches of single conditions, if the list is empty.
    pub empty_counts: EmptyListCounts,
}

/// Matches of single conditions of a list without matches.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmptyListCounts {
    /// Rows that match the time range alone and the environments alone.
    pub by_focus: [Option<BoundedCount>; 2],
    /// Times of the first and the last match outside the time range.
    pub other_times: Option<(Timestamp, Timestamp)>,
}

/// One term of the filter.
#[derive(Clone, Debug)]
pub struct TermChip {
    /// As typed.
    pub text: Text,
    /// Error of this term; the other terms still apply.
    pub problem: Option<Text>,
    /// The filter without this term.
    pub without: String,
    /// The filter with a suggested correction of this term.
    pub corrected: Option<String>,
    /// Rows that match this term alone, if no row matches all terms.
    pub alone: Option<BoundedCount>,
}

/// Number of rows that match a condition alone, in words; `None` if not counted.
fn match_count(alone: Option<BoundedCount>, row: &str) -> Option<String> {
    let BoundedCount { n, is_more } = alone?;
    Some(match (n, is_more) {
        (0, false) => format!("no {row}"),
        (0, true) => format!("none of the newest {row}s"),
        (_, true) => format!("{}+ {row}s", count(n)),
        (_, false) => plural(n, row),
    })
}

impl TermChip {
    pub(crate) fn match_count(&self, row: &str) -> Option<String> {
        match_count(self.alone, row)
    }
}

impl FilterView {
    /// URL of the list with another filter.
    pub(crate) fn with(&self, q: &str) -> String {
        self.href_with(q, &[])
    }

    /// URL of the list with another filter and without these parameters.
    fn href_with(&self, q: &str, dropped: &[&str]) -> String {
        let own = (!q.is_empty()).then(|| (Cow::Borrowed("q"), q.to_owned()));
        let other_parameters = self.other_parameters.iter();
        let other_parameters =
            other_parameters.filter(|(name, _)| !dropped.contains(&name.as_ref()));
        let pairs: Vec<_> = own.into_iter().chain(other_parameters.cloned()).collect();
        with_query(&format!("{}/{}", self.base, self.of.list), &pairs)
    }

    /// Time range and environments, if selected: label, value and URL without it.
    pub(crate) fn focus_conditions(
        &self,
        focus: &Focus,
    ) -> [Option<(&'static str, Text, String)>; 2] {
        let (time, all) = (focus.without_environments(), &focus.environments);
        let part = |name, value: String, dropped: &[&str]| {
            (name, Text::from(value), self.href_with(&self.q, dropped))
        };
        let has_time = focus.has_time();
        [
            has_time.then(|| part("Time", time.label(""), &["from", "to"])),
            (!all.is_empty()).then(|| part("Environments", all.join(", "), &["env"])),
        ]
    }

    /// The same with the number of rows that match each alone.
    pub(crate) fn focus_counts(
        &self,
        focus: &Focus,
    ) -> Vec<(&'static str, Text, Option<String>, String)> {
        let parts = self.focus_conditions(focus).into_iter().zip(self.empty_counts.by_focus);
        let part = |(part, alone): (Option<(&'static str, Text, String)>, _)| {
            let (name, value, href) = part?;
            Some((name, value, match_count(alone, self.of.row), href))
        };
        parts.filter_map(part).collect()
    }

    /// First and last match at other times, and the URL of these matches.
    pub(crate) fn matches_at_other_times(&self) -> Option<(Html, Html, String)> {
        let (first, last) = self.empty_counts.other_times?;
        Some((utc_time(first), utc_time(last), self.href_with(&self.q, &["from", "to"])))
    }

    /// URL that the page polls for new items.
    pub(crate) fn news_href(&self) -> String {
        let own = [("live", "1".to_owned()), ("q", self.q.clone())];
        let own = own.into_iter().filter(|(_, value)| !value.is_empty());
        let own = own.map(|(name, value)| (Cow::Borrowed(name), value));
        let pairs: Vec<_> = own.chain(self.other_parameters.clone()).collect();
        with_query(&format!("{}/_/{}/news", self.base, self.of.list), &pairs)
    }

    /// URL of the list without any condition.
    pub(crate) fn unfiltered_href(&self) -> String {
        self.href_with("", &["from", "to", "env"])
    }

    pub(crate) fn without(&self, chip: &TermChip) -> String {
        self.with(&chip.without)
    }

    pub(crate) fn without_terms_href(&self) -> String {
        self.with("")
    }

    /// Error of a term, and its effect on the filter.
    pub(crate) fn error(&self, chip: &TermChip) -> Option<Html> {
        let problem = chip.problem.as_ref()?;
        let stop = match problem.raw().ends_with(['?', '.']) {
            true => "",
            false => ".",
        };
        let rest = match self.terms.iter().any(|other| other.problem.is_none()) {
            true => "The other conditions apply.",
            false => "The condition is ignored.",
        };
        Some(Html::sentence(&format!("{}{stop} {rest}", problem.raw())))
    }

    /// Hidden fields of the form.
    pub(crate) fn hidden_fields(&self) -> impl Iterator<Item = &Parameter> {
        let has_sorts = !self.sorts.is_empty();
        let other_parameters = self.other_parameters.iter();
        other_parameters.filter(move |(name, _)| *name != "sort" || !has_sorts)
    }
}

/// Progress of a search from the beginning of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchProgress {
    /// Rows that were tested.
    pub n_tested: u64,
    /// Rows that matched.
    pub n_found: u64,
}

impl SearchProgress {
    /// Further query parameters of the page that continues the search.
    #[must_use]
    pub fn more(self) -> String {
        format!("&looked={}&found={}", self.n_tested, self.n_found)
    }
}

/// A search that stopped before the end of the list.
#[derive(Clone, Debug, Default)]
pub struct StoppedSearch {
    /// Rows that were tested for this page.
    pub n_tested: u64,
    /// Rows that matched.
    pub n_found: u64,
    /// URL that continues the search; absent if there is a link to the next page.
    pub next_href: Option<String>,
}

impl StoppedSearch {
    /// Whether a script continues the search, because nothing was found yet.
    pub(crate) fn continues_automatically(&self) -> bool {
        self.n_found == 0 && self.next_href.is_some()
    }

    /// `20,000 traces searched, 5 found`. `row` is the singular noun of a row.
    pub(crate) fn progress(&self, row: &str) -> String {
        let (tested, found) = (plural(self.n_tested, row), count(self.n_found));
        format!("{tested} searched, {found} found")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_column_has_the_label_of_the_list_or_its_id_in_words() {
        let titles = ["totalCost", "defaultCount", "scores_avg", "timestamp"].map(title);
        assert_eq!(titles, ["Cost", "Default count", "Scores avg", "Timestamp"]);
        assert_eq!(
            ["metadata", "latency"].map(crate::urls::term_prefix),
            ["metadata.", "latency:"]
        );
    }
}
