//! Detects text between quotation marks in prose.

use std::ops::Range;

/// Pairs of different marks; a quotation may span lines.
const PAIRS: [(char, char); 6] =
    [('“', '”'), ('„', '“'), ('«', '»'), ('‹', '›'), ('「', '」'), ('‘', '’')];
/// Marks that both open and close.
const MARKS: [char; 3] = ['"', '\'', '`'];

/// Whether `part` of a text is inside quotation marks, alone or with other text. Returns false when the quotation is the
/// whole text, and when it is inline code that is the whole first or last line.
#[must_use]
pub fn is_quoted(text: &str, part: &Range<usize>) -> bool {
    let (Some(before), Some(after)) = (text.get(..part.start), text.get(part.end..)) else {
        return false;
    };
    let is_decoration = |c: char| c.is_whitespace() || ".*_`".contains(c);
    let is_bare = |text: &str| text.chars().all(is_decoration);
    let is_whole = |begin: usize, end: usize| is_bare(&text[..begin]) && is_bare(&text[end..]);
    let is_code_line = |begin: usize, end: usize| {
        let line = text[..begin].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[end..].find('\n').map_or(text.len(), |at| end + at);
        let is_apart = is_bare(&text[line..begin]) && is_bare(&text[end..line_end]);
        let is_first = is_bare(&text[..line]);
        let is_last = is_bare(&text[line_end..]);
        let is_line = !text[begin..end].trim_matches(is_decoration).contains('\n');
        is_apart && is_line && (is_first || is_last)
    };
    let is_pair = |begin: Option<usize>, end: Option<usize>| {
        begin.zip(end).is_some_and(|(begin, end)| {
            let end = part.end + end;
            let is_code = text[begin..].starts_with('`');
            !(is_whole(begin, end) || is_code && is_code_line(begin, end))
        })
    };
    let mut pairs = PAIRS.iter();
    let is_in_pair = pairs.any(|(open, close)| {
        let begin = before.rfind(*open);
        let is_closed = begin.is_none_or(|at| before[at + open.len_utf8()..].contains(*close));
        let end = after.find(*close).map(|at| at + close.len_utf8());
        !is_closed && is_pair(begin, end)
    });
    is_in_pair
        || MARKS.iter().any(|mark| {
            let end = closing(after, *mark).map(|at| at + mark.len_utf8());
            is_pair(opening(before, *mark), end)
        })
}

/// Byte offset of the last paragraph of a text.
fn last_paragraph(text: &str) -> usize {
    text.rfind("\n\n").map_or(0, |at| at + 2)
}

/// Byte offset of the mark that opens the quotation around the end of `before`.
fn opening(before: &str, mark: char) -> Option<usize> {
    let from = last_paragraph(before);
    let mut open = None;
    for (at, _) in before[from..].match_indices(mark) {
        let at = from + at;
        let previous = before[..at].chars().next_back();
        let next = before[at + mark.len_utf8()..].chars().next();
        open = match open {
            None if !previous.is_some_and(char::is_alphanumeric) => Some(at),
            None => None,
            // An apostrophe does not close.
            Some(begin) if mark == '\'' && next.is_some_and(char::is_alphanumeric) => Some(begin),
            Some(_) => None,
        };
    }
    open
}

/// Byte offset of the mark that closes the quotation around the start of `after`.
fn closing(after: &str, mark: char) -> Option<usize> {
    let end = after.find("\n\n").unwrap_or(after.len());
    let mut marks = after[..end].match_indices(mark).map(|(at, _)| at);
    marks.find(|at| {
        let next = after[at + mark.len_utf8()..].chars().next();
        !next.is_some_and(char::is_alphanumeric)
    })
}
