//! The filter language as text, for one input field: `level:ERROR latency:>2 "refund policy"`.
//!
//! ```text
//! query  = [term *(SP term)]
//! term   = ["-"] column ["." key] ":" test | word
//! column = bare without dot and colon | JSON string
//! key    = bare without colon | JSON string     may hold dots: score.tone.politeness
//! test   = value *("," value)                   any of ("-": none of); one value: = where no list fits
//!        | "=" value | "~" value                exactly | contains ("-": does not contain)
//!        | "^" value | "$" value                starts with | ends with
//!        | "*" value                            matches: literal text in any case
//!        | ("==" | "!=" | ">" | ">=" | "<" | "<=") value     numbers and times
//!        | value ".." value                     numbers and times: two conditions
//!        | ("all" | "any") "(" [value *("," value)] ")"
//!        | "null" | "set"                       nothing | something there ("-" turns it round)
//! value  = bare | JSON string
//! word   = value                                the column `text`, matched in any case; no "-"
//! ```
//!
//! A bare value has no white space, control character, comma, quote or parenthesis, begins with no
//! operator, and is neither `null` nor `set`. Where the text alone leaves a choice:
//!
//! - `name:a` is `any of ["a"]`, `name:=a` is `= "a"`. On a list column `tags:a,b` is the type
//!   `stringOptions`; `any(a,b)` and `all(a,b)` are `arrayOptions`, and `-tags:any(a,b)` is `none of`.
//! - `metadata.key:a` is `= "a"`, also where `a` is a number; `==5` compares numbers. Where members take
//!   categories, `any(a)`, `a,b` and `-metadata.key:a` test those.
//! - `score.NAME` is `scores_avg` with a number, `score_booleans` with `true` or `false`, and otherwise
//!   `score_categories`; a quoted value, a list and `any(..)` are always categories. `score.NAME:set` is
//!   `score_names` with `any of` that name, whatever its values are, and `null` is `none of`.
//! - `-` before a number or a time is `!=`, before a truth value `<>`.
//! - `a..b` is `>= a` and `<= b` for numbers. For times it is `>= a` and `< b`, as `fromTimestamp` and
//!   `toTimestamp` are. A date without time of day begins at midnight UTC; `"2026-03-01 10:00"` is in UTC too.
//! - White space may stand after the commas within parentheses.
//!
//! [`parse`] keeps the terms it can read and names the fault of each other one. [`print()`] is its inverse
//! for every filter that [`Filter::parse`] accepts. Four things have no text, so that it leaves them out:
//! [`Test::Never`](crate::filter::Test::Never), [`Test::Position`](crate::filter::Test::Position), a condition whose
//! column no longer exists, and a stored test that no longer fits its column.

mod completion;
mod fault;
mod nearest;
mod print;
mod reader;
mod resolve;
mod syntax;
#[cfg(test)]
mod tests;
mod values;

use std::ops::Range;

use crate::filter::{Column, Condition, Filter};

pub use completion::{CompletionPart, QueryCompletion, completion_at_end};
pub use fault::QueryFault;
pub use print::{print, print_condition, printed, word};
pub use resolve::column;
pub use values::{SCORE, SCORE_OPERATORS, operators, time};

/// The longest text that is read, in bytes.
pub const MAX_BYTES: usize = 8 << 10;

/// A text, read term by term.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// The conditions of all terms without a fault, in order.
    pub filter: Filter,
    /// Every term, in order.
    pub terms: Vec<Term>,
}

/// The most terms that are read: each is a condition that every row is tested by.
pub const MAX_TERMS: usize = 50;

/// One part of the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// Its byte range in the text.
    pub at: Range<usize>,
    /// The text there; empty where the whole text is too long to be read.
    pub text: String,
    /// Its conditions (two for `a..b`), or what is wrong with it.
    pub outcome: Result<Vec<Condition>, QueryFault>,
}

impl Parsed {
    /// The faults of all terms, in order.
    pub fn faults(&self) -> impl Iterator<Item = &QueryFault> {
        self.terms.iter().filter_map(|term| term.outcome.as_ref().err())
    }
}

/// Reads a filter over these columns. Any text gives a result; a text longer than [`MAX_BYTES`] is one
/// term with a fault.
#[must_use]
pub fn parse(text: &str, columns: &'static [Column]) -> Parsed {
    if text.len() > MAX_BYTES {
        let at = 0..text.len();
        let message = format!("a filter has at most {MAX_BYTES} bytes");
        return Parsed {
            filter: Filter::default(),
            terms: vec![Term {
                outcome: Err(QueryFault::new(&at, message)),
                text: String::new(),
                at,
            }],
        };
    }
    let mut parsed = Parsed::default();
    for (place, (at, raw)) in syntax::terms(text).enumerate() {
        if place == MAX_TERMS {
            let at = at.start..text.len();
            let message = format!(
                "a filter has at most {MAX_TERMS} terms; this one and those behind it are left out"
            );
            parsed.terms.push(Term {
                text: text.get(at.clone()).unwrap_or_default().to_owned(),
                outcome: Err(QueryFault::new(&at, message)),
                at,
            });
            break;
        }
        let outcome = raw.and_then(|raw| resolve::conditions(raw, columns));
        if let Ok(conditions) = &outcome {
            let conditions = conditions.iter().cloned();
            parsed.filter.conditions.extend(conditions);
        }
        parsed.terms.push(Term {
            text: text.get(at.clone()).unwrap_or_default().to_owned(),
            at,
            outcome,
        });
    }
    parsed
}
