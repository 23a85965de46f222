//! Fair scheduling: the slots of each lane, and the order in which queues get free slots.
//!
//! A project holds at most as many slots of a lane as are free, and a class of it at most as many as are
//! free beyond those of its project. So no project fills a lane: the more it holds, the more it leaves to
//! others. Choudhury and Hahne call this dynamic thresholds (IEEE/ACM Transactions on Networking, 1998).
//!
//! Free slots go to projects in round-robin order, within a project to its classes by weight, and within a
//! class to its queues in round-robin order.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perpend_domain::evaluation::{ExecutionClass, Lane, QueueKind};
use perpend_domain::ids::ProjectId;
use perpend_executions::ExecutionQueue;

/// The project of a queue; `None` if the row of the queue is lost.
pub(crate) type Owner = Option<ProjectId>;

/// The slots of all lanes. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct FairQueue(Arc<Mutex<TurnState>>);

#[derive(Debug)]
struct TurnState {
    /// Slots per lane.
    n: usize,
    lanes: BTreeMap<Lane, LaneState>,
    /// A request for a slot was refused since the last call of `take_shortage`.
    is_short: bool,
}

#[derive(Debug, Default)]
struct LaneState {
    n_held: usize,
    projects: BTreeMap<Owner, ProjectState>,
    /// The owner of the last turn.
    last: Option<Owner>,
}

#[derive(Debug, Default)]
struct ProjectState {
    n_held: usize,
    classes: BTreeMap<ExecutionClass, ClassState>,
}

#[derive(Debug, Default)]
struct ClassState {
    n_held: usize,
    /// Grows by the weight with each turn of the project, and shrinks by the sum of all weights with each
    /// turn of the class.
    credit: i64,
    /// The queue of the last turn.
    last: i64,
}

/// Occupied slots; dropping returns them.
#[derive(Debug)]
pub(crate) struct Seats {
    turns: FairQueue,
    owner: Owner,
    kind: QueueKind,
    n: usize,
}

impl Seats {
    /// Returns some slots before the others.
    pub(crate) fn release_some(&mut self, n: usize) {
        let n = n.min(self.n);
        self.n -= n;
        self.turns.lock().release_some(&self.owner, self.kind, n);
    }

    /// Splits off some of the slots.
    pub(crate) fn split(&mut self, n: usize) -> Self {
        let n = n.min(self.n);
        self.n -= n;
        Self { turns: self.turns.clone(), owner: self.owner.clone(), kind: self.kind, n }
    }

    /// Merges slots of the same owner and kind.
    pub(crate) fn join(&mut self, mut others: Self) {
        self.n += std::mem::take(&mut others.n);
    }

    pub(crate) const fn n(&self) -> usize {
        self.n
    }

    pub(crate) const fn class(&self) -> ExecutionClass {
        self.kind.class
    }
}

impl Drop for Seats {
    fn drop(&mut self) {
        self.release_some(self.n);
    }
}

impl FairQueue {
    pub(crate) fn new(n_places: usize) -> Self {
        Self(Arc::new(Mutex::new(TurnState {
            n: n_places,
            lanes: BTreeMap::new(),
            is_short: false,
        })))
    }

    /// A slot for one more execution, outside any turn; `None` if its project or class holds enough.
    pub(crate) fn take(&self, project: &ProjectId, kind: QueueKind) -> Option<Seats> {
        let owner = Some(project.clone());
        let is_taken = self.lock().take(&owner, kind);
        is_taken.then(|| self.seats(owner, kind, 1))
    }

    /// Distributes up to `n` slots of each lane to queues with due executions.
    pub(crate) fn deal(&self, due: Vec<ExecutionQueue>, n: usize) -> Vec<(ExecutionQueue, Seats)> {
        let mut by_lane: BTreeMap<Lane, Vec<ExecutionQueue>> = BTreeMap::new();
        for queue in due {
            by_lane.entry(queue.kind.lane).or_default().push(queue);
        }
        let mut dealt = Vec::new();
        for (lane, queues) in by_lane {
            let mut counts = self.lock().deal(lane, &queues, n);
            dealt.extend(queues.into_iter().filter_map(|queue| {
                let n = counts.remove(&queue.id)?;
                let seats = self.seats(queue.project.clone(), queue.kind, n);
                Some((queue, seats))
            }));
        }
        dealt
    }

    /// Whether a request for a slot was refused since the last call.
    pub(crate) fn take_shortage(&self) -> bool {
        std::mem::take(&mut self.lock().is_short)
    }

    fn seats(&self, owner: Owner, kind: QueueKind, n: usize) -> Seats {
        let turns = self.clone();
        Seats { turns, owner, kind, n }
    }

    fn lock(&self) -> MutexGuard<'_, TurnState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TurnState {
    fn take(&mut self, owner: &Owner, kind: QueueKind) -> bool {
        let lane = self.lanes.entry(kind.lane).or_default();
        let is_taken = lane.may_take(self.n, owner, kind.class);
        if is_taken {
            lane.take(owner, kind.class);
        }
        self.is_short |= !is_taken;
        is_taken
    }

    fn release_some(&mut self, owner: &Owner, kind: QueueKind, n: usize) {
        let Some(lane) = self.lanes.get_mut(&kind.lane) else {
            return;
        };
        lane.n_held = lane.n_held.saturating_sub(n);
        if let Some(project) = lane.projects.get_mut(owner) {
            project.n_held = project.n_held.saturating_sub(n);
            if let Some(class) = project.classes.get_mut(&kind.class) {
                class.n_held = class.n_held.saturating_sub(n);
            }
        }
    }

    /// The number of slots per queue.
    fn deal(&mut self, lane: Lane, queues: &[ExecutionQueue], n: usize) -> HashMap<i64, usize> {
        let lane = self.lanes.entry(lane).or_default();
        let mut waiting: BTreeMap<Owner, BTreeMap<ExecutionClass, Vec<i64>>> = BTreeMap::new();
        for queue in queues {
            let classes = waiting.entry(queue.project.clone()).or_default();
            classes.entry(queue.kind.class).or_default().push(queue.id);
        }
        for queues in waiting.values_mut().flat_map(BTreeMap::values_mut) {
            queues.sort_unstable();
        }
        lane.projects.retain(|owner, project| 0 < project.n_held || waiting.contains_key(owner));
        let mut dealt = HashMap::new();
        for _ in 0..n {
            // A class at its limit stays there while others take more slots.
            let Some(owner) = lane.next_owner(self.n, &mut waiting, &mut self.is_short) else {
                break;
            };
            let Some(classes) = waiting.get(&owner) else {
                break;
            };
            let project = lane.projects.entry(owner.clone()).or_default();
            let (class, queue) = project.next(classes);
            lane.take(&owner, class);
            lane.last = Some(owner);
            *dealt.entry(queue).or_default() += 1;
        }
        dealt
    }
}

impl LaneState {
    fn may_take(&self, n_places: usize, owner: &Owner, class: ExecutionClass) -> bool {
        let n_free = n_places.saturating_sub(self.n_held);
        let project = self.projects.get(owner);
        let of_project = project.map_or(0, |project| project.n_held);
        let of_class =
            project.and_then(|project| project.classes.get(&class)).map_or(0, |class| class.n_held);
        of_class + of_project < n_free
    }

    fn take(&mut self, owner: &Owner, class: ExecutionClass) {
        let project = self.projects.entry(owner.clone()).or_default();
        self.n_held += 1;
        project.n_held += 1;
        project.classes.entry(class).or_default().n_held += 1;
    }

    /// The next project in round-robin order that may take a slot; projects at their limit are removed.
    fn next_owner(
        &self,
        n_places: usize,
        waiting: &mut BTreeMap<Owner, BTreeMap<ExecutionClass, Vec<i64>>>,
        is_short: &mut bool,
    ) -> Option<Owner> {
        loop {
            let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let next = waiting.range((after, Bound::Unbounded)).next();
            let owner = next.or_else(|| waiting.iter().next())?.0.clone();
            let classes = waiting.get_mut(&owner)?;
            let n_before = classes.len();
            classes.retain(|class, _| self.may_take(n_places, &owner, *class));
            *is_short |= classes.len() < n_before;
            if !classes.is_empty() {
                return Some(owner);
            }
            waiting.remove(&owner);
        }
    }
}

impl ProjectState {
    /// The next class of these and its next queue, by smooth weighted round-robin.
    fn next(&mut self, waiting: &BTreeMap<ExecutionClass, Vec<i64>>) -> (ExecutionClass, i64) {
        // Classes without executions collect no credit.
        for (class, of_class) in &mut self.classes {
            if !waiting.contains_key(class) {
                of_class.credit = 0;
            }
        }
        let mut n_all = 0;
        let mut next = (i64::MIN, ExecutionClass::Backfill);
        for class in waiting.keys() {
            let weight = i64::from(class.weight());
            n_all += weight;
            let of_class = self.classes.entry(*class).or_default();
            of_class.credit += weight;
            if next.0 < of_class.credit {
                next = (of_class.credit, *class);
            }
        }
        let (_, class) = next;
        let queues = waiting.get(&class).map(Vec::as_slice).unwrap_or_default();
        let of_class = self.classes.entry(class).or_default();
        of_class.credit -= n_all;
        let at = queues.partition_point(|queue| *queue <= of_class.last);
        let queue = queues.get(at).or(queues.first());
        of_class.last = queue.copied().unwrap_or_default();
        (class, of_class.last)
    }
}

#[cfg(test)]
mod tests {
    use perpend_domain::time::Timestamp;
    use proptest::prelude::*;

    use super::*;

    const N_PLACES: usize = 300;

    fn kind(class: ExecutionClass) -> QueueKind {
        QueueKind { lane: Lane::Code, class }
    }

    fn queue(id: i64, project: &str, class: ExecutionClass) -> ExecutionQueue {
        ExecutionQueue {
            id,
            project: Some(project.parse().unwrap()),
            rule: Some("r".parse().unwrap()),
            kind: kind(class),
            due_at: Timestamp::from_millis(0),
        }
    }

    /// Takes one slot at a time, returns it before the next one, and counts the slots per queue.
    fn one_by_one(turns: &FairQueue, queues: &[ExecutionQueue], n: usize) -> BTreeMap<i64, usize> {
        let mut counts = BTreeMap::new();
        for _ in 0..n {
            for (queue, seats) in turns.deal(queues.to_vec(), 1) {
                *counts.entry(queue.id).or_default() += seats.n();
            }
        }
        counts
    }

    fn held(turns: &FairQueue) -> usize {
        turns.lock().lanes.values().map(|lane| lane.n_held).sum()
    }

    #[test]
    fn projects_take_turns_classes_by_weight_and_queues_one_after_the_other() {
        use ExecutionClass::{Backfill, Continuous};
        let queues = [
            queue(1, "a", Continuous),
            queue(2, "a", Backfill),
            queue(3, "b", Continuous),
            queue(4, "b", Continuous),
        ];
        // Also if only one slot is free at a time.
        let turns = FairQueue::new(N_PLACES);
        let counts = one_by_one(&turns, &queues, 1_000);
        assert_eq!(counts, [(1, 400), (2, 100), (3, 250), (4, 250)].into());
    }

    #[test]
    fn one_class_of_one_project_holds_a_third_and_leaves_room_for_all_others() {
        let turns = FairQueue::new(N_PLACES);
        let hog = || vec![queue(1, "hog", ExecutionClass::Backfill)];
        let mut holding = Vec::new();
        for _ in 0..20 {
            holding.extend(turns.deal(hog(), 256));
        }
        assert_eq!(held(&turns), N_PLACES / 3);
        assert!(turns.take_shortage());
        // Requests of another class of the same project, and of another project, still get slots.
        let own = turns.take(&"hog".parse().unwrap(), kind(ExecutionClass::Continuous));
        let other = turns.take(&"other".parse().unwrap(), kind(ExecutionClass::Backfill));
        assert!(own.is_some() && other.is_some());
        drop((own, other));
        drop(holding);
        assert_eq!(held(&turns), 0);
    }

    #[test]
    fn a_lane_that_is_full_of_waiting_models_leaves_the_other_one_empty() {
        let turns = FairQueue::new(N_PLACES);
        let mut holding = Vec::new();
        for project in 0..1_000 {
            let project = format!("p{project}").parse().unwrap();
            let kind = QueueKind { lane: Lane::Model, class: ExecutionClass::Continuous };
            holding.extend(turns.take(&project, kind));
        }
        assert_eq!(holding.len(), N_PLACES);
        let code = turns.deal(vec![queue(1, "code", ExecutionClass::Continuous)], 50);
        assert_eq!(code[0].1.n(), 50);
    }

    proptest! {
        #[test]
        fn grants_never_exceed_the_places_and_all_are_returned(
            n_places in 0_usize..40,
            steps in proptest::collection::vec((0_u8..6, 0_usize..5, 0_usize..20, any::<bool>()), 1..60),
        ) {
            let turns = FairQueue::new(n_places);
            let mut holding: Vec<Seats> = Vec::new();
            for (project, class, n, is_dealt) in steps {
                let name = format!("p{project}");
                let class = ExecutionClass::ALL[class];
                if is_dealt {
                    let queues = (0..3).map(|at| queue(i64::from(project) * 3 + at, &name, class));
                    let dealt = turns.deal(queues.collect(), n);
                    let n_dealt: usize = dealt.iter().map(|(_, seats)| seats.n()).sum();
                    prop_assert!(n_dealt <= n);
                    holding.extend(dealt.into_iter().map(|(_, seats)| seats));
                } else if n % 2 == 0 {
                    holding.extend(turns.take(&name.parse().unwrap(), kind(class)));
                } else if !holding.is_empty() {
                    let mut seats = holding.swap_remove(n % holding.len());
                    let half = seats.split(seats.n() / 2);
                    seats.release_some(1);
                    holding.push(half);
                }
                let n_held: usize = holding.iter().map(Seats::n).sum();
                prop_assert_eq!(held(&turns), n_held);
                prop_assert!(n_held <= n_places);
            }
            drop(holding);
            prop_assert_eq!(held(&turns), 0);
        }
    }
}
