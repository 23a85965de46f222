//! The time that the overview is about, and charts of a page that is about all of the time.

use perpend_domain::metrics::Granularity;
use perpend_domain::time::Timestamp;
use perpend_views::{Focus, Moment};

use crate::request::viewer::Viewer;

/// Milliseconds.
const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;
/// A chart has a bar for each month at least.
const MOST: i64 = 20 * 366 * DAY;
/// Clocks of senders are not ahead of ours by more.
const MOST_AHEAD: i64 = 366 * DAY;
/// What is shown when no time is asked for.
const USUAL: Moment = Moment::Ago(7 * 24 * 60);

/// What the page is about; none where it ends before it begins.
pub(crate) fn range(viewer: &Viewer, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
    within(requested(viewer, now), now)
}

/// What charts are about on a page that shows all of the time: without a start the last 30 days, the whole day of the end the
/// last of them.
pub(crate) fn daily_range(viewer: &Viewer, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let (from, to) = requested(viewer, now);
    let first = Granularity::Day.start(to.plus_millis(-1 - 29 * DAY));
    let from = viewer.focus.from.map_or(first, |_| from);
    within((from, to), now)
}

/// As much of it as a page shows.
fn within((from, to): (Timestamp, Timestamp), now: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let to = to.min(now.plus_millis(MOST_AHEAD));
    let from = from.max(Timestamp::from_millis(to.as_millis() - MOST));
    (from < to).then_some((from, to))
}

/// The whole time that is asked for is further ahead than the page shows.
pub(crate) fn is_too_far_ahead(viewer: &Viewer, now: Timestamp) -> bool {
    let (from, to) = requested(viewer, now);
    from < to && now.plus_millis(MOST_AHEAD) <= from
}

/// More is asked for than the page is about.
pub(crate) fn is_cut(viewer: &Viewer, now: Timestamp) -> bool {
    range(viewer, now).is_some_and(|shown| shown != requested(viewer, now))
}

fn requested(viewer: &Viewer, now: Timestamp) -> (Timestamp, Timestamp) {
    // To the end of the minute: the page that is asked for again within it is the same one.
    let now = Timestamp::from_millis(now.as_millis().div_euclid(MINUTE) * MINUTE + MINUTE);
    let (from, to) = viewer.focus.range(now);
    let to = to.unwrap_or(now);
    (from.unwrap_or_else(|| USUAL.at(to)), to)
}

/// The same for a list, which has all of the time where none is asked for.
pub(crate) fn list_focus(viewer: &Viewer) -> Focus {
    Focus { from: Some(viewer.focus.from.unwrap_or(USUAL)), ..viewer.focus.clone() }
}
