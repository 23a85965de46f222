//! The observations of a trace as rows in reading order, without anything large.

use perpend_domain::observation::{Level, ObservationKind};
use perpend_domain::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// A window of the observations of a trace.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = TraceOutline)]
pub struct OutlineWindow {
    /// In reading order: parents before children, siblings by start and id.
    pub data: Vec<OutlineRow>,
    /// The position of the window.
    pub meta: OutlineMeta,
}

/// The position of a window.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct OutlineMeta {
    /// Rows before the first one.
    pub at: u64,
    /// Rows of the whole trace.
    pub total: u64,
}

/// One observation.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutlineRow {
    /// Its id.
    pub id: String,
    /// The parent row; null on the top level, and if the parent is missing or in a cycle.
    pub parent_observation_id: Option<String>,
    /// 0 on the top level.
    pub depth: u32,
    /// Its kind.
    pub r#type: ObservationKind,
    /// Empty without a name.
    pub name: String,
    /// Its level.
    pub level: Level,
    /// Its start.
    pub start_time: Timestamp,
    /// Seconds; null while it runs.
    pub latency: Option<f64>,
    /// Null without usage.
    pub total_tokens: Option<u64>,
    /// US dollars; null if unknown.
    pub total_cost: Option<f64>,
    /// Number of descendants. They directly follow the row.
    pub descendants: u32,
}
