//! Conversion of schema violations.

use perpend_json_schema::Violation;
use perpend_worker_protocol::Mismatch;

/// Maximum number of mismatches that are listed for a value.
pub(crate) const MAX_LISTED: usize = 50;

pub(crate) fn mismatch(violation: Violation) -> Mismatch {
    Mismatch { pointer: violation.pointer, message: violation.message }
}
