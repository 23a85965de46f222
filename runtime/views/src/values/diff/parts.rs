//! The parts of a difference that are shown, limited to a number of bytes.

use crate::Text;
use crate::format::{count, size};
use crate::value_diff::lines::{Line, LineRun};

/// Number of equal lines shown before and after a change.
const CONTEXT: usize = 3;
/// Maximum size in bytes of collapsed equal lines in the page; longer text is omitted.
const FOLD_BYTES: usize = 2_000;
/// Number of equal characters shown on each side of a change within a line.
const AROUND: usize = 80;
/// Maximum number of shown characters per piece of a line.
const MAX_PIECE: usize = 2_000;
/// Maximum number of pieces per line; the rest of the line is omitted.
const MAX_PIECES: usize = 200;

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiffOutcome {
    /// Neither side has a value.
    Absent,
    Same,
    Different,
    /// Different, but too large to compare.
    TooLarge,
    /// Only one side has a value.
    OneSided {
        is_a: bool,
    },
}

/// A part of a difference.
#[derive(Clone, Debug)]
pub(crate) enum DiffPart {
    /// The path of the following change in a document.
    Path {
        word: &'static str,
        class: &'static str,
        path: Text,
        /// The path on the second side, if it differs.
        other: Option<Text>,
    },
    /// Equal lines around a change.
    Equal(Text),
    /// Collapsed equal lines, with their text if it is short.
    Fold {
        n: String,
        text: Option<Text>,
    },
    Changed(Hunk),
}

/// Changed lines: `b` replaces `a`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hunk {
    pub(crate) a: Vec<Vec<LineSegment>>,
    pub(crate) b: Vec<Vec<LineSegment>>,
}

impl Hunk {
    /// The lines side by side.
    pub(crate) fn rows(
        &self,
    ) -> impl Iterator<Item = (Option<&Vec<LineSegment>>, Option<&Vec<LineSegment>>)> {
        let n = self.a.len().max(self.b.len());
        (0..n).map(|at| (self.a.get(at), self.b.get(at)))
    }
}

/// A segment of a line.
#[derive(Clone, Debug)]
pub(crate) enum LineSegment {
    Plain(Text),
    /// Text that only this side contains.
    Marked(Text),
    /// Description of omitted text.
    Cut(String),
}

/// The number of bytes of the values that can still be shown.
#[derive(Debug)]
pub(super) struct ByteBudget {
    left: usize,
    whole: usize,
    n_omitted: usize,
}

impl ByteBudget {
    pub(super) const fn new(bytes: usize) -> Self {
        Self { left: bytes, whole: bytes, n_omitted: 0 }
    }

    /// Takes bytes from the budget. Returns `false` and counts an omitted item if they exceed it.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.left && self.n_omitted == 0;
        match fits {
            true => self.left -= bytes,
            false => self.n_omitted += 1,
        }
        fits
    }

    /// Whether something was omitted, so that nothing more is shown.
    pub(super) const fn is_full(&self) -> bool {
        0 < self.n_omitted
    }

    /// A note about the number of omitted items, if any. `unit` is the singular name of an item.
    pub(super) fn omitted(&self, unit: &str) -> Option<String> {
        (0 < self.n_omitted).then(|| {
            let s = if self.n_omitted == 1 { "" } else { "s" };
            format!(
                "{} more {unit}{s} not shown; the page shows the first {} of a difference. See the raw values.",
                count(self.n_omitted as u64),
                size(self.whole as u64),
            )
        })
    }

    /// Adds the runs of lines of two texts.
    pub(super) fn push_parts(&mut self, shown: &mut Vec<DiffPart>, parts: &[LineRun<'_>]) {
        for (at, part) in parts.iter().enumerate() {
            match part {
                LineRun::Equal(lines) => {
                    let lines: Vec<&str> = lines.iter().map(|(_, line)| *line).collect();
                    let before = if at == 0 { 0 } else { CONTEXT };
                    let behind = if at + 1 == parts.len() { 0 } else { CONTEXT };
                    self.push_equal(shown, &lines, before, behind);
                }
                LineRun::Changed(a, b) => self.push_changed(shown, a, b),
            }
        }
    }

    fn push_equal(&mut self, shown: &mut Vec<DiffPart>, lines: &[&str], first: usize, last: usize) {
        if 0 < self.n_omitted {
            return;
        }
        // A single line is not longer than a collapsed line.
        if lines.len() <= first + last + 1 {
            self.push_lines(shown, lines);
            return;
        }
        let (before, rest) = lines.split_at(first);
        let (folded, behind) = rest.split_at(rest.len() - last);
        self.push_lines(shown, before);
        let bytes: usize = folded.iter().map(|line| line.len() + 1).sum();
        let is_short = bytes <= FOLD_BYTES && bytes <= self.left;
        if is_short {
            self.left -= bytes;
        }
        shown.push(DiffPart::Fold {
            n: count(folded.len() as u64),
            text: is_short.then(|| Text::lines(folded.join("\n"))),
        });
        self.push_lines(shown, behind);
    }

    fn push_lines(&mut self, shown: &mut Vec<DiffPart>, lines: &[&str]) {
        for line in lines {
            let (line, n_omitted) = cut(line, MAX_PIECE);
            self.left = self.left.saturating_sub(line.len());
            let end = if n_omitted == 0 { "" } else { "…" };
            shown.push(DiffPart::Equal(Text::lines(format!("{line}{end}"))));
        }
    }

    fn push_changed(&mut self, shown: &mut Vec<DiffPart>, a: &[Line<'_>], b: &[Line<'_>]) {
        let mut hunk = Hunk::default();
        for at in 0..a.len().max(b.len()) {
            let [a, b] = [a.get(at), b.get(at)].map(|line| line.map(segments));
            let bytes = [&a, &b].into_iter().flatten().map(|(_, bytes)| bytes + 1);
            if !self.take(bytes.sum()) {
                continue;
            }
            hunk.a.extend(a.map(|(segments, _)| segments));
            hunk.b.extend(b.map(|(segments, _)| segments));
        }
        if !hunk.a.is_empty() || !hunk.b.is_empty() {
            shown.push(DiffPart::Changed(hunk));
        }
    }
}

/// The first characters of a text, and the number of omitted characters.
fn cut(text: &str, max: usize) -> (&str, usize) {
    match text.char_indices().nth(max) {
        Some((at, _)) => (&text[..at], text[at..].chars().count()),
        None => (text, 0),
    }
}

/// The last characters of a text.
fn tail(text: &str, max: usize) -> &str {
    let start = text.char_indices().rev().nth(max.saturating_sub(1));
    start.map_or(text, |(at, _)| &text[at..])
}

/// The segments of a line without long equal text, and their length in bytes.
fn segments(line: &Line<'_>) -> (Vec<LineSegment>, usize) {
    let has_marks = line.iter().any(|piece| piece.is_marked);
    let mut segments = Vec::with_capacity(line.len());
    let mut bytes = 0;
    for (at, piece) in line.iter().enumerate() {
        if at == MAX_PIECES {
            let rest: usize = line[at..].iter().map(|piece| piece.text.chars().count()).sum();
            segments.push(LineSegment::Cut(format!("{} more characters", count(rest as u64))));
            break;
        }
        let n = piece.text.chars().count();
        let mut text = |text: &str, is_marked: bool| {
            bytes += text.len();
            segments.push(match is_marked {
                true => LineSegment::Marked(Text::lines(text)),
                false => LineSegment::Plain(Text::lines(text)),
            });
        };
        if has_marks && !piece.is_marked && 3 * AROUND < n {
            let first = if at == 0 { "" } else { cut(piece.text, AROUND).0 };
            let last = if at + 1 == line.len() { "" } else { tail(piece.text, AROUND) };
            let n_rest = n - first.chars().count() - last.chars().count();
            text(first, false);
            segments.push(LineSegment::Cut(format!("{} equal characters", count(n_rest as u64))));
            bytes += last.len();
            segments.push(LineSegment::Plain(Text::lines(last)));
            continue;
        }
        let (first, n_rest) = cut(piece.text, MAX_PIECE);
        text(first, piece.is_marked);
        if 0 < n_rest {
            segments.push(LineSegment::Cut(format!("{} more characters", count(n_rest as u64))));
        }
    }
    (segments, bytes)
}

/// The counts that are not zero, each with its singular or plural label.
pub(super) fn counted_list(counts: &[(usize, &str, &str)]) -> String {
    let some = counts.iter().filter(|(n, ..)| 0 < *n);
    let words = some.map(|(n, one, many)| {
        let word = if *n == 1 { one } else { many };
        format!("{} {word}", count(*n as u64))
    });
    words.collect::<Vec<_>>().join(", ")
}
