//! The field that takes the filter of a list as text, with what was read in it.

use std::borrow::Cow;

use crate::format::{count, plural};
use crate::markup::with_query;
use crate::urls::{Column, FilterableList, Focus, Parameter};
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;

use crate::facts::utc_time;
use crate::{Html, Text};

/// What a term of a filter can look like, and what it means.
pub(crate) const EXAMPLES: [(&str, &str); 8] = [
    ("column:value", "equals the value; separate terms with spaces, all must match"),
    ("column:a,b", "is one of these"),
    ("-column:a,b", "is none of these"),
    ("column:~part", "contains the text; ^part: starts with it, $part: ends with it"),
    ("column:>2", "is greater than; also >=, <, <= and !="),
    ("column:1..5", "is between 1 and 5"),
    ("column:all(a,b)", "contains all of these; any(a,b): contains one of them"),
    ("column:set", "has a value; null: has no value"),
];

/// What readers call a column of filters: as the lists do, else its name in words.
pub(crate) fn title(id: &str) -> String {
    // What starts in one list is made in another.
    let known = Column::from_name(id).filter(|_| id != "timestamp");
    if let Some(column) = known {
        return column.label().raw().to_owned();
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

/// The filter of a list as it was asked for.
#[derive(Clone, Debug)]
pub struct FilterView {
    /// The list.
    pub of: &'static FilterableList,
    /// Base URL of the project.
    pub base: String,
    /// As text.
    pub q: String,
    /// What it was read as, term by term.
    pub terms: Vec<TermChip>,
    /// What the address of the list says besides, but for the place in it.
    pub kept: Vec<Parameter>,
    /// Orders to choose from with their labels, and whether they are this list's. The parameter is `sort`.
    pub sorts: Vec<(String, Text, bool)>,
    /// Why it is empty, where it is.
    pub empty_counts: EmptyListCounts,
}

/// What is known of a list in which nothing fits.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmptyListCounts {
    /// How many rows the time, and the environments, leave without the other conditions.
    pub by_focus: [Option<BoundedCount>; 2],
    /// When the first and the last row was that fits at other times.
    pub other_times: Option<(Timestamp, Timestamp)>,
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
    /// The filter with what the term seems to mean.
    pub corrected: Option<String>,
    /// Where no row fits all terms: how many it alone leaves.
    pub alone: Option<BoundedCount>,
}

/// How many rows a condition alone leaves; none where that was not counted.
fn leaves(alone: Option<BoundedCount>, row: &str) -> Option<String> {
    let BoundedCount { n, is_more } = alone?;
    Some(match (n, is_more) {
        (0, false) => format!("no {row}"),
        (0, true) => format!("none of the newest {row}s"),
        (_, true) => format!("{}+ {row}s", count(n)),
        (_, false) => plural(n, row),
    })
}

impl TermChip {
    pub(crate) fn leaves(&self, row: &str) -> Option<String> {
        leaves(self.alone, row)
    }
}

impl FilterView {
    /// The address of the list with another filter.
    pub(crate) fn with(&self, q: &str) -> String {
        self.less(q, &[])
    }

    /// The same without these of the other parameters.
    fn less(&self, q: &str, dropped: &[&str]) -> String {
        let own = (!q.is_empty()).then(|| (Cow::Borrowed("q"), q.to_owned()));
        let kept = self.kept.iter();
        let kept = kept.filter(|(name, _)| !dropped.contains(&name.as_ref()));
        let pairs: Vec<_> = own.into_iter().chain(kept.cloned()).collect();
        with_query(&format!("{}/{}", self.base, self.of.list), &pairs)
    }

    /// The time and the environments where they narrow the list: each in words, and the list without it.
    pub(crate) fn focus_conditions(
        &self,
        focus: &Focus,
    ) -> [Option<(&'static str, Text, String)>; 2] {
        let (time, all) = (focus.without_environments(), &focus.environments);
        let part = |name, said: String, dropped: &[&str]| {
            (name, Text::from(said), self.less(&self.q, dropped))
        };
        let has_time = focus.has_time();
        [
            has_time.then(|| part("Time", time.label(""), &["from", "to"])),
            (!all.is_empty()).then(|| part("Environments", all.join(", "), &["env"])),
        ]
    }

    /// The same with how many rows each alone leaves.
    pub(crate) fn narrowing(
        &self,
        focus: &Focus,
    ) -> Vec<(&'static str, Text, Option<String>, String)> {
        let parts = self.focus_conditions(focus).into_iter().zip(self.empty_counts.by_focus);
        let part = |(part, alone): (Option<(&'static str, Text, String)>, _)| {
            let (name, said, href) = part?;
            Some((name, said, leaves(alone, self.of.row), href))
        };
        parts.filter_map(part).collect()
    }

    /// When rows are that fit at other times, and the list with them.
    pub(crate) fn in_any_time(&self) -> Option<(Html, Html, String)> {
        let (first, last) = self.empty_counts.other_times?;
        Some((utc_time(first), utc_time(last), self.less(&self.q, &["from", "to"])))
    }

    /// Where a page asks what came since.
    pub(crate) fn news(&self) -> String {
        let own = [("live", "1".to_owned()), ("q", self.q.clone())];
        let own = own.into_iter().filter(|(_, value)| !value.is_empty());
        let own = own.map(|(name, value)| (Cow::Borrowed(name), value));
        let pairs: Vec<_> = own.chain(self.kept.clone()).collect();
        with_query(&format!("{}/_/{}/news", self.base, self.of.list), &pairs)
    }

    /// The list without another of its parameters.
    pub(crate) fn dropping(&self, name: &str) -> String {
        self.less(&self.q, &[name])
    }

    /// The list without a filter, at any time and in all environments.
    pub(crate) fn everything(&self) -> String {
        self.less("", &["from", "to", "env"])
    }

    pub(crate) fn without(&self, chip: &TermChip) -> String {
        self.with(&chip.without)
    }

    pub(crate) fn cleared(&self) -> String {
        self.with("")
    }

    /// What is wrong with a term, and what that leaves of the filter.
    pub(crate) fn fault(&self, chip: &TermChip) -> Option<Html> {
        let problem = chip.problem.as_ref()?;
        let stop = match problem.raw().ends_with(['?', '.']) {
            true => "",
            false => ".",
        };
        let rest = match self.terms.iter().any(|other| other.problem.is_none()) {
            true => "The other conditions apply.",
            false => "The condition is ignored.",
        };
        Some(Html::naming(&format!("{}{stop} {rest}", problem.raw())))
    }

    /// What the form says besides its own fields.
    pub(crate) fn hidden(&self) -> impl Iterator<Item = &Parameter> {
        let has_sorts = !self.sorts.is_empty();
        let kept = self.kept.iter();
        kept.filter(move |(name, _)| *name != "sort" || !has_sorts)
    }
}

/// How far a search came from the beginning of its list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchProgress {
    /// Rows that were looked at.
    pub n_tested: u64,
    /// Those of them that fit.
    pub n_found: u64,
}

impl SearchProgress {
    /// Both, as the end of the address of the page that the search goes on with.
    #[must_use]
    pub fn more(self) -> String {
        format!("&looked={}&found={}", self.n_tested, self.n_found)
    }
}

/// A search that did not come to its end.
#[derive(Clone, Debug, Default)]
pub struct StoppedSearch {
    /// Rows that were looked at for this page.
    pub n_tested: u64,
    /// Those of them that fit.
    pub n_found: u64,
    /// The page behind the last of them; none where there is a next one anyway.
    pub on: Option<String>,
}

impl StoppedSearch {
    /// Nothing was found yet: a script searches the next part.
    pub(crate) fn goes_on(&self) -> bool {
        self.n_found == 0 && self.on.is_some()
    }

    /// `row`: what one that was looked at is called.
    pub(crate) fn said(&self, row: &str) -> String {
        let (tested, found) = (plural(self.n_tested, row), count(self.n_found));
        format!("{tested} searched, {found} found")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_filters_is_called_as_in_lists_or_in_words() {
        let titles = ["totalCost", "defaultCount", "scores_avg", "timestamp"].map(title);
        assert_eq!(titles, ["Cost", "Default count", "Scores avg", "Timestamp"]);
        assert_eq!(
            ["metadata", "latency"].map(crate::urls::term_prefix),
            ["metadata.", "latency:"]
        );
    }
}
