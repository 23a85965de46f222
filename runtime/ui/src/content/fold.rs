//! Text and JSON that fold away when they are long, with the media that stand in them.

use super::fields::beginning;
use super::media::Media;
use crate::format::count;
use crate::markup::{Html, Text};

/// Values above this are folded away.
const FOLD_BYTES: usize = 4_000;
/// As are values with more lines than this.
const FOLD_LINES: usize = 60;
/// A page shows this much of one value; the rest is behind the link to the raw value.
pub(super) const SHOWN_BYTES: usize = 512 * 1024;

/// Text that is folded away when it is long.
#[derive(Clone, Debug)]
pub struct Fold {
    pub(crate) body: Html,
    /// Set when folded: how it starts.
    pub(crate) preview: Option<Text>,
    /// Set when folded: how long it is.
    pub(crate) size: String,
    /// Only the beginning is on the page.
    pub(crate) is_cut: bool,
    /// Nothing but media.
    pub(crate) is_blank: bool,
    /// Those that were taken out of it.
    pub(crate) media: Vec<Media>,
    /// Media beyond the number that a page shows of one value.
    pub(crate) n_more_media: usize,
}

impl Fold {
    pub(super) fn text(raw: &str) -> Self {
        let shown = beginning(raw, SHOWN_BYTES);
        Self::new(raw, Html::text(shown), shown.len() < raw.len())
    }

    pub(super) fn json(raw: &str) -> Self {
        let shown = beginning(raw, SHOWN_BYTES);
        Self::new(raw, Html::json(shown), shown.len() < raw.len())
    }

    fn new(raw: &str, body: Html, is_cut: bool) -> Self {
        let n_lines = raw.bytes().filter(|byte| *byte == b'\n').count();
        let is_long = FOLD_BYTES < raw.len() || FOLD_LINES < n_lines;
        let preview = is_long.then(|| {
            let start = raw.trim_start().chars().take(160);
            let line = start.map(|c| if c == '\n' { ' ' } else { c });
            Text::from(line.collect::<String>())
        });
        let size = match is_long {
            true => format!("{} bytes", count(raw.len() as u64)),
            false => String::new(),
        };
        Self {
            body,
            preview,
            size,
            is_cut,
            is_blank: false,
            media: Vec::new(),
            n_more_media: 0,
        }
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
