//! The form that starts an experiment, with its estimate.

use askama::Template;

use crate::{RejectedForm, Shell, Text};

/// The form that starts an experiment.
#[derive(Clone, Debug, Template)]
#[template(path = "experiment_new.html")]
pub struct NewExperimentPage {
    /// Page frame.
    pub shell: Shell,
    /// Names of the datasets, and whether each is selected.
    pub datasets: Vec<(String, bool)>,
    /// Names of prompts, as examples.
    pub prompts: Vec<Text>,
    /// Names of connections, as examples.
    pub connections: Vec<Text>,
    /// The sent values and their validation errors.
    pub rejected_form: RejectedForm,
    /// The estimate of the sent values.
    pub estimate: Option<ExperimentEstimate>,
}

/// The estimate of an experiment.
#[derive(Clone, Debug)]
pub struct ExperimentEstimate {
    /// Number of items, such as `120 items`.
    pub items: String,
    /// Number of calls, such as `240 calls`.
    pub calls: String,
    /// Cost, or `unknown`.
    pub cost: String,
    /// Duration if each call takes two seconds.
    pub duration: String,
    /// The runs.
    pub runs: Vec<RunEstimateLine>,
}

/// The estimate of a run.
#[derive(Clone, Debug)]
pub struct RunEstimateLine {
    /// Name.
    pub name: Text,
    /// Number of calls.
    pub calls: String,
    /// Cost, or `unknown`.
    pub cost: String,
    /// Number of items that do not fill the prompt, such as `2 items`; absent if all do.
    pub unfilled: Option<String>,
    /// The first of them, with the variables without a value.
    pub unfilled_items: Vec<(Text, Text)>,
}

impl NewExperimentPage {
    /// The sent value of a field, or its default.
    fn value<'v>(&'v self, field: &str, default: &'v str) -> &'v str {
        match self.rejected_form.values.is_empty() {
            true => default,
            false => self.rejected_form.value(field),
        }
    }
}
