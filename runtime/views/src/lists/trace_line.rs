//! One trace in a list.

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

/// Chips shown on a line; the rest is counted.
const CHIPS: usize = 2;
/// Tags shown on a line, and names of models and the like.
const TAGS: usize = 3;

/// One trace in the list.
#[derive(Clone, Debug)]
pub struct TraceLine {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<Text>,
    /// When it started.
    pub at: Timestamp,
    /// Environment.
    pub environment: Text,
    /// End user.
    pub user: Option<Text>,
    /// Session.
    pub session: Option<Text>,
    /// A person bookmarked it.
    pub bookmarked: bool,
    /// Whether the reader may bookmark it here.
    pub is_markable: bool,
    /// Tags.
    pub tags: Vec<Text>,
    /// What its steps are and use.
    pub steps: ObservationNames,
    /// Latest end minus earliest start.
    pub latency_us: i64,
    /// Tokens in all.
    pub tokens: u64,
    /// What it cost.
    pub cost: CostSum,
    /// Observations.
    pub n_observations: u32,
    /// Of these with level error.
    pub n_errors: u32,
    /// Of these with level warning.
    pub n_warnings: u32,
    /// Its scores and those of its steps, a chip for each name.
    pub scores: Vec<ScoreChip>,
    /// What its input says.
    pub input: Option<Preview>,
    /// What its output says.
    pub output: Option<Preview>,
    /// Release.
    pub release: Option<Text>,
    /// Version.
    pub version: Option<Text>,
    /// Tokens of the input and of the output.
    pub parts: [u64; 2],
    /// The members of its metadata that are asked for.
    pub metadata: HashMap<String, Text>,
    /// The scores about the trace itself that are asked for, those of a name together.
    pub by_name: HashMap<String, Text>,
}

/// What stands in a cell.
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

/// The first of some names, and how many there are besides.
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

    /// The id as a segment of a path.
    pub(crate) fn segment(&self) -> String {
        segment(&self.id)
    }

    /// The id as a value in an address.
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

    /// What stands in the cell of a column that has no shape of its own.
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
                StandardColumn::Models => own(listed(&self.steps.models).as_ref()),
                StandardColumn::Kinds => {
                    let kinds = self.steps.kinds.iter().map(|kind| kind.to_lowercase());
                    own(listed(&kinds.collect::<Vec<_>>()).as_ref())
                }
                StandardColumn::Prompts => own(listed(&self.steps.prompts).as_ref()),
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

    /// The room that the decimals of other costs take behind the figure in this column.
    pub(crate) fn blanks(&self, column: &Column, lines: &[Self]) -> String {
        match column {
            Column::Standard(StandardColumn::Cost) => {
                decimal_blanks(self.cost, lines.iter().map(|line| line.cost))
            }
            _ => String::new(),
        }
    }

    /// The preview in an input, output or metadata column.
    pub(crate) fn said(&self, column: &Column) -> Option<Preview> {
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

    /// The list of its scores, of the trace and of its steps.
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
