//! What the readers of questions have in common.

use perpend_domain::metrics::Granularity;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;

/// The key of the bucket in a row.
pub(super) const TIME: &str = "time_dimension";

/// What the store cannot do with a question is a fault of the question.
pub(super) fn metrics_problem(error: perpend_db::Error) -> Problem {
    match error {
        perpend_db::Error::Conflict(why) => Problem::query("query", why),
        error => error.into(),
    }
}

/// The bucket that `auto` stands for.
pub(super) const fn auto_granularity(from: Timestamp, to: Timestamp) -> Granularity {
    Granularity::for_range(from, to)
}
