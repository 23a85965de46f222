//! Compares JSON documents by path: object members by name, list items by content.
//!
//! The module has its own parser, so that numbers are compared by value with all digits.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use perpend_domain::mapping::PathSegment;
use serde_json::value::RawValue;

use crate::value_diff::ops::ops;

/// Maximum nesting. Deeper documents are compared as text.
const MAX_DEPTH: usize = 100;
/// Maximum length of lists whose items are aligned by content. Items of longer lists are compared by index.
const MAX_ALIGNED: usize = 50_000;

/// A value in a document.
#[derive(Clone, Debug)]
pub struct Node<'t> {
    /// Hash of the value, independent of member order.
    pub hash: u64,
    pub value: Value<'t>,
}

#[derive(Clone, Debug)]
pub enum Value<'t> {
    /// JSON text of a string, number or literal.
    Scalar(Cow<'t, str>),
    List(Vec<Node<'t>>),
    /// Sorted by name.
    Object(Vec<(Cow<'t, str>, Node<'t>)>),
}

/// The difference between two values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    Same,
    /// Different types, or different scalars.
    Changed,
    Object(Vec<MemberDelta>),
    List(Vec<MemberDelta>),
}

/// The difference of a member or item, with its indexes on each side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberDelta {
    Added(usize),
    Removed(usize),
    Kept(usize, usize, Delta),
    /// An equal item at another index.
    Moved(usize, usize),
}

impl<'t> Node<'t> {
    /// Parses a text that is a JSON object or array.
    pub fn read(text: &'t str, ignores_space: bool) -> Option<Self> {
        let text = text.trim();
        if !text.starts_with(['{', '[']) {
            return None;
        }
        // The reader requires valid JSON.
        serde_json::from_str::<&RawValue>(text).ok()?;
        let mut reader = Reader { rest: text, depth: 0, ignores_space };
        reader.value()
    }

    fn scalar(text: Cow<'t, str>, ignores_space: bool) -> Self {
        let mut hasher = DefaultHasher::new();
        match ignores_space && text.starts_with('"') {
            true => {
                // Distinguishes strings from numbers.
                '"'.hash(&mut hasher);
                let decoded = text_of(&text).unwrap_or_default();
                decoded.split_whitespace().for_each(|word| word.hash(&mut hasher));
            }
            false => match number(&text) {
                Some(number) => number.hash(&mut hasher),
                None => text.hash(&mut hasher),
            },
        }
        Self { hash: hasher.finish(), value: Value::Scalar(text) }
    }

    /// Indented JSON with one member per line.
    pub fn lines(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, 0);
        out
    }

    fn write(&self, out: &mut String, depth: usize) {
        let line = |out: &mut String, depth: usize| {
            out.push('\n');
            (0..depth.min(16)).for_each(|_| out.push_str("  "));
        };
        match &self.value {
            Value::Scalar(text) => out.push_str(text),
            Value::List(items) if items.is_empty() => out.push_str("[]"),
            Value::Object(members) if members.is_empty() => out.push_str("{}"),
            Value::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    line(out, depth + 1);
                    item.write(out, depth + 1);
                }
                line(out, depth);
                out.push(']');
            }
            Value::Object(members) => {
                out.push('{');
                for (at, (name, member)) in members.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    line(out, depth + 1);
                    out.push_str(name);
                    out.push_str(": ");
                    member.write(out, depth + 1);
                }
                line(out, depth);
                out.push('}');
            }
        }
    }

    /// The text of a string.
    pub fn text(&self) -> Option<String> {
        match &self.value {
            Value::Scalar(text) => text_of(text),
            _ => None,
        }
    }
}

fn text_of(scalar: &str) -> Option<String> {
    let is_text = scalar.starts_with('"');
    is_text.then(|| serde_json::from_str(scalar).ok()).flatten()
}

/// A normalized number: sign, digits and power of ten. `None` for strings, literals, and exponents out of range.
fn number(scalar: &str) -> Option<(bool, String, i64)> {
    let digits = scalar.strip_prefix('-').unwrap_or(scalar);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (digits, power) = match digits.split_once(['e', 'E']) {
        Some((digits, power)) => (digits, power.parse::<i64>().ok()?),
        None => (digits, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    let kept = digits.trim_end_matches('0');
    if kept.is_empty() {
        return Some((false, String::new(), 0));
    }
    let n_zeros = i64::try_from(digits.len() - kept.len()).ok()?;
    let n_behind = i64::try_from(fraction.len()).ok()?;
    let power = power.checked_add(n_zeros)?.checked_sub(n_behind)?;
    Some((scalar.starts_with('-'), kept.to_owned(), power))
}

struct Reader<'t> {
    rest: &'t str,
    depth: usize,
    ignores_space: bool,
}

impl<'t> Reader<'t> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\n', '\r', '\t']);
    }

    /// Skips the character if it is the next one, and returns whether it was.
    fn skip(&mut self, c: char) -> bool {
        self.skip_space();
        let behind = self.rest.strip_prefix(c);
        self.rest = behind.unwrap_or(self.rest);
        behind.is_some()
    }

    fn take(&mut self, length: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// A string with its quotes. Normalizes escapes.
    fn string(&mut self) -> Cow<'t, str> {
        let bytes = self.rest.as_bytes();
        let mut end = 1;
        while end < bytes.len() && bytes[end] != b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let text = self.take(end + 1);
        let decoded = text.contains('\\').then(|| text_of(text)).flatten();
        decoded.map_or(Cow::Borrowed(text), |decoded| {
            Cow::Owned(serde_json::Value::String(decoded).to_string())
        })
    }

    fn value(&mut self) -> Option<Node<'t>> {
        self.skip_space();
        self.depth += 1;
        if MAX_DEPTH < self.depth {
            return None;
        }
        let node = match self.rest.chars().next()? {
            '{' => self.object()?,
            '[' => self.list()?,
            '"' => Node::scalar(self.string(), self.ignores_space),
            _ => {
                let is_end = |c: char| c.is_ascii_whitespace() || matches!(c, ',' | ']' | '}');
                let end = self.rest.find(is_end).unwrap_or(self.rest.len());
                Node::scalar(Cow::Borrowed(self.take(end)), false)
            }
        };
        self.depth -= 1;
        Some(node)
    }

    fn list(&mut self) -> Option<Node<'t>> {
        let mut items = Vec::new();
        let mut hasher = DefaultHasher::new();
        "list".hash(&mut hasher);
        self.skip('[');
        while !self.skip(']') {
            let item = self.value()?;
            item.hash.hash(&mut hasher);
            items.push(item);
            self.skip(',');
        }
        Some(Node { hash: hasher.finish(), value: Value::List(items) })
    }

    fn object(&mut self) -> Option<Node<'t>> {
        let mut members = Vec::new();
        self.skip('{');
        while !self.skip('}') {
            self.skip_space();
            let name = self.string();
            self.skip(':');
            members.push((name, self.value()?));
            self.skip(',');
        }
        members.sort_by(|a, b| a.0.cmp(&b.0));
        let mut hasher = DefaultHasher::new();
        "object".hash(&mut hasher);
        for (name, member) in &members {
            (name, member.hash).hash(&mut hasher);
        }
        Some(Node { hash: hasher.finish(), value: Value::Object(members) })
    }
}

/// Compares two documents.
pub fn compare(a: &Node<'_>, b: &Node<'_>) -> Delta {
    match (&a.value, &b.value) {
        _ if a.hash == b.hash => Delta::Same,
        (Value::Object(a), Value::Object(b)) => Delta::Object(of_members(a, b)),
        (Value::List(a), Value::List(b)) => Delta::List(of_items(a, b)),
        _ => Delta::Changed,
    }
}

type Members<'t> = [(Cow<'t, str>, Node<'t>)];

/// Both lists are sorted by name.
fn of_members(a: &Members<'_>, b: &Members<'_>) -> Vec<MemberDelta> {
    let (mut at_a, mut at_b) = (0, 0);
    let mut deltas = Vec::new();
    loop {
        let order = match (a.get(at_a), b.get(at_b)) {
            (Some(a), Some(b)) => a.0.cmp(&b.0),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => return deltas,
        };
        deltas.push(match order {
            std::cmp::Ordering::Less => MemberDelta::Removed(at_a),
            std::cmp::Ordering::Greater => MemberDelta::Added(at_b),
            std::cmp::Ordering::Equal => {
                MemberDelta::Kept(at_a, at_b, compare(&a[at_a].1, &b[at_b].1))
            }
        });
        at_a += usize::from(order.is_le());
        at_b += usize::from(order.is_ge());
    }
}

fn of_items(a: &[Node<'_>], b: &[Node<'_>]) -> Vec<MemberDelta> {
    let hashes = |items: &[Node<'_>]| -> Vec<u64> { items.iter().map(|item| item.hash).collect() };
    if MAX_ALIGNED < a.len().max(b.len()) {
        let n = a.len().min(b.len());
        let kept = (0..n).map(|at| MemberDelta::Kept(at, at, compare(&a[at], &b[at])));
        let removed = (n..a.len()).map(MemberDelta::Removed);
        return kept.chain(removed).chain((n..b.len()).map(MemberDelta::Added)).collect();
    }
    let parts = ops(&hashes(a), &hashes(b));
    // An item that was removed and added elsewhere counts as moved.
    let mut new: HashMap<u64, VecDeque<usize>> = HashMap::new();
    for part in parts.iter().filter(|part| !part.is_equal) {
        for at in part.b.clone() {
            new.entry(b[at].hash).or_default().push_back(at);
        }
    }
    let mut moved_from: HashMap<usize, usize> = HashMap::new();
    let mut moved_to: HashMap<usize, usize> = HashMap::new();
    for at in parts.iter().filter(|part| !part.is_equal).flat_map(|part| part.a.clone()) {
        if let Some(to) = new.get_mut(&a[at].hash).and_then(VecDeque::pop_front) {
            moved_from.insert(at, to);
            moved_to.insert(to, at);
        }
    }
    let mut deltas = Vec::new();
    for part in parts {
        if part.is_equal {
            let same = part.a.zip(part.b);
            deltas.extend(same.map(|(a, b)| MemberDelta::Kept(a, b, Delta::Same)));
            continue;
        }
        let mut gone = part.a.filter(|at| !moved_from.contains_key(at));
        for at in part.b {
            if let Some(from) = moved_to.get(&at) {
                deltas.push(MemberDelta::Moved(*from, at));
                continue;
            }
            deltas.push(match gone.next() {
                Some(from) => MemberDelta::Kept(from, at, compare(&a[from], &b[at])),
                None => MemberDelta::Added(at),
            });
        }
        deltas.extend(gone.map(MemberDelta::Removed));
    }
    deltas
}

/// The normalized path (RFC 9535) of a member below `path`.
pub fn member_path(path: &str, name: &str) -> String {
    let decoded = text_of(name).unwrap_or_else(|| name.trim_matches('"').to_owned());
    format!("{path}{}", PathSegment::Name(decoded))
}

/// Splits a document that is too large to parse into lines with one member each.
pub fn flat_lines(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let (mut from, mut at, mut lines) = (0, 0, Vec::new());
    let mut cut = |from: &mut usize, to: usize| {
        let line = text.get(*from..to).unwrap_or_default().trim();
        if !line.is_empty() {
            lines.push(line);
        }
        *from = to;
    };
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
            }
            b'{' | b'[' | b',' => cut(&mut from, at + 1),
            b'}' | b']' => cut(&mut from, at),
            _ => {}
        }
        at += 1;
    }
    cut(&mut from, text.len());
    lines
}
