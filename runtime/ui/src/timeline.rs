//! Where a step lies on its trace's time axis.

use perpend_domain::observation::Observation;
use perpend_domain::time::Timestamp;

use crate::format::duration;

/// Width of the axis in the units of the SVG drawings.
const UNITS: f64 = 1000.0;
/// The narrowest bar that still shows.
const MIN_WIDTH: f64 = 4.0;

/// The time axis of one trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    start: Timestamp,
    length_us: i64,
}

/// One bar, in units of the axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bar {
    /// Left end.
    pub(crate) x: f64,
    /// Width.
    pub(crate) width: f64,
    /// Width of the part before the first token, when that is known.
    pub(crate) wait: Option<f64>,
    /// The step has not ended; its bar runs to the end of the axis.
    pub(crate) is_open: bool,
}

impl Axis {
    pub(crate) fn new(start: Timestamp, end: Timestamp) -> Self {
        Self {
            start,
            length_us: end.micros_since(start).max(1),
        }
    }

    fn position(&self, at: Timestamp) -> f64 {
        let share = at.micros_since(self.start) as f64 / self.length_us as f64;
        (share * UNITS).clamp(0.0, UNITS)
    }

    pub(crate) fn bar(&self, step: &Observation) -> Bar {
        let left = self.position(step.start);
        let right = step.end.map_or(UNITS, |end| self.position(end));
        let width = (right - left).max(MIN_WIDTH);
        let x = left.min(UNITS - width);
        let wait = step
            .completion_start
            .map(|first| self.position(first) - left);
        let wait = wait.filter(|wait| MIN_WIDTH < *wait && *wait < width);
        let rounded = |value: f64| (value * 10.0).round() / 10.0;
        Bar {
            x: rounded(x),
            width: rounded(width),
            wait: wait.map(rounded),
            is_open: step.end.is_none(),
        }
    }

    /// Labels of the axis at its start and each quarter.
    pub(crate) fn ticks(&self) -> Vec<String> {
        (0..=4)
            .map(|quarter| duration(self.length_us / 4 * quarter))
            .collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use perpend_domain::ids::{ObservationId, TraceId};
    use perpend_domain::observation::{Content, Level, ObservationKind};

    /// A span that starts `start_ms` into the trace.
    pub(crate) fn observation(
        id: &str,
        parent: Option<&str>,
        start_ms: i64,
        ms: i64,
    ) -> Observation {
        let start = Timestamp::from_millis(1_772_359_200_000 + start_ms);
        Observation {
            trace_id: TraceId::new("0af7651916cd43dd8448eb211c80319c").unwrap(),
            id: ObservationId::new(id).unwrap(),
            parent_id: parent.map(|p| ObservationId::new(p).unwrap()),
            kind: ObservationKind::Span,
            name: format!("step {id}"),
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

    #[test]
    fn bars_lie_where_the_step_ran_and_never_leave_the_axis() {
        let whole = observation("a", None, 0, 1_000);
        let axis = Axis::new(whole.start, whole.start.plus_millis(1_000));
        let mut half = observation("b", None, 250, 500);
        half.completion_start = Some(half.start.plus_millis(125));
        let bar = axis.bar(&half);
        assert_eq!((bar.x, bar.width, bar.wait), (250.0, 500.0, Some(125.0)));

        let instant = axis.bar(&observation("c", None, 1_000, 0));
        assert_eq!((instant.x, instant.width), (996.0, 4.0));
        let skewed = axis.bar(&observation("d", None, -5_000, 1));
        assert_eq!((skewed.x, skewed.width), (0.0, 4.0));

        let mut open = observation("e", None, 600, 0);
        open.end = None;
        assert_eq!(
            (axis.bar(&open).width, axis.bar(&open).is_open),
            (400.0, true)
        );
        assert_eq!(
            axis.ticks(),
            ["0 ms", "250 ms", "500 ms", "750 ms", "1.00 s"]
        );
    }
}
