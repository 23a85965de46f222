//! Values as they are written, and the operators that each kind of column takes.

use crate::filter::ColumnKind::{
    self, Bool, BoolMembers, CategoryMembers, FullText, List, Members, NullOnly, Number,
    NumberMembers, Options, QueryMembers, Text, Time,
};
use crate::time::Timestamp;

/// Alias of the score columns; the value selects the column.
pub const SCORE: &str = "score";

/// The syntax after the colon for a column of this kind: operators as they are written, words, and `any(`
/// and `all(` for lists. A value alone fits too, except where nothing but `null` and `set` does. Where columns have members, they follow a
/// key; of `metadata` as a whole, only `null` and `set` can be tested.
#[must_use]
pub const fn operators(kind: ColumnKind) -> &'static [&'static str] {
    match kind {
        Text | Options => &["=", "~", "^", "$", "null", "set"],
        FullText => &["=", "~", "^", "$", "*", "null", "set"],
        List => &["any(", "all(", "null", "set"],
        Time | Number => &["=", "!=", ">", ">=", "<", "<=", "..", "null", "set"],
        Bool => &["=", "true", "false", "null", "set"],
        Members => &["=", "~", "^", "$", "null", "set"],
        QueryMembers => {
            &["=", "~", "^", "$", "any(", "==", "!=", ">", ">=", "<", "<=", "..", "null", "set"]
        }
        NumberMembers => &["=", "!=", ">", ">=", "<", "<=", ".."],
        BoolMembers => &["=", "true", "false"],
        CategoryMembers => &["=", "any("],
        NullOnly => &["null", "set"],
    }
}

/// The same for a score by name, whichever column of scores the value fits.
pub const SCORE_OPERATORS: &[&str] =
    &["<", "<=", ">", ">=", "=", "!=", "..", "any(", "true", "false", "null", "set"];

/// A number as people write it: no `inf`, no `NaN`.
pub(super) fn number(text: &str) -> Option<f64> {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
    let read = text.parse().ok().filter(|number: &f64| number.is_finite());
    read.filter(|_| text.chars().all(is_part))
}

/// Both ends of `a..b`, where both are numbers.
pub(super) fn is_number_range(text: &str) -> bool {
    text.split_once("..").is_some_and(|(from, to)| number(from).is_some() && number(to).is_some())
}

pub(super) fn truth(text: &str) -> Option<bool> {
    match text {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// An instant, or a day and a time of day in UTC: `2026-03-01T10:00:00Z`, `2026-03-01 10:00`. A day alone begins at
/// midnight.
#[must_use]
pub fn time(text: &str) -> Option<Timestamp> {
    let written = text.trim().replacen(' ', "T", 1);
    let forms = [
        text.to_owned(),
        format!("{written}Z"),
        format!("{written}:00Z"),
        format!("{written}T00:00:00Z"),
    ];
    forms.iter().find_map(|form| Timestamp::parse(form).ok())
}
