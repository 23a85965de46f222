//! How long anything is waited for.

use std::time::Duration;

/// The time limit for a process to become ready and for a page to reach an expected state. It only ends tests that hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
