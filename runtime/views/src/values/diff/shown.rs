//! As much of a difference as a page has room for.

use crate::Text;
use crate::format::{count, size};
use crate::value_diff::lines::{Line, Part};

/// Equal lines that are shown before and behind a change.
const CONTEXT: usize = 3;
/// A longer run of equal lines is not in the document.
const FOLD_BYTES: usize = 2_000;
/// Characters of what is equal within a changed line that are shown on each side of it.
const AROUND: usize = 80;
/// Characters of one piece of a line that are shown.
const MAX_PIECE: usize = 2_000;
/// Words that are marked in one line; what follows is shown without marks.
const MAX_PIECES: usize = 200;

/// What can be said of two values in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Neither side has a value.
    Absent,
    Same,
    Different,
    /// Different, and not compared further.
    TooLarge,
    /// Only one side has a value.
    OneSided {
        is_a: bool,
    },
}

/// A part of what is shown.
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    /// Where in a document the change is that follows.
    Path {
        word: &'static str,
        class: &'static str,
        path: Text,
        /// On the second side, where that is another place.
        other: Option<Text>,
    },
    /// Equal lines around a change.
    Equal(Text),
    /// Equal lines that are folded away, with their text where it is short.
    Fold {
        n: String,
        text: Option<Text>,
    },
    Changed(Hunk),
}

/// Lines that stand in each other's place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hunk {
    pub(crate) a: Vec<Vec<Bit>>,
    pub(crate) b: Vec<Vec<Bit>>,
}

impl Hunk {
    /// The lines beside each other.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (Option<&Vec<Bit>>, Option<&Vec<Bit>>)> {
        let n = self.a.len().max(self.b.len());
        (0..n).map(|at| (self.a.get(at), self.b.get(at)))
    }
}

/// A part of a line.
#[derive(Clone, Debug)]
pub(crate) enum Bit {
    Plain(Text),
    /// Only on this side.
    Marked(Text),
    /// What is not shown, in words.
    Cut(String),
}

/// How many bytes of the values may still be shown.
#[derive(Debug)]
pub(super) struct Room {
    left: usize,
    whole: usize,
    n_left_out: usize,
}

impl Room {
    pub(super) const fn new(bytes: usize) -> Self {
        Self { left: bytes, whole: bytes, n_left_out: 0 }
    }

    /// Takes so many bytes, or counts what they would have shown as left out.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.left && self.n_left_out == 0;
        match fits {
            true => self.left -= bytes,
            false => self.n_left_out += 1,
        }
        fits
    }

    /// Whether nothing more is shown.
    pub(super) const fn is_full(&self) -> bool {
        0 < self.n_left_out
    }

    /// How much was left out, in words.
    pub(super) fn left_out(&self, what: &str) -> Option<String> {
        (0 < self.n_left_out).then(|| {
            let s = if self.n_left_out == 1 { "" } else { "s" };
            format!(
                "{} further {what}{s} not shown: the first {} of the differences are. The raw values are whole.",
                count(self.n_left_out as u64),
                size(self.whole as u64),
            )
        })
    }

    /// Shows parts of two texts.
    pub(super) fn push_parts(&mut self, shown: &mut Vec<Shown>, parts: &[Part<'_>]) {
        for (at, part) in parts.iter().enumerate() {
            match part {
                Part::Equal(lines) => {
                    let lines: Vec<&str> = lines.iter().map(|(_, line)| *line).collect();
                    let before = if at == 0 { 0 } else { CONTEXT };
                    let behind = if at + 1 == parts.len() { 0 } else { CONTEXT };
                    self.push_equal(shown, &lines, before, behind);
                }
                Part::Changed(a, b) => self.push_changed(shown, a, b),
            }
        }
    }

    fn push_equal(&mut self, shown: &mut Vec<Shown>, lines: &[&str], first: usize, last: usize) {
        if 0 < self.n_left_out {
            return;
        }
        // One line takes no more room than saying that it is folded.
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
        shown.push(Shown::Fold {
            n: count(folded.len() as u64),
            text: is_short.then(|| Text::lines(folded.join("\n"))),
        });
        self.push_lines(shown, behind);
    }

    fn push_lines(&mut self, shown: &mut Vec<Shown>, lines: &[&str]) {
        for line in lines {
            let (line, n_left_out) = cut(line, MAX_PIECE);
            self.left = self.left.saturating_sub(line.len());
            let end = if n_left_out == 0 { "" } else { "…" };
            shown.push(Shown::Equal(Text::lines(format!("{line}{end}"))));
        }
    }

    fn push_changed(&mut self, shown: &mut Vec<Shown>, a: &[Line<'_>], b: &[Line<'_>]) {
        let mut hunk = Hunk::default();
        for at in 0..a.len().max(b.len()) {
            let [a, b] = [a.get(at), b.get(at)].map(|line| line.map(bits));
            let bytes = [&a, &b].into_iter().flatten().map(|(_, bytes)| bytes + 1);
            if !self.take(bytes.sum()) {
                continue;
            }
            hunk.a.extend(a.map(|(bits, _)| bits));
            hunk.b.extend(b.map(|(bits, _)| bits));
        }
        if !hunk.a.is_empty() || !hunk.b.is_empty() {
            shown.push(Shown::Changed(hunk));
        }
    }
}

/// The first characters of a text, and how many were left out.
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

/// A line with what is long and equal on both sides left out, and how many bytes of it are shown.
fn bits(line: &Line<'_>) -> (Vec<Bit>, usize) {
    let has_marks = line.iter().any(|piece| piece.is_marked);
    let mut bits = Vec::with_capacity(line.len());
    let mut bytes = 0;
    for (at, piece) in line.iter().enumerate() {
        if at == MAX_PIECES {
            let rest: usize = line[at..].iter().map(|piece| piece.text.chars().count()).sum();
            bits.push(Bit::Cut(format!("{} more characters", count(rest as u64))));
            break;
        }
        let n = piece.text.chars().count();
        let mut text = |text: &str, is_marked: bool| {
            bytes += text.len();
            bits.push(match is_marked {
                true => Bit::Marked(Text::lines(text)),
                false => Bit::Plain(Text::lines(text)),
            });
        };
        if has_marks && !piece.is_marked && 3 * AROUND < n {
            let first = if at == 0 { "" } else { cut(piece.text, AROUND).0 };
            let last = if at + 1 == line.len() { "" } else { tail(piece.text, AROUND) };
            let left_out = n - first.chars().count() - last.chars().count();
            text(first, false);
            bits.push(Bit::Cut(format!("{} equal characters", count(left_out as u64))));
            bytes += last.len();
            bits.push(Bit::Plain(Text::lines(last)));
            continue;
        }
        let (first, left_out) = cut(piece.text, MAX_PIECE);
        text(first, piece.is_marked);
        if 0 < left_out {
            bits.push(Bit::Cut(format!("{} more characters", count(left_out as u64))));
        }
    }
    (bits, bytes)
}

/// Numbers with what they count, those that are not zero.
pub(super) fn many_of(counts: &[(usize, &str, &str)]) -> String {
    let some = counts.iter().filter(|(n, ..)| 0 < *n);
    let words = some.map(|(n, one, many)| {
        let word = if *n == 1 { one } else { many };
        format!("{} {word}", count(*n as u64))
    });
    words.collect::<Vec<_>>().join(", ")
}
