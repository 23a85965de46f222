//! From text to terms, without a look at columns.

use std::ops::Range;

use super::fault::QueryFault;
use crate::filter::Order;

/// A value, a key or the name of a column.
#[derive(Debug)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) is_quoted: bool,
    pub(super) at: Range<usize>,
}

impl Word {
    /// The bare word `null` or `set`.
    pub(super) fn is_keyword(&self) -> bool {
        !self.is_quoted && is_keyword(&self.text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Exactly,
    Contains,
    StartsWith,
    EndsWith,
    Matches,
    /// `==`, `!=` and the others of numbers and times.
    Order(Order),
}

/// Longer signs first.
pub(super) const OPS: [(&str, Op); 11] = [
    ("==", Op::Order(Order::Equal)),
    ("!=", Op::Order(Order::NotEqual)),
    (">=", Op::Order(Order::AtLeast)),
    ("<=", Op::Order(Order::AtMost)),
    (">", Op::Order(Order::Greater)),
    ("<", Op::Order(Order::Less)),
    ("=", Op::Exactly),
    ("~", Op::Contains),
    ("^", Op::StartsWith),
    ("$", Op::EndsWith),
    ("*", Op::Matches),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Set {
    Any,
    All,
}

const SETS: [(&str, Set); 2] = [("any(", Set::Any), ("all(", Set::All)];

#[derive(Debug)]
pub(super) enum RawTest {
    Op(Op, Word),
    /// At least one.
    Values(Vec<Word>),
    /// Spelled with quotes: whether a bare `a..b` is a range depends on the column.
    Range(Word, Word),
    Set(Set, Vec<Word>),
}

/// A term with a column.
#[derive(Debug)]
pub(super) struct NamedTerm {
    pub(super) is_negated: bool,
    pub(super) column: Word,
    pub(super) key: Option<Word>,
    pub(super) test: RawTest,
    /// Behind the colon.
    pub(super) test_at: Range<usize>,
}

#[derive(Debug)]
pub(super) enum Raw {
    Word(Word),
    Named(NamedTerm),
}

fn is_in_bare(c: char) -> bool {
    !c.is_whitespace() && !c.is_control() && !matches!(c, ',' | '"' | '(' | ')')
}

fn is_keyword(text: &str) -> bool {
    matches!(text, "null" | "set")
}

/// The operator that the text begins with.
pub(super) fn operator(text: &str) -> Option<(&'static str, Op)> {
    OPS.into_iter().find(|(sign, _)| text.starts_with(sign))
}

/// Whether a value needs no quotes.
pub(super) fn is_bare(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(is_in_bare)
        && operator(text).is_none()
        && !is_keyword(text)
}

/// The terms in order, each with its place.
pub(super) fn terms(
    text: &str,
) -> impl Iterator<Item = (Range<usize>, Result<Raw, QueryFault>)> + '_ {
    let mut cursor = Cursor { text, at: 0 };
    std::iter::from_fn(move || {
        cursor.take(char::is_whitespace);
        if cursor.rest().is_empty() {
            return None;
        }
        let start = cursor.at;
        let raw = cursor.term();
        if raw.is_err() {
            // Never back to what has been read: the whole takes one pass.
            cursor.take(|c| !c.is_whitespace());
        }
        Some((start..cursor.at, raw))
    })
}

struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn take(&mut self, is_part: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    fn eat(&mut self, sign: &str) -> bool {
        let is_there = self.rest().starts_with(sign);
        if is_there {
            self.at += sign.len();
        }
        is_there
    }

    fn is_at_end(&self) -> bool {
        self.rest().chars().next().is_none_or(char::is_whitespace)
    }

    /// The next character, or nothing at the end of a term.
    fn here(&self) -> Range<usize> {
        let next = self.rest().chars().next().filter(|c| !c.is_whitespace());
        self.at..self.at + next.map_or(0, char::len_utf8)
    }

    fn fault<T>(&self, message: impl Into<String>) -> Result<T, QueryFault> {
        Err(QueryFault::new(&self.here(), message))
    }

    fn bare(&mut self, is_part: impl Fn(char) -> bool) -> Word {
        let start = self.at;
        let text = self.take(|c| is_in_bare(c) && is_part(c)).to_owned();
        Word { text, is_quoted: false, at: start..self.at }
    }

    /// A JSON string, from its opening quote. Control characters need no escape in it.
    fn string(&mut self) -> Result<Word, QueryFault> {
        let start = self.at;
        let mut is_escaped = false;
        let end = self.rest().char_indices().skip(1).find(|(_, c)| {
            let closes = *c == '"' && !is_escaped;
            is_escaped = *c == '\\' && !is_escaped;
            closes
        });
        let Some((end, _)) = end else {
            self.at = self.text.len();
            return Err(QueryFault::new(&(start..self.at), "the closing quote is missing"));
        };
        let mut json = String::with_capacity(end + 1);
        for c in self.rest().get(..=end).unwrap_or_default().chars() {
            match c {
                '\0'..='\u{1f}' => json.push_str(&format!("\\u{:04x}", u32::from(c))),
                _ => json.push(c),
            }
        }
        self.at += end + 1;
        let at = start..self.at;
        match serde_json::from_str(&json) {
            Ok(text) => Ok(Word { text, is_quoted: true, at }),
            Err(_) => Err(QueryFault::new(
                &at,
                "text in quotes is written as in JSON: `\\\\` for a backslash, `\\\"` for a quote",
            )),
        }
    }

    fn term(&mut self) -> Result<Raw, QueryFault> {
        let start = self.at;
        let is_negated = self.eat("-");
        let mut column = match self.rest().starts_with('"') {
            true => self.string()?,
            false => self.bare(|c| c != ':' && c != '.'),
        };
        let mut key = None;
        if self.rest().starts_with('.') {
            self.at += 1;
            if self.rest().starts_with('"') {
                key = Some(self.string()?);
                if !self.rest().starts_with(':') {
                    return self.fault("a colon and a test must follow the key");
                }
            } else {
                key = Some(self.bare(|c| c != ':'));
            }
        }
        if self.eat(":") {
            let test_start = self.at;
            let test = self.test()?;
            return Ok(Raw::Named(NamedTerm {
                is_negated,
                column,
                key,
                test,
                test_at: test_start..self.at,
            }));
        }
        if column.is_quoted && (key.is_some() || !self.is_at_end()) {
            return self.fault("a space or a colon must follow the closing quote");
        }
        if !column.is_quoted {
            column.at = start..self.at;
            column.text = self.text.get(start..self.at).unwrap_or_default().to_owned();
        }
        self.word(column, is_negated)
    }

    fn word(&mut self, word: Word, is_negated: bool) -> Result<Raw, QueryFault> {
        if is_negated {
            return Err(QueryFault::new(
                &word.at,
                "`-` must be followed by a column, as in `-name:healthcheck`; \
                 put the text in quotes to look for it",
            ));
        }
        if word.is_quoted {
            return Ok(Raw::Word(word));
        }
        if let Some((sign, _)) = operator(&word.text) {
            let message = format!("`{sign}` must follow a column and a colon, as in `latency:>2`");
            return Err(QueryFault::new(&word.at, message));
        }
        if let Some(c) = self.rest().chars().next().filter(|c| !c.is_whitespace()) {
            let message = format!("put text with `{}` in quotes", c.escape_debug());
            return self.fault(message);
        }
        Ok(Raw::Word(word))
    }

    fn test(&mut self) -> Result<RawTest, QueryFault> {
        let test = if let Some((sign, op)) = operator(self.rest()) {
            self.at += sign.len();
            RawTest::Op(op, self.value()?)
        } else if let Some((sign, set)) =
            SETS.into_iter().find(|(sign, _)| self.rest().starts_with(sign))
        {
            self.at += sign.len();
            RawTest::Set(set, self.set()?)
        } else {
            self.values()?
        };
        match self.is_at_end() {
            true => Ok(test),
            false if matches!(test, RawTest::Op(..)) && self.rest().starts_with(',') => {
                self.fault("one value only may follow an operator; put text with a comma in quotes")
            }
            false => self.fault("a space must follow; put text with this character in quotes"),
        }
    }

    fn value(&mut self) -> Result<Word, QueryFault> {
        if self.rest().starts_with('"') {
            return self.string();
        }
        let word = self.bare(|_| true);
        if word.text.is_empty() {
            return self.fault(match self.is_at_end() {
                true => "a value is missing here",
                false => "a value is missing here; put text with this character in quotes",
            });
        }
        match operator(&word.text) {
            None => Ok(word),
            Some((sign, _)) => Err(QueryFault::new(
                &word.at,
                format!("put a value that begins with `{sign}` in quotes"),
            )),
        }
    }

    fn values(&mut self) -> Result<RawTest, QueryFault> {
        let mut first = self.value()?;
        if first.is_quoted && self.eat("..") {
            return Ok(RawTest::Range(first, self.value()?));
        }
        if !first.is_quoted
            && self.rest().starts_with('"')
            && let Some(from) = first.text.strip_suffix("..")
        {
            first.text = from.to_owned();
            return Ok(RawTest::Range(first, self.string()?));
        }
        let mut values = vec![first];
        while self.eat(",") {
            values.push(self.value()?);
        }
        Ok(RawTest::Values(values))
    }

    /// The rest of a parenthesised list, including the closing parenthesis.
    fn set(&mut self) -> Result<Vec<Word>, QueryFault> {
        let mut values = Vec::new();
        self.take(char::is_whitespace);
        if self.eat(")") {
            return Ok(values);
        }
        loop {
            values.push(self.value()?);
            self.take(char::is_whitespace);
            if self.eat(")") {
                return Ok(values);
            }
            if !self.eat(",") {
                return self.fault("a comma or a closing parenthesis must follow");
            }
            self.take(char::is_whitespace);
        }
    }
}
