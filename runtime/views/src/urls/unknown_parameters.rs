//! What an address says that no page reads: links that lead to the same page keep it.

use std::borrow::Cow;

use crate::markup::is_hidden;

/// A parameter of an address: its name and its value.
pub type Parameter = (Cow<'static, str>, String);

/// Unknown parameters that are kept.
const MAX: usize = 10;
/// Bytes of their names and values together.
const MAX_BYTES: usize = 500;

/// The parameters that some page, or a part of one, reads; those of values begin with `as.` too.
const KNOWN: &[&str] = &[
    "a",
    "after",
    "anchor",
    "as",
    "at",
    "b",
    "back",
    "bars",
    "before",
    "below",
    "cols",
    "count",
    "depth",
    "diff",
    "download",
    "end",
    "env",
    "equal",
    "facets",
    "find",
    "fingerprint",
    "fold",
    "fold-run",
    "found",
    "from",
    "go",
    "group",
    "id",
    "in",
    "kinds",
    "live",
    "looked",
    "min",
    "more",
    "n",
    "name",
    "next",
    "observation",
    "of",
    "open",
    "open-run",
    "own",
    "page",
    "pair",
    "part",
    "path",
    "peek",
    "q",
    "received",
    "revision",
    "rules",
    "saved",
    "since",
    "sort",
    "space",
    "superseded",
    "t0",
    "t1",
    "to",
    "toggle",
    "toggle-run",
    "token",
    "trace",
    "trends",
    "turn",
    "v",
    "view",
    "what",
];

/// Whether some page reads a parameter of this name.
#[must_use]
pub fn is_known(name: &str) -> bool {
    KNOWN.contains(&name) || name.starts_with("as.")
}

/// Parameters that no page reads, as far as they are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownParameters {
    kept: Vec<(String, String)>,
}

impl UnknownParameters {
    /// Those among the parameters of an address.
    #[must_use]
    pub fn of(all: impl Iterator<Item = (impl AsRef<str>, impl AsRef<str>)>) -> Self {
        let mut others = Self::default();
        for (name, value) in all {
            others.take(name.as_ref(), value.as_ref());
        }
        others
    }

    /// Keeps a parameter that no page reads. One with invisible characters is left out: pages do not send them, so a form could not repeat it.
    pub fn take(&mut self, name: &str, value: &str) {
        let is_odd = |c: char| c.is_control() || is_hidden(c);
        let is_kept = !name.is_empty() && !is_known(name) && !name.chars().any(is_odd);
        let kept = self.kept.iter();
        let n_bytes: usize = kept.map(|(name, value)| name.len() + value.len()).sum();
        let has_room = self.kept.len() < MAX && n_bytes + name.len() + value.len() <= MAX_BYTES;
        if is_kept && has_room && !value.chars().any(is_odd) {
            self.kept.push((name.to_owned(), value.to_owned()));
        }
    }

    /// As addresses and forms say them.
    pub fn parameters(&self) -> impl Iterator<Item = Parameter> + '_ {
        let kept = self.kept.iter();
        kept.map(|(name, value)| (Cow::Owned(name.clone()), value.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(others: &UnknownParameters) -> Vec<String> {
        let all = others.parameters();
        all.map(|(name, _)| name.into_owned()).collect()
    }

    #[test]
    fn what_no_page_reads_is_kept_as_far_as_it_is_short_and_can_be_seen() {
        let said = [
            ("ref", "mail"),
            ("q", "a"),
            ("as.input", "tree"),
            ("", "x"),
            ("odd\u{202e}", "x"),
            ("odd", "\u{0}"),
            ("utm source", "a&b"),
        ];
        let others = UnknownParameters::of(said.into_iter());
        assert_eq!(names(&others), ["ref", "utm source"]);
        let many = (0..30).map(|n| (format!("x{n}"), "v"));
        assert_eq!(names(&UnknownParameters::of(many)).len(), MAX);
        let long = "v".repeat(MAX_BYTES);
        let others = UnknownParameters::of([("long", long.as_str()), ("ref", "mail")].into_iter());
        assert_eq!(names(&others), ["ref"]);
    }
}
