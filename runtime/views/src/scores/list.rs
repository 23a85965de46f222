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

/// Characters of a value in a row.
const VALUE: usize = 60;

/// Scores of a project, the newest first.
#[derive(Clone, Debug, Template)]
#[template(path = "score_list.html")]
pub struct ScoresPage {
    /// Page frame.
    pub shell: Shell,
    /// The time and the environments.
    pub focus: FocusView,
    /// The filter as text.
    pub filter: FilterView,
    /// What the list is narrowed to beside all these: parameter and value.
    pub narrowed: Vec<(&'static str, Text)>,
    /// Errors in the query string.
    pub notices: Vec<Text>,
    /// Where the search stopped, because what is asked takes long to find.
    pub stopped: Option<StoppedSearch>,
    /// The scores of this page, each before the older ones that it took the place of, where these are shown.
    pub lines: Vec<ScoreLine>,
    /// What is said of older scores, and the text and address of the link that shows or hides them.
    pub older: Option<(String, &'static str, String)>,
    /// The pages before and behind.
    pub page_links: PageLinks,
    /// Position of the page in the list.
    pub position: String,
    /// It is behind or before a place in the list.
    pub is_later: bool,
    /// This server and its keys, where nothing is scored yet.
    pub setup: Option<Setup>,
}

/// One score.
#[derive(Clone, Debug)]
pub struct ScoreLine {
    name: Text,
    value: Text,
    /// How much of it that is, where it is longer.
    cut: Option<String>,
    tone: Tone,
    source: &'static str,
    comment: Option<Text>,
    at: Timestamp,
    at_iso: String,
    subject: About,
    origin: Option<OriginView>,
    /// The trace of the execution, where it has one.
    own_trace: Option<String>,
    author: Option<Called>,
    config: Option<Called>,
    environment: Text,
    /// What stands now in its place.
    superseded: Option<Text>,
}

/// A name, and the id that it stands for.
#[derive(Clone, Debug)]
struct Called {
    name: Text,
    id: Text,
}

impl Called {
    fn of(id: &str) -> Self {
        Self { name: short(id), id: Text::from(id) }
    }
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

/// The parameter of addresses that narrows the list by what is called so.
pub(crate) fn parameter(said: &str) -> &str {
    match said {
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
    /// A score, with what made it, in the project at `base`.
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
            author: written.author_user_id.as_deref().map(Called::of),
            config: written.config_id.as_deref().map(Called::of),
            environment: Text::from(written.environment.as_str()),
            superseded: None,
        }
    }

    /// With the names of its author and its config, while these are there.
    #[must_use]
    pub fn named(mut self, author: Option<&str>, config: Option<&str>) -> Self {
        for (named, name) in [(&mut self.author, author), (&mut self.config, config)] {
            if let (Some(named), Some(name)) = (named, name) {
                named.name = Text::from(name);
            }
        }
        self
    }

    /// With the address of the page of the run over a dataset that it is about.
    #[must_use]
    pub fn of_run(mut self, href: String) -> Self {
        self.subject.href = href;
        self
    }

    /// With the address of the trace that its execution recorded.
    #[must_use]
    pub fn traced(mut self, href: String) -> Self {
        self.own_trace = Some(href);
        self
    }

    /// As one that another one took the place of.
    #[must_use]
    pub fn superseded_by(mut self, newer: &Self) -> Self {
        let version = newer.origin.as_ref().and_then(|origin| origin.version);
        let version = version.map_or_else(String::new, |n| format!(" of version {n}"));
        let (name, value) = (&newer.name, &newer.value);
        self.superseded = Some(Text::from(format!("{} {}{version}", name.raw(), value.raw())));
        self
    }
}

/// `60 of 1,234 characters`, of a text that a row shows the beginning of.
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

fn subject(subject: &Subject, base: &str) -> About {
    let about = |kind, id: &str, href| About { kind, id: Text::from(id), href };
    let of_trace = |id: &str| format!("{base}/traces/{}", segment(id));
    match subject {
        Subject::Trace(trace) => about("trace", trace.as_str(), of_trace(trace.as_str())),
        Subject::Observation(trace, step) => {
            let step = step.as_str();
            let href = format!("{}?observation={}", of_trace(trace.as_str()), encode(step));
            about("observation", step, href)
        }
        Subject::Session(session) => {
            about("session", session, href(base, GroupKey::Session, session))
        }
        Subject::Experiment(run) => about("run", run, format!("{base}/search?q={}", encode(run))),
    }
}

impl ScoresPage {
    fn is_narrowed(&self) -> bool {
        let is_filtered = !self.narrowed.is_empty() || !self.filter.terms.is_empty();
        is_filtered || self.shell.focus != Focus::default()
    }

    /// Which of the columns that few scores fill this page has: comment, author and config.
    fn columns(&self) -> [bool; 3] {
        let has = |is_filled: fn(&ScoreLine) -> bool| self.lines.iter().any(is_filled);
        [
            has(|line| line.comment.is_some()),
            has(|line| line.author.is_some()),
            has(|line| line.config.is_some()),
        ]
    }
}
