//! Schedules guests on processors, alternating between projects.
//!
//! Invariants:
//! - **A project delays another by a few time slices.** A processor that is free, or whose guest has run for a time slice,
//!   goes to the next waiting project, independently of the numbers of calls.
//! - **Short calls take precedence over long ones.** In a project, a long guest waits for short ones, except at one turn in
//!   [`LONG_TURN`].
//! - **Memory is bounded.** A project starts a guest only while the number of its started guests that run or wait for a
//!   processor is below a limit.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use perpend_worker_protocol::Tenant;

/// CPU time from which a guest is long.
pub(crate) const LONG: Duration = Duration::from_millis(50);
/// Each n-th turn of a project prefers long guests.
const LONG_TURN: u32 = 4;
/// Maximum number of started guests of a project that run or wait for a processor.
const MAX_STARTED: usize = 16;

/// The processors and the places for live instances.
#[derive(Debug)]
pub(crate) struct Processors(Mutex<State>);

#[derive(Debug)]
struct State {
    n_free: usize,
    /// Free places for live instances.
    n_live_free: u32,
    tenants: HashMap<Tenant, TenantQueue>,
    /// Tenants with waiting guests, in round-robin order.
    turns: VecDeque<Tenant>,
    next_id: u64,
}

#[derive(Debug, Default)]
struct TenantQueue {
    /// Not started guests.
    new: VecDeque<Waiter>,
    /// Started guests.
    short: VecDeque<Waiter>,
    long: VecDeque<Waiter>,
    /// Number of started guests that run or wait for a processor.
    n_started: usize,
    n_turns: u32,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    /// Number of places that its start takes; zero when it was started.
    weight: u32,
    waker: Waker,
    granted: Arc<Mutex<bool>>,
}

impl TenantQueue {
    fn queue(&mut self, stage: Stage) -> &mut VecDeque<Waiter> {
        match stage {
            Stage::New => &mut self.new,
            Stage::Short => &mut self.short,
            Stage::Long => &mut self.long,
        }
    }

    fn is_waiting(&self) -> bool {
        !(self.new.is_empty() && self.short.is_empty() && self.long.is_empty())
    }

    /// Takes the next guest that may run.
    fn next(&mut self, n_live_free: u32) -> Option<Waiter> {
        self.n_turns = self.n_turns.wrapping_add(1);
        if self.n_turns.is_multiple_of(LONG_TURN)
            && let Some(long) = self.long.pop_front()
        {
            return Some(long);
        }
        let has_room = self.n_started < MAX_STARTED;
        let new = self.new.front();
        let new = new.filter(|waiter| has_room && waiter.weight <= n_live_free);
        // In order of arrival, so that started guests do not delay others indefinitely.
        let next = match (new, self.short.front()) {
            (Some(new), Some(short)) if new.id < short.id => &mut self.new,
            (Some(_), None) => &mut self.new,
            (_, Some(_)) => &mut self.short,
            (None, None) => &mut self.long,
        };
        next.pop_front()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    New,
    Short,
    Long,
}

impl State {
    fn enqueue(&mut self, tenant: Tenant, stage: Stage, waiter: Waiter) {
        let tenant_queue = self.tenants.entry(tenant).or_default();
        if !tenant_queue.is_waiting() {
            self.turns.push_back(tenant);
        }
        tenant_queue.queue(stage).push_back(waiter);
    }

    /// Assigns free processors to waiting guests. Returns the wakers to wake.
    fn dispatch(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let mut n_skipped = 0;
        while 0 < self.n_free && n_skipped < self.turns.len() {
            let Some(tenant) = self.turns.pop_front() else {
                break;
            };
            let Some(tenant_queue) = self.tenants.get_mut(&tenant) else {
                continue;
            };
            let next = tenant_queue.next(self.n_live_free);
            if let Some(waiter) = next {
                self.n_free -= 1;
                if 0 < waiter.weight {
                    self.n_live_free -= waiter.weight;
                    tenant_queue.n_started += 1;
                }
                *lock(&waiter.granted) = true;
                wakers.push(waiter.waker);
                n_skipped = 0;
            } else {
                // Its guests wait for the end of another one, or for a place.
                n_skipped += 1;
            }
            if tenant_queue.is_waiting() {
                self.turns.push_back(tenant);
            } else {
                self.remove_unused(tenant);
            }
        }
        wakers
    }

    /// Removes the entry of a tenant without guests.
    fn remove_unused(&mut self, tenant: Tenant) {
        if let Some(tenant_queue) = self.tenants.get(&tenant)
            && tenant_queue.n_started == 0
            && !tenant_queue.is_waiting()
        {
            self.tenants.remove(&tenant);
        }
    }

    fn remove(&mut self, tenant: Tenant, id: u64) -> bool {
        let Some(tenant_queue) = self.tenants.get_mut(&tenant) else {
            return false;
        };
        let mut was_removed = false;
        for stage in [Stage::New, Stage::Short, Stage::Long] {
            let queue = tenant_queue.queue(stage);
            let n_before = queue.len();
            queue.retain(|waiter| waiter.id != id);
            was_removed |= queue.len() < n_before;
        }
        if !tenant_queue.is_waiting() {
            self.turns.retain(|waiting| *waiting != tenant);
        }
        was_removed
    }
}

// Ignores poisoning: the data is consistent after each statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Processors {
    pub(crate) fn new(n_processors: usize, n_live: u32) -> Self {
        Self(Mutex::new(State {
            n_free: n_processors.max(1),
            n_live_free: n_live,
            tenants: HashMap::new(),
            turns: VecDeque::new(),
            next_id: 0,
        }))
    }

    /// Adds a guest without a processor. Its instance takes `weight` places, at least one.
    pub(crate) fn add_guest(&self, tenant: Tenant, weight: u32) -> Slot<'_> {
        Slot { processors: self, tenant, weight: weight.max(1), state: SlotState::New }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let wakers = {
            let mut state = lock(&self.0);
            change(&mut state);
            state.dispatch()
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// The scheduling state of a guest.
#[derive(Debug)]
pub(crate) struct Slot<'p> {
    processors: &'p Processors,
    tenant: Tenant,
    weight: u32,
    state: SlotState,
}

#[derive(Debug)]
enum SlotState {
    /// Neither started nor waiting.
    New,
    /// Waiting for a processor; `granted` is set when it gets one.
    Waiting {
        id: u64,
        is_started: bool,
        granted: Arc<Mutex<bool>>,
    },
    Running,
    /// Started, and not waiting for a processor.
    Asleep,
}

impl Slot<'_> {
    /// Whether it has a processor.
    pub(crate) const fn is_running(&self) -> bool {
        matches!(self.state, SlotState::Running)
    }

    /// Completes when the guest has a processor. `is_long`: whether it used more CPU time than [`LONG`].
    pub(crate) fn poll_running(&mut self, cx: &Context<'_>, is_long: bool) -> Poll<()> {
        let processors = self.processors;
        match &self.state {
            SlotState::Running => return Poll::Ready(()),
            SlotState::New => self.wait(Stage::New),
            SlotState::Asleep => {
                let mut state = lock(&processors.0);
                state.tenants.entry(self.tenant).or_default().n_started += 1;
                drop(state);
                self.wait(if is_long { Stage::Long } else { Stage::Short });
            }
            SlotState::Waiting { .. } => {}
        }
        let SlotState::Waiting { id, granted, .. } = &self.state else {
            return Poll::Pending;
        };
        let mut state = lock(&processors.0);
        if *lock(granted) {
            drop(state);
            self.state = SlotState::Running;
            return Poll::Ready(());
        }
        if let Some(tenant_queue) = state.tenants.get_mut(&self.tenant) {
            for stage in [Stage::New, Stage::Short, Stage::Long] {
                let queue = tenant_queue.queue(stage);
                if let Some(waiter) = queue.iter_mut().find(|waiter| waiter.id == *id) {
                    waiter.waker.clone_from(cx.waker());
                }
            }
        }
        Poll::Pending
    }

    fn wait(&mut self, stage: Stage) {
        let granted = Arc::new(Mutex::new(false));
        let mut id = 0;
        let weight = if stage == Stage::New { self.weight } else { 0 };
        self.processors.change(|state| {
            state.next_id += 1;
            id = state.next_id;
            let waiter = Waiter {
                id,
                weight,
                // The caller sets the waker if it must wait, so that a processor granted at once wakes no task.
                waker: Waker::noop().clone(),
                granted: Arc::clone(&granted),
            };
            state.enqueue(self.tenant, stage, waiter);
        });
        self.state = SlotState::Waiting { id, is_started: stage != Stage::New, granted };
    }

    /// Ends the time slice: yields the processor if other guests wait.
    pub(crate) fn end_slice(&mut self, cx: &Context<'_>, is_long: bool) {
        let others_wait = !lock(&self.processors.0).turns.is_empty();
        if !self.is_running() || !others_wait {
            return;
        }
        // Enqueues before it frees the processor, and gets it back if the others may not run yet.
        let granted = Arc::new(Mutex::new(false));
        let mut id = 0;
        self.processors.change(|state| {
            state.next_id += 1;
            id = state.next_id;
            let waiter =
                Waiter { id, weight: 0, waker: cx.waker().clone(), granted: Arc::clone(&granted) };
            let stage = if is_long { Stage::Long } else { Stage::Short };
            state.enqueue(self.tenant, stage, waiter);
            state.n_free += 1;
        });
        self.state = SlotState::Waiting { id, is_started: true, granted };
    }

    /// Gives up the processor while the guest waits for the server, a clock or memory.
    pub(crate) fn sleep(&mut self) {
        match &self.state {
            SlotState::Running => {
                self.processors.change(|state| {
                    state.n_free += 1;
                    self.end_started(state);
                });
                self.state = SlotState::Asleep;
            }
            SlotState::Waiting { is_started: true, .. } => {
                self.leave();
                self.state = SlotState::Asleep;
            }
            _ => {}
        }
    }

    fn end_started(&self, state: &mut State) {
        if let Some(tenant_queue) = state.tenants.get_mut(&self.tenant) {
            tenant_queue.n_started = tenant_queue.n_started.saturating_sub(1);
        }
        state.remove_unused(self.tenant);
    }

    /// Leaves the queue. Gives back a processor that was granted meanwhile.
    fn leave(&self) {
        let SlotState::Waiting { id, is_started, granted } = &self.state else {
            return;
        };
        self.processors.change(|state| {
            let was_granted = *lock(granted);
            if was_granted {
                state.n_free += 1;
            } else {
                state.remove(self.tenant, *id);
            }
            if *is_started || was_granted {
                self.end_started(state);
            }
            if !is_started && was_granted {
                state.n_live_free += self.weight;
            }
            state.remove_unused(self.tenant);
        });
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        match &self.state {
            SlotState::New => {}
            SlotState::Waiting { is_started, .. } => {
                let is_started = *is_started;
                self.leave();
                if is_started {
                    let weight = self.weight;
                    self.processors.change(|state| state.n_live_free += weight);
                }
            }
            SlotState::Running | SlotState::Asleep => {
                let is_running = self.is_running();
                self.processors.change(|state| {
                    state.n_live_free += self.weight;
                    if is_running {
                        state.n_free += 1;
                        self.end_started(state);
                    }
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn poll(slot: &mut Slot<'_>, is_long: bool) -> bool {
        slot.poll_running(&Context::from_waker(Waker::noop()), is_long).is_ready()
    }

    fn end_slice(slot: &mut Slot<'_>, is_long: bool) {
        slot.end_slice(&Context::from_waker(Waker::noop()), is_long);
    }

    /// Runs the guests slice by slice until one of `tenant` runs. Returns the number of slices of the others.
    fn slices_until(slots: &mut [Slot<'_>], tenant: Tenant) -> usize {
        for n in 0..1_000 {
            for slot in slots.iter_mut() {
                if poll(slot, true) && slot.tenant == tenant {
                    return n;
                }
            }
            for slot in slots.iter_mut() {
                end_slice(slot, true);
            }
        }
        usize::MAX
    }

    #[test]
    fn a_project_waits_for_one_slice_independently_of_the_guests_of_another() {
        let processors = Processors::new(2, 4_000);
        let mut slots: Vec<Slot<'_>> = (0..2_000).map(|_| processors.add_guest(1, 1)).collect();
        assert_eq!(slices_until(&mut slots, 1), 0);
        slots.push(processors.add_guest(2, 1));
        assert!(slices_until(&mut slots, 2) <= 1);
    }

    /// Counts wakes.
    #[derive(Default)]
    struct Wakes(std::sync::atomic::AtomicUsize);

    impl std::task::Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    #[test]
    fn a_processor_that_is_granted_at_once_wakes_no_task() {
        let processors = Processors::new(1, 4);
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let cx = Context::from_waker(&waker);
        let mut slot = processors.add_guest(1, 1);
        for _ in 0..3 {
            assert!(slot.poll_running(&cx, false).is_ready());
            slot.sleep();
        }
        assert_eq!(wakes.0.load(std::sync::atomic::Ordering::Relaxed), 0);
    }

    #[test]
    fn the_number_of_running_guests_is_limited_by_the_processors() {
        let processors = Processors::new(2, 100);
        let mut slots: Vec<Slot<'_>> = (0..10).map(|n| processors.add_guest(n, 1)).collect();
        let mut n_running = || {
            let running = slots.iter_mut().map(|slot| poll(slot, false));
            running.filter(|is_running| *is_running).count()
        };
        assert_eq!(n_running(), 2);
        assert_eq!(n_running(), 2);
    }

    #[test]
    fn short_guests_precede_long_ones_of_their_project_except_at_each_fourth_turn() {
        let processors = Processors::new(1, 100);
        let mut holder = processors.add_guest(1, 1);
        assert!(poll(&mut holder, false));
        let mut all: Vec<Slot<'_>> = (0..8).map(|_| processors.add_guest(1, 1)).collect();
        for slot in &mut all {
            poll(slot, false);
        }
        // Each becomes long after its first slice.
        drop(holder);
        let mut order = Vec::new();
        for _ in 0..8 {
            let at = all.iter_mut().position(|slot| poll(slot, true)).unwrap();
            order.push(at);
            end_slice(&mut all[at], true);
        }
        let distinct: std::collections::HashSet<usize> = order.iter().copied().collect();
        assert!((6..8).contains(&distinct.len()), "{order:?}");
    }

    #[test]
    fn a_project_starts_few_guests_at_a_time_not_counting_sleeping_ones() {
        let processors = Processors::new(1, 100);
        let mut slots: Vec<Slot<'_>> = (0..50).map(|_| processors.add_guest(1, 1)).collect();
        let mut started = std::collections::HashSet::new();
        for _ in 0..500 {
            for (at, slot) in slots.iter_mut().enumerate() {
                if poll(slot, true) {
                    started.insert(at);
                    end_slice(slot, true);
                }
            }
        }
        assert_eq!(started.len(), MAX_STARTED);
        let mut asleep = std::collections::HashSet::new();
        for _ in 0..500 {
            for (at, slot) in slots.iter_mut().enumerate() {
                if !asleep.contains(&at) && poll(slot, true) {
                    slot.sleep();
                    asleep.insert(at);
                }
            }
        }
        assert_eq!(asleep.len(), 50);
    }

    #[test]
    fn places_are_freed_with_their_guests() {
        let processors = Processors::new(4, 5);
        let mut heavy = processors.add_guest(1, 4);
        let mut light = processors.add_guest(2, 1);
        let mut other = processors.add_guest(3, 1);
        assert!(poll(&mut heavy, false) && poll(&mut light, false));
        heavy.sleep();
        assert!(!poll(&mut other, false));
        drop(heavy);
        assert!(poll(&mut other, false));
        drop((light, other));
        let state = lock(&processors.0);
        assert_eq!((state.n_free, state.n_live_free), (4, 5));
        assert!(state.tenants.is_empty() && state.turns.is_empty());
    }

    proptest! {
        #[test]
        fn every_guest_runs_and_all_places_are_freed(
            steps in prop::collection::vec((0..6_usize, 0..12_usize, any::<bool>()), 1..200),
        ) {
            let processors = Processors::new(2, 6);
            let mut slots: Vec<Slot<'_>> = Vec::new();
            for (kind, which, is_long) in steps {
                let n = slots.len();
                match kind {
                    0 => slots.push(processors.add_guest((which % 3) as u64, 1 + (which % 2) as u32)),
                    1 | 2 if 0 < n => {
                        poll(&mut slots[which % n], is_long);
                    }
                    3 if 0 < n => end_slice(&mut slots[which % n], is_long),
                    4 if 0 < n => slots[which % n].sleep(),
                    5 if 0 < n => drop(slots.swap_remove(which % n)),
                    _ => {}
                }
                let n_running = slots.iter().filter(|slot| slot.is_running()).count();
                prop_assert!(n_running <= 2);
            }
            for _ in 0..10_000 {
                if slots.is_empty() {
                    break;
                }
                let done = slots.iter_mut().position(|slot| poll(slot, true));
                if let Some(at) = done {
                    drop(slots.swap_remove(at));
                } else {
                    // Sleeping or waiting guests have all places.
                    prop_assert!(slots.iter().any(|slot| !slot.is_running()));
                }
            }
            prop_assert!(slots.is_empty());
            let state = lock(&processors.0);
            prop_assert_eq!((state.n_free, state.n_live_free), (2, 6));
            prop_assert!(state.tenants.is_empty() && state.turns.is_empty());
        }
    }
}
