//! What was recorded lately, which rules and evaluators are paused or failing, and the latest errors.

use askama::Template;
use perpend_domain::time::Timestamp;

use crate::layout::setup::Setup;
use crate::lists::focus::FocusView;
use crate::lists::trace_line::TraceLine;
use crate::overview::figure::Figure;
use crate::overview::trends::DeferredTrend;
use crate::{Chart, Shell, Text};

/// The first page of a project.
#[derive(Clone, Debug, Template)]
#[template(path = "overview.html")]
pub struct OverviewPage {
    /// Around the page.
    pub shell: Shell,
    /// The choice of time and environments.
    pub focus: FocusView,
    /// What in the address cannot be read.
    pub notices: Vec<Text>,
    /// What was recorded in the range; without any, nothing was read, and the page has no section.
    pub figures: Vec<Figure>,
    /// Something was recorded in the same time before, which the figures are compared with.
    pub is_compared: bool,
    /// Figures that take longer to add up: they stand beside the others.
    pub quantiles: Option<DeferredTrend>,
    /// Cost over time.
    pub cost: Option<Chart>,
    /// Charts that take longer to add up.
    pub later: Vec<DeferredTrend>,
    /// What does not go on by itself.
    pub attention: Vec<AttentionItem>,
    /// The latest traces with errors in the range.
    pub failed: Vec<TraceLine>,
    /// The newest runs over datasets; none where the reader may not see them.
    pub runs: Vec<RunLine>,
    /// When the newest trace started: later ones are told while the page is open.
    pub newest: Option<Timestamp>,
    /// Nothing was recorded but evaluations and experiments.
    pub has_only_evaluations: bool,
    /// The page with evaluations and experiments alone, where it leaves them out.
    pub evaluations_href: Option<String>,
    /// Nothing was recorded yet: how to change that.
    pub setup: Option<Setup>,
}

/// A run over a dataset.
#[derive(Clone, Debug)]
pub struct RunLine {
    /// Its name.
    pub name: Text,
    /// The address of its page.
    pub href: String,
    /// The dataset.
    pub dataset: Text,
    /// When it began.
    pub at: Timestamp,
}

/// A rule or evaluator that needs attention.
#[derive(Clone, Debug)]
pub struct AttentionItem {
    /// The rule or evaluator.
    pub name: Text,
    /// `paused` or `failed`.
    pub state: &'static str,
    /// Why, and what is held by it.
    pub reason: Text,
}
