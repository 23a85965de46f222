//! One trace beside the list: its figures, its scores, what went in and what came out.

use crate::markup::encode;
use crate::urls::{MAX_LIST, traces_with_value};
use askama::Template;
use perpend_domain::payload::Payload;
use perpend_domain::trace::Trace;

use crate::Text;
use crate::facts::{Fact, fact, fact_at};
use crate::format::{count, many};
use crate::layout::forms::{FormContext, RejectedForm};
use crate::lists::trace_line::TraceLine;
use crate::scores::score::{RuleOutcome, ScoreView};
use crate::trace::aspect::{Label, tags};
use crate::values::content::{Addresses, Block};

/// What the peek is made from.
#[derive(Debug)]
pub struct PeekInput<'a> {
    /// The address of the project.
    pub base: String,
    /// The list without the peek.
    pub close: String,
    /// The trace as a line of the list.
    pub line: TraceLine,
    /// The same with its content.
    pub trace: &'a Trace,
    /// Scores about the trace itself.
    pub scores: Vec<ScoreView>,
    /// How many scores there are about its steps.
    pub n_observation_scores: u64,
    /// Whether the reader may change its tags.
    pub may_mark: bool,
    /// What the forms of its tags carry.
    pub forms: FormContext,
    /// The form of the tags, when it was not accepted.
    pub rejected_form: RejectedForm,
}

/// One trace beside the list.
#[derive(Clone, Debug)]
pub struct Peek {
    pub(crate) base: String,
    pub(crate) close: String,
    /// None where the project has no such trace.
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

/// The peek alone, for the script that swaps it.
#[derive(Clone, Debug, Template)]
#[template(path = "peek.html")]
pub struct PeekPage {
    /// The peek.
    pub peek: Peek,
}

/// The input or the output of a trace, for the script that shows it in the place of its beginning.
#[derive(Clone, Debug, Template)]
#[template(path = "block.html")]
pub struct CellPage {
    block: Block,
}

impl CellPage {
    /// The value of this part of a trace in the project at `base`.
    #[must_use]
    pub fn new(value: Option<&Payload>, base: &str, trace: &str, part: &str) -> Self {
        let at = Addresses::new(base, trace, None, part);
        Self { block: Block::of(value, &at) }
    }
}

impl Peek {
    /// Of a trace.
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

    /// Of a trace that there is none of.
    #[must_use]
    pub fn unknown(base: String, close: String) -> Self {
        Self { base, close, found: None }
    }
}

impl Peek {
    pub(crate) fn id(&self) -> Option<&str> {
        self.found.as_ref().map(|found| found.line.id.as_str())
    }

    /// Whether there is no such trace.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        self.found.is_none()
    }
}

impl Peek {
    /// The address of the trace, opened from this list.
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

    /// Label, value, and the list or the page that it leads to.
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

    /// The tags, each with the list of its like.
    pub(crate) fn tags(&self, base: &str) -> Vec<Label> {
        tags(self.line.tags.iter().map(Text::raw), base)
    }

    /// Title, name in the raw address, value.
    pub(crate) fn values(&self) -> [(&'static str, &'static str, &Block); 2] {
        [("Input", "input", &self.input), ("Output", "output", &self.output)]
    }

    /// The peek says what scores there are; the page of the trace, why there is none.
    pub(crate) fn outcomes(&self) -> Vec<RuleOutcome> {
        Vec::new()
    }

    pub(crate) fn observation_score_count(&self) -> Option<String> {
        (0 < self.n_observation_scores).then(|| many(self.n_observation_scores, "score"))
    }
}
