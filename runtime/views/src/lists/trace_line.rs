//! A row of a list of traces.

use crate::markup::{encode, segment, with_query};
use perpend_domain::cost::CostSum;
use perpend_domain::payload::Payload;
use perpend_domain::score::Score;
use perpend_domain::telemetry::GroupKey;
use perpend_domain::time::Timestamp;
use perpend_domain::trace::ObservationNames;
use serde_json::{Map, Value};

use crate::Text;
use crate::format::{NO_VALUE, cost, count, duration};
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
    /// Values that the row shows only in part.
    pub content: TraceContent,
}

/// Values of a trace that its row shows only in part, for files and columns with names.
#[derive(Clone, Debug, Default)]
pub struct TraceContent {
    /// Input.
    pub input: Option<Payload>,
    /// Output.
    pub output: Option<Payload>,
    /// Metadata.
    pub metadata: Map<String, Value>,
    /// Scores of the trace and of its observations, newest first.
    pub scores: Vec<Score>,
}

pub(crate) fn some_tokens(n: u64) -> String {
    match n {
        0 => NO_VALUE.to_owned(),
        n => count(n),
    }
}

impl TraceLine {
    pub(crate) fn href(&self, base: &str) -> String {
        format!("{base}/traces/{}", segment(&self.id))
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

    /// Name, for labels of controls.
    pub(crate) fn label(&self) -> Text {
        self.name.clone().unwrap_or_else(|| Text::from("unnamed trace"))
    }

    /// The most severe level of its observations.
    pub(crate) fn level(&self) -> &'static str {
        match (self.n_errors, self.n_warnings) {
            (1.., _) => "ERROR",
            (0, 1..) => "WARNING",
            (0, 0) => "DEFAULT",
        }
    }

    /// Labels, filter columns and values of the menu of its row.
    pub(crate) fn menu_values(&self) -> Vec<(&'static str, &'static str, Text)> {
        let one = |label, column, text: Option<&Text>| Some((label, column, text?.clone()));
        let values = [
            one("name", "name", self.name.as_ref()),
            one("environment", "environment", Some(&self.environment)),
            one("user", "userId", self.user.as_ref()),
            one("session", "sessionId", self.session.as_ref()),
            one("release", "release", self.release.as_ref()),
            one("version", "version", self.version.as_ref()),
        ];
        let models = self.observation_names.models.iter().take(TAGS);
        let models = models.map(|model| ("model", "models", Text::from(model.as_str())));
        let tags = self.first_tags().iter().map(|tag| ("tag", "tags", tag.clone()));
        values.into_iter().flatten().chain(models).chain(tags).collect()
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
