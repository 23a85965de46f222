//! A session, aggregated from its traces.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::ids::SessionId;
use crate::observation::Level;
use crate::time::Timestamp;
use crate::trace::Trace;

/// Most users, tags and metadata members, in the order of the traces.
const MAX_NAMES: usize = 1_000;

/// The aggregate of the traces of one session. It exists while one of them does.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Environment of its first trace.
    pub environment: String,
    /// Start of its first trace.
    pub start: Timestamp,
    /// The latest end of a trace.
    pub end: Timestamp,
    /// Traces.
    pub n_traces: u32,
    /// Observations of all traces.
    pub n_observations: u32,
    /// Of these, errors.
    pub n_errors: u32,
    /// US dollars; 0 without costs.
    pub total_cost: f64,
    /// Tokens of all traces.
    pub total_tokens: u64,
    /// Users of its traces.
    pub user_ids: BTreeSet<String>,
    /// Tags of its traces.
    pub tags: BTreeSet<String>,
    /// Merged metadata of its traces; the latest trace wins.
    pub metadata: Map<String, Value>,
}

impl Session {
    /// A session without traces.
    #[must_use]
    pub fn new(id: SessionId) -> Self {
        Self {
            id,
            environment: String::new(),
            start: Timestamp::from_micros(0),
            end: Timestamp::from_micros(0),
            n_traces: 0,
            n_observations: 0,
            n_errors: 0,
            total_cost: 0.0,
            total_tokens: 0,
            user_ids: BTreeSet::new(),
            tags: BTreeSet::new(),
            metadata: Map::new(),
        }
    }

    /// Adds the next trace in the order of starts.
    pub fn add(&mut self, trace: &Trace) {
        if self.n_traces == 0 {
            self.environment.clone_from(&trace.environment);
            self.start = trace.timestamp;
            self.end = trace.last_end;
        }
        self.n_traces += 1;
        self.end = self.end.max(trace.last_end);
        self.n_observations = self.n_observations.saturating_add(trace.n_observations);
        let n_errors = trace.n_by_level[Level::Error as usize];
        self.n_errors = self.n_errors.saturating_add(n_errors);
        self.total_cost += trace.total_cost;
        let n_tokens = trace.usage.get("total").copied().unwrap_or_default();
        self.total_tokens = self.total_tokens.saturating_add(n_tokens.to_u64());
        let free = MAX_NAMES.saturating_sub(self.user_ids.len());
        self.user_ids.extend(trace.user_id.iter().take(free).cloned());
        let free = MAX_NAMES.saturating_sub(self.tags.len());
        self.tags.extend(trace.tags.iter().take(free).cloned());
        for (name, value) in &trace.metadata {
            if self.metadata.len() < MAX_NAMES || self.metadata.contains_key(name) {
                self.metadata.insert(name.clone(), value.clone());
            }
        }
    }

    /// From the start of the first trace to the latest end, seconds.
    #[must_use]
    pub fn duration(&self) -> f64 {
        (self.end.as_micros() - self.start.as_micros()) as f64 / 1e6
    }
}
