//! Query parameters that no page uses. Links to the same page preserve them.

use std::borrow::Cow;

use crate::markup::is_hidden;

/// Name and value of a query parameter.
pub type Parameter = (Cow<'static, str>, String);

/// Maximum number of preserved parameters.
const MAX: usize = 10;
/// Maximum total length in bytes of their names and values.
const MAX_BYTES: usize = 500;

/// The query parameters of all pages and fragments, except those with the prefix `as.`.
const KNOWN: &[&str] = &[
    "a",
    "a-source",
    "after",
    "against",
    "against-source",
    "anchor",
    "as",
    "asof",
    "at",
    "b",
    "b-source",
    "back",
    "bars",
    "base",
    "baseline",
    "before",
    "below",
    "check",
    "choice",
    "class",
    "cols",
    "column",
    "compare",
    "copy",
    "correction",
    "count",
    "dataset",
    "depth",
    "diff",
    "download",
    "end",
    "env",
    "equal",
    "evaluator",
    "expected",
    "explain",
    "facets",
    "find",
    "fingerprint",
    "fold",
    "fold-run",
    "folder",
    "format",
    "found",
    "from",
    "function",
    "go",
    "group",
    "hours",
    "id",
    "in",
    "input",
    "key",
    "kinds",
    "language",
    "live",
    "looked",
    "metadata",
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
    "plugin",
    "positive",
    "preset",
    "q",
    "received",
    "reducer",
    "revision",
    "row",
    "rule",
    "rules",
    "run",
    "runs",
    "saved",
    "score",
    "segment",
    "show",
    "since",
    "sort",
    "source",
    "space",
    "state",
    "status",
    "superseded",
    "t0",
    "t1",
    "tab",
    "target",
    "threshold",
    "to",
    "toggle",
    "toggle-run",
    "token",
    "trace",
    "trends",
    "turn",
    "v",
    "value",
    "version",
    "view",
    "what",
];

/// Whether a page uses a parameter with this name.
#[must_use]
pub fn is_known(name: &str) -> bool {
    KNOWN.contains(&name) || name.starts_with("as.")
}

/// Query parameters that no page uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownParameters {
    kept: Vec<(String, String)>,
}

impl UnknownParameters {
    /// Collects the unknown parameters of a query.
    #[must_use]
    pub fn of(all: impl Iterator<Item = (impl AsRef<str>, impl AsRef<str>)>) -> Self {
        let mut others = Self::default();
        for (name, value) in all {
            others.take(name.as_ref(), value.as_ref());
        }
        others
    }

    /// Adds a parameter if no page uses it and the limits allow it. Parameters with invisible characters are dropped, because
    /// browsers would not submit them unchanged in a form.
    pub fn take(&mut self, name: &str, value: &str) {
        let is_invisible = |c: char| c.is_control() || is_hidden(c);
        let is_kept = !name.is_empty() && !is_known(name) && !name.chars().any(is_invisible);
        let kept = self.kept.iter();
        let n_bytes: usize = kept.map(|(name, value)| name.len() + value.len()).sum();
        let fits = self.kept.len() < MAX && n_bytes + name.len() + value.len() <= MAX_BYTES;
        if is_kept && fits && !value.chars().any(is_invisible) {
            self.kept.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Names and values for URLs and forms.
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
    fn unknown_parameters_are_kept_if_short_and_visible() {
        let parameters = [
            ("ref", "mail"),
            ("q", "a"),
            ("as.input", "tree"),
            ("", "x"),
            ("odd\u{202e}", "x"),
            ("odd", "\u{0}"),
            ("utm source", "a&b"),
        ];
        let others = UnknownParameters::of(parameters.into_iter());
        assert_eq!(names(&others), ["ref", "utm source"]);
        let many = (0..30).map(|n| (format!("x{n}"), "v"));
        assert_eq!(names(&UnknownParameters::of(many)).len(), MAX);
        let long = "v".repeat(MAX_BYTES);
        let others = UnknownParameters::of([("long", long.as_str()), ("ref", "mail")].into_iter());
        assert_eq!(names(&others), ["ref"]);
    }
}
