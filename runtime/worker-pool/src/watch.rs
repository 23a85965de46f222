//! Calls and components that end the workers they run in.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use perpend_domain::plugin::{CallResult, Digest, EvaluationCall, FailureClass};

use crate::failed::failed;

/// Calls of a component that may be found guilty in a row, without an answer to another, before all of it
/// is refused.
const MAX_GUILTY: u32 = 3;
/// Calls that are remembered.
const MAX_CALLS: usize = 10_000;

/// What is not run again until the server starts again.
///
/// A death alone accuses nobody: many calls were in flight. Their worker's end is put on a call only when
/// it ended two workers in a row and was alone in the second.
#[derive(Default)]
pub(crate) struct Quarantine {
    records: RwLock<Records>,
    /// Anything is recorded at all, which is nearly never so.
    any: AtomicBool,
}

#[derive(Default)]
struct Records {
    calls: HashMap<Digest, HashSet<Digest>>,
    /// By component and call, oldest first.
    order: VecDeque<(Digest, Digest)>,
    guilty_in_a_row: HashMap<Digest, u32>,
}

impl Quarantine {
    /// The answer to a call that is refused.
    pub(crate) fn verdict(&self, call: &EvaluationCall) -> Option<CallResult> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let records = self.read();
        let component = call.plugin;
        let n_guilty = records.guilty_in_a_row.get(&component).copied();
        if n_guilty.is_some_and(|n_guilty| MAX_GUILTY <= n_guilty) {
            let message = format!(
                "the component {component} is in quarantine until the server starts again: {MAX_GUILTY} of \
                 its calls in a row each ended two worker processes, and it answered nothing in between"
            );
            return Some(failed(FailureClass::PluginTrap, message));
        }
        if records.calls.get(&component)?.contains(&key(call)) {
            let message = "this item is in quarantine for this evaluator and configuration until the server \
                           starts again: it ended two worker processes in a row";
            return Some(failed(FailureClass::PluginTrap, message));
        }
        None
    }

    /// A call ended two workers in a row, the second on its own.
    pub(crate) fn convict(&self, call: &EvaluationCall) {
        let mut records = self.records.write().unwrap_or_else(PoisonError::into_inner);
        let (component, key) = (call.plugin, key(call));
        *records.guilty_in_a_row.entry(component).or_default() += 1;
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

    /// A component answered.
    pub(crate) fn answered(&self, component: Digest) {
        if !self.any.load(Ordering::Acquire)
            || !self.read().guilty_in_a_row.contains_key(&component)
        {
            return;
        }
        let mut records = self.records.write().unwrap_or_else(PoisonError::into_inner);
        records.guilty_in_a_row.remove(&component);
    }

    fn read(&self) -> RwLockReadGuard<'_, Records> {
        self.records.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call without its seed, time and limits: the same item, evaluator and configuration.
fn key(call: &EvaluationCall) -> Digest {
    let EvaluationCall { plugin, evaluator_id, config, item, purpose, .. } = call;
    let what = (plugin, evaluator_id, config, item, purpose);
    // Everything in it has a postcard form; were there one without, the calls of an evaluator would share
    // a key and be refused together.
    let bytes =
        postcard::to_stdvec(&what).unwrap_or_else(|_| call.evaluator_id.as_bytes().to_vec());
    Digest::of(&bytes)
}

/// Bytes of memory that a process has in use, where the system tells.
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
    fn a_guilty_call_is_refused_and_its_neighbours_are_not() {
        let quarantine = Quarantine::default();
        let guilty = call(b"component", "1");
        quarantine.convict(&guilty);
        let again = EvaluationCall { seed: 8, ..guilty.clone() };
        assert!(quarantine.verdict(&again).is_some());
        assert!(quarantine.verdict(&call(b"component", "2")).is_none());
        assert!(quarantine.verdict(&call(b"another", "1")).is_none());
        let other_config = EvaluationCall { config: "[]".into(), ..guilty };
        assert!(quarantine.verdict(&other_config).is_none());
    }

    #[test]
    fn a_component_is_refused_after_three_guilty_calls_without_an_answer() {
        let quarantine = Quarantine::default();
        let component = Digest::of(b"component");
        for item in ["1", "2"] {
            quarantine.convict(&call(b"component", item));
        }
        quarantine.answered(component);
        for item in ["3", "4"] {
            quarantine.convict(&call(b"component", item));
        }
        assert!(quarantine.verdict(&call(b"component", "fresh")).is_none());
        quarantine.convict(&call(b"component", "5"));
        assert!(quarantine.verdict(&call(b"component", "fresh")).is_some());
        assert!(quarantine.verdict(&call(b"another", "fresh")).is_none());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let quarantine = Quarantine::default();
        for n in 0..=MAX_CALLS {
            quarantine.convict(&call(b"component", &n.to_string()));
            quarantine.answered(Digest::of(b"component"));
        }
        assert!(quarantine.verdict(&call(b"component", "0")).is_none());
        assert!(quarantine.verdict(&call(b"component", "1")).is_some());
    }
}
