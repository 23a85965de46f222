//! The columns of the list of observations.

use std::collections::BTreeMap;

use askama::Template;
use perpend_domain::observation::{Level, Observation};
use perpend_domain::quantity::Quantity;
use perpend_domain::score::{Score, ScoreValue};
use perpend_domain::telemetry::{GroupKey, StoredObservation};
use perpend_domain::usage::{Side, side_of};
use serde_json::Value;

use crate::facts::total_tokens;
use crate::format::{duration, kind_label};
use crate::layout::shell::href;
use crate::lists::chips::ScoreChip;
use crate::lists::column::{Cell, CellContext, CellLayout, ListColumn, shortened};
use crate::lists::list::{ListDeclaration, ListTexts};
use crate::{
    OBSERVATION_LIST, Section, Text, encode, score_chips, score_value, segment, with_query,
};

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
    texts: ListTexts {
        name: "observations",
        row: "observation",
        title: "Observations",
        section: Section::Observations,
        order: "newest first",
        footnote: "",
        empty: "Observations are the timed operations of traces, such as model calls and tool calls. They are listed when the first \
                trace arrives.",
        empty_label: "Traces",
        empty_path: "/traces",
    },
    columns: &COLUMNS,
    filter: Some(&OBSERVATION_LIST),
    has_news: true,
    in_all_environments: false,
    table_class: "",
    row_class: None,
    choice_value: Some(choice_value),
};

/// Trace and observation, each percent-encoded, and the name.
fn choice_value(line: &ObservationLine) -> (String, Text) {
    let observation = line.own();
    let [trace, id] = [observation.trace_id.as_str(), observation.id.as_str()].map(encode);
    let name = match observation.name.as_str() {
        "" => "unnamed observation",
        name => name,
    };
    (format!("{trace}:{id}"), Text::from(name))
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

/// The scores of an observation.
#[derive(Template)]
#[template(path = "observation_scores.html")]
struct ScoresCell<'a> {
    chips: Vec<ScoreChip>,
    trace: &'a str,
    base: &'a str,
}

impl ObservationLine {
    fn own(&self) -> &Observation {
        &self.stored.observation
    }

    fn user(&self) -> Option<&str> {
        first_text(&self.own().user_id, &self.stored.trace_attributes.user_id)
    }

    fn session(&self) -> Option<&str> {
        first_text(&self.own().session_id, &self.stored.trace_attributes.session_id)
    }

    fn release(&self) -> Option<&str> {
        first_text(&self.own().release, &self.stored.trace_attributes.release)
    }

    fn latency_us(&self) -> Option<i64> {
        let observation = self.own();
        observation.end.map(|end| end.micros_since(observation.start))
    }

    fn first_token_us(&self) -> Option<i64> {
        let observation = self.own();
        observation.completion_start.map(|at| at.micros_since(observation.start))
    }

    fn tokens(&self, side: Option<Side>) -> Option<u64> {
        let usage = &self.own().usage;
        let Some(side) = side else {
            return (!usage.is_empty()).then(|| total_tokens(usage));
        };
        let own = || usage.iter().filter(|(key, _)| side_of(key) == Some(side));
        let n = own().map(|(_, n)| *n).sum::<Quantity>().to_u64();
        own().next().is_some().then_some(n)
    }

    /// URL of the observation in its trace.
    fn href(&self, context: &CellContext<'_>) -> String {
        let observation = self.own();
        let path = format!("{}/traces/{}", context.base, segment(observation.trace_id.as_str()));
        let own = ("observation", observation.id.as_str().to_owned());
        let pairs: Vec<(&str, String)> =
            std::iter::once(own).chain(context.focus.pairs()).collect();
        with_query(&path, &pairs)
    }
}

/// The value of the observation, or else that of its trace.
fn first_text<'l>(own: &'l Option<String>, of_trace: &'l Option<String>) -> Option<&'l str> {
    own.as_deref().filter(|own| !own.is_empty()).or(of_trace.as_deref())
}

fn seconds(micros: Option<i64>) -> Value {
    micros.map(|micros| micros as f64 / 1e6).into()
}

fn duration_cell(micros: Option<i64>) -> Cell {
    Cell::text(micros.map(duration).unwrap_or_default())
}

fn cost(line: &ObservationLine, _: &CellContext<'_>) -> Cell {
    match line.own().own_cost() {
        sum if sum.is_empty() => Cell::Empty,
        sum => Cell::text(crate::format::cost(sum)),
    }
}

fn name(line: &ObservationLine, context: &CellContext<'_>) -> Cell {
    let observation = line.own();
    let name = match observation.name.as_str() {
        "" => Text::from("Unnamed observation"),
        name => Text::from(name),
    };
    let message = observation.status_message.as_deref();
    Cell::html(&NameCell {
        href: line.href(context),
        name,
        kind: kind_label(observation.kind),
        level: match observation.level {
            Level::Error => Some(("bad", "error")),
            Level::Warning => Some(("waiting", "warning")),
            Level::Debug | Level::Default => None,
        },
        message: message.map(|message| Text::from(shortened(message))),
    })
}

fn scores(line: &ObservationLine, context: &CellContext<'_>) -> Cell {
    if line.scores.is_empty() {
        return Cell::Empty;
    }
    let scores: Vec<&Score> = line.scores.iter().collect();
    Cell::html(&ScoresCell {
        chips: score_chips(&scores),
        trace: line.own().trace_id.as_str(),
        base: context.base,
    })
}

/// The newest value of each score name.
fn newest_scores(line: &ObservationLine) -> Value {
    let mut newest: BTreeMap<&str, &ScoreValue> = BTreeMap::new();
    for score in line.scores.iter().rev() {
        newest.insert(&score.written.name, &score.written.value);
    }
    newest.into_iter().map(|(name, of)| (name.to_owned(), score_value(of))).collect()
}

fn trace(line: &ObservationLine, context: &CellContext<'_>) -> Cell {
    let id = line.own().trace_id.as_str();
    let name = line.stored.trace_attributes.name.as_deref().filter(|name| !name.is_empty());
    let path = format!("{}/traces/{}", context.base, segment(id));
    Cell::link(name.or(Some(id)), |_| with_query(&path, &context.focus.pairs()))
}

fn of_group(by: GroupKey, id: Option<&str>, context: &CellContext<'_>) -> Cell {
    Cell::link(id, |id| format!("{}{}", href(context.base, by, id), context.focus.query()))
}

type Column = ListColumn<ObservationLine>;

static COLUMNS: [Column; 24] = [
    Column::new(("name", "Observation"), CellLayout::Name, name, |line| {
        line.own().name.as_str().into()
    })
    .usual()
    .with(&[
        ("id", "Id", |line| line.own().id.as_str().into()),
        ("traceId", "Trace id", |line| line.own().trace_id.as_str().into()),
        ("type", "Kind", |line| line.own().kind.as_str().into()),
        ("level", "Level", |line| line.own().level.as_str().into()),
    ]),
    Column::new(
        ("startTime", "Started"),
        CellLayout::Time,
        |line, _| Cell::Time(line.own().start, true),
        |line| line.own().start.to_iso_micros().into(),
    )
    .usual(),
    Column::new(("traceName", "Trace"), CellLayout::Plain, trace, |line| {
        line.stored.trace_attributes.name.clone().into()
    })
    .usual(),
    Column::filter_link(("model", "Model"), |line| line.own().model.clone().into()).usual(),
    Column::new(
        ("latency", "Latency"),
        CellLayout::Figure,
        |line, _| duration_cell(line.latency_us()),
        |line| seconds(line.latency_us()),
    )
    .in_unit("s")
    .usual(),
    Column::new(
        ("timeToFirstToken", "First token"),
        CellLayout::Figure,
        |line, _| duration_cell(line.first_token_us()),
        |line| seconds(line.first_token_us()),
    )
    .in_unit("s")
    .usual(),
    Column::figure(("totalTokens", "Tokens"), |line| line.tokens(None).into()).usual(),
    Column::new(("totalCost", "Cost"), CellLayout::Figure, cost, |line| {
        line.own().own_cost().exact().into()
    })
    .in_unit("USD")
    .usual(),
    Column::new(("scores", "Scores"), CellLayout::Chips, scores, newest_scores).usual(),
    Column::filter_link(("type", "Kind"), |line| line.own().kind.as_str().into()),
    Column::filter_link(("level", "Level"), |line| line.own().level.as_str().into()),
    Column::new(
        ("userId", "User"),
        CellLayout::Plain,
        |line, context| of_group(GroupKey::User, line.user(), context),
        |line| line.user().into(),
    ),
    Column::new(
        ("sessionId", "Session"),
        CellLayout::Plain,
        |line, context| of_group(GroupKey::Session, line.session(), context),
        |line| line.session().into(),
    ),
    Column::filter_link(("environment", "Environment"), |line| {
        line.own().environment.as_str().into()
    }),
    Column::plain(("id", "Id"), |line| line.own().id.as_str().into()),
    Column::plain(("traceId", "Trace id"), |line| line.own().trace_id.as_str().into()),
    Column::figure(("inputTokens", "Input tokens"), |line| line.tokens(Some(Side::Input)).into()),
    Column::figure(("outputTokens", "Output tokens"), |line| {
        line.tokens(Some(Side::Output)).into()
    }),
    Column::filter_link(("promptName", "Prompt"), |line| {
        line.own().prompt.as_ref().map(|prompt| prompt.name.as_str()).into()
    }),
    Column::plain(("calledToolNames", "Called tools"), |line| {
        line.own().called_tools.clone().into()
    }),
    Column::plain(("tags", "Tags"), |line| line.stored.trace_attributes.tags.clone().into()),
    Column::filter_link(("release", "Release"), |line| line.release().into()),
    Column::filter_link(("version", "Version"), |line| line.own().version.clone().into()),
    Column::plain(("statusMessage", "Status message"), |line| {
        line.own().status_message.clone().into()
    }),
];
