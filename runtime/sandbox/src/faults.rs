//! What does not fit a schema, as it is told.

use perpend_json_schema::Violation;
use perpend_worker_protocol::Mismatch;

/// Things that are listed for one value.
pub(crate) const MAX_LISTED: usize = 50;

pub(crate) fn mismatch(fault: Violation) -> Mismatch {
    Mismatch { pointer: fault.pointer, message: fault.message }
}
