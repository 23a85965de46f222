//! The memory of the whole process: which calls go on when there is little of it left.
//!
//! Each call has its limit, but thousands are alive at once, and what they may have together is far more
//! than the process may. What most of them really have is little, so nothing is set aside for them; what
//! the process has in memory is looked at while guests run.
//!
//! Invariants:
//! - **Calls that keep their limits do not end the process.** Over a first mark, calls that hold much are held
//!   back before they run on, but for one, the leader; over a second, those that hold little as well. Above
//!   it there is room for what every thread can add between two looks, and for the leader.
//! - **Somebody gets on.** The leader leads until it ends; then it is the turn of who was held back longest.
//! - **Nobody waits for sleepers.** When calls have been held back for a while, of those that wait for the
//!   server or a clock the one that holds most is ended, with a class of its own, and can be made again.
//!   The leader is ended so only when others have been held back for long. Who holds little is ended last,
//!   and only a sleeper, when the second mark is passed for long: all of them together may be what is held.
//! - **Who is held back is not ended while the turn passes on.** Only when one leader works on for long, not
//!   when it sleeps, one of those that are held back is ended: what it holds may be what all others wait for.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Memory of what is no guest: code, frames, stacks.
const OWN_BYTES: u64 = 256 << 20;
/// Who has no more is small.
const SMALL_BYTES: u64 = 4 << 20;
/// Calls are held back for so long until a sleeper is ended for them,
const PATIENCE: Duration = Duration::from_secs(3);
/// and so long until it is the leader that sleeps, or one of them.
const LONG_PATIENCE: Duration = Duration::from_secs(20);
/// Between the end of one call and the next: memory comes back with a delay.
const BETWEEN_ENDS: Duration = Duration::from_millis(100);

/// There is enough.
const CALM: u8 = 0;
/// The first mark is passed.
const TIGHT: u8 = 1;
/// The second one.
const FULL: u8 = 2;

/// What the process may have in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// All of it; with more it is ended from outside.
    pub(crate) max_resident_bytes: u64,
    /// The most that one call may have.
    pub(crate) max_call_bytes: u64,
    /// Threads that run guests.
    pub(crate) n_threads: u32,
}

impl Budget {
    /// The two marks.
    fn marks(self) -> [u64; 2] {
        let n_growing = u64::from(self.n_threads) + 1;
        let room = self.max_call_bytes.saturating_mul(n_growing) + OWN_BYTES;
        let most = self.max_resident_bytes;
        let full = most.saturating_sub(room).max(most / 2);
        [full - full / 8, full]
    }
}

/// What is looked at, where anything is.
struct Watched {
    /// `/proc/self/statm`, opened before the process gave up its rights.
    statm: File,
    marks: [u64; 2],
}

impl Watched {
    /// Bytes in memory.
    fn resident(&self) -> Option<u64> {
        let mut text = [0; 128];
        let n = self.statm.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..n)?).ok()?;
        let n_pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
        Some(n_pages * rustix::param::page_size() as u64)
    }
}

/// Decides who goes on.
#[derive(Default)]
pub(crate) struct Pressure {
    watched: Option<Watched>,
    level: AtomicU8,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    /// Those that ever waited, for whatever; by the order in which they first did.
    known: HashMap<u64, Known>,
    next: u64,
    leader: Option<u64>,
    /// Since when there is this one.
    led_since: Option<Instant>,
    last_end: Option<Instant>,
}

struct Known {
    holds: Arc<AtomicU64>,
    waker: Waker,
    doing: Doing,
    /// It was chosen to end.
    is_over: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// It runs, or could.
    Running,
    /// It waits for the server or a clock.
    Sleeping,
    /// It is held back since then.
    HeldBack(Instant),
}

/// The call is to end: there is no memory for all, and it held this much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crowded {
    pub(crate) held_bytes: u64,
}

impl Pressure {
    /// Looks at this process.
    pub(crate) fn watching(budget: Budget) -> io::Result<Self> {
        let watched = Watched { statm: File::open("/proc/self/statm")?, marks: budget.marks() };
        if watched.resident().is_none() {
            return Err(io::Error::other("/proc/self/statm does not say it"));
        }
        Ok(Self { watched: Some(watched), ..Self::default() })
    }

    /// Whether a mark is passed.
    pub(crate) fn is_short(&self) -> bool {
        self.level.load(Ordering::Acquire) != CALM
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks how much there is in memory, and acts on it. Whether it has to be looked at again soon even
    /// when no guest runs.
    pub(crate) fn look(&self) -> bool {
        let Some(watched) = &self.watched else {
            return false;
        };
        let resident = watched.resident().unwrap_or_default();
        let [tight, full] = watched.marks;
        let level = match resident {
            _ if full <= resident => FULL,
            _ if tight <= resident => TIGHT,
            _ => CALM,
        };
        self.set(level, Instant::now())
    }

    /// Only one thread sets it. Who decides by the level does so under the lock, too: nobody is held back by
    /// one that is over.
    fn set(&self, level: u8, now: Instant) -> bool {
        if level == CALM && self.level.load(Ordering::Acquire) == CALM {
            return false;
        }
        let mut calls = self.lock();
        let before = self.level.swap(level, Ordering::AcqRel);
        let woken = if level < before {
            // All look whether they may.
            calls.leader = calls.leader.filter(|_| level != CALM);
            calls.held_back().map(|(_, known)| known.waker.clone()).collect()
        } else {
            let led = calls.pass_on(now);
            led.into_iter().chain(calls.end_one(now, level == FULL)).collect::<Vec<_>>()
        };
        // Not while it is locked: nobody knows what waking does.
        drop(calls);
        woken.into_iter().for_each(Waker::wake);
        level != CALM
    }
}

impl Calls {
    fn held_back(&self) -> impl Iterator<Item = (u64, &Known)> {
        let known = self.known.iter();
        known
            .filter(|(_, known)| matches!(known.doing, Doing::HeldBack(_)))
            .map(|(id, known)| (*id, known))
    }

    /// Makes the one that was held back longest lead, where nobody does; it has to be woken.
    fn pass_on(&mut self, now: Instant) -> Option<Waker> {
        if self.leader.is_some() {
            return None;
        }
        let since = |known: &Known| match known.doing {
            Doing::HeldBack(since) => Some(since),
            Doing::Running | Doing::Sleeping => None,
        };
        let next = self.held_back().min_by_key(|(id, known)| (since(known), *id));
        let (id, waker) = next.map(|(id, known)| (id, known.waker.clone()))?;
        self.leader = Some(id);
        self.led_since = Some(now);
        Some(waker)
    }

    /// Chooses one to end, when others have waited for long; it has to be woken.
    fn end_one(&mut self, now: Instant, is_full: bool) -> Option<Waker> {
        let waits = self.held_back().filter_map(|(_, known)| match known.doing {
            Doing::HeldBack(since) => Some(now.saturating_duration_since(since)),
            Doing::Running | Doing::Sleeping => None,
        });
        let longest = waits.max()?;
        let is_soon = |last| now.saturating_duration_since(last) < BETWEEN_ENDS;
        if longest < PATIENCE || self.last_end.is_some_and(is_soon) {
            return None;
        }
        let is_long = LONG_PATIENCE <= longest;
        let leader = self.leader;
        let led_for =
            self.led_since.map(|since| now.saturating_duration_since(since)).unwrap_or_default();
        let leading = leader.and_then(|id| self.known.get(&id));
        let leader_sleeps = leading.is_some_and(|known| known.doing == Doing::Sleeping);
        let may_end = |id: u64, known: &Known| match known.doing {
            Doing::Sleeping if leader == Some(id) => is_long && PATIENCE <= led_for,
            Doing::Sleeping => true,
            Doing::HeldBack(_) => leader != Some(id) && !leader_sleeps && LONG_PATIENCE <= led_for,
            Doing::Running => false,
        };
        let is_worth = |known: &Known| {
            SMALL_BYTES < known.held() || is_full && is_long && known.doing == Doing::Sleeping
        };
        let candidates = self
            .known
            .iter_mut()
            .filter(|(id, known)| !known.is_over && is_worth(known) && may_end(**id, known));
        // Sleepers first.
        let (_, chosen) = candidates
            .max_by_key(|(id, known)| (known.doing == Doing::Sleeping, known.held(), **id))?;
        chosen.is_over = true;
        self.last_end = Some(now);
        Some(chosen.waker.clone())
    }
}

impl Known {
    fn held(&self) -> u64 {
        self.holds.load(Ordering::Relaxed)
    }
}

/// Where one call stands.
pub(crate) struct Turn<'h> {
    pressure: &'h Pressure,
    /// Bytes of its memories.
    holds: Arc<AtomicU64>,
    /// Its number, once it waited.
    id: Option<u64>,
}

impl<'h> Turn<'h> {
    pub(crate) fn new(pressure: &'h Pressure, holds: Arc<AtomicU64>) -> Self {
        Self { pressure, holds, id: None }
    }

    /// Whether the guest may run on now.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Crowded>> {
        if self.id.is_none() && !self.pressure.is_short() {
            return Poll::Ready(Ok(()));
        }
        let held_bytes = self.holds.load(Ordering::Relaxed);
        let is_small = held_bytes <= SMALL_BYTES;
        let mut calls = self.pressure.lock();
        let id = self.known(&mut calls, cx);
        let may_go = match self.pressure.level.load(Ordering::Acquire) {
            CALM => true,
            TIGHT if is_small => true,
            _ => {
                if calls.leader.is_none() {
                    calls.leader = Some(id);
                    calls.led_since = Some(Instant::now());
                }
                calls.leader == Some(id)
            }
        };
        let Some(known) = calls.known.get_mut(&id) else {
            return Poll::Ready(Ok(()));
        };
        if known.is_over {
            return Poll::Ready(Err(Crowded { held_bytes }));
        }
        if may_go {
            known.doing = Doing::Running;
            return Poll::Ready(Ok(()));
        }
        if !matches!(known.doing, Doing::HeldBack(_)) {
            known.doing = Doing::HeldBack(Instant::now());
        }
        known.waker.clone_from(cx.waker());
        Poll::Pending
    }

    /// The guest waits for the server or a clock.
    pub(crate) fn sleeps(&mut self, cx: &Context<'_>) {
        if self.pressure.watched.is_none() {
            return;
        }
        let mut calls = self.pressure.lock();
        let id = self.known(&mut calls, cx);
        if let Some(known) = calls.known.get_mut(&id) {
            known.doing = Doing::Sleeping;
            known.waker.clone_from(cx.waker());
        }
    }

    fn known(&mut self, calls: &mut Calls, cx: &Context<'_>) -> u64 {
        *self.id.get_or_insert_with(|| {
            calls.next += 1;
            let known = Known {
                holds: Arc::clone(&self.holds),
                waker: cx.waker().clone(),
                doing: Doing::Running,
                is_over: false,
            };
            calls.known.insert(calls.next, known);
            calls.next
        })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id else {
            return;
        };
        let mut calls = self.pressure.lock();
        let known = calls.known.remove(&id);
        let mut next = None;
        if calls.leader == Some(id) {
            calls.leader = None;
            next = calls.pass_on(Instant::now());
        }
        drop(calls);
        drop(known);
        next.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many calls that hold so many MiB each, none polled yet.
    fn turns<'p>(pressure: &'p Pressure, held_mib: &[u64]) -> Vec<Turn<'p>> {
        let turn = |mib: &u64| Turn::new(pressure, Arc::new(AtomicU64::new(mib << 20)));
        held_mib.iter().map(turn).collect()
    }

    fn pressure() -> Pressure {
        let budget =
            Budget { max_resident_bytes: u64::MAX / 4, max_call_bytes: 256 << 20, n_threads: 2 };
        Pressure::watching(budget).unwrap()
    }

    fn polled(turn: &mut Turn<'_>) -> Poll<Result<(), Crowded>> {
        turn.poll(&mut Context::from_waker(Waker::noop()))
    }

    const GOES: Poll<Result<(), Crowded>> = Poll::Ready(Ok(()));

    #[test]
    fn the_marks_leave_room_for_what_is_added_between_two_looks() {
        let budget = |max_resident_bytes| Budget {
            max_resident_bytes,
            max_call_bytes: 256 << 20,
            n_threads: 2,
        };
        assert_eq!(budget(4 << 30).marks(), [2_688 << 20, 3_072 << 20]);
        assert_eq!(budget(256 << 20).marks(), [112 << 20, 128 << 20]);
    }

    #[test]
    fn what_this_process_has_in_memory_is_known() {
        let resident = pressure().watched.and_then(|watched| watched.resident());
        assert!((1 << 20..1 << 40).contains(&resident.unwrap()), "{resident:?}");
    }

    #[test]
    fn while_there_is_enough_all_go_on_and_nobody_is_known() {
        let pressure = pressure();
        let mut turns = turns(&pressure, &[1, 200]);
        assert!(turns.iter_mut().all(|turn| polled(turn) == GOES));
        assert!(pressure.lock().known.is_empty());
    }

    #[test]
    fn one_leads_and_small_ones_go_on_until_it_is_full() {
        let pressure = pressure();
        let mut turns = turns(&pressure, &[200, 200, 1]);
        assert!(pressure.set(TIGHT, Instant::now()));
        let answers: Vec<_> = turns.iter_mut().map(polled).collect();
        assert_eq!(answers, [GOES, Poll::Pending, GOES]);
        pressure.set(FULL, Instant::now());
        let answers: Vec<_> = turns.iter_mut().map(polled).collect();
        assert_eq!(answers, [GOES, Poll::Pending, Poll::Pending]);
        // The leader ends: it is the turn of the first that was held back.
        drop(turns.remove(0));
        let answers: Vec<_> = turns.iter_mut().rev().map(polled).collect();
        assert_eq!(answers, [Poll::Pending, GOES]);
        assert!(!pressure.set(CALM, Instant::now()));
        assert!(turns.iter_mut().all(|turn| polled(turn) == GOES));
    }

    #[test]
    fn the_sleeper_that_holds_most_ends_when_others_were_held_back_for_a_while() {
        let pressure = pressure();
        let mut turns = turns(&pressure, &[100, 200, 1, 50, 60]);
        let cx = Context::from_waker(Waker::noop());
        turns[..3].iter_mut().for_each(|turn| turn.sleeps(&cx));
        let now = Instant::now();
        pressure.set(FULL, now);
        assert_eq!(polled(&mut turns[3]), GOES);
        assert_eq!(polled(&mut turns[4]), Poll::Pending);
        let ended = |turns: &[Turn<'_>], after: Duration| {
            pressure.set(FULL, now + after);
            let calls = pressure.lock();
            let is_over = |turn: &Turn<'_>| calls.known[&turn.id.unwrap()].is_over;
            turns.iter().map(is_over).collect::<Vec<_>>()
        };
        let soon = PATIENCE + Duration::from_secs(1);
        assert_eq!(ended(&turns, Duration::ZERO), [false; 5]);
        assert_eq!(ended(&turns, soon), [false, true, false, false, false]);
        let crowded = Crowded { held_bytes: 200 << 20 };
        assert_eq!(polled(&mut turns[1]), Poll::Ready(Err(crowded)));
        // The next only when this one's memory had time to come back; the small one never.
        assert_eq!(ended(&turns, soon), [false, true, false, false, false]);
        assert_eq!(ended(&turns, 2 * soon), [true, true, false, false, false]);
        assert_eq!(ended(&turns, 3 * soon), [true, true, false, false, false]);
        // Then small sleepers, and one that is held back; never the leader, which runs.
        let long = LONG_PATIENCE + soon;
        assert_eq!(ended(&turns, long), [true, true, true, false, false]);
        assert_eq!(ended(&turns, 2 * long), [true, true, true, false, true]);
        assert_eq!(ended(&turns, 3 * long), [true, true, true, false, true]);
    }

    #[test]
    fn who_is_held_back_does_not_end_while_the_turn_passes_on() {
        let pressure = pressure();
        let mut turns = turns(&pressure, &[50, 60, 70]);
        let now = Instant::now();
        pressure.set(TIGHT, now);
        let answers: Vec<_> = turns.iter_mut().map(polled).collect();
        assert_eq!(answers, [GOES, Poll::Pending, Poll::Pending]);
        // The first leads for nearly as long as the others have patience, and ends.
        let late = now + LONG_PATIENCE - Duration::from_secs(1);
        let leads = turns.remove(0);
        let mut calls = pressure.lock();
        calls.known.remove(&leads.id.unwrap());
        calls.leader = None;
        calls.pass_on(late);
        drop(calls);
        // The last one was held back for longer than that by now; its turn comes after the second's.
        let ended = |after: Duration| {
            pressure.set(TIGHT, late + after);
            pressure.lock().known[&3].is_over
        };
        assert!(!ended(Duration::from_secs(2)));
        assert!(!ended(LONG_PATIENCE - Duration::from_secs(1)));
        assert!(ended(LONG_PATIENCE));
        std::mem::forget(leads);
    }

    #[test]
    fn a_leader_that_sleeps_on_the_time_of_others_ends_in_the_end() {
        let pressure = pressure();
        let mut turns = turns(&pressure, &[200, 100]);
        let now = Instant::now();
        pressure.set(TIGHT, now);
        assert_eq!(polled(&mut turns[0]), GOES);
        assert_eq!(polled(&mut turns[1]), Poll::Pending);
        turns[0].sleeps(&Context::from_waker(Waker::noop()));
        // It sleeps from before the other one waits: that one is not ended in its place.
        let are_over = |after: Duration| {
            pressure.lock().led_since = Some(now - Duration::from_secs(2));
            pressure.set(TIGHT, now + after);
            let calls = pressure.lock();
            [calls.known[&1].is_over, calls.known[&2].is_over]
        };
        assert_eq!(are_over(LONG_PATIENCE - Duration::from_secs(1)), [false; 2]);
        assert_eq!(are_over(LONG_PATIENCE + Duration::from_secs(1)), [true, false]);
    }
}
