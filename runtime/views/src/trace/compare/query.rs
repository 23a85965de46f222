//! The URL parameters of the comparison.

use crate::markup::encode;

use crate::values::diff::DiffChoice;

/// The selected row: an observation of one of the traces. For a row of both traces, the observation of the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComparedObservation {
    /// Id of an observation of the first trace.
    A(String),
    /// Id of an observation of the second trace.
    B(String),
}

impl ComparedObservation {
    /// Parses `a.ID` or `b.ID`.
    #[must_use]
    pub fn parse(raw: &str) -> Option<Self> {
        match raw.split_once('.')? {
            ("a", id) => Some(Self::A(id.to_owned())),
            ("b", id) => Some(Self::B(id.to_owned())),
            _ => None,
        }
    }

    fn to_parameter(&self) -> String {
        match self {
            Self::A(id) => format!("a.{id}"),
            Self::B(id) => format!("b.{id}"),
        }
    }
}

/// The URL parameters of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompareQuery {
    /// Id of the first trace, not validated.
    pub a: String,
    /// Id of the second trace, not validated.
    pub b: String,
    /// The row whose contents are compared; the traces if absent.
    pub pair: Option<ComparedObservation>,
    /// Display options of differences.
    pub diff: DiffChoice,
    /// Shows equal rows.
    pub shows_equal: bool,
    /// Index of the first shown line.
    pub at: usize,
    /// Path and query of the list that the traces were selected from, relative to the project.
    pub list: Option<String>,
}

impl CompareQuery {
    /// Names and values of the parameters, without defaults.
    pub(crate) fn parameters(&self) -> Vec<(&'static str, String)> {
        let choice =
            |is_chosen: bool, name, value: &str| is_chosen.then(|| (name, value.to_owned()));
        let mut all = vec![("a", self.a.clone()), ("b", self.b.clone())];
        all.extend(self.pair.as_ref().map(|pair| ("pair", pair.to_parameter())));
        all.extend(choice(self.diff.is_inline, "diff", "inline"));
        all.extend(choice(self.diff.ignores_space, "space", "ignore"));
        all.extend(choice(self.shows_equal, "equal", "show"));
        all.extend((0 < self.at).then(|| ("at", self.at.to_string())));
        all.extend(self.list.iter().map(|list| ("in", list.clone())));
        all
    }

    /// URL of the comparison in the project at `base`.
    #[must_use]
    pub fn address(&self, base: &str) -> String {
        let pairs = self.parameters().into_iter();
        let pairs: Vec<String> =
            pairs.map(|(name, value)| format!("{name}={}", encode(&value))).collect();
        format!("{base}/traces/compare?{}", pairs.join("&"))
    }

    pub(crate) fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut changed = self.clone();
        change(&mut changed);
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_contains_all_parameters() {
        let query = CompareQuery {
            a: "x".to_owned(),
            b: "a&b".to_owned(),
            pair: ComparedObservation::parse("b.s.1"),
            diff: DiffChoice { is_inline: true, ignores_space: true },
            shows_equal: true,
            at: 200,
            list: Some("/traces?q=x".to_owned()),
        };
        let expected = "/p/traces/compare?a=x&b=a%26b&pair=b.s.1&diff=inline&space=ignore&equal=show\
            &at=200&in=%2Ftraces%3Fq%3Dx";
        assert_eq!(query.address("/p"), expected);
        assert_eq!(
            (ComparedObservation::parse("c.x"), ComparedObservation::parse("a")),
            (None, None)
        );
    }
}
