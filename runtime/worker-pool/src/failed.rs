//! The result of a call that did not end by itself.

use perpend_domain::plugin::{CallResult, Failure, FailureClass};

pub(crate) fn failed(class: FailureClass, message: impl Into<String>) -> CallResult {
    let failure = Failure { class, message: message.into() };
    CallResult { outcome: Err(failure), ..CallResult::empty() }
}
