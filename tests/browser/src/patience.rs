//! How long anything is waited for.

use std::time::Duration;

/// How long a process may take until it says that it is ready, and a page until it shows something. It ends
/// a walk that hangs, on the slowest machine too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
