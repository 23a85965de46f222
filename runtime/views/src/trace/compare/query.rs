//! What is compared and how, as an address says it.

use crate::markup::encode;

use crate::values::diff::DiffChoice;

/// A step of one of two compared traces; of a step that both have, that of the first trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComparedObservation {
    /// The id of a step of the first trace.
    A(String),
    /// The id of a step of the second one.
    B(String),
}

impl ComparedObservation {
    /// As an address has it.
    #[must_use]
    pub fn parse(raw: &str) -> Option<Self> {
        match raw.split_once('.')? {
            ("a", id) => Some(Self::A(id.to_owned())),
            ("b", id) => Some(Self::B(id.to_owned())),
            _ => None,
        }
    }

    fn in_address(&self) -> String {
        match self {
            Self::A(id) => format!("a.{id}"),
            Self::B(id) => format!("b.{id}"),
        }
    }
}

/// What is compared, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompareQuery {
    /// The id of the first trace, as it was given.
    pub a: String,
    /// That of the second one.
    pub b: String,
    /// The step whose contents are compared; those of the traces themselves when absent.
    pub pair: Option<ComparedObservation>,
    /// How differences of values are shown.
    pub diff: DiffChoice,
    /// Equal rows are shown too.
    pub shows_equal: bool,
    /// The first row that is shown.
    pub at: usize,
    /// The list that the traces were chosen from, below the address of the project.
    pub list: Option<String>,
}

impl CompareQuery {
    /// Names and values of the parameters, in their usual order.
    pub(crate) fn parameters(&self) -> Vec<(&'static str, String)> {
        let choice =
            |is_chosen: bool, name, value: &str| is_chosen.then(|| (name, value.to_owned()));
        let mut all = vec![("a", self.a.clone()), ("b", self.b.clone())];
        all.extend(self.pair.as_ref().map(|pair| ("pair", pair.in_address())));
        all.extend(choice(self.diff.is_inline, "diff", "inline"));
        all.extend(choice(self.diff.ignores_space, "space", "ignore"));
        all.extend(choice(self.shows_equal, "equal", "show"));
        all.extend((0 < self.at).then(|| ("at", self.at.to_string())));
        all.extend(self.list.iter().map(|list| ("in", list.clone())));
        all
    }

    /// The address of the comparison, in the project at `base`.
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
    fn the_address_says_what_is_compared_and_how() {
        let query = CompareQuery {
            a: "x".to_owned(),
            b: "a&b".to_owned(),
            pair: ComparedObservation::parse("b.s.1"),
            diff: DiffChoice { is_inline: true, ignores_space: true },
            shows_equal: true,
            at: 200,
            list: Some("/traces?q=x".to_owned()),
        };
        let wanted = "/p/traces/compare?a=x&b=a%26b&pair=b.s.1&diff=inline&space=ignore&equal=show\
            &at=200&in=%2Ftraces%3Fq%3Dx";
        assert_eq!(query.address("/p"), wanted);
        assert_eq!(
            (ComparedObservation::parse("c.x"), ComparedObservation::parse("a")),
            (None, None)
        );
    }
}
