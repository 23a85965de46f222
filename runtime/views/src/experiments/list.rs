//! The list of experiment runs.

use askama::Template;
use perpend_domain::experiment::escaped_run_id;
use perpend_domain::time::Timestamp;

use crate::experiments::chart::RunChart;
use crate::experiments::estimate::Estimate;
use crate::format::{NO_VALUE, count, dollars, duration};
use crate::{PageLinks, Setup, Shell, Text, encode};

/// The list of experiment runs, newest first.
#[derive(Clone, Debug, Template)]
#[template(path = "experiments.html")]
pub struct ExperimentsPage {
    /// Page frame.
    pub shell: Shell,
    /// Invalid query parameters.
    pub notices: Vec<Text>,
    /// The text that names must contain.
    pub q: String,
    /// Ids and names of the datasets to filter by, and whether each is selected.
    pub datasets: Vec<(String, Text, bool)>,
    /// The runs of the page.
    pub table: RunTable,
    /// Links to the other pages.
    pub page_links: PageLinks,
    /// Whether a filter is set.
    pub is_filtered: bool,
    /// Whether this is not the first page.
    pub is_later: bool,
    /// URL of the page that starts a run by the server; absent without the permission.
    pub new_href: Option<String>,
    /// Labels and URLs of the list as files.
    pub exports: Vec<(&'static str, String)>,
    /// Connection data of the example.
    pub setup: Option<Setup>,
    /// Name of a dataset for the example.
    pub example_dataset: String,
}

/// Runs with their scores, and a chart of one score.
#[derive(Clone, Debug)]
pub struct RunTable {
    /// The runs.
    pub runs: Vec<ExperimentLine>,
    /// Names of the score columns.
    pub score_names: Vec<Text>,
    /// Number of score names that have no column.
    pub n_more_scores: usize,
    /// The selected score over the runs.
    pub chart: Option<RunChart>,
    /// The names that the chart can show, with URL and whether it is shown.
    pub chart_links: Vec<(Text, String, bool)>,
    /// Whether the runs are of several datasets.
    pub has_datasets: bool,
    /// Whether runs can be deleted.
    pub may_delete: bool,
    /// URL of the form that sets the baseline; absent if it cannot be set here.
    pub baseline_action: Option<String>,
}

impl RunTable {
    pub(crate) fn has_comparison(&self) -> bool {
        1 < self.runs.len()
    }

    /// The score cells of a run with the names of their columns.
    pub(crate) fn cells<'a>(
        &'a self,
        run: &'a ExperimentLine,
    ) -> impl Iterator<Item = (&'a Text, Option<&'a Estimate>)> {
        self.score_names.iter().zip(run.scores.iter().map(Option::as_ref))
    }
}

impl ExperimentsPage {
    /// The name of the dataset of the example as a literal of Python and JavaScript.
    fn dataset_literal(&self) -> String {
        serde_json::Value::from(self.example_dataset.as_str()).to_string()
    }
}

/// The counts of the items of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemCounts {
    /// Items that the run was expected to have; absent if the items are the client's own.
    pub n_expected: Option<u64>,
    /// Items with a result.
    pub n_seen: u64,
    /// Items with an error.
    pub n_failed: u64,
    /// Expected items without a result.
    pub n_missing: u64,
}

impl ItemCounts {
    /// `18 / 20`, or `18` without an expected number.
    pub(crate) fn progress(&self) -> String {
        match self.n_expected {
            Some(expected) => format!("{} / {}", count(self.n_seen), count(expected)),
            None => count(self.n_seen),
        }
    }

    pub(crate) fn expected(&self) -> String {
        self.n_expected.map_or_else(|| NO_VALUE.to_owned(), count)
    }

    pub(crate) fn seen(&self) -> String {
        count(self.n_seen)
    }

    pub(crate) fn failed(&self) -> String {
        count(self.n_failed)
    }

    pub(crate) fn missing(&self) -> String {
        count(self.n_missing)
    }
}

/// A run of the list.
#[derive(Clone, Debug)]
pub struct ExperimentLine {
    pub(crate) id: Text,
    pub(crate) name: Text,
    pub(crate) href: String,
    pub(crate) dataset: Option<(Text, String)>,
    pub(crate) counts: ItemCounts,
    /// A cell for each score column.
    pub(crate) scores: Vec<Option<Estimate>>,
    pub(crate) cost: String,
    pub(crate) latency: String,
    pub(crate) at: Timestamp,
    pub(crate) delete: String,
    pub(crate) is_baseline: bool,
}

impl ExperimentLine {
    /// `(id, name)` and creation time of a run below the URL `base` of the project.
    #[must_use]
    pub fn new((id, name): (&str, &str), at: Timestamp, base: &str) -> Self {
        let href = run_href(base, id);
        Self {
            id: Text::from(id),
            name: Text::from(name),
            delete: format!("{href}/delete"),
            href,
            dataset: None,
            counts: ItemCounts::default(),
            scores: Vec::new(),
            cost: NO_VALUE.to_owned(),
            latency: NO_VALUE.to_owned(),
            at,
            is_baseline: false,
        }
    }

    /// Sets id and name of the dataset.
    #[must_use]
    pub fn of_dataset(mut self, (id, name): (&str, &str), base: &str) -> Self {
        let href = format!("{base}/datasets/{}", encode(id));
        self.dataset = Some((Text::from(name), href));
        self
    }

    /// Marks it as the baseline of its dataset.
    #[must_use]
    pub fn as_baseline(self, is_baseline: bool) -> Self {
        Self { is_baseline, ..self }
    }

    /// Sets the counts of the items and the scores, one for each column.
    #[must_use]
    pub fn with_items(mut self, counts: ItemCounts, scores: Vec<Option<Estimate>>) -> Self {
        self.counts = counts;
        self.scores = scores;
        self
    }

    /// Sets the cost in US dollars and the mean latency in milliseconds.
    #[must_use]
    pub fn with_figures(mut self, cost_usd: Option<f64>, latency_ms: Option<f64>) -> Self {
        if let Some(cost) = cost_usd {
            self.cost = dollars(cost);
        }
        if let Some(ms) = latency_ms {
            self.latency = duration((ms * 1e3).round() as i64);
        }
        self
    }

    /// The id as a form field. Browsers normalize line breaks in fields, so it is encoded.
    pub(crate) fn encoded(&self) -> String {
        encode(self.id.raw())
    }
}

/// URL of the page of a run. `base` is the URL of the project.
#[must_use]
pub fn run_href(base: &str, id: &str) -> String {
    format!("{base}/experiments/{}", crate::segment(&escaped_run_id(id)))
}

/// The form with the name of a run.
#[derive(Clone, Debug, Template)]
#[template(path = "experiment_rename.html")]
pub struct RenameExperimentPage {
    /// Page frame.
    pub shell: Shell,
    /// Name of the run.
    pub name: Text,
    /// URL of the run.
    pub href: String,
    /// The entered name.
    pub entered: String,
    /// Why the entered name is invalid.
    pub problem: Option<Text>,
}

/// The confirmation that a run is deleted.
#[derive(Clone, Debug, Template)]
#[template(path = "experiment_delete.html")]
pub struct DeleteExperimentPage {
    /// Page frame.
    pub shell: Shell,
    /// Name of the run.
    pub name: Text,
    /// URL of the run.
    pub href: String,
    /// The number of its items.
    pub n_items: u64,
}

impl DeleteExperimentPage {
    fn items(&self) -> String {
        crate::plural(self.n_items, "item")
    }
}
