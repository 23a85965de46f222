//! The overview page.

use askama::Template;
use perpend_domain::time::Timestamp;

use crate::layout::setup::Setup;
use crate::lists::column::ListTable;
use crate::lists::focus::FocusView;
use crate::lists::trace_line::TraceLine;
use crate::lists::trace_rows::trace_table;
use crate::overview::figure::Figure;
use crate::overview::trends::DeferredTrend;
use crate::{Chart, Shell, Text};

/// The overview of a project.
#[derive(Clone, Debug, Template)]
#[template(path = "overview.html")]
pub struct OverviewPage {
    /// Page frame.
    pub shell: Shell,
    /// Time range and environments.
    pub focus: FocusView,
    /// Errors in the query string.
    pub notices: Vec<Text>,
    /// Figures of the time range; empty if nothing was read.
    pub figures: Vec<Figure>,
    /// Whether the previous period has data to compare with.
    pub is_compared: bool,
    /// Figures that are loaded later.
    pub quantiles: Option<DeferredTrend>,
    /// Cost over time.
    pub cost: Option<Chart>,
    /// Charts that are loaded later.
    pub trends: Vec<DeferredTrend>,
    /// Rules, evaluators and executions that need attention.
    pub attention: Vec<AttentionItem>,
    /// Latest traces with errors in the time range.
    pub failed: Vec<TraceLine>,
    /// Newest runs over datasets; empty without permission.
    pub runs: Vec<RunLine>,
    /// Start of the newest trace, from which new traces are counted.
    pub newest: Option<Timestamp>,
    /// Whether all traces are of evaluations and experiments.
    pub has_only_evaluations: bool,
    /// URL of the page with only evaluations and experiments, if they are hidden.
    pub evaluations_href: Option<String>,
    /// Setup instructions, if the project has no data.
    pub setup: Option<Setup>,
}

impl OverviewPage {
    fn failed_table(&self) -> ListTable {
        trace_table(&self.failed, &self.shell).with_ids()
    }
}

/// A run over a dataset.
#[derive(Clone, Debug)]
pub struct RunLine {
    /// Name.
    pub name: Text,
    /// URL.
    pub href: String,
    /// Name of the dataset.
    pub dataset: Text,
    /// Start.
    pub at: Timestamp,
}

/// A rule or evaluator that needs attention.
#[derive(Clone, Debug)]
pub struct AttentionItem {
    /// The rule or evaluator.
    pub name: Text,
    /// URL of the page of rules, or of the failed executions.
    pub href: String,
    /// `paused` or `failed`.
    pub state: &'static str,
    /// Reason and consequences.
    pub reason: Text,
}
