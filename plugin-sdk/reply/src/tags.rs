//! Tags around thinking and quotations, in the spellings of models and inference servers.

/// Prefixes of words in the names of thinking tags: `thinking`, `thoughts`, `inner_monologue`, `begin_of_thought`.
const THINKING: [&str; 10] = [
    "think",
    "thought",
    "reason",
    "rationale",
    "analysis",
    "reflect",
    "scratch",
    "monologue",
    "draft",
    "deliberat",
];
/// Whole words in the names of thinking tags.
const THINKING_WORDS: [&str; 3] = ["cot", "plan", "planning"];
/// Prefixes of words in the names of quotation tags.
const QUOTATION: [&str; 4] = ["quot", "blockquot", "cite", "excerpt"];
/// Prefixes that may precede such a word without a separator: `antThinking`, `chainOfThought`, `selfReflection`.
const BEFORE: [&str; 12] = [
    "begin", "start", "end", "of", "ant", "inner", "internal", "deep", "self", "chain", "hidden",
    "my",
];
/// Maximum lengths of the name and the attributes of a tag, in bytes.
const MAX_NAME: usize = 40;
const MAX_ATTRIBUTES: usize = 200;

/// Opening and closing brackets of tags.
const BRACKETS: [(&str, &str); 5] =
    [("<|", "|>"), ("<", ">"), ("&lt;", "&gt;"), ("◁", "▷"), ("[", "]")];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Open(Kind),
    Close,
}

/// The content that a tag encloses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Thinking,
    Quotation,
    /// `<!-- … -->`
    Comment,
    /// The marks that the judge puts around inserted text in a prompt.
    Data,
    /// A channel of the harmony format or of Gemma that is not the answer.
    Channel,
}

impl Tag {
    /// The tag at the start of the text, and its length in bytes.
    pub(crate) fn at(text: &str) -> Option<(Self, usize)> {
        if !text.starts_with(['<', '&', '◁', '[']) {
            return None;
        }
        if text.starts_with("<!--") {
            return Some((Self::Open(Kind::Comment), 4));
        }
        if text.starts_with("[begin data ") {
            return Some((Self::Open(Kind::Data), "[begin data ".len()));
        }
        if let Some(n_bytes) = data_end(text) {
            return Some((Self::Close, n_bytes));
        }
        if let Some(found) = channel(text) {
            return Some(found);
        }
        let (name, is_closing, n_bytes) = named_tag(text)?;
        let kind = kind(&name)?;
        match is_closing {
            true => Some((Self::Close, n_bytes)),
            false => Some((Self::Open(kind), n_bytes)),
        }
    }
}

impl Kind {
    /// Whether its tags are names in brackets, which also occur in other texts.
    pub(crate) fn is_named(self) -> bool {
        matches!(self, Self::Thinking | Self::Quotation)
    }

    /// Byte offset of the end of the block, relative to the end of the opening tag.
    pub(crate) fn end(self, text: &str) -> Option<usize> {
        let starts = text.match_indices(['<', '&', '◁', '[', '-']);
        let mut starts = starts.map(|(at, _)| at);
        starts.find_map(|at| {
            let rest = &text[at..];
            let n_bytes = match self {
                Self::Comment => rest.starts_with("-->").then_some(3),
                Self::Data => data_end(rest),
                Self::Channel => channel_end(rest),
                Self::Thinking | Self::Quotation => {
                    let (name, is_closing, n_bytes) = named_tag(rest)?;
                    (is_closing && kind(&name) == Some(self)).then_some(n_bytes)
                }
            };
            Some(at + n_bytes?)
        })
    }
}

fn data_end(text: &str) -> Option<usize> {
    let mark = text.strip_prefix("[end data ")?;
    let n_bytes = mark.bytes().take(MAX_NAME).position(|byte| byte == b']')?;
    Some("[end data ".len() + n_bytes + 1)
}

/// `<|channel|>NAME` of the harmony format, and `<|channel>` of Gemma. The channel `final` contains the answer.
fn channel(text: &str) -> Option<(Tag, usize)> {
    if let Some(n_bytes) = channel_end(text) {
        return Some((Tag::Close, n_bytes));
    }
    let opening = ["<|channel|>", "<|channel>"];
    let mut opening = opening.iter().filter(|mark| text.starts_with(**mark));
    Some((Tag::Open(Kind::Channel), opening.next()?.len()))
}

fn channel_end(text: &str) -> Option<usize> {
    let ends = ["<|channel|>final<|message|>", "<|channel|>final", "<channel|>"];
    let mut ends = ends.iter().filter(|mark| text.starts_with(**mark));
    Some(ends.next()?.len())
}

/// The name of the tag at the start of the text, in lower case; whether it is a closing tag; and its length in bytes.
fn named_tag(text: &str) -> Option<(String, bool, usize)> {
    BRACKETS.iter().find_map(|(open, close)| {
        let inner = text.strip_prefix(open)?;
        let inner = inner.trim_start_matches(' ');
        let (inner, has_slash) = match inner.strip_prefix('/') {
            Some(inner) => (inner.trim_start_matches(' '), true),
            None => (inner, false),
        };
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_:-".contains(c);
        let n_name = inner.find(|c| !is_part(c))?;
        if n_name == 0 || MAX_NAME < n_name {
            return None;
        }
        let (name, rest) = inner.split_at(n_name);
        let mut end = MAX_ATTRIBUTES.min(rest.len());
        end = rest.floor_char_boundary(end);
        let n_attributes = rest[..end].find(close)?;
        let attributes = &rest[..n_attributes];
        let is_plain = match *open {
            // Only upper-case `[THINK…]` is a tag: other words in square brackets occur in prose.
            "[" => attributes.is_empty() && name.starts_with("THINK"),
            _ => attributes.is_empty() || attributes.starts_with([' ', '\n', '\t', '/']),
        };
        // `<think/>` encloses nothing.
        if !is_plain || (!has_slash && attributes.ends_with('/')) {
            return None;
        }
        let name = name.to_ascii_lowercase();
        let is_closing = has_slash || name.starts_with("end");
        let n_bytes = text.len() - rest.len() + n_attributes + close.len();
        Some((name, is_closing, n_bytes))
    })
}

fn kind(name: &str) -> Option<Kind> {
    if name == "q" {
        return Some(Kind::Quotation);
    }
    let words = || name.split(['_', ':', '-']).map(last_word);
    let has =
        |starts: &[&str]| words().any(|word| starts.iter().any(|start| word.starts_with(start)));
    if has(&THINKING) || words().any(|word| THINKING_WORDS.contains(&word)) {
        return Some(Kind::Thinking);
    }
    has(&QUOTATION).then_some(Kind::Quotation)
}

/// A word without the prefixes in [`BEFORE`].
fn last_word(word: &str) -> &str {
    let mut word = word;
    while let Some(rest) = BEFORE.iter().find_map(|before| word.strip_prefix(before)) {
        word = rest;
    }
    word
}
