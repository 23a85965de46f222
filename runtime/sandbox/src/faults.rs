//! What does not fit a schema, as it is told.

use perpend_json_schema::Fault;
use perpend_worker_protocol::Mismatch;

/// Things that are listed for one value.
pub(crate) const MAX_LISTED: usize = 50;

pub(crate) fn mismatch(fault: Fault) -> Mismatch {
    Mismatch { pointer: fault.pointer, message: fault.message }
}
