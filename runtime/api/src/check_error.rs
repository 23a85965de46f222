//! The answer where something could not be checked against a schema.

use perpend_http_kit::problem::Problem;
use perpend_worker_protocol::CheckError;

/// Something could not be checked, through no fault of the caller; the cause goes to the log.
pub(crate) fn problem(why: &CheckError) -> Problem {
    if *why == CheckError::Busy {
        return Problem::unavailable(format!("{why}; try again"));
    }
    let error: &dyn std::error::Error = why;
    tracing::error!(error, "not checked against a schema");
    Problem::unavailable("this could not be checked against its schema; try again")
}
