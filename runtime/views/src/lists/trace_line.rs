//! A row of a list of traces.

use std::collections::HashMap;

use crate::markup::{encode, segment, with_query};
use crate::urls::{Column, StandardColumn, traces_with_value};
use perpend_domain::cost::CostSum;
use perpend_domain::telemetry::GroupKey;
use perpend_domain::time::Timestamp;
use perpend_domain::trace::ObservationNames;

use crate::Text;
use crate::format::{NO_VALUE, cost, count, decimal_blanks, duration};
use crate::layout::shell::href;
use crate::lists::chips::ScoreChip;
use crate::values::preview::Preview;

/// Maximum number of scores in a row.
const CHIPS: usize = 2;
/// Maximum number of tags and of model names in a row.
const TAGS: usize = 3;

/// A row of a list of traces.
#[derive(Clone, Debug)]
pub struct TraceLine {
    /// Id of the trace.
    pub id: String,
    /// Name.
    pub name: Option<Text>,
    /// Start.
    pub at: Timestamp,
    /// Environment.
    pub environment: Text,
    /// Id of the user.
    pub user: Option<Text>,
    /// Id of the session.
    pub session: Option<Text>,
    /// Whether it is bookmarked.
    pub bookmarked: bool,
    /// Whether the row has a bookmark button.
    pub is_markable: bool,
    /// Tags.
    pub tags: Vec<Text>,
    /// Kinds, models and prompts of its observations.
    pub observation_names: ObservationNames,
    /// Latest end minus earliest start, in microseconds.
    pub latency_us: i64,
    /// Total tokens.
    pub tokens: u64,
    /// Cost.
    pub cost: CostSum,
    /// Number of observations.
    pub n_observations: u32,
    /// Number of observations with level error.
    pub n_errors: u32,
    /// Number of observations with level warning.
    pub n_warnings: u32,
    /// Scores of the trace and of its observations, a chip for each name.
    pub scores: Vec<ScoreChip>,
    /// Beginning of the input.
    pub input: Option<Preview>,
    /// Beginning of the output.
    pub output: Option<Preview>,
    /// Release.
    pub release: Option<Text>,
    /// Version.
    pub version: Option<Text>,
    /// Input and output tokens.
    pub parts: [u64; 2],
    /// Metadata members that have a column.
    pub metadata: HashMap<String, Text>,
    /// Aggregated scores of the trace itself that have a column, by name.
    pub by_name: HashMap<String, Text>,
}

/// Content of a cell.
pub(crate) struct Cell {
    pub(crate) text: Option<Text>,
    pub(crate) href: Option<String>,
}

fn some_tokens(n: u64) -> String {
    match n {
        0 => NO_VALUE.to_owned(),
        n => count(n),
    }
}

/// The first names, and the number of the others.
fn listed(names: &[String]) -> Option<Text> {
    let shown = names.iter().take(TAGS).map(String::as_str);
    let shown: Vec<&str> = shown.collect();
    let more = names.len() - shown.len();
    let shown = shown.join(", ");
    match more {
        _ if names.is_empty() => None,
        0 => Some(Text::from(shown)),
        more => Some(Text::from(format!("{shown} +{more}"))),
    }
}

impl TraceLine {
    pub(crate) fn href(&self, base: &str) -> String {
        format!("{base}/traces/{}", segment(&self.id))
    }

    /// The id as a path segment.
    pub(crate) fn segment(&self) -> String {
        segment(&self.id)
    }

    /// The id as a query value.
    pub(crate) fn encoded(&self) -> String {
        encode(&self.id)
    }

    pub(crate) fn user_href(&self, base: &str) -> String {
        href(base, GroupKey::User, self.user.as_ref().map_or("", Text::raw))
    }

    pub(crate) fn session_href(&self, base: &str) -> String {
        let session = self.session.as_ref().map_or("", Text::raw);
        href(base, GroupKey::Session, session)
    }

    pub(crate) fn latency(&self) -> String {
        duration(self.latency_us)
    }

    fn level(&self) -> &'static str {
        match (self.n_errors, self.n_warnings) {
            (1.., _) => "error",
            (0, 1..) => "warning",
            (0, 0) => "default",
        }
    }

    /// Content of the cell of a column with [`Shape::Other`](crate::urls::Shape::Other).
    pub(crate) fn cell(&self, column: &Column, base: &str) -> Cell {
        let plain = |text: String| Cell { text: Some(Text::from(text)), href: None };
        let tokens = |n| plain(some_tokens(n));
        let linked = |text: &Option<Text>, href: &dyn Fn(&str) -> String| Cell {
            href: text.as_ref().map(|text| href(text.raw())),
            text: text.clone(),
        };
        let alike =
            |column, text: &Option<Text>| linked(text, &|raw| traces_with_value(base, column, raw));
        let own = |text: Option<&Text>| Cell { text: text.cloned(), href: None };
        match column {
            Column::Metadata(_) => own(None),
            Column::Score(name) => own(self.by_name.get(name)),
            Column::Standard(known) => match known {
                StandardColumn::Latency => plain(duration(self.latency_us)),
                StandardColumn::Tokens => tokens(self.tokens),
                StandardColumn::InputTokens => tokens(self.parts[0]),
                StandardColumn::OutputTokens => tokens(self.parts[1]),
                StandardColumn::Cost => plain(cost(self.cost)),
                StandardColumn::Observations => plain(count(self.n_observations.into())),
                StandardColumn::Errors => plain(count(self.n_errors.into())),
                StandardColumn::Warnings => plain(count(self.n_warnings.into())),
                StandardColumn::Level => plain(self.level().to_owned()),
                StandardColumn::Id => plain(self.id.clone()),
                StandardColumn::Environment => {
                    alike("environment", &Some(self.environment.clone()))
                }
                StandardColumn::Release => alike("release", &self.release),
                StandardColumn::Version => alike("version", &self.version),
                StandardColumn::Models => own(listed(&self.observation_names.models).as_ref()),
                StandardColumn::Kinds => {
                    let kinds = self.observation_names.kinds.iter().map(|kind| kind.to_lowercase());
                    own(listed(&kinds.collect::<Vec<_>>()).as_ref())
                }
                StandardColumn::Prompts => own(listed(&self.observation_names.prompts).as_ref()),
                StandardColumn::User => linked(&self.user, &|raw| href(base, GroupKey::User, raw)),
                StandardColumn::Session => {
                    linked(&self.session, &|raw| href(base, GroupKey::Session, raw))
                }
                StandardColumn::Trace
                | StandardColumn::Started
                | StandardColumn::People
                | StandardColumn::Scores
                | StandardColumn::Tags
                | StandardColumn::Input
                | StandardColumn::Output => own(None),
            },
        }
    }

    /// Padding that aligns the decimals of a cost with those of the other rows.
    pub(crate) fn decimal_padding(&self, column: &Column, lines: &[Self]) -> String {
        match column {
            Column::Standard(StandardColumn::Cost) => {
                decimal_blanks(self.cost, lines.iter().map(|line| line.cost))
            }
            _ => String::new(),
        }
    }

    /// Content of an input, output or metadata column.
    pub(crate) fn preview(&self, column: &Column) -> Option<Preview> {
        match column {
            Column::Standard(StandardColumn::Input) => self.input.clone(),
            Column::Standard(StandardColumn::Output) => self.output.clone(),
            Column::Metadata(key) => Preview::of(self.metadata.get(key)?.raw(), &[]),
            _ => None,
        }
    }

    pub(crate) fn token_text(&self) -> String {
        some_tokens(self.tokens)
    }

    pub(crate) fn cost_text(&self) -> String {
        cost(self.cost)
    }

    pub(crate) fn first_chips(&self) -> &[ScoreChip] {
        &self.scores[..self.scores.len().min(CHIPS)]
    }

    pub(crate) fn more_chips(&self) -> usize {
        self.scores.len().saturating_sub(CHIPS)
    }

    /// URL of the scores of the trace and its observations.
    pub(crate) fn scores_href(&self, base: &str) -> String {
        with_query(&format!("{base}/scores"), &[("trace", self.id.clone())])
    }

    pub(crate) fn first_tags(&self) -> &[Text] {
        &self.tags[..self.tags.len().min(TAGS)]
    }

    pub(crate) fn more_tags(&self) -> usize {
        self.tags.len().saturating_sub(TAGS)
    }
}
