//! Separates the answer in a model's reply from thinking and quotations.
//!
//! A separate crate because the server, which looks for JSON, and the judge plug-in, which looks for verdicts in plain
//! text, must ignore the same parts.
//!
//! Invariants:
//! - **Pure, and without dependencies.** The crate is also compiled into components.
//! - **Fail closed.** An unclosed block extends to the end of the text, and a closing tag without an opening one hides all
//!   text before it. It is better to miss an answer than to accept a draft. Exception: an unclosed name in brackets after
//!   a letter, a digit or a backtick is a type or the mention of a tag, and hides nothing.
//! - **Bounded.** The work is linear in the length of the text, times at most [`MAX_DEPTH`].

mod json;
mod quotes;
mod tags;

use std::ops::Range;

pub use json::MAX_DEPTH;
pub use quotes::is_quoted;

use json::Extent;
use tags::{Kind, Tag};

/// The structure of a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyOutline {
    /// Byte ranges of thinking, marked quotations and comments, in order, without overlaps.
    pub hidden: Vec<Range<usize>>,
    /// Byte ranges of the outermost JSON objects and arrays outside the hidden ranges, in order.
    pub values: Vec<Range<usize>>,
    /// Byte offset of an object or array that is incomplete at the end of the text.
    pub cut: Option<usize>,
}

impl ReplyOutline {
    /// Parses a reply.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut outline = Self::default();
        // Kinds without a closing tag in the rest of the text, so that the text is searched once for each.
        let mut unclosed: Vec<Kind> = Vec::new();
        let mut at = 0;
        let bytes = text.as_bytes();
        while let Some(byte) = bytes.get(at) {
            let is_line_start = at == 0 || bytes[at - 1] == b'\n';
            if is_line_start && is_block_quote(&text[at..]) {
                let end = text[at..].find('\n').map_or(text.len(), |n| at + n);
                outline.hidden.push(at..end);
                at = end;
                continue;
            }
            if !text.is_char_boundary(at) {
                at += 1;
                continue;
            }
            if let Some((tag, n_bytes)) = Tag::at(&text[at..]) {
                let after = at + n_bytes;
                match tag {
                    Tag::Open(kind) => {
                        let end = match unclosed.contains(&kind) {
                            true => None,
                            false => kind.end(&text[after..]).map(|n| after + n),
                        };
                        if end.is_none() && kind.is_named() && follows_word(&text[..at]) {
                            if !unclosed.contains(&kind) {
                                unclosed.push(kind);
                            }
                            at = after;
                            continue;
                        }
                        let end = end.unwrap_or(text.len());
                        outline.hidden.push(at..end);
                        at = end;
                    }
                    Tag::Close => {
                        outline.hide_before(after);
                        at = after;
                    }
                }
                continue;
            }
            if matches!(byte, b'{' | b'[') {
                match json::extent(&text[at..]) {
                    Extent::Complete(n_bytes) => {
                        outline.values.push(at..at + n_bytes);
                        at += n_bytes;
                        continue;
                    }
                    Extent::Cut => {
                        outline.cut = Some(at);
                        break;
                    }
                    Extent::None => {}
                }
            }
            at += 1;
        }
        outline
    }

    fn hide_before(&mut self, end: usize) {
        self.hidden.clear();
        self.hidden.push(0..end);
        self.values.clear();
    }

    /// Replaces each hidden byte with a space. Line breaks and the offsets of all other bytes are preserved.
    #[must_use]
    pub fn masked(&self, text: &str) -> String {
        let mut masked = String::with_capacity(text.len());
        let mut at = 0;
        for hidden in &self.hidden {
            masked.push_str(&text[at..hidden.start]);
            let bytes = text[hidden.clone()].bytes();
            masked.extend(bytes.map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
            at = hidden.end;
        }
        masked.push_str(&text[at..]);
        masked
    }
}

/// Whether text after `before` continues a word or inline code.
fn follows_word(before: &str) -> bool {
    before.ends_with(|c: char| c.is_alphanumeric() || c == '`')
}

/// Whether a line is a Markdown block quote.
fn is_block_quote(line: &str) -> bool {
    line.trim_start_matches([' ', '\t']).starts_with('>')
}

#[cfg(test)]
mod tests;
