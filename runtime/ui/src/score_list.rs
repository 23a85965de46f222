//! The list of scores.

use askama::Template;
use perpend_domain::score::{Score, ScoreSource, Subject};
use perpend_domain::telemetry::GroupedBy;
use perpend_markup::{encode, segment};

use crate::scores::{Origin, Tone, shown};
use crate::setup::Setup;
use crate::shell::href;
use crate::ways::Ways;
use crate::{Focus, FocusView, Shell, Text};
use perpend_words::clock;

/// Characters of a value in a row.
const VALUE: usize = 60;

/// Scores of a project, the newest first.
#[derive(Clone, Debug, Template)]
#[template(path = "score_list.html")]
pub struct ScoresPage {
    /// Around the page.
    pub shell: Shell,
    /// The time and the environments.
    pub focus: FocusView,
    /// What the list is narrowed to beside them: parameter and value.
    pub narrowed: Vec<(&'static str, Text)>,
    /// The name that is typed in the form.
    pub name: Text,
    /// The parameters that a search for a name keeps, beside those of the focus.
    pub kept: Vec<(&'static str, String)>,
    /// What in the address cannot be read.
    pub notices: Vec<Text>,
    /// The scores of this page.
    pub lines: Vec<ScoreLine>,
    /// The pages before and behind.
    pub ways: Ways,
    /// This server and its keys, where nothing is scored yet.
    pub setup: Option<Setup>,
}

/// One score.
#[derive(Clone, Debug)]
pub struct ScoreLine {
    name: Text,
    value: Text,
    tone: Tone,
    source: &'static str,
    comment: Option<Text>,
    at: String,
    at_iso: String,
    subject: About,
    origin: Option<Origin>,
    environment: Text,
}

/// What a score is about.
#[derive(Clone, Debug)]
struct About {
    kind: &'static str,
    id: Text,
    href: String,
}

/// Characters of an id in a row; the whole one is pointed at.
const ID: usize = 8;

impl About {
    fn short(&self) -> Text {
        let id = self.id.raw();
        let mut short: String = id.chars().take(ID).collect();
        if short.len() < id.len() {
            short.push('…');
        }
        Text::from(short)
    }
}

impl ScoreLine {
    /// A score, with what made it, in the project at `base`.
    #[must_use]
    pub fn new(score: &Score, origin: Option<Origin>, base: &str) -> Self {
        let written = &score.written;
        let (value, tone) = shown(&written.value, VALUE);
        Self {
            name: Text::from(written.name.as_str()),
            value,
            tone,
            source: source_word(written.source),
            comment: written.comment.as_deref().map(Text::lines),
            at: clock(written.timestamp),
            at_iso: written.timestamp.to_iso_micros(),
            subject: subject(&written.subject, base),
            origin,
            environment: Text::from(written.environment.as_str()),
        }
    }
}

const fn source_word(source: ScoreSource) -> &'static str {
    match source {
        ScoreSource::Eval => "evaluator",
        ScoreSource::Annotation => "person",
        ScoreSource::Api => "API",
    }
}

fn subject(subject: &Subject, base: &str) -> About {
    let about = |kind, id: &str, href| About {
        kind,
        id: Text::from(id),
        href,
    };
    let of_trace = |id: &str| format!("{base}/traces/{}", segment(id));
    match subject {
        Subject::Trace(trace) => about("trace", trace.as_str(), of_trace(trace.as_str())),
        Subject::Observation(trace, step) => {
            let step = step.as_str();
            let href = format!("{}?observation={}", of_trace(trace.as_str()), encode(step));
            about("step", step, href)
        }
        Subject::Session(session) => {
            about("session", session, href(base, GroupedBy::Session, session))
        }
        Subject::Experiment(run) => about("run", run, format!("{base}/search?q={}", encode(run))),
    }
}

impl ScoresPage {
    fn is_narrowed(&self) -> bool {
        !self.narrowed.is_empty() || self.shell.focus != Focus::default()
    }
}
