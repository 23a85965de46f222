//! Which guests run: at most as many at a time as there are processors, projects in turn.
//!
//! Invariants:
//! - **A project delays another by a few time slices.** A processor that is free, or whose guest has run for a slice,
//!   goes to the next project that waits, however many calls the others have.
//! - **Short calls pass long ones.** In a project, a guest that has run for long waits for those that have not, apart
//!   from one turn in [`LONG_TURN`].
//! - **Memory is bounded.** A project starts another guest only while few of its guests are between their start and
//!   their end without waiting for anything.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use perpend_worker_protocol::Tenant;

/// With more CPU time a guest is a long one.
pub(crate) const LONG: Duration = Duration::from_millis(50);
/// Of so many turns of a project, one is for its long guests.
const LONG_TURN: u32 = 4;
/// Guests of a project that were started and want to run.
const MAX_STARTED: usize = 16;

/// The processors, and the places of live instances.
#[derive(Debug)]
pub(crate) struct Processors(Mutex<State>);

#[derive(Debug)]
struct State {
    n_free: usize,
    /// Places of live instances.
    n_live_free: u32,
    tenants: HashMap<Tenant, OfTenant>,
    /// Tenants that have waiting guests, in turn.
    turns: VecDeque<Tenant>,
    next_id: u64,
}

#[derive(Debug, Default)]
struct OfTenant {
    /// Not started.
    new: VecDeque<Waiter>,
    /// Started.
    short: VecDeque<Waiter>,
    long: VecDeque<Waiter>,
    /// Guests that were started and run or wait for a processor.
    n_started: usize,
    n_turns: u32,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    /// Places of live instances that it takes when it is started.
    weight: u32,
    waker: Waker,
    granted: Arc<Mutex<bool>>,
}

impl OfTenant {
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

    /// The next guest of this tenant that may run.
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
        // In order of arrival, so that those that were started do not keep others from it.
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
        let of_tenant = self.tenants.entry(tenant).or_default();
        if !of_tenant.is_waiting() {
            self.turns.push_back(tenant);
        }
        of_tenant.queue(stage).push_back(waiter);
    }

    /// Gives free processors to those that wait; their wakers are to be woken.
    fn dispatch(&mut self) -> Vec<Waker> {
        let mut woken = Vec::new();
        let mut n_passed = 0;
        while 0 < self.n_free && n_passed < self.turns.len() {
            let Some(tenant) = self.turns.pop_front() else {
                break;
            };
            let Some(of_tenant) = self.tenants.get_mut(&tenant) else {
                continue;
            };
            let next = of_tenant.next(self.n_live_free);
            if let Some(waiter) = next {
                self.n_free -= 1;
                if 0 < waiter.weight {
                    self.n_live_free -= waiter.weight;
                    of_tenant.n_started += 1;
                }
                *lock(&waiter.granted) = true;
                woken.push(waiter.waker);
                n_passed = 0;
            } else {
                // Its guests wait for one of its own to end, or for a live place.
                n_passed += 1;
            }
            if of_tenant.is_waiting() {
                self.turns.push_back(tenant);
            } else {
                self.forget(tenant);
            }
        }
        woken
    }

    /// Drops what is known of a tenant without guests.
    fn forget(&mut self, tenant: Tenant) {
        if let Some(of_tenant) = self.tenants.get(&tenant)
            && of_tenant.n_started == 0
            && !of_tenant.is_waiting()
        {
            self.tenants.remove(&tenant);
        }
    }

    fn remove(&mut self, tenant: Tenant, id: u64) -> bool {
        let Some(of_tenant) = self.tenants.get_mut(&tenant) else {
            return false;
        };
        let mut found = false;
        for stage in [Stage::New, Stage::Short, Stage::Long] {
            let queue = of_tenant.queue(stage);
            let n_before = queue.len();
            queue.retain(|waiter| waiter.id != id);
            found |= queue.len() < n_before;
        }
        if !of_tenant.is_waiting() {
            self.turns.retain(|waiting| *waiting != tenant);
        }
        found
    }
}

// What these guard is whole between any two statements, also after a panic.
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

    /// A guest that takes `weight` places of live instances, at least one. It has no processor yet.
    pub(crate) fn guest(&self, tenant: Tenant, weight: u32) -> Slot<'_> {
        Slot { processors: self, tenant, weight: weight.max(1), standing: Standing::New }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let woken = {
            let mut state = lock(&self.0);
            change(&mut state);
            state.dispatch()
        };
        woken.into_iter().for_each(Waker::wake);
    }
}

/// Where one guest stands.
#[derive(Debug)]
pub(crate) struct Slot<'h> {
    processors: &'h Processors,
    tenant: Tenant,
    weight: u32,
    standing: Standing,
}

#[derive(Debug)]
enum Standing {
    /// Not started, not waiting.
    New,
    /// Waiting for a processor; whether it was given one.
    Waiting {
        id: u64,
        is_started: bool,
        granted: Arc<Mutex<bool>>,
    },
    Running,
    /// Started, and waiting for something else.
    Asleep,
}

impl Slot<'_> {
    /// Whether it has a processor.
    pub(crate) const fn is_running(&self) -> bool {
        matches!(self.standing, Standing::Running)
    }

    /// Ready when the guest may run. `is_long`: it has used more CPU time than [`LONG`].
    pub(crate) fn poll_running(&mut self, cx: &Context<'_>, is_long: bool) -> Poll<()> {
        let processors = self.processors;
        match &self.standing {
            Standing::Running => return Poll::Ready(()),
            Standing::New => self.wait(Stage::New),
            Standing::Asleep => {
                let mut state = lock(&processors.0);
                state.tenants.entry(self.tenant).or_default().n_started += 1;
                drop(state);
                self.wait(if is_long { Stage::Long } else { Stage::Short });
            }
            Standing::Waiting { .. } => {}
        }
        let Standing::Waiting { id, granted, .. } = &self.standing else {
            return Poll::Pending;
        };
        let mut state = lock(&processors.0);
        if *lock(granted) {
            drop(state);
            self.standing = Standing::Running;
            return Poll::Ready(());
        }
        if let Some(of_tenant) = state.tenants.get_mut(&self.tenant) {
            for stage in [Stage::New, Stage::Short, Stage::Long] {
                let queue = of_tenant.queue(stage);
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
                // The caller sets its waker if it has to wait: a processor that is granted at once wakes nobody.
                waker: Waker::noop().clone(),
                granted: Arc::clone(&granted),
            };
            state.enqueue(self.tenant, stage, waiter);
        });
        self.standing = Standing::Waiting { id, is_started: stage != Stage::New, granted };
    }

    /// A time slice is over: where others wait, the guest gets in line.
    pub(crate) fn slice_ends(&mut self, cx: &Context<'_>, is_long: bool) {
        let has_others = !lock(&self.processors.0).turns.is_empty();
        if !self.is_running() || !has_others {
            return;
        }
        // First in line, then the processor: it comes back at once where the others may not run yet.
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
        self.standing = Standing::Waiting { id, is_started: true, granted };
    }

    /// The guest waits for the server, a clock or memory.
    pub(crate) fn sleeps(&mut self) {
        match &self.standing {
            Standing::Running => {
                self.processors.change(|state| {
                    state.n_free += 1;
                    self.stops(state);
                });
                self.standing = Standing::Asleep;
            }
            Standing::Waiting { is_started: true, .. } => {
                self.leave();
                self.standing = Standing::Asleep;
            }
            _ => {}
        }
    }

    fn stops(&self, state: &mut State) {
        if let Some(of_tenant) = state.tenants.get_mut(&self.tenant) {
            of_tenant.n_started = of_tenant.n_started.saturating_sub(1);
        }
        state.forget(self.tenant);
    }

    /// Leaves the line; a processor that was given meanwhile is given back.
    fn leave(&self) {
        let Standing::Waiting { id, is_started, granted } = &self.standing else {
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
                self.stops(state);
            }
            if !is_started && was_granted {
                state.n_live_free += self.weight;
            }
            state.forget(self.tenant);
        });
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        match &self.standing {
            Standing::New => {}
            Standing::Waiting { is_started, .. } => {
                let is_started = *is_started;
                self.leave();
                if is_started {
                    let weight = self.weight;
                    self.processors.change(|state| state.n_live_free += weight);
                }
            }
            Standing::Running | Standing::Asleep => {
                let is_running = self.is_running();
                self.processors.change(|state| {
                    state.n_live_free += self.weight;
                    if is_running {
                        state.n_free += 1;
                        self.stops(state);
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

    fn slice_ends(slot: &mut Slot<'_>, is_long: bool) {
        slot.slice_ends(&Context::from_waker(Waker::noop()), is_long);
    }

    /// Lets the guests run slice by slice until one of `tenant` runs, and gives how many slices others had.
    fn slices_until(slots: &mut [Slot<'_>], tenant: Tenant) -> usize {
        for n in 0..1_000 {
            for slot in slots.iter_mut() {
                if poll(slot, true) && slot.tenant == tenant {
                    return n;
                }
            }
            for slot in slots.iter_mut() {
                slice_ends(slot, true);
            }
        }
        usize::MAX
    }

    #[test]
    fn a_project_waits_for_one_slice_whatever_number_of_guests_another_has() {
        let processors = Processors::new(2, 4_000);
        let mut slots: Vec<Slot<'_>> = (0..2_000).map(|_| processors.guest(1, 1)).collect();
        assert_eq!(slices_until(&mut slots, 1), 0);
        slots.push(processors.guest(2, 1));
        assert!(slices_until(&mut slots, 2) <= 1);
    }

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Wakes(std::sync::atomic::AtomicUsize);

    impl std::task::Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    #[test]
    fn a_processor_that_is_granted_at_once_wakes_nobody() {
        let processors = Processors::new(1, 4);
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let cx = Context::from_waker(&waker);
        let mut slot = processors.guest(1, 1);
        for _ in 0..3 {
            assert!(slot.poll_running(&cx, false).is_ready());
            slot.sleeps();
        }
        assert_eq!(wakes.0.load(std::sync::atomic::Ordering::Relaxed), 0);
    }

    #[test]
    fn no_more_guests_run_than_there_are_processors() {
        let processors = Processors::new(2, 100);
        let mut slots: Vec<Slot<'_>> = (0..10).map(|n| processors.guest(n, 1)).collect();
        let mut n_running = || {
            let running = slots.iter_mut().map(|slot| poll(slot, false));
            running.filter(|is_running| *is_running).count()
        };
        assert_eq!(n_running(), 2);
        assert_eq!(n_running(), 2);
    }

    #[test]
    fn short_guests_pass_long_ones_of_their_project_which_have_a_turn_in_four() {
        let processors = Processors::new(1, 100);
        let mut holder = processors.guest(1, 1);
        assert!(poll(&mut holder, false));
        let mut all: Vec<Slot<'_>> = (0..8).map(|_| processors.guest(1, 1)).collect();
        for slot in &mut all {
            poll(slot, false);
        }
        // Each becomes a long one or ends after its first slice.
        drop(holder);
        let mut order = Vec::new();
        for _ in 0..8 {
            let at = all.iter_mut().position(|slot| poll(slot, true)).unwrap();
            order.push(at);
            slice_ends(&mut all[at], true);
        }
        let distinct: std::collections::HashSet<usize> = order.iter().copied().collect();
        assert!((6..8).contains(&distinct.len()), "{order:?}");
    }

    #[test]
    fn a_project_starts_few_guests_at_a_time_and_one_that_waits_for_a_model_makes_room() {
        let processors = Processors::new(1, 100);
        let mut slots: Vec<Slot<'_>> = (0..50).map(|_| processors.guest(1, 1)).collect();
        let mut started = std::collections::HashSet::new();
        for _ in 0..500 {
            for (at, slot) in slots.iter_mut().enumerate() {
                if poll(slot, true) {
                    started.insert(at);
                    slice_ends(slot, true);
                }
            }
        }
        assert_eq!(started.len(), MAX_STARTED);
        let mut asleep = std::collections::HashSet::new();
        for _ in 0..500 {
            for (at, slot) in slots.iter_mut().enumerate() {
                if !asleep.contains(&at) && poll(slot, true) {
                    slot.sleeps();
                    asleep.insert(at);
                }
            }
        }
        assert_eq!(asleep.len(), 50);
    }

    #[test]
    fn live_places_are_given_back_with_their_guests() {
        let processors = Processors::new(4, 5);
        let mut heavy = processors.guest(1, 4);
        let mut light = processors.guest(2, 1);
        let mut other = processors.guest(3, 1);
        assert!(poll(&mut heavy, false) && poll(&mut light, false));
        heavy.sleeps();
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
        fn every_guest_runs_and_everything_comes_back(
            steps in prop::collection::vec((0..6_usize, 0..12_usize, any::<bool>()), 1..200),
        ) {
            let processors = Processors::new(2, 6);
            let mut slots: Vec<Slot<'_>> = Vec::new();
            for (kind, which, is_long) in steps {
                let n = slots.len();
                match kind {
                    0 => slots.push(processors.guest((which % 3) as u64, 1 + (which % 2) as u32)),
                    1 | 2 if 0 < n => {
                        poll(&mut slots[which % n], is_long);
                    }
                    3 if 0 < n => slice_ends(&mut slots[which % n], is_long),
                    4 if 0 < n => slots[which % n].sleeps(),
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
                    // All live places are with guests that sleep or wait.
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
