//! The token of the address that is printed at startup. It logs in to the first project of the installation once.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use perpend_domain::ids::IdSource;
use perpend_domain::time::Timestamp;
use subtle::ConstantTimeEq as _;

/// Lifetime of the token.
const LIFETIME_MS: i64 = 3_600 * 1_000;
/// Lifetime of the token of the setup link.
const SETUP_LIFETIME_MS: i64 = 24 * 3_600 * 1_000;

/// A single-use login token.
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
    /// A random token whose lifetime starts now.
    #[must_use]
    pub fn new(ids: &dyn IdSource, now: Timestamp) -> Self {
        Self {
            text: ids.uuid().simple().to_string(),
            expires_at: now.plus_millis(LIFETIME_MS),
            is_used: AtomicBool::new(false),
        }
    }

    /// A random token of the setup link.
    #[must_use]
    pub fn for_setup(ids: &dyn IdSource, now: Timestamp) -> Self {
        let expires_at = now.plus_millis(SETUP_LIFETIME_MS);
        Self { expires_at, ..Self::new(ids, now) }
    }

    /// Whether this is the token, and it has not expired.
    #[must_use]
    pub fn opens(&self, token: &str, now: Timestamp) -> bool {
        self.matches(token) && now < self.expires_at
    }

    /// The token in clear text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Compares in constant time.
    pub(super) fn matches(&self, token: &str) -> bool {
        self.text.as_bytes().ct_eq(token.as_bytes()).into()
    }

    /// Marks the token as used. `false` when it has expired or was used before.
    pub(super) fn take(&self, now: Timestamp) -> bool {
        now < self.expires_at && !self.is_used.swap(true, Ordering::SeqCst)
    }

    /// Makes the token usable again after a failed login.
    pub(super) fn restore(&self) {
        self.is_used.store(false, Ordering::SeqCst);
    }
}
