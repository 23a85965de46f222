//! Groups long runs of similar neighbours.

use crate::cost::CostSum;
use crate::observation::Level;
use crate::outline::{OutlineNode, position};
use crate::time::Timestamp;

/// The shortest run that becomes a group.
pub(super) const SHORTEST: usize = 20;

/// Neighbours with the same parent, kind and name.
#[derive(Clone, Debug, PartialEq)]
pub struct RowGroup {
    /// The position of its first member.
    pub first: u32,
    /// The position after the last descendant of its last member.
    pub behind: u32,
    /// Number of members, without their descendants.
    pub n: u32,
    /// The last end of a member; an open member counts with its start.
    pub last_end: Timestamp,
    /// Members with the level `ERROR`.
    pub n_errors: u32,
    /// Members that have not ended.
    pub n_open: u32,
    /// Median duration of the ended members, in microseconds.
    pub median_us: Option<i64>,
    /// 95th percentile of the durations, in microseconds.
    pub p95_us: Option<i64>,
    /// Tokens of all members; `None` if none has any.
    pub tokens: Option<u64>,
    /// Cost of all members, without their descendants.
    pub cost: CostSum,
}

/// All runs by their first row. One may lie below a member of another.
pub(super) fn find(rows: &[OutlineNode]) -> Vec<RowGroup> {
    let mut is_taken = vec![false; rows.len()];
    let mut runs = Vec::new();
    for first in 0..rows.len() {
        if is_taken[first] {
            continue;
        }
        let mut members = vec![first];
        let mut next = rows[first].behind(first);
        while next < rows.len() && are_alike(&rows[first], &rows[next]) {
            members.push(next);
            next = rows[next].behind(next);
        }
        // Also of a run that is too short, no later member begins a longer one.
        for member in &members {
            is_taken[*member] = true;
        }
        if members.len() >= SHORTEST {
            runs.push(run(rows, &members, next));
        }
    }
    runs
}

fn are_alike(a: &OutlineNode, b: &OutlineNode) -> bool {
    a.parent == b.parent && a.kind == b.kind && a.name == b.name && a.parent_fault == b.parent_fault
}

fn run(rows: &[OutlineNode], members: &[usize], behind: usize) -> RowGroup {
    let all = || members.iter().map(|at| &rows[*at]);
    let took = |row: &OutlineNode| Some(row.end?.micros_since(row.start).max(0));
    let mut durations: Vec<i64> = all().filter_map(took).collect();
    durations.sort_unstable();
    // The nearest rank: a value that was measured.
    let share = |percent: usize| {
        let rank = (durations.len() * percent).div_ceil(100);
        durations.get(rank.checked_sub(1)?).copied()
    };
    let n_errors = all().filter(|row| row.level == Level::Error).count();
    RowGroup {
        first: position(members[0]),
        behind: position(behind),
        n: position(members.len()),
        last_end: all()
            .map(|row| row.end.unwrap_or(row.start))
            .fold(rows[members[0]].start, Timestamp::max),
        n_errors: position(n_errors),
        n_open: position(members.len() - durations.len()),
        median_us: share(50),
        p95_us: share(95),
        tokens: all().filter_map(|row| row.tokens).reduce(u64::saturating_add),
        cost: all().map(OutlineNode::own_cost).sum(),
    }
}
