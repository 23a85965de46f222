//! The problem of a failed validation against a schema.

use perpend_http_kit::problem::Problem;
use perpend_worker_protocol::CheckError;

/// The problem of a validation that failed on the server. The cause is logged.
pub(crate) fn problem(why: &CheckError) -> Problem {
    if *why == CheckError::Busy {
        return Problem::unavailable(format!("{why}; send the request again"));
    }
    let error: &dyn std::error::Error = why;
    tracing::error!(error, "validation against a schema failed");
    Problem::unavailable("the validation against a schema failed; send the request again")
}
