//! Results of failed calls.

use perpend_domain::plugin::{CallResult, Failure, FailureClass};

pub(crate) fn failed_result(class: FailureClass, message: impl Into<String>) -> CallResult {
    let failure = Failure { class, message: message.into() };
    CallResult { outcome: Err(failure), ..CallResult::empty() }
}
