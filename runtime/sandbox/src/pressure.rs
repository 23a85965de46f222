//! Pauses and evicts calls when the process is short of memory.
//!
//! Thousands of calls are alive at once, and the sum of their memory limits is far larger than the limit of the process. Most
//! use little memory, so none is reserved for them. Instead, the resident memory is measured while guests run.
//!
//! Invariants:
//! - **Calls within their limits do not end the process.** Above a first threshold, large calls are paused before their next
//!   poll, except for one, the leader. Above a second threshold, small calls are paused too. The rest of the limit is
//!   sufficient for the growth of all threads between two measurements and of the leader.
//! - **Progress.** A call stays the leader until it ends. Then the call that was paused longest becomes the leader.
//! - **Sleeping calls do not block others.** After calls were paused for a while, the largest call that waits for the server
//!   or a clock is evicted, with a failure class of its own, and can be repeated. The leader is evicted only after others
//!   were paused for long. Small calls are evicted last, and only if they sleep and the second threshold is exceeded for
//!   long.
//! - **A paused call is not evicted while leaders change.** It is evicted only after a leader ran for long without sleeping,
//!   because all others may wait for the memory of the paused call.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Memory besides that of guests: code, frames and stacks.
const OWN_BYTES: u64 = 256 << 20;
/// Maximum memory of a small call.
const SMALL_BYTES: u64 = 4 << 20;
/// Time for which calls are paused before a sleeping call is evicted.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time for which calls are paused before a sleeping leader or a paused call is evicted.
const LONG_PATIENCE: Duration = Duration::from_secs(20);
/// Minimum time between evictions, because memory is freed with a delay.
const EVICTION_INTERVAL: Duration = Duration::from_millis(100);

/// Below both thresholds.
const NORMAL: u8 = 0;
/// Above the first threshold.
const TIGHT: u8 = 1;
/// Above the second threshold.
const FULL: u8 = 2;

/// Memory limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Limit of the process. The server ends a process that exceeds it.
    pub(crate) max_resident_bytes: u64,
    /// Maximum limit of a call.
    pub(crate) max_call_bytes: u64,
    /// Number of threads that run guests.
    pub(crate) n_threads: u32,
}

impl Budget {
    /// The two thresholds.
    fn thresholds(self) -> [u64; 2] {
        let n_calls = u64::from(self.n_threads) + 1;
        let reserve = self.max_call_bytes.saturating_mul(n_calls) + OWN_BYTES;
        let limit = self.max_resident_bytes;
        let full = limit.saturating_sub(reserve).max(limit / 2);
        [full - full / 8, full]
    }
}

/// Measures the memory of the process.
struct ResidentMemory {
    /// `/proc/self/statm`, opened before confinement.
    statm: File,
    thresholds: [u64; 2],
}

impl ResidentMemory {
    /// Resident memory in bytes.
    fn bytes(&self) -> Option<u64> {
        let mut text = [0; 128];
        let n = self.statm.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..n)?).ok()?;
        let n_pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
        Some(n_pages * rustix::param::page_size() as u64)
    }
}

/// Decides which calls may run.
#[derive(Default)]
pub(crate) struct Pressure {
    memory: Option<ResidentMemory>,
    level: AtomicU8,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    /// Calls that slept or were paused, by the order in which they first did.
    entries: HashMap<u64, CallEntry>,
    next: u64,
    leader: Option<u64>,
    /// When the leader became the leader.
    leader_since: Option<Instant>,
    last_eviction: Option<Instant>,
}

struct CallEntry {
    memory_bytes: Arc<AtomicU64>,
    waker: Waker,
    state: CallState,
    is_evicted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CallState {
    /// Running or waiting for a processor.
    Running,
    /// Waiting for the server or a clock.
    Sleeping,
    /// Paused since this time.
    Paused(Instant),
}

/// The call is ended because the process is short of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Eviction {
    /// Memory of the call in bytes.
    pub(crate) used_bytes: u64,
}

impl Pressure {
    /// Measures this process.
    ///
    /// # Errors
    /// When its memory cannot be measured.
    pub(crate) fn new(budget: Budget) -> io::Result<Self> {
        let memory = ResidentMemory {
            statm: File::open("/proc/self/statm")?,
            thresholds: budget.thresholds(),
        };
        if memory.bytes().is_none() {
            return Err(io::Error::other("/proc/self/statm has an unknown format"));
        }
        Ok(Self { memory: Some(memory), ..Self::default() })
    }

    /// Whether a threshold is exceeded.
    pub(crate) fn is_short(&self) -> bool {
        self.level.load(Ordering::Acquire) != NORMAL
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Measures the memory, and pauses, wakes or evicts calls. Returns true when it must be called again soon even if no
    /// guest runs.
    pub(crate) fn update(&self) -> bool {
        let Some(memory) = &self.memory else {
            return false;
        };
        let resident = memory.bytes().unwrap_or_default();
        let [tight, full] = memory.thresholds;
        let level = match resident {
            _ if full <= resident => FULL,
            _ if tight <= resident => TIGHT,
            _ => NORMAL,
        };
        self.set_level(level, Instant::now())
    }

    /// Called by a single thread. Calls also read the level under the lock, so that none is paused by an outdated level.
    fn set_level(&self, level: u8, now: Instant) -> bool {
        if level == NORMAL && self.level.load(Ordering::Acquire) == NORMAL {
            return false;
        }
        let mut calls = self.lock();
        let before = self.level.swap(level, Ordering::AcqRel);
        let wakers = if level < before {
            // Paused calls check whether they may run.
            calls.leader = calls.leader.filter(|_| level != NORMAL);
            calls.paused().map(|(_, entry)| entry.waker.clone()).collect()
        } else {
            let next_leader = calls.choose_leader(now);
            next_leader.into_iter().chain(calls.evict_one(now, level == FULL)).collect::<Vec<_>>()
        };
        // A waker may run arbitrary code, so it is called without the lock.
        drop(calls);
        wakers.into_iter().for_each(Waker::wake);
        level != NORMAL
    }
}

impl Calls {
    fn paused(&self) -> impl Iterator<Item = (u64, &CallEntry)> {
        let entries = self.entries.iter();
        entries
            .filter(|(_, entry)| matches!(entry.state, CallState::Paused(_)))
            .map(|(id, entry)| (*id, entry))
    }

    /// If there is no leader, makes the call that was paused longest the leader. Returns its waker.
    fn choose_leader(&mut self, now: Instant) -> Option<Waker> {
        if self.leader.is_some() {
            return None;
        }
        let since = |entry: &CallEntry| match entry.state {
            CallState::Paused(since) => Some(since),
            CallState::Running | CallState::Sleeping => None,
        };
        let next = self.paused().min_by_key(|(id, entry)| (since(entry), *id));
        let (id, waker) = next.map(|(id, entry)| (id, entry.waker.clone()))?;
        self.leader = Some(id);
        self.leader_since = Some(now);
        Some(waker)
    }

    /// Chooses a call to evict if others were paused for long. Returns its waker.
    fn evict_one(&mut self, now: Instant, is_full: bool) -> Option<Waker> {
        let pauses = self.paused().filter_map(|(_, entry)| match entry.state {
            CallState::Paused(since) => Some(now.saturating_duration_since(since)),
            CallState::Running | CallState::Sleeping => None,
        });
        let longest = pauses.max()?;
        let is_soon = |last| now.saturating_duration_since(last) < EVICTION_INTERVAL;
        if longest < PATIENCE || self.last_eviction.is_some_and(is_soon) {
            return None;
        }
        let is_long = LONG_PATIENCE <= longest;
        let leader = self.leader;
        let leader_age =
            self.leader_since.map(|since| now.saturating_duration_since(since)).unwrap_or_default();
        let leader_entry = leader.and_then(|id| self.entries.get(&id));
        let leader_sleeps = leader_entry.is_some_and(|entry| entry.state == CallState::Sleeping);
        let may_evict = |id: u64, entry: &CallEntry| match entry.state {
            CallState::Sleeping if leader == Some(id) => is_long && PATIENCE <= leader_age,
            CallState::Sleeping => true,
            CallState::Paused(_) => {
                leader != Some(id) && !leader_sleeps && LONG_PATIENCE <= leader_age
            }
            CallState::Running => false,
        };
        let is_worthwhile = |entry: &CallEntry| {
            SMALL_BYTES < entry.used_bytes()
                || is_full && is_long && entry.state == CallState::Sleeping
        };
        let candidates = self.entries.iter_mut().filter(|(id, entry)| {
            !entry.is_evicted && is_worthwhile(entry) && may_evict(**id, entry)
        });
        // Prefers sleeping calls.
        let (_, chosen) = candidates.max_by_key(|(id, entry)| {
            (entry.state == CallState::Sleeping, entry.used_bytes(), **id)
        })?;
        chosen.is_evicted = true;
        self.last_eviction = Some(now);
        Some(chosen.waker.clone())
    }
}

impl CallEntry {
    fn used_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }
}

/// The registration of a call.
pub(crate) struct MemoryTurn<'p> {
    pressure: &'p Pressure,
    /// Total memory of the call in bytes.
    memory_bytes: Arc<AtomicU64>,
    /// Its number; set when it first sleeps or is paused.
    id: Option<u64>,
}

impl<'p> MemoryTurn<'p> {
    pub(crate) fn new(pressure: &'p Pressure, memory_bytes: Arc<AtomicU64>) -> Self {
        Self { pressure, memory_bytes, id: None }
    }

    /// Completes when the guest may run.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Eviction>> {
        if self.id.is_none() && !self.pressure.is_short() {
            return Poll::Ready(Ok(()));
        }
        let used_bytes = self.memory_bytes.load(Ordering::Relaxed);
        let is_small = used_bytes <= SMALL_BYTES;
        let mut calls = self.pressure.lock();
        let id = self.register(&mut calls, cx);
        let may_run = match self.pressure.level.load(Ordering::Acquire) {
            NORMAL => true,
            TIGHT if is_small => true,
            _ => {
                if calls.leader.is_none() {
                    calls.leader = Some(id);
                    calls.leader_since = Some(Instant::now());
                }
                calls.leader == Some(id)
            }
        };
        let Some(entry) = calls.entries.get_mut(&id) else {
            return Poll::Ready(Ok(()));
        };
        if entry.is_evicted {
            return Poll::Ready(Err(Eviction { used_bytes }));
        }
        if may_run {
            entry.state = CallState::Running;
            return Poll::Ready(Ok(()));
        }
        if !matches!(entry.state, CallState::Paused(_)) {
            entry.state = CallState::Paused(Instant::now());
        }
        entry.waker.clone_from(cx.waker());
        Poll::Pending
    }

    /// Records that the guest waits for the server or a clock.
    pub(crate) fn sleep(&mut self, cx: &Context<'_>) {
        if self.pressure.memory.is_none() {
            return;
        }
        let mut calls = self.pressure.lock();
        let id = self.register(&mut calls, cx);
        if let Some(entry) = calls.entries.get_mut(&id) {
            entry.state = CallState::Sleeping;
            entry.waker.clone_from(cx.waker());
        }
    }

    fn register(&mut self, calls: &mut Calls, cx: &Context<'_>) -> u64 {
        *self.id.get_or_insert_with(|| {
            calls.next += 1;
            let entry = CallEntry {
                memory_bytes: Arc::clone(&self.memory_bytes),
                waker: cx.waker().clone(),
                state: CallState::Running,
                is_evicted: false,
            };
            calls.entries.insert(calls.next, entry);
            calls.next
        })
    }
}

impl Drop for MemoryTurn<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id else {
            return;
        };
        let mut calls = self.pressure.lock();
        let entry = calls.entries.remove(&id);
        let mut next = None;
        if calls.leader == Some(id) {
            calls.leader = None;
            next = calls.choose_leader(Instant::now());
        }
        drop(calls);
        drop(entry);
        next.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a call per element, with memory in MiB.
    fn turns<'p>(pressure: &'p Pressure, used_mib: &[u64]) -> Vec<MemoryTurn<'p>> {
        let turn = |mib: &u64| MemoryTurn::new(pressure, Arc::new(AtomicU64::new(mib << 20)));
        used_mib.iter().map(turn).collect()
    }

    fn pressure() -> Pressure {
        let budget =
            Budget { max_resident_bytes: u64::MAX / 4, max_call_bytes: 256 << 20, n_threads: 2 };
        Pressure::new(budget).unwrap()
    }

    fn polled(turn: &mut MemoryTurn<'_>) -> Poll<Result<(), Eviction>> {
        turn.poll(&mut Context::from_waker(Waker::noop()))
    }

    const RUNS: Poll<Result<(), Eviction>> = Poll::Ready(Ok(()));

    #[test]
    fn the_thresholds_leave_a_reserve_for_growth_between_measurements() {
        let budget = |max_resident_bytes| Budget {
            max_resident_bytes,
            max_call_bytes: 256 << 20,
            n_threads: 2,
        };
        assert_eq!(budget(4 << 30).thresholds(), [2_688 << 20, 3_072 << 20]);
        assert_eq!(budget(256 << 20).thresholds(), [112 << 20, 128 << 20]);
    }

    #[test]
    fn the_memory_of_this_process_is_measured() {
        let resident = pressure().memory.and_then(|memory| memory.bytes());
        assert!((1 << 20..1 << 40).contains(&resident.unwrap()), "{resident:?}");
    }

    #[test]
    fn below_the_thresholds_all_calls_run_unregistered() {
        let pressure = pressure();
        let mut turns = turns(&pressure, &[1, 200]);
        assert!(turns.iter_mut().all(|turn| polled(turn) == RUNS));
        assert!(pressure.lock().entries.is_empty());
    }

    #[test]
    fn the_leader_runs_and_small_calls_run_below_the_second_threshold() {
        let pressure = pressure();
        let mut turns = turns(&pressure, &[200, 200, 1]);
        assert!(pressure.set_level(TIGHT, Instant::now()));
        let answers: Vec<_> = turns.iter_mut().map(polled).collect();
        assert_eq!(answers, [RUNS, Poll::Pending, RUNS]);
        pressure.set_level(FULL, Instant::now());
        let answers: Vec<_> = turns.iter_mut().map(polled).collect();
        assert_eq!(answers, [RUNS, Poll::Pending, Poll::Pending]);
        // The leader ends, and the call that was paused first becomes the leader.
        drop(turns.remove(0));
        let answers: Vec<_> = turns.iter_mut().rev().map(polled).collect();
        assert_eq!(answers, [Poll::Pending, RUNS]);
        assert!(!pressure.set_level(NORMAL, Instant::now()));
        assert!(turns.iter_mut().all(|turn| polled(turn) == RUNS));
    }

    #[test]
    fn the_largest_sleeping_call_is_evicted_after_others_were_paused_for_a_while() {
        let pressure = pressure();
        let mut turns = turns(&pressure, &[100, 200, 1, 50, 60]);
        let cx = Context::from_waker(Waker::noop());
        turns[..3].iter_mut().for_each(|turn| turn.sleep(&cx));
        let now = Instant::now();
        pressure.set_level(FULL, now);
        assert_eq!(polled(&mut turns[3]), RUNS);
        assert_eq!(polled(&mut turns[4]), Poll::Pending);
        let evicted = |turns: &[MemoryTurn<'_>], after: Duration| {
            pressure.set_level(FULL, now + after);
            let calls = pressure.lock();
            let is_evicted = |turn: &MemoryTurn<'_>| calls.entries[&turn.id.unwrap()].is_evicted;
            turns.iter().map(is_evicted).collect::<Vec<_>>()
        };
        let soon = PATIENCE + Duration::from_secs(1);
        assert_eq!(evicted(&turns, Duration::ZERO), [false; 5]);
        assert_eq!(evicted(&turns, soon), [false, true, false, false, false]);
        let eviction = Eviction { used_bytes: 200 << 20 };
        assert_eq!(polled(&mut turns[1]), Poll::Ready(Err(eviction)));
        // The next one only after the minimum interval, and no small one.
        assert_eq!(evicted(&turns, soon), [false, true, false, false, false]);
        assert_eq!(evicted(&turns, 2 * soon), [true, true, false, false, false]);
        assert_eq!(evicted(&turns, 3 * soon), [true, true, false, false, false]);
        // Then small sleeping calls and a paused one, but not the running leader.
        let long = LONG_PATIENCE + soon;
        assert_eq!(evicted(&turns, long), [true, true, true, false, false]);
        assert_eq!(evicted(&turns, 2 * long), [true, true, true, false, true]);
        assert_eq!(evicted(&turns, 3 * long), [true, true, true, false, true]);
    }

    #[test]
    fn a_paused_call_is_not_evicted_while_leaders_change() {
        let pressure = pressure();
        let mut turns = turns(&pressure, &[50, 60, 70]);
        let now = Instant::now();
        pressure.set_level(TIGHT, now);
        let answers: Vec<_> = turns.iter_mut().map(polled).collect();
        assert_eq!(answers, [RUNS, Poll::Pending, Poll::Pending]);
        // The first call is the leader for almost `LONG_PATIENCE`, and ends.
        let late = now + LONG_PATIENCE - Duration::from_secs(1);
        let leader = turns.remove(0);
        let mut calls = pressure.lock();
        calls.entries.remove(&leader.id.unwrap());
        calls.leader = None;
        calls.choose_leader(late);
        drop(calls);
        // The last call was paused for longer, and follows the second.
        let evicted = |after: Duration| {
            pressure.set_level(TIGHT, late + after);
            pressure.lock().entries[&3].is_evicted
        };
        assert!(!evicted(Duration::from_secs(2)));
        assert!(!evicted(LONG_PATIENCE - Duration::from_secs(1)));
        assert!(evicted(LONG_PATIENCE));
        std::mem::forget(leader);
    }

    #[test]
    fn a_leader_that_sleeps_for_long_is_evicted() {
        let pressure = pressure();
        let mut turns = turns(&pressure, &[200, 100]);
        let now = Instant::now();
        pressure.set_level(TIGHT, now);
        assert_eq!(polled(&mut turns[0]), RUNS);
        assert_eq!(polled(&mut turns[1]), Poll::Pending);
        turns[0].sleep(&Context::from_waker(Waker::noop()));
        // The paused call is not evicted instead of the sleeping leader.
        let are_evicted = |after: Duration| {
            pressure.lock().leader_since = Some(now - Duration::from_secs(2));
            pressure.set_level(TIGHT, now + after);
            let calls = pressure.lock();
            [calls.entries[&1].is_evicted, calls.entries[&2].is_evicted]
        };
        assert_eq!(are_evicted(LONG_PATIENCE - Duration::from_secs(1)), [false; 2]);
        assert_eq!(are_evicted(LONG_PATIENCE + Duration::from_secs(1)), [true, false]);
    }
}
