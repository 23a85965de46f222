//! Locates media in a text: `data:` URIs, references to stored media, and long base64.

use std::ops::Range;

use crate::content::encoded::{length_in_address, run_length, sniffed};
use crate::content::members::beginning;

/// Longest run of base64 characters that is still shown as text.
const LONGEST_RUN: usize = 256;
/// Shortest base64 that is a medium by its first bytes alone.
const SHORTEST_MEDIUM: usize = 40;
/// Longest head of a `data:` URI, up to its comma.
const MAX_HEAD: usize = 256;
/// Prefix of a reference to a stored medium.
pub const REFERENCE: &str = "@@@langfuseMedia:";
/// Suffix of a reference to a stored medium.
pub const REFERENCE_END: &str = "@@@";

/// Shortest base64 after a space.
const SHORTEST_APART: usize = 40;
/// Longest element of HTML or SVG in an address, and the number of bytes of a text that are searched for its end.
const MAX_ELEMENT: usize = 64 << 10;
const MAX_SEARCHED: usize = 4 << 20;
/// Elements of HTML that have no end.
const VOID: [&str; 6] = ["br", "hr", "img", "input", "link", "meta"];

/// A MIME type without parameters, in lower case, when it is nothing but that.
#[must_use]
pub fn plain_type(text: &str) -> Option<String> {
    let name = text.split(';').next()?.trim();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/.+-_".contains(&byte);
    let is_type = name.len() <= 100 && name.contains('/') && name.bytes().all(is_plain);
    is_type.then(|| name.to_ascii_lowercase())
}

/// A medium in a text.
#[derive(Clone, Debug)]
pub struct Span {
    /// Its range in the text, including its head.
    pub whole: Range<usize>,
    /// The range of its data.
    pub data: Range<usize>,
    /// The data are base64; escaped as in addresses otherwise.
    pub is_base64: bool,
    /// MIME type; empty when it is not known.
    pub content_type: String,
    /// The id of a medium that is stored by itself.
    pub stored: Option<String>,
}

/// The media in a text: `data:` URIs, references, and long base64. One pass.
#[must_use]
pub fn spans(text: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut at = 0;
    let mut n_left = MAX_SEARCHED;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with(REFERENCE)
            && let Some(span) = reference(text, at)
        {
            at = span.whole.end;
            spans.push(span);
            continue;
        }
        let run = run_length(rest);
        if run == 0 {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        }
        let end = at + run;
        let uri = text[end..].starts_with(':').then(|| data_uri(text, at, end, &mut n_left));
        if let Some(span) = uri.flatten().or_else(|| long_run(text, at..end)) {
            at = span.whole.end;
            spans.push(span);
        } else {
            at = end;
        }
    }
    spans
}

/// The id in a reference to a stored medium.
#[must_use]
pub fn media_id(reference: &str) -> Option<&str> {
    let inner = reference.strip_prefix(REFERENCE)?.strip_suffix(REFERENCE_END)?;
    let id = inner.split('|').find_map(|part| part.strip_prefix("id="));
    id.filter(|id| !id.is_empty())
}

fn reference(text: &str, at: usize) -> Option<Span> {
    const MAX_REFERENCE: usize = 1_000;
    let after = at + REFERENCE.len();
    // Bounded, so that a text of many openings stays linear.
    let window = beginning(&text[after..], MAX_REFERENCE);
    let end = after + window.find(REFERENCE_END)? + REFERENCE_END.len();
    let id = media_id(&text[at..end])?;
    let mut parts = text[after..end - REFERENCE_END.len()].split('|');
    let content_type = parts.find_map(|part| part.strip_prefix("type="));
    Some(Span {
        whole: at..end,
        data: at..at,
        is_base64: false,
        content_type: content_type.and_then(plain_type).unwrap_or_default(),
        stored: Some(id.to_owned()),
    })
}

/// The URI whose scheme ends at `colon`; `run` is where the word before the colon begins. Markup in it is searched as long as
/// `n_left` bytes are left.
fn data_uri(text: &str, run: usize, colon: usize, n_left: &mut usize) -> Option<Span> {
    let scheme = text.get(colon.checked_sub(4)?..colon)?;
    let start = colon - 4;
    let before = text[run.min(start)..start].bytes().next_back();
    let is_inside_word = before.is_some_and(|byte| byte.is_ascii_alphanumeric());
    if !scheme.eq_ignore_ascii_case("data") || is_inside_word {
        return None;
    }
    let window = beginning(&text[colon + 1..], MAX_HEAD);
    let head = &window[..window.find(',')?];
    let base64 = head.len().checked_sub(";base64".len());
    let is_base64 =
        base64.and_then(|at| head.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(";base64"));
    let content_type = plain_type(head).or_else(|| is_base64.then(String::new))?;
    let from = colon + 1 + head.len() + 1;
    let from = from + if is_base64 { apart(&text[from..]) } else { 0 };
    let rest = &text[from..];
    let length = match is_base64 {
        true => length_in_address(rest),
        // The whole text is the URI, spaces and quotes included.
        false if start == 0 => rest.len(),
        false if is_markup(&content_type) && rest.starts_with('<') => markup_length(rest, n_left),
        false => {
            let ends = |c: char| c.is_whitespace() || "\"'<>()\\".contains(c);
            rest.find(ends).unwrap_or(rest.len())
        }
    };
    let data = from..from + length;
    (length > 0).then(|| Span {
        content_type: match content_type.as_str() {
            "" => sniffed(rest).unwrap_or_default().to_owned(),
            _ => content_type,
        },
        whole: start..data.end,
        data,
        is_base64,
        stored: None,
    })
}

fn is_markup(content_type: &str) -> bool {
    ["html", "svg", "xml"].iter().any(|name| content_type.contains(name))
}

/// The end of unencoded markup in a URI: after its last element.
fn markup_length(text: &str, n_left: &mut usize) -> usize {
    let mut at = 0;
    while let Some(length) = element_length(&text[at..], n_left) {
        at += length;
    }
    at
}

/// The length of the element at the start of a text; only of its start tag if the end is too far.
fn element_length(text: &str, n_left: &mut usize) -> Option<usize> {
    let window = beginning(text, MAX_ELEMENT.min(*n_left));
    let name = window.strip_prefix('<').filter(|name| !name.starts_with('/'))?;
    let n_name = name.bytes().take_while(u8::is_ascii_alphanumeric).count();
    let name = &name[..n_name];
    let Some(opened) = window.find('>') else {
        *n_left -= window.len();
        return None;
    };
    let opened = opened + 1;
    let is_alone = name.is_empty() || VOID.contains(&name) || window[..opened].ends_with("/>");
    if is_alone {
        return Some(opened);
    }
    let closed = end_of(window, opened, name);
    if closed.is_none() {
        *n_left -= window.len();
    }
    Some(closed.unwrap_or(opened))
}

/// The end of the element `name` whose content begins at `at`. Elements of the same name may be nested in it.
fn end_of(window: &str, mut at: usize, name: &str) -> Option<usize> {
    let mut depth = 1;
    loop {
        at += window[at..].find('<')? + 1;
        let is_end = window[at..].starts_with('/');
        let inner = &window[at + usize::from(is_end)..];
        let is_named = inner.strip_prefix(name).is_some_and(|behind| {
            behind.starts_with(|c: char| c == '>' || c == '/' || c.is_ascii_whitespace())
        });
        if !is_named {
            continue;
        }
        let ends = at + window[at..].find('>')? + 1;
        match is_end {
            true => depth -= 1,
            false if window[..ends].ends_with("/>") => {}
            false => depth += 1,
        }
        if depth == 0 {
            return Some(ends);
        }
        at = ends;
    }
}

/// Spaces before the data, which are not the words of a sentence.
fn apart(rest: &str) -> usize {
    let n = rest.bytes().take_while(|byte| *byte == b' ').count();
    match n < MAX_HEAD && SHORTEST_APART <= run_length(&rest[n..]) {
        true => n,
        false => 0,
    }
}

fn long_run(text: &str, run: Range<usize>) -> Option<Span> {
    if run.len() < SHORTEST_MEDIUM {
        return None;
    }
    let content_type = sniffed(&text[run.clone()]);
    // MPEG audio has a signature of two bytes, with which base64 addresses may begin, too.
    let is_told = content_type.is_some_and(|name| name != "audio/mpeg");
    if run.len() <= LONGEST_RUN && !is_told {
        return None;
    }
    // Every long text of bytes has all three; a long word, number or digest does not.
    let data = text[run.clone()].as_bytes();
    let has = |is: fn(&u8) -> bool| data.iter().any(is);
    let is_data =
        has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit);
    is_data.then(|| Span {
        whole: run.clone(),
        content_type: content_type.unwrap_or_default().to_owned(),
        data: run,
        is_base64: true,
        stored: None,
    })
}
