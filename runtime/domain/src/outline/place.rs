//! The order and depth of observations.

use crate::outline::position;
use crate::telemetry::ObservationSummary;

/// The reason why an observation with a parent id is on the top level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentFault {
    /// Its parent was not received.
    Orphan,
    /// Its ancestors include itself.
    Cycle,
}

/// The position of an observation in the outline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlacedObservation {
    /// Index in the input.
    pub(super) index: usize,
    /// Position of its parent among the placed ones.
    pub(super) parent: Option<u32>,
    /// 0 on the top level.
    pub(super) depth: u32,
    /// Set only on the top level.
    pub(super) parent_fault: Option<ParentFault>,
}

/// Positions of observations, sorted by id. Each has the start of its id, so that most comparisons do not access the id
/// itself, which is elsewhere in memory.
pub(super) struct Ids(Vec<(u128, u32)>);

impl Ids {
    pub(super) fn of(observations: &[ObservationSummary]) -> Self {
        let numbered = observations.iter().zip(0..);
        let mut all: Vec<(u128, u32)> =
            numbered.map(|(observation, at)| (begins(&observation.id), at)).collect();
        let id = |at: u32| observations[at as usize].id.as_str();
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| id(a.1).cmp(id(b.1))));
        Self(all)
    }

    /// The positions, by id.
    pub(super) fn positions(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|(_, at)| *at as usize)
    }

    fn find(&self, observations: &[ObservationSummary], id: &str) -> Option<usize> {
        let begins = begins(id);
        let order = |own: &(u128, u32)| {
            let by_beginning = own.0.cmp(&begins);
            by_beginning.then_with(|| observations[own.1 as usize].id.as_str().cmp(id))
        };
        let found = self.0.binary_search_by(order).ok()?;
        Some(self.0[found].1 as usize)
    }
}

/// The first 16 bytes of an id, in the order of ids. Most ids are not longer.
fn begins(id: &str) -> u128 {
    let mut bytes = [0; 16];
    let n = id.len().min(16);
    bytes[..n].copy_from_slice(&id.as_bytes()[..n]);
    u128::from_be_bytes(bytes)
}

/// Parents before children, siblings by start, then id.
pub(super) fn place(observations: &[ObservationSummary], ids: &Ids) -> Vec<PlacedObservation> {
    let parents: Vec<Option<usize>> = observations
        .iter()
        .map(|observation| ids.find(observations, observation.parent_id.as_deref()?))
        .collect();
    let in_cycle = cycle_members(&parents);

    // In this order each list of children is sorted once it is filled.
    let mut ordered: Vec<usize> = (0..observations.len()).collect();
    ordered.sort_by_key(|at| (observations[*at].start, observations[*at].id.as_str()));
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); observations.len()];
    let mut top = Vec::new();
    for at in ordered {
        match parents[at] {
            Some(parent) if !in_cycle[at] => children[parent].push(at),
            _ => top.push(at),
        }
    }

    let mut placed = Vec::with_capacity(observations.len());
    let mut stack: Vec<(usize, Option<u32>, u32)> =
        top.into_iter().rev().map(|at| (at, None, 0)).collect();
    while let Some((index, parent, depth)) = stack.pop() {
        let parent_fault = match (&observations[index].parent_id, parents[index]) {
            (Some(_), None) => Some(ParentFault::Orphan),
            _ if in_cycle[index] => Some(ParentFault::Cycle),
            _ => None,
        };
        let own = Some(position(placed.len()));
        placed.push(PlacedObservation { index, parent, depth, parent_fault });
        let below = children[index].iter().rev();
        stack.extend(below.map(|child| (*child, own, depth + 1)));
    }
    placed
}

/// The nodes on a cycle of parent links. Each node is visited once.
fn cycle_members(parents: &[Option<usize>]) -> Vec<bool> {
    const UNSEEN: usize = usize::MAX;
    let mut walk_of = vec![UNSEEN; parents.len()];
    let mut in_cycle = vec![false; parents.len()];
    for start in 0..parents.len() {
        let mut at = start;
        while walk_of[at] == UNSEEN {
            walk_of[at] = start;
            match parents[at] {
                Some(parent) => at = parent,
                None => break,
            }
        }
        // The walk ended on a node of the same walk, where the cycle begins.
        let closes = walk_of[at] == start && parents[at].is_some() && !in_cycle[at];
        while closes && !in_cycle[at] {
            in_cycle[at] = true;
            at = parents[at].unwrap_or(at);
        }
    }
    in_cycle
}
