//! The order and depth in which observations are shown.
//!
//! Parents may be missing and may form cycles (anyone can send anything): an observation without a
//! known parent and every member of a cycle stands on the top level, so that none is ever hidden.

use std::collections::HashMap;

use perpend_domain::ids::ObservationId;
use perpend_domain::observation::Observation;

/// Why an observation that names a parent stands on the top level all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Oddity {
    /// Its parent was not received.
    Orphan,
    /// Its parents lead back to itself.
    Cycle,
}

/// One row of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Position in the slice given.
    pub(crate) index: usize,
    /// 0 on the top level.
    pub(crate) depth: usize,
    /// Something hangs below it.
    pub(crate) has_children: bool,
    /// Set only on the top level.
    pub(crate) oddity: Option<Oddity>,
}

/// Rows in reading order: parents before children, siblings by start, then id.
pub(crate) fn place(observations: &[Observation]) -> Vec<Placed> {
    let by_id: HashMap<&ObservationId, usize> = observations
        .iter()
        .enumerate()
        .map(|(i, o)| (&o.id, i))
        .collect();
    let parents: Vec<Option<usize>> = observations
        .iter()
        .map(|o| o.parent_id.as_ref().and_then(|id| by_id.get(id).copied()))
        .collect();
    let in_cycle = cycle_members(&parents);

    let mut children: Vec<Vec<usize>> = vec![Vec::new(); observations.len()];
    let mut top = Vec::new();
    for (i, parent) in parents.iter().enumerate() {
        match parent {
            Some(parent) if !in_cycle[i] => children[*parent].push(i),
            _ => top.push(i),
        }
    }
    let key = |i: &usize| (observations[*i].start, observations[*i].id.clone());
    top.sort_by_cached_key(key);
    children
        .iter_mut()
        .for_each(|list| list.sort_by_cached_key(key));

    let mut rows = Vec::with_capacity(observations.len());
    let mut stack: Vec<(usize, usize)> = top.into_iter().rev().map(|i| (i, 0)).collect();
    while let Some((index, depth)) = stack.pop() {
        let oddity = match (&observations[index].parent_id, parents[index]) {
            (Some(_), None) => Some(Oddity::Orphan),
            _ if in_cycle[index] => Some(Oddity::Cycle),
            _ => None,
        };
        rows.push(Placed {
            index,
            depth,
            has_children: !children[index].is_empty(),
            oddity,
        });
        stack.extend(
            children[index]
                .iter()
                .rev()
                .map(|child| (*child, depth + 1)),
        );
    }
    rows
}

/// Which nodes lie on a cycle of the parent links. Each node is walked over once.
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
        // The walk ended on a node of its own: from there on it goes round.
        let closes = walk_of[at] == start && parents[at].is_some() && !in_cycle[at];
        while closes && !in_cycle[at] {
            in_cycle[at] = true;
            at = parents[at].unwrap_or(at);
        }
    }
    in_cycle
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::tests::observation;

    fn shown(edges: &[(&str, Option<&str>)]) -> Vec<(String, usize, Option<Oddity>)> {
        let observations: Vec<_> = edges
            .iter()
            .enumerate()
            .map(|(i, (id, p))| observation(id, *p, i as i64, 10))
            .collect();
        let rows = place(&observations);
        rows.iter()
            .map(|r| (observations[r.index].id.to_string(), r.depth, r.oddity))
            .collect()
    }

    #[test]
    fn children_follow_their_parent_by_start() {
        let rows = shown(&[
            ("b", Some("a")),
            ("a", None),
            ("c", Some("b")),
            ("d", Some("a")),
        ]);
        let expected = [("a", 0), ("b", 1), ("c", 2), ("d", 1)];
        assert_eq!(
            rows,
            expected.map(|(id, depth)| (id.to_owned(), depth, None))
        );
    }

    #[test]
    fn orphans_and_cycles_stand_on_the_top_level() {
        let rows = shown(&[
            ("root", None),
            ("orphan", Some("gone")),
            ("x", Some("z")),
            ("y", Some("x")),
            ("z", Some("y")),
            ("below", Some("y")),
        ]);
        let expected = [
            ("root", 0, None),
            ("orphan", 0, Some(Oddity::Orphan)),
            ("x", 0, Some(Oddity::Cycle)),
            ("y", 0, Some(Oddity::Cycle)),
            ("below", 1, None),
            ("z", 0, Some(Oddity::Cycle)),
        ];
        assert_eq!(
            rows,
            expected.map(|(id, depth, odd)| (id.to_owned(), depth, odd))
        );
    }

    #[test]
    fn a_chain_of_any_length_is_walked() {
        let n = 20_000;
        let chain: Vec<_> = (0..n)
            .map(|i| {
                observation(
                    &format!("o{i}"),
                    (i > 0).then(|| format!("o{}", i - 1)).as_deref(),
                    0,
                    1,
                )
            })
            .collect();
        let rows = place(&chain);
        assert_eq!(rows.len(), n);
        assert_eq!(rows[n - 1].depth, n - 1);
    }

    proptest::proptest! {
        #[test]
        fn each_observation_is_shown_once(parents in proptest::collection::vec(0_usize..40, 0..30)) {
            let all: Vec<_> = parents.iter().enumerate()
                .map(|(i, p)| observation(&format!("o{i}"), Some(&format!("o{p}")), i as i64, 1))
                .collect();
            let mut seen: Vec<_> = place(&all).iter().map(|row| row.index).collect();
            seen.sort_unstable();
            proptest::prop_assert_eq!(seen, (0..all.len()).collect::<Vec<_>>());
        }
    }
}
