//! A run of an experiment.

use askama::Template;
use perpend_domain::score::ScoreValue;
use perpend_domain::time::Timestamp;

use crate::experiments::bar::Histogram;
use crate::experiments::estimate::{Estimate, value_of};
use crate::experiments::list::ItemCounts;
use crate::format::{NO_VALUE, count, dollars, duration, number_like, percent};
use crate::scores::score::{ResourceLink, Tone, shown};
use crate::{PageLinks, Shell, Text};

/// Maximum number of shown characters of the value of a score.
const MAX_SCORE_CHARS: usize = 40;
/// Maximum number of shown characters of the id of an item.
const MAX_ITEM_ID_CHARS: usize = 24;
/// Number of shown categories of a score.
const MAX_CATEGORIES: usize = 8;

/// A run: account of its items, scores, and the items.
#[derive(Clone, Debug, Template)]
#[template(path = "experiment.html")]
pub struct RunPage {
    /// Page frame.
    pub shell: Shell,
    /// Invalid query parameters.
    pub notices: Vec<Text>,
    /// Id.
    pub id: Text,
    /// Name.
    pub name: Text,
    /// URL of the run.
    pub href: String,
    /// Description.
    pub description: Option<Text>,
    /// Name and URL of the dataset; absent if the items are the client's own.
    pub dataset: Option<(Text, String)>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Counts of the items.
    pub counts: ItemCounts,
    /// Number of results; larger than the number of items with repetitions.
    pub n_results: u64,
    /// Whether each item has a result and no result is open.
    pub is_complete: bool,
    /// Sentences about results that do not fit.
    pub account_notes: Vec<Text>,
    /// Sum of the known costs in US dollars.
    pub cost_usd: Option<f64>,
    /// Sum of the known tokens.
    pub n_tokens: Option<u64>,
    /// Mean latency.
    pub latency: Option<Estimate>,
    /// Metadata as JSON; absent without metadata.
    pub metadata: Option<Text>,
    /// Scores of the items by name.
    pub scores: Vec<ScoreSummary>,
    /// Scores of the run as a whole.
    pub run_scores: Vec<RunScoreLine>,
    /// Evaluators of the items.
    pub evaluators: Vec<EvaluatorCountLine>,
    /// The items of the page, worst first.
    pub items: Vec<RunItem>,
    /// `1–25 of 340`.
    pub position: String,
    /// Links to the other pages of items.
    pub page_links: PageLinks,
    /// Labels and URLs of the orders and selections of items, and whether each is active.
    pub views: Vec<(&'static str, String, bool)>,
    /// Names and percent-encoded ids of other runs that this one can be compared with.
    pub others: Vec<(Text, String)>,
    /// Whether the run can be renamed and deleted.
    pub may_change: bool,
    /// URL of the fragment that reports new results; absent for old runs.
    pub news_href: Option<String>,
    /// Progress of a run by the server: state and details.
    pub progress: Option<(Text, Text)>,
    /// Changes of the state of a run by the server: value and label.
    pub changes: Vec<(&'static str, &'static str)>,
    /// The rule of the evaluators of the experiment.
    pub rule: Option<ResourceLink>,
    /// Name of the baseline, and URL of the comparison with it.
    pub baseline: Option<(Text, String)>,
}

impl RunPage {
    fn cost(&self) -> String {
        self.cost_usd.map_or_else(|| NO_VALUE.to_owned(), dollars)
    }

    fn tokens(&self) -> String {
        self.n_tokens.map_or_else(|| NO_VALUE.to_owned(), count)
    }

    fn mean_latency(&self) -> String {
        value_of(self.latency.as_ref())
    }

    fn results(&self) -> Option<String> {
        (self.counts.n_seen < self.n_results).then(|| count(self.n_results))
    }

    /// The id as a form field.
    fn encoded(&self) -> String {
        crate::encode(self.id.raw())
    }
}

/// The results that an evaluator has scored.
#[derive(Clone, Debug)]
pub struct EvaluatorCountLine {
    /// The evaluator.
    pub evaluator: ResourceLink,
    /// Number of results with a score.
    pub n_scored: u64,
    /// Number of results that neither have one nor failed.
    pub n_missing: u64,
}

impl EvaluatorCountLine {
    fn counts(&self) -> String {
        format!("{} scored, {} missing", count(self.n_scored), count(self.n_missing))
    }
}

/// The scores with one name.
#[derive(Clone, Debug)]
pub struct ScoreSummary {
    pub(crate) name: Text,
    pub(crate) estimate: Option<Estimate>,
    pub(crate) stderr: String,
    pub(crate) scored: String,
    pub(crate) missing: u64,
    pub(crate) histogram: Histogram,
    /// Text, count and share.
    pub(crate) categories: Vec<(Text, String, String)>,
    pub(crate) n_more_categories: usize,
}

impl ScoreSummary {
    /// `n_scored` and `n_missing`: items with and without this score.
    #[must_use]
    pub fn new(name: &str, [n_scored, n_missing]: [u64; 2]) -> Self {
        Self {
            name: Text::from(name),
            estimate: None,
            stderr: String::new(),
            scored: count(n_scored),
            missing: n_missing,
            histogram: Histogram::default(),
            categories: Vec::new(),
            n_more_categories: 0,
        }
    }

    /// Sets the mean, its standard error, and the values of which it is the mean.
    #[must_use]
    pub fn with_mean(mut self, estimate: Estimate, stderr: Option<f64>, values: &[f64]) -> Self {
        if let Some(stderr) = stderr {
            self.stderr = format!("± {}", number_like(stderr, stderr));
        }
        self.estimate = Some(estimate);
        self.histogram = Histogram::new(values);
        self
    }

    /// Sets the categories with their counts, most frequent first.
    #[must_use]
    pub fn with_categories(mut self, categories: &[(String, u64)]) -> Self {
        let n_all: u64 = categories.iter().map(|(_, n)| n).sum();
        let lines = categories.iter().take(MAX_CATEGORIES).map(|(text, n)| {
            let share = *n as f64 / n_all.max(1) as f64;
            (Text::from(text.as_str()), count(*n), percent(share))
        });
        self.categories = lines.collect();
        self.n_more_categories = categories.len().saturating_sub(MAX_CATEGORIES);
        self
    }
}

/// A score of the run as a whole.
#[derive(Clone, Debug)]
pub struct RunScoreLine {
    pub(crate) name: Text,
    pub(crate) value: Text,
    pub(crate) tone: Tone,
    pub(crate) comment: Option<Text>,
}

impl RunScoreLine {
    /// A score by name.
    #[must_use]
    pub fn new(name: &str, value: &ScoreValue, comment: Option<&str>) -> Self {
        let (value, tone) = shown(value, MAX_SCORE_CHARS);
        Self { name: Text::from(name), value, tone, comment: comment.map(Text::lines) }
    }

    pub(crate) fn class(&self) -> &'static str {
        self.tone.class()
    }
}

/// A result of a run.
#[derive(Clone, Debug, Default)]
pub struct RunItem {
    /// Id of the item.
    pub id: Text,
    /// URL of the trace with the observation selected; absent before it has arrived.
    pub trace_href: Option<String>,
    /// Beginning of the input.
    pub input: Option<Text>,
    /// Beginning of the expected output.
    pub expected: Option<Text>,
    /// Beginning of the output.
    pub output: Option<Text>,
    /// Scores of the item.
    pub scores: Vec<RunScoreLine>,
    /// Duration in milliseconds.
    pub latency_ms: Option<f64>,
    /// Cost in US dollars.
    pub cost_usd: Option<f64>,
    /// Number of tokens.
    pub n_tokens: Option<u64>,
    /// Whether the result has an error.
    pub is_error: bool,
    /// Whether the item has no result.
    pub is_missing: bool,
    /// The message of the error.
    pub message: Option<Text>,
}

/// The beginning of the id of an item.
pub(super) fn short_item_id(id: &Text) -> Text {
    let mut short: String = id.raw().chars().take(MAX_ITEM_ID_CHARS).collect();
    if short.len() < id.raw().len() {
        short.push('…');
    }
    Text::from(short)
}

impl RunItem {
    fn tokens(&self) -> String {
        self.n_tokens.map_or_else(|| NO_VALUE.to_owned(), count)
    }

    fn short_id(&self) -> Text {
        short_item_id(&self.id)
    }

    fn latency(&self) -> String {
        let micros = self.latency_ms.map(|ms| (ms * 1e3).round() as i64);
        micros.map_or_else(|| NO_VALUE.to_owned(), duration)
    }

    fn cost(&self) -> String {
        self.cost_usd.map_or_else(|| NO_VALUE.to_owned(), dollars)
    }
}
