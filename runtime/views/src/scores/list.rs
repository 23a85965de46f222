//! The list of scores.

use crate::format::count;
use crate::markup::{encode, segment};
use askama::Template;
use perpend_domain::score::{Score, ScoreOrigin, ScoreSource, ScoreValue, Subject};
use perpend_domain::telemetry::GroupKey;
use perpend_domain::time::Timestamp;
use serde_json::Value;

use crate::layout::setup::Setup;
use crate::layout::shell::href;
use crate::lists::column::{Cell, CellContext, CellLayout, ListColumn};
use crate::lists::declaration::{ListDeclaration, ListTexts};
use crate::scores::score::{OriginView, ResourceLink, Tone, score_value, shown};
use crate::{Html, SCORE_LIST, Section, Text};

/// Maximum characters of a value.
const VALUE: usize = 60;

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
pub(crate) struct Target {
    pub(crate) kind: &'static str,
    pub(crate) id: Text,
    /// Name of the trace, if it is or belongs to one with a name.
    trace: Option<Text>,
    pub(crate) href: String,
}

impl Target {
    /// Whether it is named by the trace that it belongs to.
    fn is_within(&self) -> bool {
        self.kind == "observation" && self.trace.is_some()
    }
}

/// Characters of a shortened id.
const ID: usize = 8;

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

    /// Sets the name of the trace of its target.
    #[must_use]
    pub fn in_trace(mut self, name: &str) -> Self {
        self.subject.trace = Some(Text::from(name));
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

pub(crate) fn subject(subject: &Subject, base: &str) -> Target {
    let target = |kind, id: &str, href| Target { kind, id: Text::from(id), trace: None, href };
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

/// A row of the list of scores.
#[derive(Clone, Debug)]
pub struct ScoreRow {
    /// The score.
    pub score: Score,
    /// Its cells.
    pub line: ScoreLine,
    /// Name of the author, if the user exists.
    pub author: Option<String>,
    /// Name of the score config, if it exists.
    pub config: Option<String>,
}

/// The list of scores.
pub static SCORE_ROWS: ListDeclaration<ScoreRow> = ListDeclaration {
    filter: Some(&SCORE_LIST),
    news: Some(["new score", "new scores"]),
    in_all_environments: true,
    row_class: Some(|row| if row.line.superseded.is_some() { "older" } else { "" }),
    ..ListDeclaration::new(TEXTS, &COLUMNS, cell)
};

const TEXTS: ListTexts = ListTexts::new(
    ("scores", "score"),
    "Scores",
    Section::Scores,
    "Scores are sent by an application, created by a rule when traces arrive, or given by a person.",
    ("Rules", "/rules"),
)
.with_related("Analytics", "/scores/analytics");

/// Commands that create a score, for a project without scores.
#[derive(Debug, Template)]
#[template(path = "score_ways.html")]
pub struct ScoreSetup {
    /// Values of the commands.
    pub setup: Setup,
}

impl ScoreSetup {
    /// The commands as markup.
    #[must_use]
    pub fn html(&self) -> Option<Html> {
        Html::rendered(self).ok()
    }
}

/// A cell with several elements.
#[derive(Template)]
#[template(path = "score_cell.html")]
struct ScoreCell<'a> {
    column: &'static str,
    line: &'a ScoreLine,
    base: &'a str,
}

fn cell(column: &'static str, row: &ScoreRow, context: &CellContext<'_>) -> Cell {
    let line = &row.line;
    match column {
        "comment" if line.comment.is_none() => Cell::Empty,
        "author" if line.author.is_none() => Cell::Empty,
        "config" if line.config.is_none() => Cell::Empty,
        "environment" => Cell::Text(line.environment.clone()),
        _ => Cell::html(&ScoreCell { column, line, base: context.base }),
    }
}

fn of_origin(row: &ScoreRow, value: impl Fn(&ScoreOrigin) -> Value) -> Value {
    row.score.written.origin.as_ref().map(value).unwrap_or_default()
}

/// The name of an existing evaluator or rule.
fn origin_name(row: &ScoreRow, link: impl Fn(&OriginView) -> &ResourceLink) -> Value {
    let link = row.line.origin.as_ref().map(link);
    link.filter(|link| link.id.is_some()).map(|link| link.name.raw()).into()
}

fn trace_id(row: &ScoreRow) -> Value {
    match &row.score.written.subject {
        Subject::Trace(trace) | Subject::Observation(trace, _) => trace.as_str().into(),
        Subject::Session(_) | Subject::Experiment(_) => Value::Null,
    }
}

fn observation_id(row: &ScoreRow) -> Value {
    match &row.score.written.subject {
        Subject::Observation(_, observation) => observation.as_str().into(),
        _ => Value::Null,
    }
}

fn session_id(row: &ScoreRow) -> Value {
    match &row.score.written.subject {
        Subject::Session(session) => session.as_str().into(),
        _ => Value::Null,
    }
}

fn run_id(row: &ScoreRow) -> Value {
    match &row.score.written.subject {
        Subject::Experiment(run) => run.as_str().into(),
        _ => Value::Null,
    }
}

type Column = ListColumn<ScoreRow>;

static COLUMNS: [Column; 9] = [
    Column::declared(("name", "Score"), CellLayout::Name, |row| {
        row.score.written.name.as_str().into()
    })
    .usual()
    .with(&[("id", "Id", |row| row.score.written.id.as_str().into())]),
    Column::declared(("value", "Value"), CellLayout::Mixed, |row| {
        score_value(&row.score.written.value)
    })
    .usual()
    .with(&[("dataType", "Data type", |row| row.score.written.value.data_type().as_str().into())]),
    Column::declared(("target", "Target"), CellLayout::Plain, |row| row.line.subject.kind.into())
        .usual()
        .with(&[
            ("traceId", "Trace id", trace_id),
            ("observationId", "Observation id", observation_id),
            ("sessionId", "Session id", session_id),
            ("datasetRunId", "Run id", run_id),
        ]),
    Column::declared(("source", "Source"), CellLayout::Mixed, |row| {
        row.score.written.source.as_str().into()
    })
    .usual()
    .with(&[
        ("evaluator", "Evaluator", |row| origin_name(row, |origin| &origin.evaluator)),
        ("evaluatorId", "Evaluator id", |row| {
            of_origin(row, |origin| origin.evaluator_id.as_str().into())
        }),
        ("evaluatorVersion", "Evaluator version", |row| {
            row.line.origin.as_ref().and_then(|origin| origin.version).into()
        }),
        ("rule", "Rule", |row| origin_name(row, |origin| &origin.rule)),
        ("ruleId", "Rule id", |row| of_origin(row, |origin| origin.rule_id.as_str().into())),
        ("executionId", "Execution id", |row| {
            of_origin(row, |origin| origin.execution_id.as_str().into())
        }),
        ("fingerprint", "Fingerprint", |row| {
            of_origin(row, |origin| origin.fingerprint.to_string().into())
        }),
    ]),
    Column::declared(("comment", "Comment"), CellLayout::Comment, |row| {
        row.score.written.comment.clone().into()
    })
    .usual()
    .optional(),
    Column::declared(("author", "Author"), CellLayout::Mixed, |row| row.author.clone().into())
        .usual()
        .optional()
        .with(&[("authorUserId", "Author id", |row| {
            row.score.written.author_user_id.clone().into()
        })]),
    Column::declared(("config", "Config"), CellLayout::Mixed, |row| row.config.clone().into())
        .usual()
        .optional()
        .with(&[("configId", "Config id", |row| row.score.written.config_id.clone().into())]),
    Column::declared(("environment", "Environment"), CellLayout::Mixed, |row| {
        row.score.written.environment.as_str().into()
    })
    .usual(),
    Column::time(("timestamp", "Time"), |row| Some(row.line.at)).usual().with(&[(
        "superseded",
        "Superseded",
        |row| row.line.superseded.is_some().into(),
    )]),
];
