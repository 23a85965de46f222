//! The distribution of a score, and the agreement of two.

use askama::Template;
use perpend_domain::score::Subject;

use crate::experiments::chart::RunChart;
use crate::experiments::estimate::Estimate;
use crate::format::{NO_VALUE, count};
use crate::scores::list::{Target, subject};
use crate::{FocusView, Parameter, Shell, Text, with_query};

/// The page of the statistics of one or two scores.
#[derive(Clone, Debug, Template)]
#[template(path = "score_analytics.html")]
pub struct ScoreAnalyticsPage {
    /// Page frame.
    pub shell: Shell,
    /// Form for time range and environments.
    pub focus: FocusView,
    /// Invalid query parameters.
    pub notices: Vec<Text>,
    /// The form that selects the scores.
    pub form: ScoreSelectionForm,
    /// The statistics of one score.
    pub distribution: Option<ScoreDistributionView>,
    /// The statistics of two scores.
    pub comparison: Option<ScoreComparisonView>,
}

impl ScoreAnalyticsPage {
    fn title(&self) -> String {
        match (self.form.a.raw(), self.form.b.raw()) {
            ("", _) => "Score analytics".to_owned(),
            (a, "") => format!("{a} · Score analytics"),
            (a, b) => format!("{a} and {b} · Score analytics"),
        }
    }

    fn shown_title(&self) -> Text {
        Text::from(self.title())
    }
}

/// The form that selects one or two scores.
#[derive(Clone, Debug, Default)]
pub struct ScoreSelectionForm {
    /// URL of the page without a query.
    pub action: String,
    /// Parameters of the page in addition to those of the form.
    pub hidden_fields: Vec<Parameter>,
    /// Known names of scores.
    pub names: Vec<Text>,
    /// The name of the first score.
    pub a: Text,
    /// The name of the second score.
    pub b: Text,
    /// Sources of the first score: value, label and whether it is selected.
    pub a_sources: Vec<(&'static str, &'static str, bool)>,
    /// Sources of the second score.
    pub b_sources: Vec<(&'static str, &'static str, bool)>,
}

impl ScoreSelectionForm {
    /// URL of the statistics of a score.
    fn href_of(&self, name: &Text) -> String {
        let own = [("a".into(), name.raw().to_owned())];
        with_query(&self.action, &[own.as_slice(), self.hidden_fields.as_slice()].concat())
    }
}

/// The statistics of one score.
#[derive(Clone, Debug)]
pub struct ScoreDistributionView {
    /// The name with its source.
    pub name: Text,
    /// The kind of the means: `mean`, `share of true`.
    pub measure: Text,
    /// The mean of all scores; absent without scores.
    pub estimate: Option<Estimate>,
    /// Number of scores.
    pub n: u64,
    /// Scores of other types that are left out, in words.
    pub others: Option<String>,
    /// Traces without such a score, in words.
    pub missing: Option<String>,
    /// The share corrected for the errors of the evaluator, in words.
    pub corrected: Option<Text>,
    /// Whether means and shares are weighted.
    pub is_weighted: bool,
    /// URL of the list of the scores.
    pub list_href: String,
    /// Labels and URLs of related pages.
    pub links: Vec<(&'static str, String)>,
    /// Scores by value or range.
    pub bins: Vec<ScoreBinLine>,
    /// Number of further categories.
    pub n_more_categories: u64,
    /// Means over time.
    pub over_time: Option<RunChart>,
    /// Means by property.
    pub groups: Vec<ScoreGroupTable>,
}

impl ScoreDistributionView {
    fn count(&self) -> String {
        count(self.n)
    }
}

/// The scores of a value or range.
#[derive(Clone, Debug)]
pub struct ScoreBinLine {
    pub(crate) label: Text,
    pub(crate) href: String,
    pub(crate) n: String,
    pub(crate) share: String,
    /// Percent of the largest bin, from 0 to 100.
    pub(crate) width: f64,
}

impl ScoreBinLine {
    /// `most`: number of scores of the largest bin.
    #[must_use]
    pub fn new(label: &str, (n, share): (u64, f64), most: u64, href: String) -> Self {
        let width = n as f64 / most.max(1) as f64;
        Self {
            label: Text::from(label),
            href,
            n: count(n),
            share: crate::format::percent(share),
            width: (width * 1_000.0).round() / 10.0,
        }
    }
}

/// Means by the values of a property.
#[derive(Clone, Debug)]
pub struct ScoreGroupTable {
    /// Heading.
    pub title: &'static str,
    /// Heading of the first column.
    pub property: &'static str,
    /// The groups.
    pub lines: Vec<ScoreGroupLine>,
    /// Number of further groups.
    pub n_more: u64,
}

impl ScoreGroupTable {
    fn has_times(&self) -> bool {
        self.lines.iter().any(|line| line.since.is_some())
    }
}

/// The mean of a group.
#[derive(Clone, Debug)]
pub struct ScoreGroupLine {
    /// The value of the property.
    pub name: Text,
    /// URL of the same page for the group, if a parameter can select it.
    pub href: Option<String>,
    /// The mean; absent if it is undefined.
    pub estimate: Option<Estimate>,
    /// Number of scores.
    pub n: u64,
    /// The time of the first score, for versions.
    pub since: Option<String>,
}

impl ScoreGroupLine {
    fn mean(&self) -> String {
        crate::experiments::estimate::value_of(self.estimate.as_ref())
    }

    fn range(&self) -> String {
        self.estimate.as_ref().map(Estimate::range).unwrap_or_default()
    }

    fn count(&self) -> String {
        count(self.n)
    }
}

/// The statistics of two scores.
#[derive(Clone, Debug)]
pub struct ScoreComparisonView {
    /// Both scores.
    pub sides: [ComparedScoreLine; 2],
    /// The result as a sentence.
    pub sentence: Text,
    /// Number of pairs.
    pub n_pairs: u64,
    /// Number of pairs in the sample, if not all are used.
    pub n_sampled: Option<u64>,
    /// Statistics: name, value with interval, and the reason if it is undefined.
    pub statistics: Vec<(&'static str, String, Option<Text>)>,
    /// Labels of the columns of the matrix.
    pub columns: Vec<Text>,
    /// Rows of the matrix.
    pub rows: Vec<PairRow>,
    /// Precision and recall by category.
    pub categories: Vec<CategoryLine>,
    /// The pairs of the selected cell.
    pub cell: Option<PairCellView>,
}

impl ScoreComparisonView {
    fn pairs(&self) -> String {
        count(self.n_pairs)
    }

    fn sampled(&self) -> Option<String> {
        self.n_sampled.map(count)
    }
}

/// A score that is compared with another.
#[derive(Clone, Debug)]
pub struct ComparedScoreLine {
    /// The name with its source.
    pub name: Text,
    /// URL of its own statistics.
    pub href: String,
    /// Number of scores.
    pub n_scores: u64,
    /// Number of subjects.
    pub n_subjects: u64,
    /// Number of subjects without the other score.
    pub n_unpaired: u64,
    /// Number of scores of other types.
    pub n_other_types: u64,
}

impl ComparedScoreLine {
    fn counts(&self) -> [String; 4] {
        [self.n_scores, self.n_subjects, self.n_unpaired, self.n_other_types].map(count)
    }
}

/// A row of the matrix.
#[derive(Clone, Debug)]
pub struct PairRow {
    /// Value of the first score.
    pub label: Text,
    /// Number of pairs and URL of their list, by column.
    pub cells: Vec<(u64, String)>,
}

impl PairRow {
    fn shown(&self) -> Vec<(String, Option<&str>)> {
        let cells = self.cells.iter();
        cells.map(|(n, href)| (count(*n), (0 < *n).then_some(href.as_str()))).collect()
    }
}

/// Agreement on a category.
#[derive(Clone, Debug)]
pub struct CategoryLine {
    /// The category.
    pub label: Text,
    /// Number of pairs with it, in the first and the second score.
    pub counts: [u64; 2],
    /// Share of agreement among the pairs with it in the second score.
    pub precision: Option<f64>,
    /// Share of agreement among the pairs with it in the first score.
    pub recall: Option<f64>,
}

impl CategoryLine {
    fn shown(&self) -> [String; 4] {
        let share =
            |share: Option<f64>| share.map_or_else(|| NO_VALUE.to_owned(), crate::format::percent);
        let [a, b] = self.counts.map(count);
        [a, b, share(self.precision), share(self.recall)]
    }
}

/// The pairs of a cell.
#[derive(Clone, Debug)]
pub struct PairCellView {
    /// Value of the first score.
    pub row: Text,
    /// Value of the second score.
    pub column: Text,
    /// Number of pairs.
    pub n: u64,
    /// The newest pairs.
    pub pairs: Vec<PairLine>,
    /// URL of the page without the cell.
    pub close_href: String,
}

impl PairCellView {
    fn count(&self) -> String {
        count(self.n)
    }

    fn is_cut(&self) -> bool {
        (self.pairs.len() as u64) < self.n
    }
}

/// A subject with both values.
#[derive(Clone, Debug)]
pub struct PairLine {
    pub(crate) target: Target,
    pub(crate) a: Text,
    pub(crate) b: Text,
}

impl PairLine {
    /// `base` is the URL of the project.
    #[must_use]
    pub fn new(about: &Subject, [a, b]: [&str; 2], base: &str) -> Self {
        Self { target: subject(about, base), a: Text::from(a), b: Text::from(b) }
    }
}

#[cfg(test)]
mod tests {
    use perpend_domain::ids::TraceId;

    use super::*;
    use crate::experiments::estimate::Unit;
    use crate::samples_tests::{HOSTILE, checked, shell, text, typed};
    use crate::{Focus, RunPoint};

    fn estimate() -> Estimate {
        Estimate { mean: 0.81, interval: Some([0.76, 0.85]), n: 1_234, unit: Unit::Share }
    }

    fn empty_page() -> ScoreAnalyticsPage {
        let focus = (typed(), Vec::new());
        ScoreAnalyticsPage {
            shell: shell(),
            focus: FocusView::new(&Focus::default(), focus, ("All time", true)),
            notices: vec![text(HOSTILE)],
            form: ScoreSelectionForm {
                names: vec![text(HOSTILE)],
                a: text(HOSTILE),
                a_sources: vec![("EVAL", "evaluators", true)],
                ..ScoreSelectionForm::default()
            },
            distribution: None,
            comparison: None,
        }
    }

    #[test]
    fn the_distribution_of_a_score_is_inert_and_has_intervals() {
        let point = |estimate| RunPoint { name: text(HOSTILE), href: typed(), estimate };
        let chart = RunChart::new(HOSTILE, &[point(Some(estimate())), point(None)]);
        let line = ScoreGroupLine {
            name: text(HOSTILE),
            href: Some(typed()),
            estimate: Some(estimate()),
            n: 1_234,
            since: Some("2026-03-01 10:00:00".to_owned()),
        };
        let table = ScoreGroupTable {
            title: "By evaluator version",
            property: "Version",
            lines: vec![line],
            n_more: 2,
        };
        let distribution = ScoreDistributionView {
            name: text(HOSTILE),
            measure: text(HOSTILE),
            estimate: Some(estimate()),
            n: 1_234,
            others: Some("2 scores are left out.".to_owned()),
            missing: Some("3 of 10 traces have no such score.".to_owned()),
            corrected: Some(text(HOSTILE)),
            is_weighted: true,
            list_href: typed(),
            links: vec![("Traces without this score", typed())],
            bins: vec![ScoreBinLine::new(HOSTILE, (1_000, 0.81), 1_234, typed())],
            n_more_categories: 7,
            over_time: Some(chart.over_time(vec![(1, text(HOSTILE))])),
            groups: vec![table],
        };
        let page = ScoreAnalyticsPage { distribution: Some(distribution), ..empty_page() };
        let html = checked(&page);
        for part in ["81 %", "(76–85)", "1,234", "M1 0V40", "width=\"81\""] {
            assert!(html.contains(part), "{part}: {html}");
        }
        checked(&empty_page());
    }

    #[test]
    fn the_comparison_of_scores_is_inert_and_names_undefined_statistics() {
        let side = || ComparedScoreLine {
            name: text(HOSTILE),
            href: typed(),
            n_scores: 9,
            n_subjects: 8,
            n_unpaired: 7,
            n_other_types: 6,
        };
        let subject = Subject::Trace(TraceId::new("t1").unwrap());
        let comparison = ScoreComparisonView {
            sides: [side(), side()],
            sentence: text(HOSTILE),
            n_pairs: 120_000,
            n_sampled: Some(100_000),
            statistics: vec![
                ("Agreement", "81 % (76–85)".to_owned(), None),
                ("Cohen's kappa", String::new(), Some(text(HOSTILE))),
            ],
            columns: vec![text(HOSTILE)],
            rows: vec![PairRow { label: text(HOSTILE), cells: vec![(101, typed())] }],
            categories: vec![CategoryLine {
                label: text(HOSTILE),
                counts: [3, 2],
                precision: Some(0.5),
                recall: None,
            }],
            cell: Some(PairCellView {
                row: text(HOSTILE),
                column: text(HOSTILE),
                n: 101,
                pairs: vec![PairLine::new(&subject, [HOSTILE, HOSTILE], "/project/p")],
                close_href: typed(),
            }),
        };
        let html = checked(&ScoreAnalyticsPage { comparison: Some(comparison), ..empty_page() });
        for part in ["undefined because", "fixed sample of 100,000", "/project/p/traces/t1", "50 %"]
        {
            assert!(html.contains(part), "{part}: {html}");
        }
    }
}
