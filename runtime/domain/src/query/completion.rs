//! The incomplete part at the end of a query, for completions of an input field.

use std::ops::Range;

use crate::filter::Column;

use super::resolve;
use super::syntax::OPS;
use super::values::SCORE;

/// The range that a completion replaces, and its context.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryCompletion {
    /// Byte range in the text.
    pub at: Range<usize>,
    /// Start of its term.
    pub term: usize,
    /// The text typed so far, without quotes.
    pub start: String,
    /// The part of the term.
    pub part: CompletionPart,
}

/// A part of a term.
#[derive(Clone, Debug, PartialEq)]
pub enum CompletionPart {
    /// The name of a column, or a word to search for.
    Column,
    /// The key of a member, after `score.` or `metadata.`.
    Key(String),
    /// A value of a column, or of the member with this key. `is_first`: an operator is allowed here.
    Value {
        /// The name as it is written.
        column: String,
        /// Of columns with members.
        key: Option<String>,
        /// It directly follows the colon.
        is_first: bool,
    },
}

/// Start of the last term: white space within quotes and parentheses is part of a term.
fn last_term(text: &str) -> usize {
    let (mut start, mut is_quoted, mut is_escaped, mut depth) = (0, false, false, 0_u32);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            c if c.is_whitespace() && depth == 0 => start = at + c.len_utf8(),
            _ => {}
        }
    }
    start
}

/// The first position of a sign outside of quotes.
fn outside_quotes(text: &str, sign: char) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            c if c == sign && !is_quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// The text of a value that may be incomplete.
fn unquoted(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"') else {
        return text.to_owned();
    };
    let whole = match inner.ends_with('"') && !inner.ends_with("\\\"") {
        true => text.to_owned(),
        false => format!("{text}\""),
    };
    serde_json::from_str(&whole).unwrap_or_else(|_| inner.to_owned())
}

/// The incomplete part at the end of a text.
#[must_use]
pub fn completion_at_end(text: &str, columns: &'static [Column]) -> QueryCompletion {
    let of_term = last_term(text);
    let mut start = of_term;
    start += usize::from(text[start..].starts_with('-'));
    let term = &text[start..];
    let found = |from: usize, part| QueryCompletion {
        at: from..text.len(),
        term: of_term,
        start: unquoted(&text[from..]),
        part,
    };
    let Some(colon) = outside_quotes(term, ':') else {
        let has_members = |name: &str| {
            let column = resolve::column(columns, name);
            name == SCORE || column.is_some_and(|column| column.kind.has_members())
        };
        return match outside_quotes(term, '.') {
            Some(dot) if has_members(&term[..dot]) => {
                found(start + dot + 1, CompletionPart::Key(term[..dot].to_owned()))
            }
            _ => found(start, CompletionPart::Column),
        };
    };
    let (name, test) = (&term[..colon], &term[colon + 1..]);
    let (column, key) = match resolve::column(columns, &unquoted(name)) {
        Some(_) => (unquoted(name), None),
        None => match outside_quotes(name, '.') {
            Some(dot) => (unquoted(&name[..dot]), Some(unquoted(&name[dot + 1..]))),
            None => (unquoted(name), None),
        },
    };
    let mut from = start + colon + 1;
    let mut is_first = true;
    let sign = OPS.iter().find(|(sign, _)| test.starts_with(sign));
    let before = match sign {
        Some((sign, _)) => sign.len(),
        None => {
            ["any(", "all("].iter().find(|set| test.starts_with(**set)).map_or(0, |set| set.len())
        }
    };
    if 0 < before {
        from += before;
        is_first = false;
    }
    // Values of a list follow commas.
    while let Some(comma) = outside_quotes(&text[from..], ',') {
        from += comma + 1;
        let spaces = text[from..].len() - text[from..].trim_start().len();
        from += spaces;
        is_first = false;
    }
    found(from, CompletionPart::Value { column, key, is_first })
}

#[cfg(test)]
mod tests {
    use crate::filter::TRACES;
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> (Range<usize>, String, CompletionPart) {
        let QueryCompletion { at, start, part, .. } = completion_at_end(text, TRACES);
        (at, start, part)
    }

    fn value(column: &str, key: Option<&str>, is_first: bool) -> CompletionPart {
        CompletionPart::Value { column: column.to_owned(), key: key.map(str::to_owned), is_first }
    }

    #[test]
    fn the_end_of_a_text_is_a_column_a_key_or_a_value() {
        let key = |name: &str| CompletionPart::Key(name.to_owned());
        for (text, at, start, part) in [
            ("", 0, "", CompletionPart::Column),
            ("level:ERROR la", 12, "la", CompletionPart::Column),
            ("-na", 1, "na", CompletionPart::Column),
            ("a b ", 4, "", CompletionPart::Column),
            ("score.qua", 6, "qua", key("score")),
            ("metadata.", 9, "", key("metadata")),
            ("level:", 6, "", value("level", None, true)),
            ("level:ER", 6, "ER", value("level", None, true)),
            ("level:ERROR,WA", 12, "WA", value("level", None, false)),
            ("name:~heal", 6, "heal", value("name", None, false)),
            ("tags:all(vip, be", 14, "be", value("tags", None, false)),
            ("score.tone.deep:<", 17, "", value("score", Some("tone.deep"), false)),
            ("score.\"is long\":tr", 16, "tr", value("score", Some("is long"), true)),
            ("name:\"two wo", 5, "two wo", value("name", None, true)),
            ("\"a: b", 0, "a: b", CompletionPart::Column),
        ] {
            let wanted = (at..text.len(), start.to_owned(), part);
            assert_eq!(of(text), wanted, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_ends_in_a_part_of_it(text in "\\PC{0,40}|[-a-z.:,\"\\\\() =<>~üß]{0,40}") {
            let QueryCompletion { at, term, .. } = completion_at_end(&text, TRACES);
            prop_assert_eq!(at.end, text.len());
            prop_assert!(text.is_char_boundary(at.start));
            prop_assert!(text.is_char_boundary(term) && term <= at.start);
        }
    }
}
