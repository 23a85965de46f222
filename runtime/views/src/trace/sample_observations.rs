//! Sample observations for tests.

use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::observation::{Content, Level, Observation, ObservationKind};
use perpend_domain::time::Timestamp;

/// A span that starts `start_ms` into the trace.
pub(crate) fn observation(id: &str, parent: Option<&str>, start_ms: i64, ms: i64) -> Observation {
    let start = Timestamp::from_millis(1_772_359_200_000 + start_ms);
    Observation {
        trace_id: TraceId::new("0af7651916cd43dd8448eb211c80319c").unwrap(),
        id: ObservationId::new(id).unwrap(),
        parent_id: parent.map(|p| ObservationId::new(p).unwrap()),
        kind: ObservationKind::Span,
        name: format!("observation {id}"),
        start,
        end: Some(start.plus_millis(ms)),
        completion_start: None,
        level: Level::Default,
        status_message: None,
        environment: "default".to_owned(),
        release: None,
        version: None,
        user_id: None,
        session_id: None,
        tags: Vec::new(),
        model: None,
        provider: None,
        model_parameters: serde_json::Map::new(),
        prompt: None,
        usage: Default::default(),
        cost: Default::default(),
        computed_cost: Default::default(),
        price_id: None,
        aggregate_usage: Default::default(),
        aggregate_cost: Default::default(),
        aggregate_model: None,
        aggregate_computed_cost: Default::default(),
        response_id: None,
        scope_name: "test".to_owned(),
        is_app_root: false,
        as_root: false,
        called_tools: Vec::new(),
        trace: None,
        is_complete_marker: false,
        is_in_parts: false,
        experiment: None,
        attribute_count: 0,
        has_content: false,
        content: Content::default(),
    }
}
