//! JSONPath (RFC 9535), evaluated under a budget.
//!
//! Paths come from users, and so do the values that they are applied to: `$..*..*..*` over a few hundred bytes selects
//! millions of nodes. So a path is short and not nested deeply, and [`JsonPath::select`] ends when its budget is used up.
//!
//! One restriction in addition to the limits: the pattern of `match` and `search` is a literal, so that it is compiled once,
//! within a limit of size.

mod evaluate;
mod parse;

use regex::Regex;
use serde_json::Value;

pub use parse::{InvalidPath, MAX_PATH_BYTES};

/// A path. Made by [`JsonPath::parse`], applied by [`JsonPath::select`].
#[derive(Clone, Debug)]
pub struct JsonPath {
    text: String,
    query: Query,
}

impl JsonPath {
    /// The path as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// More steps than the budget of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more steps than the budget")]
pub struct OutOfSteps;

/// Steps that evaluations may take: about one for each node visited, compared or selected.
#[derive(Clone, Copy, Debug)]
pub struct Steps(usize);

impl Steps {
    /// A budget of `n_steps` steps.
    #[must_use]
    pub const fn new(n_steps: usize) -> Self {
        Self(n_steps)
    }

    const fn take(&mut self, n_steps: usize) -> Result<(), OutOfSteps> {
        match self.0.checked_sub(n_steps) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => {
                self.0 = 0;
                Err(OutOfSteps)
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Query {
    /// From the root of the document, else from the current node.
    is_absolute: bool,
    segments: Vec<Segment>,
}

impl Query {
    /// Whether it selects one node at most.
    fn is_singular(&self) -> bool {
        let is_single =
            |selector: &Selector| matches!(selector, Selector::Name(_) | Selector::Index(_));
        self.segments.iter().all(|segment| {
            !segment.is_descendant
                && segment.selectors.len() == 1
                && segment.selectors.iter().all(is_single)
        })
    }
}

#[derive(Clone, Debug)]
struct Segment {
    is_descendant: bool,
    selectors: Vec<Selector>,
}

#[derive(Clone, Debug)]
enum Selector {
    Name(String),
    Wildcard,
    Index(i64),
    Slice { start: Option<i64>, end: Option<i64>, step: i64 },
    Filter(Logical),
}

#[derive(Clone, Debug)]
enum Logical {
    Or(Vec<Self>),
    And(Vec<Self>),
    Not(Box<Self>),
    Exists(Query),
    Compare(Comparable, Comparison, Comparable),
    /// `match` and `search`.
    Matches {
        text: Comparable,
        /// `None` for an invalid pattern, which matches nothing.
        pattern: Option<Pattern>,
    },
}

#[derive(Clone, Debug)]
struct Pattern {
    regex: Regex,
    /// By the size of what is compiled.
    steps_per_byte: usize,
}

#[derive(Clone, Copy, Debug)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Something that has one value or none.
#[derive(Clone, Debug)]
enum Comparable {
    Literal(Value),
    /// A singular query.
    Node(Query),
    Length(Box<Self>),
    Count(Query),
    /// The only node of a query.
    ValueOf(Query),
}

#[cfg(test)]
mod tests;
