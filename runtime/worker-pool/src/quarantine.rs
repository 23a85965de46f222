//! Calls and components that end workers.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use perpend_domain::plugin::{CallResult, Digest, EvaluationCall, FailureClass};

use crate::call_failure::failed_result;

/// A component is rejected after this number of consecutive calls that ended workers, without a result in between.
const MAX_CONSECUTIVE: u32 = 3;
/// Maximum number of recorded calls.
const MAX_CALLS: usize = 10_000;

/// Calls and components that are not run until the server restarts.
///
/// Many calls are in flight when a worker ends. A call is added only when it ended two workers in a row and was alone in the
/// second.
#[derive(Default)]
pub(crate) struct Quarantine {
    records: RwLock<Records>,
    /// Whether there are records; avoids the lock in the common case.
    any: AtomicBool,
}

#[derive(Default)]
struct Records {
    calls: HashMap<Digest, HashSet<Digest>>,
    /// By component and call, oldest first.
    order: VecDeque<(Digest, Digest)>,
    consecutive: HashMap<Digest, u32>,
}

impl Quarantine {
    /// The result of a rejected call; `None` when the call may run.
    pub(crate) fn rejection(&self, call: &EvaluationCall) -> Option<CallResult> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let records = self.read();
        let component = call.plugin;
        let n_consecutive = records.consecutive.get(&component).copied();
        if n_consecutive.is_some_and(|n_consecutive| MAX_CONSECUTIVE <= n_consecutive) {
            let message = format!(
                "the component {component} is in quarantine until the server restarts: {MAX_CONSECUTIVE} consecutive \
                 calls each ended two worker processes, without a result in between"
            );
            return Some(failed_result(FailureClass::PluginTrap, message));
        }
        if records.calls.get(&component)?.contains(&key(call)) {
            let message = "this item is in quarantine for this evaluator and configuration until the server \
                           restarts: it ended two worker processes in a row";
            return Some(failed_result(FailureClass::PluginTrap, message));
        }
        None
    }

    /// Adds a call that ended two workers in a row, alone in the second.
    pub(crate) fn add(&self, call: &EvaluationCall) {
        let mut records = self.records.write().unwrap_or_else(PoisonError::into_inner);
        let (component, key) = (call.plugin, key(call));
        *records.consecutive.entry(component).or_default() += 1;
        if records.calls.entry(component).or_default().insert(key) {
            records.order.push_back((component, key));
        }
        if MAX_CALLS < records.order.len()
            && let Some((component, key)) = records.order.pop_front()
            && let Some(calls) = records.calls.get_mut(&component)
        {
            calls.remove(&key);
        }
        self.any.store(true, Ordering::Release);
    }

    /// Resets the count of a component after a result.
    pub(crate) fn reset(&self, component: Digest) {
        if !self.any.load(Ordering::Acquire) || !self.read().consecutive.contains_key(&component) {
            return;
        }
        let mut records = self.records.write().unwrap_or_else(PoisonError::into_inner);
        records.consecutive.remove(&component);
    }

    fn read(&self) -> RwLockReadGuard<'_, Records> {
        self.records.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Identifies item, evaluator and configuration; ignores seed, time and limits.
fn key(call: &EvaluationCall) -> Digest {
    let EvaluationCall { plugin, evaluator_id, config, item, purpose, .. } = call;
    let identity = (plugin, evaluator_id, config, item, purpose);
    // Serialization cannot fail; the fallback key would be shared by all calls of the evaluator.
    let bytes =
        postcard::to_stdvec(&identity).unwrap_or_else(|_| call.evaluator_id.as_bytes().to_vec());
    Digest::of(&bytes)
}

/// Resident memory of a process in bytes, if the system reports it.
pub(crate) fn resident_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perpend_domain::plugin::{Item, Limits, Purpose};

    fn call(component: &[u8], item: &str) -> EvaluationCall {
        EvaluationCall {
            plugin: Digest::of(component),
            evaluator_id: "one".into(),
            config: "{}".into(),
            item: Item { id: item.into(), ..Item::default() }.into(),
            seed: 7,
            run_time_ms: 1_000,
            limits: Limits::default(),
            purpose: Purpose::Evaluate,
            origin: None,
        }
    }

    #[test]
    fn only_the_added_call_is_rejected() {
        let quarantine = Quarantine::default();
        let added = call(b"component", "1");
        quarantine.add(&added);
        let again = EvaluationCall { seed: 8, ..added.clone() };
        assert!(quarantine.rejection(&again).is_some());
        assert!(quarantine.rejection(&call(b"component", "2")).is_none());
        assert!(quarantine.rejection(&call(b"another", "1")).is_none());
        let other_config = EvaluationCall { config: "[]".into(), ..added };
        assert!(quarantine.rejection(&other_config).is_none());
    }

    #[test]
    fn a_component_is_rejected_after_three_consecutive_calls_without_a_result() {
        let quarantine = Quarantine::default();
        let component = Digest::of(b"component");
        for item in ["1", "2"] {
            quarantine.add(&call(b"component", item));
        }
        quarantine.reset(component);
        for item in ["3", "4"] {
            quarantine.add(&call(b"component", item));
        }
        assert!(quarantine.rejection(&call(b"component", "fresh")).is_none());
        quarantine.add(&call(b"component", "5"));
        assert!(quarantine.rejection(&call(b"component", "fresh")).is_some());
        assert!(quarantine.rejection(&call(b"another", "fresh")).is_none());
    }

    #[test]
    fn the_number_of_records_is_bounded() {
        let quarantine = Quarantine::default();
        for n in 0..=MAX_CALLS {
            quarantine.add(&call(b"component", &n.to_string()));
            quarantine.reset(Digest::of(b"component"));
        }
        assert!(quarantine.rejection(&call(b"component", "0")).is_none());
        assert!(quarantine.rejection(&call(b"component", "1")).is_some());
    }
}
