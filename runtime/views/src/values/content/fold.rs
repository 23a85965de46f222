//! Text and JSON that are collapsed if they are long, and the media they contain.

use std::hash::{DefaultHasher, Hasher as _};

use crate::markup::{Html, Text};
use perpend_domain::content::beginning;

use super::media::Media;
use crate::format::{count, size};

/// Longer values are collapsed.
const FOLD_BYTES: usize = 4_000;
/// Values with more lines are collapsed.
const FOLD_LINES: usize = 60;
/// Maximum length of the text of one value on a page; the rest is loaded on request.
pub(super) const SHOWN_BYTES: usize = 64 * 1024;

/// How a text is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Plain text.
    Plain,
    /// Indented JSON.
    Json,
    /// Rendered markdown, if the text contains markdown and is shown completely; otherwise plain text.
    Rich,
}

/// The byte range of a text that is shown: at most `n` bytes from byte `from`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) from: usize,
    pub(super) n: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self { from: 0, n: SHOWN_BYTES }
    }
}

/// A text that is collapsed if it is long.
#[derive(Clone, Debug)]
pub struct Fold {
    pub(crate) body: Html,
    /// `body` has block elements (rendered markdown).
    pub(crate) is_rich: bool,
    /// The beginning of the text; present if collapsed.
    pub(crate) preview: Option<Text>,
    /// The length of the text; empty unless collapsed.
    pub(crate) size: String,
    /// Present if only a part of the text is on the page.
    pub(crate) cut: Option<Cut>,
    /// The text consists of media only.
    pub(crate) is_blank: bool,
    /// Media extracted from the text.
    pub(crate) media: Vec<Media>,
    /// Number of media above the limit per value.
    pub(crate) n_more_media: usize,
    /// Hash of the complete text.
    pub(super) content_hash: u64,
}

/// The shown part of a longer text and a link to the rest.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// `64 KB of 3.2 MB`.
    pub(crate) shown: String,
    /// Byte offset of the next part; absent for the last part.
    pub(super) next: Option<usize>,
    /// URL of the next part.
    pub(crate) more: Option<String>,
    /// `more` returns the next part of the same text, which a script can append.
    pub(crate) is_next: bool,
}

impl Fold {
    pub(super) fn new(raw: &str, style: Style, window: Window) -> Self {
        let from = beginning(raw, window.from).len();
        let shown = beginning(&raw[from..], window.n);
        let to = from + shown.len();
        let rich = match style {
            // A part of a longer text may start or end inside a markdown element.
            Style::Rich if from == 0 && to == raw.len() => Html::markdown(shown),
            _ => None,
        };
        let is_rich = rich.is_some();
        let body = rich.unwrap_or_else(|| match style {
            Style::Json => Html::json(shown),
            Style::Plain | Style::Rich => Html::text(shown),
        });
        let n_lines = raw.bytes().filter(|byte| *byte == b'\n').count();
        let is_long = FOLD_BYTES < raw.len() || FOLD_LINES < n_lines;
        let preview = is_long.then(|| {
            let start = raw.trim_start().chars().take(160);
            let line = start.map(|c| if c == '\n' { ' ' } else { c });
            Text::lines(line.collect::<String>())
        });
        let cut = (0 < from || to < raw.len()).then(|| {
            let (n, all) = (size(shown.len() as u64), size(raw.len() as u64));
            Cut {
                shown: match from {
                    0 => format!("{n} of {all}"),
                    from => format!("{n} of {all}, from byte {}", count(from as u64)),
                },
                next: (to < raw.len()).then_some(to),
                more: None,
                is_next: false,
            }
        });
        let mut hasher = DefaultHasher::new();
        hasher.write(raw.as_bytes());
        Self {
            body,
            is_rich,
            preview,
            size: match is_long {
                true => size(raw.len() as u64),
                false => String::new(),
            },
            cut,
            is_blank: false,
            media: Vec::new(),
            n_more_media: 0,
            content_hash: hasher.finish(),
        }
    }

    /// Expanded regardless of length.
    pub(super) fn expanded(mut self) -> Self {
        self.preview = None;
        self
    }
}

/// Members of an object that the current form does not show.
#[derive(Clone, Debug)]
pub(crate) struct OtherFields {
    pub(crate) n: usize,
    /// The first names, separated by commas.
    pub(crate) names: Text,
    pub(crate) body: Fold,
}

impl OtherFields {
    pub(crate) fn title(&self) -> String {
        match self.n {
            1 => "1 more field".to_owned(),
            n => format!("{} more fields", count(n as u64)),
        }
    }
}
