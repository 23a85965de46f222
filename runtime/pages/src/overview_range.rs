//! The time that the overview is about.

use perpend_domain::time::Timestamp;
use perpend_ui::{Focus, Moment};

use crate::viewer::Viewer;

/// Milliseconds.
const MINUTE: i64 = 60_000;
/// What is shown when no time is asked for.
const USUAL: Moment = Moment::Ago(7 * 24 * 60);

/// What the page is about; none where it ends before it begins.
pub(super) fn of(viewer: &Viewer, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
    // To the end of the minute: the page that is asked for again within it is the same one.
    let now = Timestamp::from_millis(now.as_millis().div_euclid(MINUTE) * MINUTE + MINUTE);
    let (from, to) = viewer.focus.range(now);
    let to = to.unwrap_or(now);
    let from = from.unwrap_or_else(|| USUAL.at(to));
    (from < to).then_some((from, to))
}

/// The same for a list, which has all of the time where none is asked for.
pub(super) fn focus(viewer: &Viewer) -> Focus {
    Focus {
        from: Some(viewer.focus.from.unwrap_or(USUAL)),
        ..viewer.focus.clone()
    }
}
