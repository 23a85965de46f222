//! The preview of a trace next to the list.

use crate::markup::encode;
use crate::urls::{MAX_LIST, traces_with_value};
use askama::Template;
use perpend_domain::payload::Payload;
use perpend_domain::trace::Trace;

use crate::Text;
use crate::facts::{Fact, fact, fact_at};
use crate::format::{count, plural};
use crate::layout::forms::{FormContext, RejectedForm};
use crate::lists::trace_line::TraceLine;
use crate::scores::score::{RuleOutcome, ScoreView};
use crate::trace::header::{LinkedLabel, tags};
use crate::values::content::{Addresses, Block};

/// Input of [`Peek`].
#[derive(Debug)]
pub struct PeekInput<'a> {
    /// Base URL of the project.
    pub base: String,
    /// URL of the list without the preview.
    pub close: String,
    /// The trace as a row of the list.
    pub line: TraceLine,
    /// The trace with content.
    pub trace: &'a Trace,
    /// Scores of the trace itself.
    pub scores: Vec<ScoreView>,
    /// Number of scores of its observations.
    pub n_observation_scores: u64,
    /// Whether the user can change its tags.
    pub may_mark: bool,
    /// Values for the tag forms.
    pub forms: FormContext,
    /// The tag form, if it was rejected.
    pub rejected_form: RejectedForm,
}

/// The preview of a trace next to the list.
#[derive(Clone, Debug)]
pub struct Peek {
    pub(crate) base: String,
    pub(crate) close: String,
    /// Absent if the project has no such trace.
    pub(crate) found: Option<Box<PeekContent>>,
}

#[derive(Clone, Debug)]
pub(crate) struct PeekContent {
    pub(crate) line: TraceLine,
    pub(crate) scores: Vec<ScoreView>,
    n_observation_scores: u64,
    pub(crate) may_mark: bool,
    pub(crate) forms: FormContext,
    pub(crate) rejected_form: RejectedForm,
    input: Block,
    output: Block,
}

/// The preview as a fragment.
#[derive(Clone, Debug, Template)]
#[template(path = "peek.html")]
pub struct PeekPage {
    /// The preview.
    pub peek: Peek,
}

/// The whole input or output of a trace as a fragment.
#[derive(Clone, Debug, Template)]
#[template(path = "block.html")]
pub struct CellPage {
    block: Block,
}

impl CellPage {
    /// `part` is `input` or `output`; `base` is the URL of the project.
    #[must_use]
    pub fn new(value: Option<&Payload>, base: &str, trace: &str, part: &str) -> Self {
        let at = Addresses::new(base, trace, None, part);
        Self { block: Block::of(value, &at) }
    }
}

impl Peek {
    /// The preview of a trace.
    #[must_use]
    pub fn new(input: PeekInput<'_>) -> Self {
        let PeekInput {
            base,
            close,
            line,
            trace,
            scores,
            n_observation_scores,
            may_mark,
            forms,
            rejected_form,
        } = input;
        let at = |part: &str| Addresses::new(&base, line.id.as_str(), None, part);
        let found = PeekContent {
            input: Block::of(trace.input.as_ref(), &at("input")),
            output: Block::of(trace.output.as_ref(), &at("output")),
            line,
            scores,
            n_observation_scores,
            may_mark,
            forms,
            rejected_form,
        };
        Self { base, close, found: Some(Box::new(found)) }
    }

    /// The preview of an unknown trace.
    #[must_use]
    pub fn unknown(base: String, close: String) -> Self {
        Self { base, close, found: None }
    }
}

impl Peek {
    /// Whether the trace is unknown.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        self.found.is_none()
    }
}

impl Peek {
    /// URL of the trace, with the list as parameter.
    pub(crate) fn href(&self, found: &PeekContent) -> String {
        let list = self.close.strip_prefix(&self.base).unwrap_or_default();
        let href = found.line.href(&self.base);
        match list.len() <= MAX_LIST {
            true => format!("{href}?in={}", encode(list)),
            false => href,
        }
    }
}

impl PeekContent {
    pub(crate) fn figures(&self) -> Vec<Fact> {
        let line = &self.line;
        let mut figures = vec![
            fact_at("Started", line.at, false),
            fact("Latency", line.latency()),
            fact("Tokens", line.token_text()),
            fact("Cost", line.cost_text()),
            fact("Observations", count(line.n_observations.into())),
        ];
        if line.n_errors > 0 {
            figures.push(fact("Errors", count(line.n_errors.into())));
        }
        figures
    }

    /// Label, value and URL.
    pub(crate) fn labels(&self, base: &str) -> Vec<(&'static str, Text, String)> {
        let line = &self.line;
        let alike = |label, column: &str, text: &Text| {
            (label, text.clone(), traces_with_value(base, column, text.raw()))
        };
        let mut labels = vec![alike("environment", "environment", &line.environment)];
        let user = line.user.iter();
        labels.extend(user.map(|user| ("user", user.clone(), line.user_href(base))));
        let session = line.session.iter();
        labels.extend(session.map(|session| ("session", session.clone(), line.session_href(base))));
        let release = line.release.iter();
        labels.extend(release.map(|release| alike("release", "release", release)));
        let version = line.version.iter();
        labels.extend(version.map(|version| alike("version", "version", version)));
        labels
    }

    /// Tags with links to the traces that have them.
    pub(crate) fn tags(&self, base: &str) -> Vec<LinkedLabel> {
        tags(self.line.tags.iter().map(Text::raw), base)
    }

    /// Title, name in URLs and value.
    pub(crate) fn values(&self) -> [(&'static str, &'static str, &Block); 2] {
        [("Input", "input", &self.input), ("Output", "output", &self.output)]
    }

    /// Always empty: only the page of the trace shows them.
    pub(crate) fn outcomes(&self) -> Vec<RuleOutcome> {
        Vec::new()
    }

    pub(crate) fn observation_score_count(&self) -> Option<String> {
        (0 < self.n_observation_scores).then(|| plural(self.n_observation_scores, "score"))
    }
}
