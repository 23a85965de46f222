//! Thresholds over stored scores.

use askama::Template;

use crate::{FocusView, Parameter, Shell, Text};

/// The page of the verdicts of thresholds.
#[derive(Clone, Debug, Template)]
#[template(path = "score_thresholds.html")]
pub struct ScoreThresholdsPage {
    /// Page frame.
    pub shell: Shell,
    /// Form for time range and environments.
    pub focus: FocusView,
    /// URL of the page without a query.
    pub action: String,
    /// Parameters of the page in addition to those of the form.
    pub hidden_fields: Vec<Parameter>,
    /// Known names of scores.
    pub names: Vec<Text>,
    /// The sent values by field.
    pub values: Vec<(&'static str, String)>,
    /// Sources of the scores: value, label and whether it is selected.
    pub sources: Vec<(&'static str, &'static str, bool)>,
    /// Sources of the reference.
    pub reference_sources: Vec<(&'static str, &'static str, bool)>,
    /// The reason why results are absent.
    pub problem: Option<Text>,
    /// The results.
    pub results: Option<ScoreThresholdsView>,
}

impl ScoreThresholdsPage {
    fn value(&self, field: &str) -> &str {
        let sent = self.values.iter().find(|(name, _)| *name == field);
        sent.map_or("", |(_, value)| value.as_str())
    }
}

/// The verdicts of thresholds over the scores of a name.
#[derive(Clone, Debug)]
pub struct ScoreThresholdsView {
    /// The value that is compared with the thresholds.
    pub measure: Text,
    /// Scores with such a number, such as `120 scores`.
    pub scores: String,
    /// Scores without one; absent if there are none.
    pub left_out: Option<String>,
    /// Choices with stored probabilities, and the URL of the page for each.
    pub choices: Vec<(Text, String)>,
    /// The results.
    pub lines: Vec<ScoreThresholdLine>,
    /// Whether stored labels are compared.
    pub has_flips: bool,
    /// Whether a reference is compared.
    pub has_reference: bool,
}

/// The verdicts of one threshold.
#[derive(Clone, Debug)]
pub struct ScoreThresholdLine {
    /// The threshold.
    pub threshold: String,
    /// Whether it agrees best with the reference.
    pub is_best: bool,
    /// Scores that pass.
    pub passed: String,
    /// Their share with its interval.
    pub share: String,
    /// Scores whose stored label is another one.
    pub flips: String,
    /// Subjects with a reference.
    pub pairs: String,
    /// Share of equal verdicts with its interval.
    pub agreement: String,
    /// Cohen's kappa.
    pub kappa: String,
    /// Share of positive references among those that pass.
    pub precision: String,
    /// Share of the positive references that pass.
    pub recall: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Focus;
    use crate::samples_tests::{HOSTILE, checked, shell, text, typed};

    #[test]
    fn the_verdicts_of_thresholds_are_inert() {
        let line = ScoreThresholdLine {
            threshold: "0.5".to_owned(),
            is_best: true,
            passed: "81".to_owned(),
            share: "81 % (76–85)".to_owned(),
            flips: "4".to_owned(),
            pairs: "30".to_owned(),
            agreement: "90 %".to_owned(),
            kappa: "0.7".to_owned(),
            precision: "80 %".to_owned(),
            recall: "70 %".to_owned(),
        };
        let page = ScoreThresholdsPage {
            shell: shell(),
            focus: FocusView::new(&Focus::default(), (typed(), Vec::new()), ("All time", true)),
            action: typed(),
            hidden_fields: vec![("own".into(), typed())],
            names: vec![text(HOSTILE)],
            values: vec![("name", typed()), ("threshold", typed())],
            sources: vec![("EVAL", "evaluators", true)],
            reference_sources: vec![("ANNOTATION", "people", true)],
            problem: Some(text(HOSTILE)),
            results: Some(ScoreThresholdsView {
                measure: text(HOSTILE),
                scores: "100 scores".to_owned(),
                left_out: Some("2 scores".to_owned()),
                choices: vec![(text(HOSTILE), typed())],
                lines: vec![line],
                has_flips: true,
                has_reference: true,
            }),
        };
        assert!(checked(&page).contains("81 % (76–85)"));
        let empty = ScoreThresholdsPage { problem: None, results: None, ..page };
        assert!(!checked(&empty).contains("81 %"));
    }
}
