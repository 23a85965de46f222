//! The field that takes the filter of a list as text, with what was read in it.

use perpend_addresses::{Filtered, Focus};
use perpend_found::Counted;
use perpend_markup::with_query;
use perpend_words::{count, many};

use crate::{Html, Text};

/// The filter of a list as it was asked for.
#[derive(Clone, Debug)]
pub struct FilterView {
    /// The list.
    pub of: &'static Filtered,
    /// The address of the project.
    pub base: String,
    /// As text.
    pub q: String,
    /// What it was read as, term by term.
    pub terms: Vec<TermChip>,
    /// What the address of the list says besides, but for the place in it.
    pub kept: Vec<(&'static str, String)>,
    /// Orders to choose from with their labels, and whether they are this list's. The parameter is `sort`.
    pub sorts: Vec<(String, Text, bool)>,
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
    pub alone: Option<Counted>,
}

/// How many traces a condition alone leaves; none where that was not counted.
pub(crate) fn leaves(alone: Option<Counted>) -> Option<String> {
    let Counted { n, is_more } = alone?;
    Some(match (n, is_more) {
        (0, false) => "no trace".to_owned(),
        (0, true) => "none of the newest traces".to_owned(),
        (_, true) => format!("{}+ traces", count(n)),
        (_, false) => many(n, "trace"),
    })
}

impl TermChip {
    pub(crate) fn leaves(&self) -> Option<String> {
        leaves(self.alone)
    }
}

impl FilterView {
    /// The address of the list with another filter.
    pub(crate) fn with(&self, q: &str) -> String {
        self.less(q, &[])
    }

    /// The same without these of the other parameters.
    fn less(&self, q: &str, dropped: &[&str]) -> String {
        let own = (!q.is_empty()).then(|| ("q", q.to_owned()));
        let kept = self.kept.iter().filter(|(name, _)| !dropped.contains(name));
        let pairs: Vec<_> = own.into_iter().chain(kept.cloned()).collect();
        with_query(&format!("{}/{}", self.base, self.of.list), &pairs)
    }

    /// The time and the environments where they narrow the list: each in words, and the list without it.
    pub(crate) fn around(&self, focus: &Focus) -> [Option<(&'static str, Text, String)>; 2] {
        let (time, all) = (focus.without_environments(), &focus.environments);
        let part = |name, said: String, dropped: &[&str]| {
            (name, Text::from(said), self.less(&self.q, dropped))
        };
        let has_time = focus.has_time();
        [
            has_time.then(|| part("Time", time.said(""), &["from", "to"])),
            (!all.is_empty()).then(|| part("Environments", all.join(", "), &["env"])),
        ]
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
            true => "The rest of the filter holds.",
            false => "It is left out.",
        };
        Some(Html::naming(&format!("{}{stop} {rest}", problem.raw())))
    }

    /// What the form says besides its own fields.
    pub(crate) fn hidden(&self) -> impl Iterator<Item = &(&'static str, String)> {
        let has_sorts = !self.sorts.is_empty();
        let kept = self.kept.iter();
        kept.filter(move |(name, _)| *name != "sort" || !has_sorts)
    }
}

/// A search that did not come to its end.
#[derive(Clone, Debug, Default)]
pub struct Stopped {
    /// Rows that were looked at for this page.
    pub n_tested: u64,
    /// Those of them that fit.
    pub n_found: u64,
    /// The page behind the last of them; none where there is a next one anyway.
    pub on: Option<String>,
}

impl Stopped {
    /// Nothing was found yet: a script searches the next part.
    pub(crate) fn goes_on(&self) -> bool {
        self.n_found == 0 && self.on.is_some()
    }

    /// `row`: what one that was looked at is called.
    pub(crate) fn said(&self, row: &str) -> String {
        let (tested, found) = (many(self.n_tested, row), count(self.n_found));
        format!("{tested} looked at, {found} found")
    }
}
