//! Columns that several rows share.

use perpend_domain::evaluation::Pause;
use perpend_domain::time::Timestamp;

/// The pause columns. The row has a pause if the time is set.
pub(super) fn pause(
    reason: Option<String>,
    message: Option<String>,
    at: Option<i64>,
    until: Option<i64>,
) -> Option<Pause> {
    at.map(|at| Pause {
        reason: reason.unwrap_or_default(),
        message: message.unwrap_or_default(),
        at: Timestamp::from_micros(at),
        until: until.map(Timestamp::from_micros),
    })
}
