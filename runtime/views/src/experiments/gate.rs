//! The gate of a run: requirements and limits as TOML, the outcome, and earlier outcomes.

use askama::Template;
use perpend_domain::time::Timestamp;

use crate::scores::score::Tone;
use crate::{Shell, Text};

/// The gate of a run.
#[derive(Clone, Debug, Template)]
#[template(path = "experiment_gate.html")]
pub struct GatePage {
    /// Page frame.
    pub shell: Shell,
    /// Errors of the configuration.
    pub notices: Vec<Text>,
    /// Name of the run.
    pub name: Text,
    /// URL of the run.
    pub href: String,
    /// The configuration.
    pub config: String,
    /// Names and percent-encoded ids of the runs that can be the baseline, and whether each is selected.
    pub baselines: Vec<(Text, String, bool)>,
    /// The outcome; absent before the gate was evaluated.
    pub outcome: Option<GateOutcome>,
    /// The command for CI.
    pub command: String,
    /// Earlier outcomes, newest first.
    pub history: Vec<GateRecordLine>,
    /// Whether the gate can be evaluated.
    pub may_evaluate: bool,
}

/// The outcome of a gate.
#[derive(Clone, Debug)]
pub struct GateOutcome {
    /// `passed`, `failed` or `not decided`.
    pub word: &'static str,
    /// Colour of the word.
    pub tone: Tone,
    /// Exit code of the command.
    pub exit_code: u8,
    /// The requirements and limits.
    pub requirements: Vec<GateRequirementLine>,
    /// The report for a pull request.
    pub markdown: Text,
}

impl GateOutcome {
    pub(crate) fn class(&self) -> &'static str {
        self.tone.class()
    }
}

/// A requirement with its outcome.
#[derive(Clone, Debug)]
pub struct GateRequirementLine {
    /// The requirement as text.
    pub name: Text,
    /// `passed`, `failed` or `not decided`.
    pub word: &'static str,
    /// Colour of the word.
    pub tone: Tone,
    /// The numbers behind the outcome.
    pub detail: Text,
}

impl GateRequirementLine {
    pub(crate) fn class(&self) -> &'static str {
        self.tone.class()
    }
}

/// An earlier outcome.
#[derive(Clone, Debug)]
pub struct GateRecordLine {
    /// Time of the evaluation.
    pub at: Timestamp,
    /// The outcome in words.
    pub word: Text,
    /// Colour of the word.
    pub tone: Tone,
    /// Exit code.
    pub exit_code: u8,
    /// The baseline; empty without one.
    pub baseline: Text,
    /// URL of the outcome.
    pub href: String,
}

impl GateRecordLine {
    pub(crate) fn class(&self) -> &'static str {
        self.tone.class()
    }
}
