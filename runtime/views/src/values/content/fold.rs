//! Text and JSON that fold away when they are long, with the media that stand in them.

use std::hash::{DefaultHasher, Hasher as _};

use crate::markup::{Html, Text};
use perpend_domain::content::beginning;

use super::media::Media;
use crate::format::{count, size};

/// Values above this are folded away.
const FOLD_BYTES: usize = 4_000;
/// As are values with more lines than this.
const FOLD_LINES: usize = 60;
/// A page shows this much of one value; the rest is asked for.
pub(super) const SHOWN_BYTES: usize = 64 * 1024;

/// How a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// As it is.
    Plain,
    /// As JSON, indented.
    Json,
    /// With its markdown rendered where it has any, and all of it is at hand.
    Rich,
}

/// What of a text is shown: from this byte on, at most so many.
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

/// Text that is folded away when it is long.
#[derive(Clone, Debug)]
pub struct Fold {
    pub(crate) body: Html,
    /// Elements instead of text.
    pub(crate) is_rich: bool,
    /// Set when folded: how it starts.
    pub(crate) preview: Option<Text>,
    /// Set when folded: how long it is.
    pub(crate) size: String,
    /// Only a part of it is on the page.
    pub(crate) cut: Option<Cut>,
    /// Nothing but media.
    pub(crate) is_blank: bool,
    /// Those that were taken out of it.
    pub(crate) media: Vec<Media>,
    /// Media beyond the number that a page shows of one value.
    pub(crate) n_more_media: usize,
    /// Equal for equal texts, whatever is shown of them.
    pub(super) print: u64,
}

/// What of a longer text is shown, and where the rest is.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// `64 KB of 3.2 MB`.
    pub(crate) shown: String,
    /// The byte where the next part begins; none when this is the last one.
    pub(super) next: Option<usize>,
    /// The address of the next part.
    pub(crate) more: Option<String>,
    /// Whether a part of a text follows there, which a script can put in place.
    pub(crate) is_next: bool,
}

impl Fold {
    pub(super) fn new(raw: &str, style: Style, window: Window) -> Self {
        let from = beginning(raw, window.from).len();
        let shown = beginning(&raw[from..], window.n);
        let to = from + shown.len();
        let rich = match style {
            // A part of a longer text may begin or end inside of something.
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
            print: hasher.finish(),
        }
    }

    /// Shown at once however long it is.
    pub(super) fn unfolded(mut self) -> Self {
        self.preview = None;
        self
    }
}

/// Members of an object that have no place of their own in the form that is shown.
#[derive(Clone, Debug)]
pub(crate) struct Further {
    pub(crate) n: usize,
    /// Their names, as many as fit into a line.
    pub(crate) names: Text,
    pub(crate) body: Fold,
}

impl Further {
    pub(crate) fn title(&self) -> String {
        match self.n {
            1 => "1 further field".to_owned(),
            n => format!("{} further fields", count(n as u64)),
        }
    }
}
