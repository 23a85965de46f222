//! The comparison of 2 to 6 runs.

use askama::Template;

use crate::experiments::address::ComparedRun;
use crate::experiments::deltas::DeltaChart;
use crate::experiments::run::{RunScoreLine, short_item_id};
use crate::experiments::verdict::{MetricVerdicts, SegmentVerdicts};
use crate::values::diff::Diff;
use crate::{PageLinks, Shell, Text};

/// The comparison of runs: verdicts, then the items.
#[derive(Clone, Debug, Template)]
#[template(path = "experiment_compare.html")]
pub struct RunComparisonPage {
    /// Page frame.
    pub shell: Shell,
    /// Invalid query parameters.
    pub notices: Vec<Text>,
    /// The runs in the order of the columns.
    pub runs: Vec<ComparedRun>,
    /// Metadata keys with values that differ: the key and the value of each run.
    pub differences: Vec<(Text, Vec<Text>)>,
    /// Circumstances that limit the comparison.
    pub warnings: Vec<Text>,
    /// Confidence level in percent.
    pub level: String,
    /// The metrics with their verdicts.
    pub metrics: Vec<MetricVerdicts>,
    /// Differences of the items by score and run.
    pub charts: Vec<DeltaChart>,
    /// Scores whose direction is unknown.
    pub undirected: Vec<DirectionForm>,
    /// Whether directions can be set.
    pub may_set_direction: bool,
    /// Hidden fields of the form that selects the method.
    pub method_fields: Vec<(&'static str, String)>,
    /// Adjustments of p-values: value, label and whether it is selected.
    pub corrections: Vec<(&'static str, &'static str, bool)>,
    /// Reductions of repetitions; empty if no run has repetitions.
    pub reducers: Vec<(&'static str, &'static str, bool)>,
    /// Metadata keys of the items: label, URL and whether it is selected.
    pub segment_links: Vec<(Text, String, bool)>,
    /// The groups of items of the selected key.
    pub segments: Vec<SegmentVerdicts>,
    /// Selections of items: label, URL, number of items and whether it is selected.
    pub selections: Vec<(&'static str, String, String, bool)>,
    /// Choices of the difference of outputs.
    pub diff_links: Vec<(&'static str, String, bool)>,
    /// The items of the page.
    pub items: Vec<ComparedItem>,
    /// `1–25 of 340`.
    pub position: String,
    /// The order of the items in words.
    pub order: &'static str,
    /// Links to the other pages of items.
    pub page_links: PageLinks,
    /// The report as Markdown.
    pub markdown: Text,
    /// The command that prints the same report.
    pub command: String,
}

impl RunComparisonPage {
    fn base_name(&self) -> &str {
        let base = self.runs.iter().find(|run| run.is_base);
        base.map_or("", |run| run.name.raw())
    }

    fn baseline(&self) -> Text {
        Text::from(self.base_name())
    }

    /// CSS class of the columns.
    fn columns(&self) -> String {
        format!("runs-{}", self.runs.len())
    }
}

/// A form that sets the direction of a score.
#[derive(Clone, Debug)]
pub struct DirectionForm {
    /// Name of the score.
    pub name: Text,
    /// The percent-encoded name.
    pub encoded: String,
    /// The type of the scores.
    pub data_type: &'static str,
}

/// An item of the comparison.
#[derive(Clone, Debug)]
pub struct ComparedItem {
    /// Id.
    pub id: Text,
    /// URL of the item in all runs.
    pub href: String,
    /// `regressed`, `improved` and so on, with CSS classes.
    pub tags: Vec<(&'static str, &'static str)>,
    /// Whether a score became worse.
    pub is_regressed: bool,
    /// Whether a score became better.
    pub is_improved: bool,
    /// Beginning of the input.
    pub input: Option<Text>,
    /// Beginning of the expected output.
    pub expected: Option<Text>,
    /// One for each run.
    pub cells: Vec<ItemCell>,
}

impl ComparedItem {
    pub(crate) fn short_id(&self) -> Text {
        short_item_id(&self.id)
    }

    /// The step of scripts between regressions and between improvements.
    pub(crate) fn marks(&self) -> &'static str {
        match (self.is_regressed, self.is_improved) {
            (true, true) => "regressed improved",
            (true, false) => "regressed",
            (false, true) => "improved",
            (false, false) => "",
        }
    }
}

/// The result of a run for an item.
#[derive(Clone, Debug, Default)]
pub struct ItemCell {
    /// Name of the run.
    pub run: Text,
    /// URL of the trace with the observation selected; absent without a result.
    pub trace_href: Option<String>,
    /// The output.
    pub output: OutputView,
    /// Whether a result failed.
    pub is_error: bool,
    /// Message of the error.
    pub message: Option<Text>,
    /// Scores with their difference to the baseline.
    pub scores: Vec<ItemScoreChip>,
    /// Number of results, if more than one.
    pub n_results: Option<u64>,
}

/// An output, or its difference to another one.
#[derive(Clone, Debug, Default)]
pub enum OutputView {
    /// The run has no result, or nothing was recorded.
    #[default]
    Absent,
    /// The beginning of the output.
    Whole(Text),
    /// Equal to the compared output.
    Equal(Text),
    /// The difference to the compared output.
    Changed(Box<Diff>),
}

/// A score of an item in a run.
#[derive(Clone, Debug)]
pub struct ItemScoreChip {
    /// Name and value.
    pub score: RunScoreLine,
    /// Difference to the baseline; absent for the baseline and for equal values.
    pub difference: Option<String>,
    /// Whether the difference is better or worse; absent without a direction.
    pub is_better: Option<bool>,
}

impl ItemScoreChip {
    pub(crate) fn class(&self) -> &'static str {
        match self.is_better {
            Some(true) => "good",
            Some(false) => "bad",
            None => "",
        }
    }
}

/// The page shown unless at least two known runs are selected.
#[derive(Clone, Debug, Template)]
#[template(path = "experiment_select.html")]
pub struct RunSelectionPage {
    /// Page frame.
    pub shell: Shell,
    /// The reason for the absence of a comparison.
    pub message: Text,
    /// Names, percent-encoded ids and whether each is selected.
    pub runs: Vec<(Text, String, bool)>,
}
