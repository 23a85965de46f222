//! What does not fit a schema, as it is told.

use perpend_protocol::Mismatch;
use perpend_schema::Fault;

/// Things that are listed for one value.
pub(crate) const MAX_LISTED: usize = 50;

pub(crate) fn mismatch(fault: Fault) -> Mismatch {
    Mismatch {
        pointer: fault.pointer,
        message: fault.message,
    }
}
