//! The time range of the overview and of charts.

use perpend_domain::metrics::Granularity;
use perpend_domain::time::Timestamp;
use perpend_views::{Focus, Moment};

use crate::request::viewer::Viewer;

/// Milliseconds.
const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;
/// Longest range; a chart has at most one bar per month.
const MAX_LENGTH: i64 = 20 * 366 * DAY;
/// Latest end after the current time, in case of wrong clocks of senders.
const MAX_AHEAD: i64 = 366 * DAY;
/// Start of the default range.
const DEFAULT_START: Moment = Moment::Ago(7 * 24 * 60);

/// The range of the overview; absent if it is empty.
pub(crate) fn range(viewer: &Viewer, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
    within(requested(viewer, now), now)
}

/// The range of charts on a page without a default range: without a start, the 30 days up to the end.
pub(crate) fn daily_range(viewer: &Viewer, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let (from, to) = requested(viewer, now);
    let first = Granularity::Day.start(to.plus_millis(-1 - 29 * DAY));
    let from = viewer.focus.from.map_or(first, |_| from);
    within((from, to), now)
}

/// Limits a range; absent if nothing is left.
fn within((from, to): (Timestamp, Timestamp), now: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let to = to.min(now.plus_millis(MAX_AHEAD));
    let from = from.max(Timestamp::from_millis(to.as_millis() - MAX_LENGTH));
    (from < to).then_some((from, to))
}

/// Whether the requested range starts after the latest end.
pub(crate) fn is_too_far_ahead(viewer: &Viewer, now: Timestamp) -> bool {
    let (from, to) = requested(viewer, now);
    from < to && now.plus_millis(MAX_AHEAD) <= from
}

/// Whether the requested range was shortened.
pub(crate) fn is_cut(viewer: &Viewer, now: Timestamp) -> bool {
    range(viewer, now).is_some_and(|shown| shown != requested(viewer, now))
}

fn requested(viewer: &Viewer, now: Timestamp) -> (Timestamp, Timestamp) {
    // Rounded up to the minute, so that the page stays the same within a minute.
    let now = Timestamp::from_millis(now.as_millis().div_euclid(MINUTE) * MINUTE + MINUTE);
    let (from, to) = viewer.focus.range(now);
    let to = to.unwrap_or(now);
    (from.unwrap_or_else(|| DEFAULT_START.at(to)), to)
}

/// The focus for links to lists, which have no default range.
pub(crate) fn list_focus(viewer: &Viewer) -> Focus {
    Focus { from: Some(viewer.focus.from.unwrap_or(DEFAULT_START)), ..viewer.focus.clone() }
}
