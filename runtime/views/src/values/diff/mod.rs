//! The difference between two values: JSON by path, text by lines and by words within lines.
//!
//! `crate::value_diff` compares the values; `parts` limits the difference to the size of a page and collapses equal parts.
//!
//! Time and output are limited for any values: documents, words and lines are compared up to size limits, and the difference
//! contains a note if a limit was reached.

mod parts;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use perpend_domain::payload::Payload;

use self::parts::{ByteBudget, counted_list};
pub(crate) use self::parts::{DiffOutcome, DiffPart, LineSegment};
use crate::Text;
use crate::format::size;
use crate::value_diff::json::{self, MemberDelta, Node};
use crate::value_diff::lines::{self, LineRules, LineRun};
use crate::values::content::comparable;
use unicode_normalization::UnicodeNormalization as _;

/// Maximum size in bytes of values that are compared by path and by words. Larger values are compared by lines.
const MAX_WHOLE: usize = 1 << 20;
/// Maximum size in bytes of compared values.
const MAX_BYTES: usize = 16 << 20;
/// Maximum number of lines of compared values.
const MAX_LINES: usize = 100_000;

/// Display options of differences, from the URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiffChoice {
    /// Shows both sides below each other instead of side by side.
    pub is_inline: bool,
    /// Ignores white space.
    pub ignores_space: bool,
}

/// The difference between two recorded values.
#[derive(Clone, Debug)]
pub struct Diff {
    pub(crate) outcome: DiffOutcome,
    /// Number of changes of each kind, as text.
    pub(crate) summary: String,
    pub(crate) notes: Vec<String>,
    pub(crate) parts: Vec<DiffPart>,
    pub(crate) is_inline: bool,
}

/// Hash of a value. Values without a difference have equal hashes, regardless of member order and number formatting.
#[must_use]
pub fn value_fingerprint(value: Option<&Payload>) -> u64 {
    let mut hasher = DefaultHasher::new();
    let text = value.map(Payload::as_str);
    let small = text.filter(|text| text.len() <= MAX_WHOLE);
    match small.and_then(|text| Node::read(text, false)) {
        Some(node) => node.hash.hash(&mut hasher),
        None => text.hash(&mut hasher),
    }
    hasher.finish()
}

impl Diff {
    /// Compares two values. `max_bytes` limits the shown bytes of the values.
    #[must_use]
    pub fn new(
        a: Option<&Payload>,
        b: Option<&Payload>,
        choice: DiffChoice,
        max_bytes: usize,
    ) -> Self {
        let mut diff = Self {
            outcome: DiffOutcome::Same,
            summary: String::new(),
            notes: Vec::new(),
            parts: Vec::new(),
            is_inline: choice.is_inline,
        };
        match (a, b) {
            (None, None) => diff.outcome = DiffOutcome::Absent,
            (Some(a), Some(b)) if a == b => {}
            (Some(a), Some(b)) => diff.compare([a, b], choice, max_bytes),
            (Some(one), None) | (None, Some(one)) => {
                diff.outcome = DiffOutcome::OneSided { is_a: a.is_some() };
                diff.one_sided(&comparable(one), a.is_some(), max_bytes);
            }
        }
        diff
    }

    /// Whether both values are the same.
    #[must_use]
    pub const fn is_same(&self) -> bool {
        matches!(self.outcome, DiffOutcome::Same | DiffOutcome::Absent)
    }

    fn compare(&mut self, [a, b]: [&Payload; 2], choice: DiffChoice, max_bytes: usize) {
        let raw = [a, b].map(|value| value.as_str().len());
        if MAX_BYTES < raw[0].max(raw[1]) {
            self.too_large(raw);
            return;
        }
        let texts = [comparable(a), comparable(b)];
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or_default();
        if texts[0] == texts[1] {
            let note = "Equal text, recorded as text on one side and as JSON on the other.";
            self.notes.push(note.to_owned());
            return;
        }
        let is_whole = longest <= MAX_WHOLE;
        if is_whole && texts[0].nfc().eq(texts[1].nfc()) {
            let note = "The values differ only in Unicode normalization.";
            self.notes.push(note.to_owned());
        }
        let read = |text| {
            let node = is_whole.then(|| Node::read(text, choice.ignores_space));
            node.flatten()
        };
        if let (Some(a), Some(b)) = (read(&texts[0]), read(&texts[1])) {
            self.by_path(&a, &b, choice, max_bytes);
            return;
        }
        let rules = LineRules { ignores_space: choice.ignores_space, with_words: is_whole };
        let formatted = texts.each_ref().map(|text| formatted(text, is_whole));
        let lines = formatted.each_ref().map(|text| split(text));
        if lines.iter().any(|lines| MAX_LINES < lines.len()) {
            self.too_large(texts.each_ref().map(|text| text.len()));
            return;
        }
        if !is_whole {
            let limit = size(MAX_WHOLE as u64);
            self.notes.push(format!("Values above {limit} are compared by lines only."));
        }
        let parts = lines::compare(&lines[0], &lines[1], rules);
        self.by_lines(&parts, max_bytes);
    }

    fn too_large(&mut self, [a, b]: [usize; 2]) {
        self.outcome = DiffOutcome::TooLarge;
        let [a, b, most] = [a, b, MAX_BYTES].map(|bytes| size(bytes as u64));
        self.notes.push(format!(
            "The values differ but are too large to compare: {a} and {b}. The limits are {most} and {MAX_LINES} lines."
        ));
    }

    fn by_lines(&mut self, parts: &[LineRun<'_>], max_bytes: usize) {
        let [mut n_removed, mut n_added] = [0, 0];
        for part in parts {
            if let LineRun::Changed(a, b) = part {
                n_removed += a.len();
                n_added += b.len();
            }
        }
        if n_removed + n_added == 0 {
            self.notes.push("The values differ only in white space.".to_owned());
            return;
        }
        self.outcome = DiffOutcome::Different;
        self.summary = counted_list(&[
            (n_removed, "line removed", "lines removed"),
            (n_added, "line added", "lines added"),
        ]);
        let mut budget = ByteBudget::new(max_bytes);
        budget.push_parts(&mut self.parts, parts);
        self.notes.extend(budget.omitted("change"));
    }

    fn by_path(&mut self, a: &Node<'_>, b: &Node<'_>, choice: DiffChoice, max_bytes: usize) {
        let mut changes = ChangeCollector {
            choice,
            budget: ByteBudget::new(max_bytes),
            parts: Vec::new(),
            n: [0; 4],
        };
        let delta = json::compare(a, b);
        changes.value(&delta, [a, b], ["$".to_owned(), "$".to_owned()]);
        let [added, removed, changed, moved] = changes.n;
        if added + removed + changed + moved == 0 {
            let note = match choice.ignores_space {
                true => "The values differ only in white space, member order or number formatting.",
                false => "The values differ only in member order or number formatting.",
            };
            self.notes.push(note.to_owned());
            return;
        }
        self.outcome = DiffOutcome::Different;
        self.summary = counted_list(&[
            (changed, "value changed", "values changed"),
            (added, "added", "added"),
            (removed, "removed", "removed"),
            (moved, "moved", "moved"),
        ]);
        self.summary.push_str("; equal values are not shown");
        self.parts = changes.parts;
        self.notes.extend(changes.budget.omitted("change"));
    }

    fn one_sided(&mut self, text: &str, is_a: bool, max_bytes: usize) {
        let formatted = formatted(text, text.len() <= MAX_WHOLE);
        let plain = |text| {
            let piece = lines::LinePiece { text, is_marked: false };
            vec![piece]
        };
        let lines = split(&formatted).into_iter().take(MAX_LINES).map(plain);
        let (own, none) = (lines.collect(), Vec::new());
        let part = match is_a {
            true => LineRun::Changed(own, none),
            false => LineRun::Changed(none, own),
        };
        let mut budget = ByteBudget::new(max_bytes);
        budget.push_parts(&mut self.parts, &[part]);
        self.notes.extend(budget.omitted("line"));
    }
}

/// The text to compare by lines; JSON with one member per line.
fn formatted(text: &str, is_whole: bool) -> Cow<'_, str> {
    let is_json = text.trim_start().starts_with(['{', '[']);
    let node = (is_json && is_whole).then(|| Node::read(text, false)).flatten();
    match node {
        Some(node) => Cow::Owned(node.lines()),
        None if is_json => Cow::Owned(json::flat_lines(text).join("\n")),
        None => Cow::Borrowed(text),
    }
}

fn split(text: &str) -> Vec<&str> {
    text.split('\n').collect()
}

/// Collects the changes between two documents.
struct ChangeCollector {
    choice: DiffChoice,
    budget: ByteBudget,
    parts: Vec<DiffPart>,
    /// Values added, removed, changed and moved.
    n: [usize; 4],
}

impl ChangeCollector {
    fn value(&mut self, delta: &json::Delta, [a, b]: [&Node<'_>; 2], paths: [String; 2]) {
        match (delta, &a.value, &b.value) {
            (json::Delta::Same, ..) => {}
            (json::Delta::Object(deltas), json::Value::Object(a), json::Value::Object(b)) => {
                let own = |side: usize, at: usize, is_full: bool| {
                    let (name, node) = if side == 0 { &a[at] } else { &b[at] };
                    let path = (!is_full).then(|| json::member_path(&paths[side], name));
                    (path.unwrap_or_default(), node)
                };
                self.members(deltas, &own);
            }
            (json::Delta::List(deltas), json::Value::List(a), json::Value::List(b)) => {
                let own = |side: usize, at: usize, is_full: bool| {
                    let node = if side == 0 { &a[at] } else { &b[at] };
                    let path = (!is_full).then(|| format!("{}[{at}]", paths[side]));
                    (path.unwrap_or_default(), node)
                };
                self.members(deltas, &own);
            }
            _ => {
                self.n[2] += 1;
                self.changed([a, b], paths);
            }
        }
    }

    fn members<'n, 't: 'n>(
        &mut self,
        deltas: &[MemberDelta],
        own: &dyn Fn(usize, usize, bool) -> (String, &'n Node<'t>),
    ) {
        for delta in deltas {
            // Omitted changes are only counted, so they need no path.
            let is_full = self.budget.is_full();
            let own = |side, at| own(side, at, is_full);
            match delta {
                MemberDelta::Kept(_, _, json::Delta::Same) => {}
                MemberDelta::Kept(a, b, delta) => {
                    let ((path_a, a), (path_b, b)) = (own(0, *a), own(1, *b));
                    self.value(delta, [a, b], [path_a, path_b]);
                }
                MemberDelta::Added(at) => self.whole(1, own(1, *at)),
                MemberDelta::Removed(at) => self.whole(0, own(0, *at)),
                MemberDelta::Moved(from, to) => {
                    self.n[3] += 1;
                    let paths = [own(0, *from).0, own(1, *to).0];
                    self.head("moved", "waiting", &paths);
                }
            }
        }
    }

    /// Adds the heading of a change. Returns `false` if the budget is exhausted.
    fn head(&mut self, word: &'static str, class: &'static str, [a, b]: &[String; 2]) -> bool {
        let fits = self.budget.take(a.len() + b.len());
        if fits {
            self.parts.push(DiffPart::Path {
                word,
                class,
                path: Text::from(a.as_str()),
                other: (a != b).then(|| Text::from(b.as_str())),
            });
        }
        fits
    }

    /// A value that only one side contains.
    fn whole(&mut self, side: usize, (path, node): (String, &Node<'_>)) {
        let (word, class) = [("removed", "bad"), ("added", "good")][side];
        self.n[1 - side] += 1;
        if !self.head(word, class, &[path.clone(), path]) {
            return;
        }
        let text = node.lines();
        let sides = match side {
            0 => [split(&text), Vec::new()],
            _ => [Vec::new(), split(&text)],
        };
        self.lines(sides);
    }

    fn changed(&mut self, nodes: [&Node<'_>; 2], paths: [String; 2]) {
        if !self.head("changed", "waiting", &paths) {
            return;
        }
        let strings = nodes.map(Node::text);
        let texts = match strings {
            [Some(a), Some(b)] => [a, b],
            _ => nodes.map(Node::lines),
        };
        self.lines(texts.each_ref().map(|text| split(text)));
    }

    fn lines(&mut self, [a, b]: [Vec<&str>; 2]) {
        let rules = LineRules { ignores_space: self.choice.ignores_space, with_words: true };
        let parts = lines::compare(&a, &b, rules);
        self.budget.push_parts(&mut self.parts, &parts);
    }
}
