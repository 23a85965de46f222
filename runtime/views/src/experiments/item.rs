//! An item in all runs of a comparison.

use askama::Template;

use crate::experiments::address::ComparedRun;
use crate::experiments::compare::{ItemCell, OutputView};
use crate::values::content::Block;
use crate::{Shell, Text};

/// An item with the output of each run.
#[derive(Clone, Debug, Template)]
#[template(path = "experiment_item.html")]
pub struct ComparedItemPage {
    /// Page frame.
    pub shell: Shell,
    /// Invalid query parameters.
    pub notices: Vec<Text>,
    /// Id of the item.
    pub id: Text,
    /// URL of the comparison.
    pub comparison_href: String,
    /// URL of the item of the dataset; absent for the client's own items.
    pub item_href: Option<String>,
    /// Choices of the difference of outputs.
    pub diff_links: Vec<(&'static str, String, bool)>,
    /// Input.
    pub input: Block,
    /// Expected output.
    pub expected: Block,
    /// One for each run.
    pub sides: Vec<ItemSide>,
    /// URL of the previous item in the order of the comparison.
    pub previous: Option<String>,
    /// URL of the next item.
    pub next: Option<String>,
    /// `3 of 340`.
    pub position: String,
    /// Circumstances that limit the comparison of the item.
    pub warnings: Vec<Text>,
}

/// The result of a run for the item.
#[derive(Clone, Debug)]
pub struct ItemSide {
    /// The run.
    pub run: ComparedRun,
    /// Scores and state.
    pub cell: ItemCell,
    /// The whole output, unless a difference is shown.
    pub output: Option<Block>,
    /// Comments of the scores: name and comment.
    pub comments: Vec<(Text, Text)>,
    /// Duration.
    pub latency: String,
    /// Cost.
    pub cost: String,
    /// URL of the trace and scores of each result of a run with repetitions.
    pub repetitions: Vec<(String, Text)>,
}

impl ItemSide {
    fn shows_difference(&self) -> bool {
        matches!(self.cell.output, OutputView::Changed(_) | OutputView::Equal(_))
    }
}
