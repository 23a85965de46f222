//! Named points inside write transactions at which a test ends them, as a kill would.

use std::fmt;
use std::sync::Arc;

use crate::Error;

type StopFn = dyn Fn(&'static str) -> bool + Send + Sync;

/// Points at which transactions are ended; none except in tests.
#[derive(Clone, Default)]
pub struct Breakpoints(Option<Arc<StopFn>>);

impl Breakpoints {
    /// `stops` is called with the name of each point; if it returns `true` the transaction fails there and is
    /// rolled back.
    pub fn new(stops: impl Fn(&'static str) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(stops)))
    }

    pub(crate) fn reach(&self, at: &'static str) -> Result<(), Error> {
        match &self.0 {
            Some(stops) if stops(at) => Err(Error::Stopped(at)),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Breakpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Breakpoints").field(&self.0.is_some()).finish()
    }
}
