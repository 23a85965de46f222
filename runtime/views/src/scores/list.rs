//! The list of scores.

use crate::format::count;
use crate::markup::{encode, segment};
use askama::Template;
use perpend_domain::score::{Score, ScoreSource, ScoreValue, Subject};
use perpend_domain::telemetry::GroupKey;
use perpend_domain::time::Timestamp;

use crate::layout::setup::Setup;
use crate::layout::shell::href;
use crate::lists::filter::{FilterView, StoppedSearch};
use crate::lists::page_links::PageLinks;
use crate::scores::score::{OriginView, Tone, shown};
use crate::{Focus, FocusView, Shell, Text};

/// Maximum characters of a value.
const VALUE: usize = 60;

/// The list of scores of a project, newest first.
#[derive(Clone, Debug, Template)]
#[template(path = "score_list.html")]
pub struct ScoresPage {
    /// Page frame.
    pub shell: Shell,
    /// Time range and environments.
    pub focus: FocusView,
    /// The filter.
    pub filter: FilterView,
    /// Further conditions from the URL: parameter and value.
    pub narrowed: Vec<(&'static str, Text)>,
    /// Errors in the query string.
    pub notices: Vec<Text>,
    /// Progress of the search, if it stopped before the end.
    pub stopped: Option<StoppedSearch>,
    /// Scores of this page. Superseded scores, if shown, follow the current one.
    pub lines: Vec<ScoreLine>,
    /// Number of superseded scores in words, and label and URL of the link that shows or hides them.
    pub older: Option<(String, &'static str, String)>,
    /// Links to other pages.
    pub page_links: PageLinks,
    /// Position of the page in the list.
    pub position: String,
    /// Whether it is not the first page.
    pub is_later: bool,
    /// Values for example commands, if the project has no scores.
    pub setup: Option<Setup>,
}

/// One score.
#[derive(Clone, Debug)]
pub struct ScoreLine {
    name: Text,
    value: Text,
    /// `60 of 1,234 characters`, if the value is cut.
    cut: Option<String>,
    tone: Tone,
    source: &'static str,
    comment: Option<Text>,
    at: Timestamp,
    at_iso: String,
    subject: Target,
    origin: Option<OriginView>,
    /// URL of the trace of the execution, if any.
    own_trace: Option<String>,
    author: Option<NamedId>,
    config: Option<NamedId>,
    environment: Text,
    /// The current score, if this one is superseded.
    superseded: Option<Text>,
}

/// A name with its id.
#[derive(Clone, Debug)]
struct NamedId {
    name: Text,
    id: Text,
}

impl NamedId {
    fn of(id: &str) -> Self {
        Self { name: short(id), id: Text::from(id) }
    }
}

/// The target of a score.
#[derive(Clone, Debug)]
struct Target {
    kind: &'static str,
    id: Text,
    href: String,
}

/// Characters of a shortened id.
const ID: usize = 8;

/// Query parameter of a condition with this label.
pub(crate) fn parameter(label: &str) -> &str {
    match label {
        "without" => "own",
        name => name,
    }
}

pub(crate) fn short(id: &str) -> Text {
    let mut short: String = id.chars().take(ID).collect();
    if short.len() < id.len() {
        short.push('…');
    }
    Text::from(short)
}

impl ScoreLine {
    /// The row of a score. `base` is the URL of the project.
    #[must_use]
    pub fn new(score: &Score, origin: Option<OriginView>, base: &str) -> Self {
        let written = &score.written;
        let (value, tone) = shown(&written.value, VALUE);
        Self {
            name: Text::from(written.name.as_str()),
            value,
            cut: cut(&written.value),
            tone,
            source: source_word(written.source),
            comment: written.comment.as_deref().map(Text::lines),
            at: written.timestamp,
            at_iso: written.timestamp.to_iso_micros(),
            subject: subject(&written.subject, base),
            origin,
            own_trace: None,
            author: written.author_user_id.as_deref().map(NamedId::of),
            config: written.config_id.as_deref().map(NamedId::of),
            environment: Text::from(written.environment.as_str()),
            superseded: None,
        }
    }

    /// Sets the names of author and config, if these still exist.
    #[must_use]
    pub fn named(mut self, author: Option<&str>, config: Option<&str>) -> Self {
        for (named, name) in [(&mut self.author, author), (&mut self.config, config)] {
            if let (Some(named), Some(name)) = (named, name) {
                named.name = Text::from(name);
            }
        }
        self
    }

    /// Sets the URL of the run that is its target.
    #[must_use]
    pub fn of_run(mut self, href: String) -> Self {
        self.subject.href = href;
        self
    }

    /// Sets the URL of the trace of its execution.
    #[must_use]
    pub fn traced(mut self, href: String) -> Self {
        self.own_trace = Some(href);
        self
    }

    /// Marks it as superseded by a newer score.
    #[must_use]
    pub fn superseded_by(mut self, newer: &Self) -> Self {
        let version = newer.origin.as_ref().and_then(|origin| origin.version);
        let version = version.map_or_else(String::new, |n| format!(" of version {n}"));
        let (name, value) = (&newer.name, &newer.value);
        self.superseded = Some(Text::from(format!("{} {}{version}", name.raw(), value.raw())));
        self
    }
}

/// `60 of 1,234 characters`, if a row shows only the beginning of a text.
fn cut(value: &ScoreValue) -> Option<String> {
    let (ScoreValue::Categorical(text) | ScoreValue::Text(text) | ScoreValue::Correction(text)) =
        value
    else {
        return None;
    };
    let n = text.chars().count();
    (VALUE < n).then(|| format!("{VALUE} of {} characters", count(n as u64)))
}

const fn source_word(source: ScoreSource) -> &'static str {
    match source {
        ScoreSource::Eval => "evaluator",
        ScoreSource::Annotation => "person",
        ScoreSource::Api => "API",
    }
}

fn subject(subject: &Subject, base: &str) -> Target {
    let target = |kind, id: &str, href| Target { kind, id: Text::from(id), href };
    let of_trace = |id: &str| format!("{base}/traces/{}", segment(id));
    match subject {
        Subject::Trace(trace) => target("trace", trace.as_str(), of_trace(trace.as_str())),
        Subject::Observation(trace, observation) => {
            let observation = observation.as_str();
            let href = format!("{}?observation={}", of_trace(trace.as_str()), encode(observation));
            target("observation", observation, href)
        }
        Subject::Session(session) => {
            target("session", session, href(base, GroupKey::Session, session))
        }
        Subject::Experiment(run) => target("run", run, format!("{base}/search?q={}", encode(run))),
    }
}

impl ScoresPage {
    fn is_narrowed(&self) -> bool {
        let is_filtered = !self.narrowed.is_empty() || !self.filter.terms.is_empty();
        is_filtered || self.shell.focus != Focus::default()
    }

    /// Whether the page has the columns comment, author and config.
    fn columns(&self) -> [bool; 3] {
        let has = |is_filled: fn(&ScoreLine) -> bool| self.lines.iter().any(is_filled);
        [
            has(|line| line.comment.is_some()),
            has(|line| line.author.is_some()),
            has(|line| line.config.is_some()),
        ]
    }
}
