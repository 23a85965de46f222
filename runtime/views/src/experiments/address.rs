//! The URL parameters of a comparison of runs.

use perpend_experiments::ItemSelection;

use crate::Text;
use crate::markup::{encode, segment};

/// The value that outputs are compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputDiff {
    /// The output of the baseline.
    #[default]
    Base,
    /// The expected output.
    Expected,
    /// Outputs are shown without differences.
    Off,
}

impl OutputDiff {
    /// All choices with the value of their parameter and their label.
    pub const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Base, "", "Diff to the baseline"),
        (Self::Expected, "expected", "Diff to the expected output"),
        (Self::Off, "off", "Outputs only"),
    ];

    /// The choice of a parameter.
    #[must_use]
    pub fn parse(raw: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, value, _)| *value == raw).map(|(choice, ..)| *choice)
    }

    fn value(self) -> &'static str {
        let own = Self::ALL.iter().find(|(choice, ..)| *choice == self);
        own.map_or("", |(_, value, _)| value)
    }
}

/// The URL parameters of a comparison of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunsQuery {
    /// Ids of the runs, in the order of the columns.
    pub runs: Vec<String>,
    /// Id of the baseline; the first run if absent.
    pub base: Option<String>,
    /// The selected items.
    pub show: ItemSelection,
    /// The score that sorts and selects items; all scores if absent.
    pub score: Option<String>,
    /// The value that outputs are compared with.
    pub diff: OutputDiff,
    /// The metadata key of the segments.
    pub segment: Option<String>,
    /// The adjustment of p-values, as the API names it; the default if absent.
    pub correction: Option<String>,
    /// The reduction of repetitions, as the API names it; the mean if absent.
    pub reducer: Option<String>,
    /// Index of the first shown item.
    pub at: usize,
}

impl RunsQuery {
    /// Run ids of the parameter `runs`: each is percent-encoded and separated by a comma from the next.
    #[must_use]
    pub fn parse_runs(raw: &str) -> Vec<String> {
        let ids = raw
            .split(',')
            .filter(|id| !id.is_empty())
            .map(|id| percent_encoding::percent_decode_str(id).decode_utf8_lossy().into_owned());
        ids.collect()
    }

    /// The baseline: `base`, or the first run.
    #[must_use]
    pub fn baseline(&self) -> Option<&str> {
        self.base.as_deref().or(self.runs.first().map(String::as_str))
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let runs: Vec<String> = self.runs.iter().map(|id| encode_id(id)).collect();
        let mut all = vec![("runs", runs.join(","))];
        let is_first = self.base.as_deref() == self.runs.first().map(String::as_str);
        all.extend(self.base.iter().filter(|_| !is_first).map(|id| ("base", id.clone())));
        let choices = [("show", self.show.name()), ("diff", self.diff.value())];
        let choices = choices.into_iter().filter(|(_, value)| !value.is_empty());
        all.extend(choices.map(|(name, value)| (name, value.to_owned())));
        all.extend(self.score.iter().map(|score| ("score", score.clone())));
        all.extend(self.segment.iter().map(|key| ("segment", key.clone())));
        all.extend(self.correction.iter().map(|name| ("correction", name.clone())));
        all.extend(self.reducer.iter().map(|name| ("reducer", name.clone())));
        all.extend((0 < self.at).then(|| ("at", self.at.to_string())));
        all
    }

    fn query(&self) -> String {
        let pairs = self.parameters().into_iter();
        // A comma between ids is valid in a query and stays readable.
        let pairs = pairs.map(|(name, value)| match name {
            "runs" => format!("runs={}", value.replace('%', "%25")),
            _ => format!("{name}={}", encode(&value)),
        });
        pairs.collect::<Vec<_>>().join("&")
    }

    /// URL of the comparison in the project at `base`.
    #[must_use]
    pub fn address(&self, base: &str) -> String {
        format!("{base}/experiments/compare?{}", self.query())
    }

    /// URL of an item of the comparison.
    #[must_use]
    pub fn item_address(&self, base: &str, item: &str) -> String {
        let query = self.with(|query| query.at = 0).query();
        format!("{base}/experiments/compare/items/{}?{query}", segment(item))
    }

    /// A changed copy.
    #[must_use]
    pub fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut changed = self.clone();
        change(&mut changed);
        changed
    }

    /// Fields of a form that changes other parameters: without those named, and from the first item on.
    #[must_use]
    pub fn fields_without(&self, names: &[&str]) -> Vec<(&'static str, String)> {
        let mut fields = self.parameters();
        fields.retain(|(name, _)| *name != "at" && !names.contains(name));
        fields
    }

    /// Links to the choices of differences: label, URL and whether it is the current one.
    pub fn diff_links(&self, href: impl Fn(&Self) -> String) -> Vec<(&'static str, String, bool)> {
        let links = OutputDiff::ALL.iter().map(|(choice, _, label)| {
            (*label, href(&self.with(|query| query.diff = *choice)), *choice == self.diff)
        });
        links.collect()
    }
}

/// An id as an element of a list with commas.
fn encode_id(id: &str) -> String {
    encode(id)
}

/// A run of a comparison.
#[derive(Clone, Debug)]
pub struct ComparedRun {
    /// Name.
    pub name: Text,
    /// Id.
    pub id: Text,
    /// URL of its page.
    pub href: String,
    /// Whether it is the baseline.
    pub is_base: bool,
    /// URL of the comparison with this run as the baseline.
    pub base_href: String,
    /// URL of the comparison without this run; absent if only two are compared.
    pub without_href: Option<String>,
    /// `18 of 20 items, 1 failed`.
    pub items: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_with_commas_and_percent_signs_survive_the_url() {
        let query = RunsQuery {
            runs: vec!["a,b".to_owned(), "50%".to_owned()],
            base: Some("50%".to_owned()),
            show: ItemSelection::Regressed,
            diff: OutputDiff::Expected,
            at: 25,
            ..RunsQuery::default()
        };
        let address = query.address("/p");
        let expected = "/p/experiments/compare?runs=a%252Cb,50%2525&base=50%25&show=regressed&diff=expected&at=25";
        assert_eq!(address, expected);
        assert_eq!(RunsQuery::parse_runs("a%2Cb,50%25"), query.runs);
        assert_eq!(query.baseline(), Some("50%"));
        let item = query.item_address("/p", "i/1");
        assert!(
            item.starts_with("/p/experiments/compare/items/i%2F1?runs=") && !item.contains("at=")
        );
    }

    #[test]
    fn each_choice_is_parsed_from_its_parameter() {
        for (choice, value, _) in OutputDiff::ALL {
            assert_eq!(OutputDiff::parse(value), Some(choice));
        }
        assert_eq!(OutputDiff::parse("odd"), None);
    }
}
