//! The columns of the list of observations.

use askama::Template;
use perpend_domain::observation::{Level, Observation};
use perpend_domain::score::Score;
use perpend_domain::telemetry::{GroupKey, StoredObservation};
use perpend_domain::usage::Side;

use crate::facts::{side_tokens, total_tokens};
use crate::format::kind_label;
use crate::lists::chips::{newest_values, scores_cell};
use crate::lists::column::{Cell, CellContext, CellLayout, ListColumn, shortened};
use crate::lists::declaration::{ChoicePage, ListDeclaration, ListTexts, RowChoice};
use crate::{OBSERVATION_LIST, Section, Text, encode, segment, with_query};

/// A row of the list of observations.
#[derive(Clone, Debug)]
pub struct ObservationLine {
    /// The observation without content.
    pub stored: StoredObservation,
    /// Its scores, newest first.
    pub scores: Vec<Score>,
}

/// The list of observations.
pub static OBSERVATION_ROWS: ListDeclaration<ObservationLine> = ListDeclaration {
    filter: Some(&OBSERVATION_LIST),
    news: Some(["new observation", "new observations"]),
    choice: Some(RowChoice {
        name: "observation",
        value: choice_value,
        pages: &[ChoicePage::DATASET, ChoicePage::RULE],
    }),
    ..ListDeclaration::new(TEXTS, &COLUMNS, cell)
};

const TEXTS: ListTexts = ListTexts::new(
    ("observations", "observation"),
    "Observations",
    Section::Observations,
    "Observations are the timed operations of traces, such as model calls and tool calls. They are listed when the first trace \
     arrives.",
    ("Traces", "/traces"),
);

/// Trace and observation, each percent-encoded, and the name.
fn choice_value(line: &ObservationLine) -> (String, Text) {
    let [trace, id] = [line.own().trace_id.as_str(), line.own().id.as_str()].map(encode);
    (format!("{trace}:{id}"), line.name())
}

/// Link, level and kind of an observation.
#[derive(Template)]
#[template(path = "observation_name.html")]
struct NameCell {
    href: String,
    name: Text,
    kind: &'static str,
    level: Option<(&'static str, &'static str)>,
    message: Option<Text>,
}

impl ObservationLine {
    fn own(&self) -> &Observation {
        &self.stored.observation
    }

    fn name(&self) -> Text {
        let name = self.own().name.as_str();
        Text::from(if name.is_empty() { "Unnamed observation" } else { name })
    }

    fn tokens(&self) -> Option<u64> {
        let usage = &self.own().usage;
        (!usage.is_empty()).then(|| total_tokens(usage))
    }

    /// URL of the trace, or of the observation in it.
    fn href(&self, observation: Option<&str>, context: &CellContext<'_>) -> String {
        let path = format!("{}/traces/{}", context.base, segment(self.own().trace_id.as_str()));
        let own = observation.map(|id| ("observation", id.to_owned()));
        with_query(&path, &own.into_iter().chain(context.focus.pairs()).collect::<Vec<_>>())
    }

    fn name_cell(&self, context: &CellContext<'_>) -> Cell {
        let observation = self.own();
        Cell::html(&NameCell {
            href: self.href(Some(observation.id.as_str()), context),
            name: self.name(),
            kind: kind_label(observation.kind),
            level: match observation.level {
                Level::Error => Some(("bad", "error")),
                Level::Warning => Some(("waiting", "warning")),
                Level::Debug | Level::Default => None,
            },
            message: observation.status_message.as_deref().map(|it| Text::from(shortened(it))),
        })
    }
}

fn cell(column: &'static str, line: &ObservationLine, context: &CellContext<'_>) -> Cell {
    let id = line.own().trace_id.as_str();
    match column {
        "name" => line.name_cell(context),
        "traceName" => {
            let name = line.stored.trace_attributes.name.as_deref();
            let name = name.filter(|name| !name.is_empty()).or(Some(id));
            Cell::link(name, |_| line.href(None, context))
        }
        "scores" => scores_cell(&line.scores, id, context),
        _ => Cell::Empty,
    }
}

type Column = ListColumn<ObservationLine>;

static COLUMNS: [Column; 24] = [
    Column::declared(("name", "Observation"), CellLayout::Name, |line| {
        line.own().name.as_str().into()
    })
    .usual()
    .with(&[
        ("id", "Id", |line| line.own().id.as_str().into()),
        ("traceId", "Trace id", |line| line.own().trace_id.as_str().into()),
        ("type", "Kind", |line| line.own().kind.as_str().into()),
        ("level", "Level", |line| line.own().level.as_str().into()),
    ]),
    Column::time(("startTime", "Started"), |line| Some(line.own().start)).usual(),
    Column::declared(("traceName", "Trace"), CellLayout::Plain, |line| {
        line.stored.trace_attributes.name.clone().into()
    })
    .usual(),
    Column::filter_link(("model", "Model"), |line| line.own().model.clone().into()).usual(),
    Column::duration(("latency", "Latency"), |line| line.own().latency_us()).usual(),
    Column::duration(("timeToFirstToken", "First token"), |line| {
        line.own().time_to_first_token_us()
    })
    .usual(),
    Column::figure(("totalTokens", "Tokens"), |line| line.tokens().into()).usual(),
    Column::cost(("totalCost", "Cost"), |line| line.own().own_cost()).usual(),
    Column::declared(("scores", "Scores"), CellLayout::Chips, |line| newest_values(&line.scores))
        .usual(),
    Column::filter_link(("type", "Kind"), |line| line.own().kind.as_str().into()),
    Column::filter_link(("level", "Level"), |line| line.own().level.as_str().into()),
    Column::group_link(("userId", "User"), GroupKey::User, |line| line.stored.user_id().into()),
    Column::group_link(("sessionId", "Session"), GroupKey::Session, |line| {
        line.stored.session_id().into()
    }),
    Column::filter_link(("environment", "Environment"), |line| {
        line.own().environment.as_str().into()
    }),
    Column::plain(("id", "Id"), |line| line.own().id.as_str().into()),
    Column::plain(("traceId", "Trace id"), |line| line.own().trace_id.as_str().into()),
    Column::figure(("inputTokens", "Input tokens"), |line| {
        side_tokens(&line.own().usage, Side::Input).into()
    }),
    Column::figure(("outputTokens", "Output tokens"), |line| {
        side_tokens(&line.own().usage, Side::Output).into()
    }),
    Column::filter_link(("promptName", "Prompt"), |line| {
        line.own().prompt.as_ref().map(|prompt| prompt.name.as_str()).into()
    }),
    Column::plain(("calledToolNames", "Called tools"), |line| {
        line.own().called_tools.clone().into()
    }),
    Column::plain(("tags", "Tags"), |line| line.stored.trace_attributes.tags.clone().into()),
    Column::filter_link(("release", "Release"), |line| line.stored.release().into()),
    Column::filter_link(("version", "Version"), |line| line.own().version.clone().into()),
    Column::plain(("statusMessage", "Status message"), |line| {
        line.own().status_message.clone().into()
    }),
];
