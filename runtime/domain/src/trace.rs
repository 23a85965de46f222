//! A trace: never sent, computed from its observations (otlp.md 3).

use serde_json::{Map, Value};

use crate::cost::CostSum;
use crate::ids::{ObservationId, TraceId};
use crate::observation::Usage;
use crate::payload::Payload;
use crate::time::Timestamp;

/// A trace, computed from its observations.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Its id.
    pub id: TraceId,
    /// Explicit name, else the root's.
    pub name: Option<String>,
    /// Explicit input, else the root's.
    pub input: Option<Payload>,
    /// Explicit output, else the root's.
    pub output: Option<Payload>,
    /// Start of a parentless root, else the earliest start.
    pub timestamp: Timestamp,
    /// End user.
    pub user_id: Option<String>,
    /// Session.
    pub session_id: Option<String>,
    /// Release.
    pub release: Option<String>,
    /// Version of the root.
    pub version: Option<String>,
    /// Environment of the root.
    pub environment: String,
    /// Visible without a key.
    pub public: bool,
    /// A user bookmarked it.
    pub bookmarked: bool,
    /// Union over all observations: sorted, unique.
    pub tags: Vec<String>,
    /// Merged metadata.
    pub metadata: Map<String, Value>,
    /// Kinds, models and prompts of its observations.
    pub observation_names: ObservationNames,
    /// The root observation.
    pub root: Option<ObservationId>,
    /// The root is the best candidate so far: its parent may still arrive (otlp.md 3.2).
    pub root_is_provisional: bool,
    /// Observations that repeat the usage of another one, with that one (otlp.md 4.5).
    pub duplicates: Vec<(ObservationId, ObservationId)>,
    /// Summed usage after aggregates and duplicates.
    pub usage: Usage,
    /// Summed cost in US dollars; 0 without costs.
    pub total_cost: f64,
    /// Observations with a cost.
    pub n_priced: u32,
    /// Observations whose cost is expected and missing.
    pub n_unpriced: u32,
    /// Latest end minus earliest start, microseconds.
    pub latency_us: i64,
    /// Observations.
    pub n_observations: u32,
    /// Observations by level: debug, default, warning, error.
    pub n_by_level: [u32; 4],
    /// Earliest start.
    pub first_start: Timestamp,
    /// Latest end or start.
    pub last_end: Timestamp,
}

/// Kinds, models and prompts of the observations of a trace: each list sorted, without duplicates, limited to
/// [`MAX_OBSERVATION_NAMES`](crate::fold::MAX_OBSERVATION_NAMES).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservationNames {
    /// Kinds of observations, as the API writes them.
    pub kinds: Vec<String>,
    /// Models that were called.
    pub models: Vec<String>,
    /// Names of the prompts that were used.
    pub prompts: Vec<String>,
}

impl Trace {
    /// Its cost with the number of missing prices.
    #[must_use]
    pub fn cost(&self) -> CostSum {
        CostSum {
            dollars: self.total_cost,
            n_priced: self.n_priced.into(),
            n_unpriced: self.n_unpriced.into(),
        }
    }
}
