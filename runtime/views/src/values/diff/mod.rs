//! What is different between two values: JSON by path, text by lines and by words within them.
//!
//! - `ops`: which items of two lists are the same; `lines`: texts; `json`: documents.
//! - `shown`: as much of it as a page has room for, equal parts folded.
//!
//! Nothing here is slow or large because of what the values hold: documents and words are compared up to a size, lines
//! up to another, and what was not compared is said.

mod shown;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use perpend_domain::payload::Payload;

pub(crate) use self::shown::{Bit, Said, Shown};
use self::shown::{Room, many_of};
use crate::Text;
use crate::format::size;
use crate::value_diff::json::{self, Node, Step};
use crate::value_diff::lines::{self, Part, Rules};
use crate::values::content::comparable;
use unicode_normalization::UnicodeNormalization as _;

/// Larger values are compared by lines only.
const MAX_WHOLE: usize = 1 << 20;
/// Larger values are not compared.
const MAX_BYTES: usize = 16 << 20;
/// Neither are values with more lines.
const MAX_LINES: usize = 100_000;

/// How differences are shown, as an address says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiffChoice {
    /// Both sides below each other, not side by side.
    pub is_inline: bool,
    /// White space makes no difference.
    pub ignores_space: bool,
}

/// The difference between two recorded values.
#[derive(Clone, Debug)]
pub struct Diff {
    pub(crate) said: Said,
    /// What there is of each kind of change, in words.
    pub(crate) summary: String,
    pub(crate) notes: Vec<String>,
    pub(crate) parts: Vec<Shown>,
    pub(crate) is_inline: bool,
}

/// Equal for values that a difference says to be the same, whatever the order of their members and the way that they are
/// written.
#[must_use]
pub fn value_fingerprint(value: Option<&Payload>) -> u64 {
    let mut hasher = DefaultHasher::new();
    let text = value.map(Payload::as_str);
    let small = text.filter(|text| text.len() <= MAX_WHOLE);
    match small.and_then(|text| Node::read(text, false)) {
        Some(node) => node.print.hash(&mut hasher),
        None => text.hash(&mut hasher),
    }
    hasher.finish()
}

impl Diff {
    /// What is in `b` and not in `a`, and the other way round. `room`: bytes of the values that are shown at most.
    #[must_use]
    pub fn new(a: Option<&Payload>, b: Option<&Payload>, choice: DiffChoice, room: usize) -> Self {
        let mut diff = Self {
            said: Said::Same,
            summary: String::new(),
            notes: Vec::new(),
            parts: Vec::new(),
            is_inline: choice.is_inline,
        };
        match (a, b) {
            (None, None) => diff.said = Said::Absent,
            (Some(a), Some(b)) if a == b => {}
            (Some(a), Some(b)) => diff.compare([a, b], choice, room),
            (Some(one), None) | (None, Some(one)) => {
                diff.said = Said::OneSided { is_a: a.is_some() };
                diff.one_sided(&comparable(one), a.is_some(), room);
            }
        }
        diff
    }

    /// Whether both values are the same.
    #[must_use]
    pub const fn is_same(&self) -> bool {
        matches!(self.said, Said::Same | Said::Absent)
    }

    fn compare(&mut self, [a, b]: [&Payload; 2], choice: DiffChoice, room: usize) {
        let raw = [a, b].map(|value| value.as_str().len());
        if MAX_BYTES < raw[0].max(raw[1]) {
            self.too_large(raw);
            return;
        }
        let texts = [comparable(a), comparable(b)];
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or_default();
        if texts[0] == texts[1] {
            let note =
                "The same characters, recorded as a text on one side and as JSON on the other.";
            self.notes.push(note.to_owned());
            return;
        }
        let is_whole = longest <= MAX_WHOLE;
        if is_whole && texts[0].nfc().eq(texts[1].nfc()) {
            let note = "Only the way characters are composed differs (Unicode normalization): both sides look alike.";
            self.notes.push(note.to_owned());
        }
        let read = |text| {
            let node = is_whole.then(|| Node::read(text, choice.ignores_space));
            node.flatten()
        };
        if let (Some(a), Some(b)) = (read(&texts[0]), read(&texts[1])) {
            self.by_path(&a, &b, choice, room);
            return;
        }
        let rules = Rules { ignores_space: choice.ignores_space, with_words: is_whole };
        let laid_out = texts.each_ref().map(|text| laid_out(text, is_whole));
        let lines = laid_out.each_ref().map(|text| split(text));
        if lines.iter().any(|lines| MAX_LINES < lines.len()) {
            self.too_large(texts.each_ref().map(|text| text.len()));
            return;
        }
        if !is_whole {
            let limit = size(MAX_WHOLE as u64);
            self.notes.push(format!("A value above {limit} is compared by lines only."));
        }
        let parts = lines::compare(&lines[0], &lines[1], rules);
        self.by_lines(&parts, room);
    }

    fn too_large(&mut self, [a, b]: [usize; 2]) {
        self.said = Said::TooLarge;
        let [a, b, most] = [a, b, MAX_BYTES].map(|bytes| size(bytes as u64));
        self.notes.push(format!(
            "The values differ but are too large to compare: {a} and {b}. Values up to {most} and {MAX_LINES} lines are \
             compared."
        ));
    }

    fn by_lines(&mut self, parts: &[Part<'_>], room: usize) {
        let [mut n_removed, mut n_added] = [0, 0];
        for part in parts {
            if let Part::Changed(a, b) = part {
                n_removed += a.len();
                n_added += b.len();
            }
        }
        if n_removed + n_added == 0 {
            self.notes.push("Only white space differs.".to_owned());
            return;
        }
        self.said = Said::Different;
        self.summary = many_of(&[
            (n_removed, "line removed", "lines removed"),
            (n_added, "line added", "lines added"),
        ]);
        let mut room = Room::new(room);
        room.push_parts(&mut self.parts, parts);
        self.notes.extend(room.left_out("changed place"));
    }

    fn by_path(&mut self, a: &Node<'_>, b: &Node<'_>, choice: DiffChoice, room: usize) {
        let mut walk = Walk { choice, room: Room::new(room), parts: Vec::new(), n: [0; 4] };
        let delta = json::compare(a, b);
        walk.value(&delta, [a, b], ["$".to_owned(), "$".to_owned()]);
        let [added, removed, changed, moved] = walk.n;
        if added + removed + changed + moved == 0 {
            let note = match choice.ignores_space {
                true => {
                    "Only white space, the order of members or the way they are written differs."
                }
                false => "Only the order of members or the way they are written differs.",
            };
            self.notes.push(note.to_owned());
            return;
        }
        self.said = Said::Different;
        self.summary = many_of(&[
            (changed, "value changed", "values changed"),
            (added, "added", "added"),
            (removed, "removed", "removed"),
            (moved, "moved", "moved"),
        ]);
        self.summary.push_str("; equal values are not shown");
        self.parts = walk.parts;
        self.notes.extend(walk.room.left_out("change"));
    }

    fn one_sided(&mut self, text: &str, is_a: bool, room: usize) {
        let laid_out = laid_out(text, text.len() <= MAX_WHOLE);
        let plain = |text| {
            let piece = lines::Piece { text, is_marked: false };
            vec![piece]
        };
        let lines = split(&laid_out).into_iter().take(MAX_LINES).map(plain);
        let (own, none) = (lines.collect(), Vec::new());
        let part = match is_a {
            true => Part::Changed(own, none),
            false => Part::Changed(none, own),
        };
        let mut room = Room::new(room);
        room.push_parts(&mut self.parts, &[part]);
        self.notes.extend(room.left_out("line"));
    }
}

/// A text as it is read by lines: JSON with one member on each.
fn laid_out(text: &str, is_whole: bool) -> Cow<'_, str> {
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

/// A walk over two documents and what became of their values.
struct Walk {
    choice: DiffChoice,
    room: Room,
    parts: Vec<Shown>,
    /// Values added, removed, changed and moved.
    n: [usize; 4],
}

impl Walk {
    fn value(&mut self, delta: &json::Delta, [a, b]: [&Node<'_>; 2], paths: [String; 2]) {
        match (delta, &a.value, &b.value) {
            (json::Delta::Same, ..) => {}
            (json::Delta::Object(steps), json::Value::Object(a), json::Value::Object(b)) => {
                let own = |side: usize, at: usize, is_full: bool| {
                    let (name, node) = if side == 0 { &a[at] } else { &b[at] };
                    let path = (!is_full).then(|| json::named(&paths[side], name));
                    (path.unwrap_or_default(), node)
                };
                self.steps(steps, &own);
            }
            (json::Delta::List(steps), json::Value::List(a), json::Value::List(b)) => {
                let own = |side: usize, at: usize, is_full: bool| {
                    let node = if side == 0 { &a[at] } else { &b[at] };
                    let path = (!is_full).then(|| format!("{}[{at}]", paths[side]));
                    (path.unwrap_or_default(), node)
                };
                self.steps(steps, &own);
            }
            _ => {
                self.n[2] += 1;
                self.changed([a, b], paths);
            }
        }
    }

    fn steps<'n, 't: 'n>(
        &mut self,
        steps: &[Step],
        own: &dyn Fn(usize, usize, bool) -> (String, &'n Node<'t>),
    ) {
        for step in steps {
            // What is only counted needs no path.
            let is_full = self.room.is_full();
            let own = |side, at| own(side, at, is_full);
            match step {
                Step::Kept(_, _, json::Delta::Same) => {}
                Step::Kept(a, b, delta) => {
                    let ((path_a, a), (path_b, b)) = (own(0, *a), own(1, *b));
                    self.value(delta, [a, b], [path_a, path_b]);
                }
                Step::Added(at) => self.whole(1, own(1, *at)),
                Step::Removed(at) => self.whole(0, own(0, *at)),
                Step::Moved(from, to) => {
                    self.n[3] += 1;
                    let paths = [own(0, *from).0, own(1, *to).0];
                    self.head("moved", "waiting", &paths);
                }
            }
        }
    }

    /// A change with the paths of both sides; false where there is no room for more.
    fn head(&mut self, word: &'static str, class: &'static str, [a, b]: &[String; 2]) -> bool {
        let has_room = self.room.take(a.len() + b.len());
        if has_room {
            self.parts.push(Shown::Path {
                word,
                class,
                path: Text::from(a.as_str()),
                other: (a != b).then(|| Text::from(b.as_str())),
            });
        }
        has_room
    }

    /// A value that stands on one side only.
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
        let said = nodes.map(Node::text);
        let texts = match said {
            [Some(a), Some(b)] => [a, b],
            _ => nodes.map(Node::lines),
        };
        self.lines(texts.each_ref().map(|text| split(text)));
    }

    fn lines(&mut self, [a, b]: [Vec<&str>; 2]) {
        let rules = Rules { ignores_space: self.choice.ignores_space, with_words: true };
        let parts = lines::compare(&a, &b, rules);
        self.room.push_parts(&mut self.parts, &parts);
    }
}
