//! Replies of models: which parts of a text are the answer, and which are thinking or quotations.
//!
//! A crate of its own because the server, which looks for JSON, and the judge plug-in, which looks for verdicts in plain
//! text, must ignore the same parts.
//!
//! Invariants:
//! - **Pure, and without dependencies.** It is part of a component too.
//! - **Fail closed.** A block that is not closed reaches to the end of the text, and a closing tag without an opening one
//!   hides everything before it. An answer is missed rather than a draft taken for it. Only a name in brackets that
//!   follows a letter, a digit or a backtick and is not closed is a type or the mention of a tag: it hides nothing.
//! - **Bounded.** The work is linear in the length of the text, times [`MAX_DEPTH`] at most.

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
pub struct Outline {
    /// Thinking, quotations that are marked as such, and comments; in order, without overlaps.
    pub hidden: Vec<Range<usize>>,
    /// JSON objects and arrays outside of them, in order; the members of one are not listed.
    pub values: Vec<Range<usize>>,
    /// Where an object or array begins that the text ends in.
    pub cut: Option<usize>,
}

impl Outline {
    /// The structure of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut outline = Self::default();
        // Kinds that are not closed anywhere from here on: the text is searched once for each.
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

    /// The text with spaces in place of each byte that is hidden. Line breaks stay, and so do the places of all others.
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

/// Whether what comes after this text is a part of its last word, or in inline code.
fn follows_word(before: &str) -> bool {
    before.ends_with(|c: char| c.is_alphanumeric() || c == '`')
}

/// Whether a line is a quotation in Markdown.
fn is_block_quote(line: &str) -> bool {
    line.trim_start_matches([' ', '\t']).starts_with('>')
}

#[cfg(test)]
mod tests;
