//! Compares texts by lines, and by words within changed lines.

use std::borrow::Cow;
use std::ops::Range;

use crate::value_diff::ops::{Op, ops};

/// Maximum number of words per side that are compared within a change.
const MAX_WORDS: usize = 20_000;
/// Words are only marked if the equal words make up at least this share of the longer side. Otherwise nearly every word would
/// be marked.
const MIN_EQUAL_SHARE: f64 = 0.2;

/// Options for comparing texts.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineRules {
    /// Collapses runs of white space and trims lines before comparing.
    pub ignores_space: bool,
    /// Compares words within changed lines.
    pub with_words: bool,
}

/// A piece of a line; marked if the other side differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinePiece<'t> {
    pub text: &'t str,
    pub is_marked: bool,
}

pub type Line<'t> = Vec<LinePiece<'t>>;

/// A run of equal lines, or a run of lines that was replaced by other lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineRun<'t> {
    Equal(Vec<(&'t str, &'t str)>),
    Changed(Vec<Line<'t>>, Vec<Line<'t>>),
}

/// Compares two lists of lines.
pub fn compare<'t>(a: &[&'t str], b: &[&'t str], rules: LineRules) -> Vec<LineRun<'t>> {
    let keys = |lines: &[&'t str]| -> Vec<Cow<'t, str>> {
        lines.iter().copied().map(|line| key(line, rules)).collect()
    };
    let found = ops(&keys(a), &keys(b)).into_iter();
    found
        .map(|Op { is_equal, a: in_a, b: in_b }| match is_equal {
            true => {
                let pairs = a[in_a].iter().zip(&b[in_b]);
                LineRun::Equal(pairs.map(|(a, b)| (*a, *b)).collect())
            }
            false => changed(&a[in_a], &b[in_b], rules),
        })
        .collect()
}

/// The comparison key of a line.
fn key(line: &str, rules: LineRules) -> Cow<'_, str> {
    match rules.ignores_space {
        true => Cow::Owned(line.split_whitespace().collect::<Vec<_>>().join(" ")),
        false => Cow::Borrowed(line),
    }
}

fn changed<'t>(a: &[&'t str], b: &[&'t str], rules: LineRules) -> LineRun<'t> {
    let marks = match rules.with_words && !a.is_empty() && !b.is_empty() {
        true => marks(a, b, rules),
        false => None,
    };
    let [of_a, of_b] = marks.unwrap_or_default();
    LineRun::Changed(lines(a, of_a.as_deref()), lines(b, of_b.as_deref()))
}

/// The words of several lines, each with the index of its line. `None` if there are more than `MAX_WORDS`.
fn words<'t>(lines: &[&'t str]) -> Option<Vec<(usize, &'t str)>> {
    let mut all = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let mut rest = *line;
        while !rest.is_empty() {
            if all.len() == MAX_WORDS {
                return None;
            }
            let (word, behind) = rest.split_at(word_end(rest));
            all.push((number, word));
            rest = behind;
        }
    }
    Some(all)
}

/// The end of the first word: a run of letters and digits, a run of white space, or a single other character.
fn word_end(text: &str) -> usize {
    let kind = |c: char| match c {
        _ if c.is_whitespace() => 1,
        // Scripts without spaces between words are compared by characters.
        '\u{e00}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..='\u{ffff}' => 0,
        _ if c.is_alphanumeric() || c == '_' => 2,
        _ => 0,
    };
    let mut chars = text.char_indices();
    let first = chars.next().map_or(0, |(_, c)| kind(c));
    let behind = chars.find(|(_, c)| !continues(*c) && (first == 0 || kind(*c) != first));
    behind.map_or(text.len(), |(at, _)| at)
}

/// Whether a character combines with the previous one.
fn continues(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{20d0}'..='\u{20ff}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}')
}

/// The byte ranges of each line that the other side does not contain.
type Marks = Vec<Vec<Range<usize>>>;

fn marks(a: &[&str], b: &[&str], rules: LineRules) -> Option<[Option<Marks>; 2]> {
    let (of_a, of_b) = (words(a)?, words(b)?);
    let keys = |words: &[(usize, &str)]| -> Vec<String> {
        let key = |word: &str| match rules.ignores_space && word.trim().is_empty() {
            true => " ".to_owned(),
            false => word.to_owned(),
        };
        words.iter().map(|(_, word)| key(word)).collect()
    };
    let found = ops(&keys(&of_a), &keys(&of_b));
    let length = |words: &[(usize, &str)]| -> usize {
        let words = words.iter().map(|(_, word)| word.trim());
        words.map(str::len).sum()
    };
    let equal = found.iter().filter(|op| op.is_equal);
    let n_equal: usize = equal.map(|op| length(&of_a[op.a.clone()])).sum();
    let n_longer = length(&of_a).max(length(&of_b));
    if (n_equal as f64) < MIN_EQUAL_SHARE * n_longer as f64 {
        return None;
    }
    let mut all = [vec![Vec::new(); a.len()], vec![Vec::new(); b.len()]];
    let mut at = [WordCursor::default(), WordCursor::default()];
    for op in &found {
        let sides = [(&of_a, op.a.clone()), (&of_b, op.b.clone())];
        for (side, (words, range)) in sides.into_iter().enumerate() {
            for (number, word) in &words[range] {
                let place = at[side].pass(*number, word.len());
                if !op.is_equal {
                    push(&mut all[side][*number], place);
                }
            }
        }
    }
    Some(all.map(Some))
}

/// The position in the lines while iterating over words.
#[derive(Default)]
struct WordCursor {
    number: usize,
    at: usize,
}

impl WordCursor {
    fn pass(&mut self, number: usize, length: usize) -> Range<usize> {
        if self.number != number {
            *self = Self { number, at: 0 };
        }
        let from = self.at;
        self.at += length;
        from..self.at
    }
}

fn push(all: &mut Vec<Range<usize>>, place: Range<usize>) {
    match all.last_mut().filter(|last| last.end == place.start) {
        Some(last) => last.end = place.end,
        None => all.push(place),
    }
}

fn lines<'t>(lines: &[&'t str], marks: Option<&[Vec<Range<usize>>]>) -> Vec<Line<'t>> {
    let line = |(number, text): (usize, &'t str)| match marks {
        Some(marks) => pieces(text, &marks[number]),
        None => vec![LinePiece { text, is_marked: false }],
    };
    lines.iter().copied().enumerate().map(line).collect()
}

fn pieces<'t>(line: &'t str, marked: &[Range<usize>]) -> Line<'t> {
    let mut pieces = Vec::with_capacity(2 * marked.len() + 1);
    let mut push = |range: Range<usize>, is_marked| {
        let text = line.get(range).unwrap_or_default();
        if !text.is_empty() {
            pieces.push(LinePiece { text, is_marked });
        }
    };
    let mut at = 0;
    for range in marked {
        push(at..range.start, false);
        push(range.clone(), true);
        at = range.end;
    }
    push(at..line.len(), false);
    pieces
}
