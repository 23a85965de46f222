//! Which components end the workers they run in.

use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use assay_domain::plugin::{CallResult, Digest, FailureClass};

use crate::queue::failed;

/// Workers a component may end in a row before it is refused.
const MAX_DEATHS: u32 = 3;

/// Counts, for each component, worker deaths with one of its calls in flight since its last answer.
/// Bystanders of a death are forgotten with their next answer; the culprit never gives one.
#[derive(Default)]
pub(crate) struct Quarantine {
    deaths: RwLock<HashMap<Digest, u32>>,
    /// Nothing is counted, which is nearly always so.
    any: AtomicBool,
}

impl Quarantine {
    /// The answer to a call of a component that is refused.
    pub(crate) fn verdict(&self, digest: Digest) -> Option<CallResult> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let deaths = *self
            .deaths
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&digest)?;
        (MAX_DEATHS <= deaths).then(|| {
            let message = format!(
                "the component {digest} is in quarantine until the server starts again: {deaths} worker \
                 processes ended while it ran, and it answered nothing in between"
            );
            failed(FailureClass::PluginTrap, message)
        })
    }

    /// A worker ended with calls of these components.
    pub(crate) fn died(&self, digests: HashSet<Digest>) {
        let mut deaths = self.deaths.write().unwrap_or_else(PoisonError::into_inner);
        for digest in digests {
            *deaths.entry(digest).or_default() += 1;
            self.any.store(true, Ordering::Release);
        }
    }

    /// A component answered.
    pub(crate) fn answered(&self, digest: Digest) {
        if self.any.load(Ordering::Acquire) {
            let mut deaths = self.deaths.write().unwrap_or_else(PoisonError::into_inner);
            deaths.remove(&digest);
            self.any.store(!deaths.is_empty(), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_refused_after_three_deaths_without_an_answer() {
        let (culprit, bystander) = (Digest::of(b"culprit"), Digest::of(b"bystander"));
        let quarantine = Quarantine::default();
        for _ in 0..3 {
            assert!(quarantine.verdict(culprit).is_none());
            quarantine.died([culprit, bystander].into());
            quarantine.answered(bystander);
        }
        assert!(quarantine.verdict(culprit).is_some());
        assert!(quarantine.verdict(bystander).is_none());
    }
}
