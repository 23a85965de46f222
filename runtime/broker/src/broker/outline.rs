//! The observation tree of a trace, depth first.

use std::collections::HashMap;

use perpend_domain::telemetry::ObservationSummary;

/// One observation of an outline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutlineNode {
    /// Index among the observations.
    pub(super) index: usize,
    pub(super) depth: u32,
    pub(super) n_children: u32,
}

/// The observations depth first, of the whole trace or below one observation; children of one parent in order of start, as in
/// `observations`. `None` when `below` does not exist.
///
/// An observation whose parent is not in the trace is a root. A cycle of parents is broken at its earliest observation, which
/// becomes a root, so that each observation occurs once.
pub(super) fn depth_first(
    observations: &[ObservationSummary],
    below: Option<&str>,
) -> Option<Vec<OutlineNode>> {
    let places: HashMap<&str, usize> = observations
        .iter()
        .enumerate()
        .map(|(at, observation)| (observation.id.as_str(), at))
        .collect();
    let parent =
        |observation: &ObservationSummary| places.get(observation.parent_id.as_deref()?).copied();
    let mut parents: Vec<Option<usize>> = observations.iter().map(parent).collect();
    break_cycles(&mut parents);
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); observations.len()];
    let mut top = Vec::new();
    for (at, parent) in parents.iter().enumerate() {
        match parent {
            Some(parent) => children[*parent].push(at),
            None => top.push(at),
        }
    }
    let top = match below {
        Some(id) => &children[*places.get(id)?],
        None => &top,
    };
    let mut open: Vec<(usize, u32)> = top.iter().rev().map(|at| (*at, 0)).collect();
    let mut nodes = Vec::new();
    while let Some((index, depth)) = open.pop() {
        nodes.push(OutlineNode {
            index,
            depth,
            n_children: u32::try_from(children[index].len()).unwrap_or(u32::MAX),
        });
        open.extend(children[index].iter().rev().map(|at| (*at, depth + 1)));
    }
    Some(nodes)
}

/// Removes the parent of the earliest observation of each cycle.
fn break_cycles(parents: &mut [Option<usize>]) {
    /// Whether an observation was visited, and in which walk.
    #[derive(Clone, Copy, PartialEq)]
    enum Visit {
        Never,
        InWalk(usize),
    }
    let mut visits = vec![Visit::Never; parents.len()];
    for walk in 0..parents.len() {
        let mut at = walk;
        while visits[at] == Visit::Never {
            visits[at] = Visit::InWalk(walk);
            let Some(parent) = parents[at] else {
                break;
            };
            at = parent;
            if visits[at] == Visit::InWalk(walk) {
                // Visited earlier in this walk: `at` is in a cycle.
                let (mut earliest, mut member) = (at, at);
                while let Some(next) = parents[member].filter(|next| *next != at) {
                    member = next;
                    earliest = earliest.min(member);
                }
                parents[earliest] = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use perpend_domain::observation::{Level, ObservationKind};
    use perpend_domain::time::Timestamp;

    use super::*;

    /// Observations in order of start, each with its parent.
    fn summaries(all: &[(&str, Option<&str>)]) -> Vec<ObservationSummary> {
        let observation = |(at, (id, parent)): (usize, &(&str, Option<&str>))| ObservationSummary {
            id: (*id).to_owned(),
            parent_id: parent.map(str::to_owned),
            kind: ObservationKind::Span,
            name: String::new(),
            level: Level::Default,
            start: Timestamp::from_micros(i64::try_from(at).unwrap()),
            end: None,
            first_token: None,
            model: None,
            tokens: None,
            cost: None,
        };
        all.iter().enumerate().map(observation).collect()
    }

    fn rendered(all: &[(&str, Option<&str>)], below: Option<&str>) -> Option<String> {
        let observations = summaries(all);
        let nodes = depth_first(&observations, below)?;
        let node = |node: &OutlineNode| {
            format!("{}{}/{}", observations[node.index].id, node.depth, node.n_children)
        };
        Some(nodes.iter().map(node).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn children_follow_their_parent_in_order_of_start() {
        let all = [
            ("a", None),
            ("b", Some("c")),
            ("c", Some("a")),
            ("d", Some("a")),
            ("e", Some("gone")),
        ];
        assert_eq!(rendered(&all, None).unwrap(), "a0/2 c1/1 b2/0 d1/0 e0/0");
        assert_eq!(rendered(&all, Some("a")).unwrap(), "c0/1 b1/0 d0/0");
        assert_eq!(rendered(&all, Some("e")).unwrap(), "");
        assert_eq!(rendered(&all, Some("missing")), None);
    }

    #[test]
    fn a_cycle_is_broken_at_its_earliest_observation_and_each_observation_occurs_once() {
        let all = [
            ("hanging", Some("x")),
            ("x", Some("z")),
            ("y", Some("x")),
            ("z", Some("y")),
            ("own", Some("own")),
        ];
        let found = rendered(&all, None).unwrap();
        assert_eq!(found, "x0/2 hanging1/0 y1/1 z2/0 own0/0");
    }

    #[test]
    fn a_chain_of_50_000_observations_does_not_overflow_the_stack() {
        let ids: Vec<String> = (0..50_000).map(|n| n.to_string()).collect();
        let all: Vec<(&str, Option<&str>)> = ids
            .iter()
            .enumerate()
            .map(|(at, id)| (id.as_str(), at.checked_sub(1).map(|at| ids[at].as_str())))
            .collect();
        let observations = summaries(&all);
        let nodes = depth_first(&observations, None).unwrap();
        assert_eq!(nodes.last().unwrap().depth, 49_999);
    }
}
