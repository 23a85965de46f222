//! The token of the address that is printed at the start. It opens the first project of the installation once.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use perpend_domain::ids::IdSource;
use perpend_domain::time::Timestamp;
use subtle::ConstantTimeEq as _;

/// How long after the start the token can be used.
const LIFETIME_MS: i64 = 3_600 * 1_000;

/// A token that logs in once.
pub struct LoginToken {
    text: String,
    expires_at: Timestamp,
    is_used: AtomicBool,
}

// The token does not reach a log by way of `{:?}`.
impl fmt::Debug for LoginToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoginToken")
    }
}

impl LoginToken {
    /// A random token of a server that starts now.
    #[must_use]
    pub fn new(ids: &dyn IdSource, now: Timestamp) -> Self {
        Self {
            text: ids.uuid().simple().to_string(),
            expires_at: now.plus_millis(LIFETIME_MS),
            is_used: AtomicBool::new(false),
        }
    }

    /// As it is printed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether this is the token.
    pub(super) fn is(&self, token: &str) -> bool {
        self.text.as_bytes().ct_eq(token.as_bytes()).into()
    }

    /// Uses the token up. `false` when it has expired or was used.
    pub(super) fn take(&self, now: Timestamp) -> bool {
        now < self.expires_at && !self.is_used.swap(true, Ordering::SeqCst)
    }

    /// Makes it good again, after what it was used for failed.
    pub(super) fn put_back(&self) {
        self.is_used.store(false, Ordering::SeqCst);
    }
}
