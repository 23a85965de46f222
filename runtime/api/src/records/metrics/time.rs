//! Time buckets and errors of metrics.

use perpend_domain::metrics::Granularity;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;

/// The key of the bucket in a row.
pub(super) const TIME: &str = "time_dimension";

/// A conflict reported by the store is an error of the query.
pub(super) fn metrics_problem(error: perpend_db::Error) -> Problem {
    match error {
        perpend_db::Error::Conflict(why) => Problem::query("query", why),
        error => error.into(),
    }
}

/// The bucket of `auto`.
pub(super) const fn auto_granularity(from: Timestamp, to: Timestamp) -> Granularity {
    Granularity::for_range(from, to)
}
