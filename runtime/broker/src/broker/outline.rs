//! The tree of a trace, line by line.

use std::collections::HashMap;

use perpend_domain::telemetry::ObservationSummary;

/// One observation of an outline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Its place among the bones.
    pub(super) bone: usize,
    pub(super) depth: u32,
    pub(super) n_children: u32,
}

/// The observations depth first, of the whole trace or below one of them; the bones, and so the children of one parent,
/// are in order of start. Nothing when there is no such parent.
///
/// An observation whose parent is not in the trace stands at the top. Parents that form a circle are broken at its earliest
/// member, which stands at the top too, so that each observation is there once.
pub(super) fn in_tree_order(
    bones: &[ObservationSummary],
    below: Option<&str>,
) -> Option<Vec<Line>> {
    let places: HashMap<&str, usize> =
        bones.iter().enumerate().map(|(at, bone)| (bone.id.as_str(), at)).collect();
    let parent = |bone: &ObservationSummary| places.get(bone.parent_id.as_deref()?).copied();
    let mut parents: Vec<Option<usize>> = bones.iter().map(parent).collect();
    break_circles(&mut parents);
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); bones.len()];
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
    let mut lines = Vec::new();
    while let Some((bone, depth)) = open.pop() {
        lines.push(Line {
            bone,
            depth,
            n_children: u32::try_from(children[bone].len()).unwrap_or(u32::MAX),
        });
        open.extend(children[bone].iter().rev().map(|at| (*at, depth + 1)));
    }
    Some(lines)
}

/// Takes the parent of the earliest member of each circle away.
fn break_circles(parents: &mut [Option<usize>]) {
    /// When a place was come by: never, on this walk, or on an earlier one.
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        Never,
        On(usize),
    }
    let mut seen = vec![Seen::Never; parents.len()];
    for walk in 0..parents.len() {
        let mut at = walk;
        while seen[at] == Seen::Never {
            seen[at] = Seen::On(walk);
            let Some(parent) = parents[at] else {
                break;
            };
            at = parent;
            if seen[at] == Seen::On(walk) {
                // This walk came around: `at` is in a circle.
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
    fn bones(all: &[(&str, Option<&str>)]) -> Vec<ObservationSummary> {
        let bone = |(at, (id, parent)): (usize, &(&str, Option<&str>))| ObservationSummary {
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
        all.iter().enumerate().map(bone).collect()
    }

    fn shown(all: &[(&str, Option<&str>)], below: Option<&str>) -> Option<String> {
        let bones = bones(all);
        let lines = in_tree_order(&bones, below)?;
        let line =
            |line: &Line| format!("{}{}/{}", bones[line.bone].id, line.depth, line.n_children);
        Some(lines.iter().map(line).collect::<Vec<_>>().join(" "))
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
        assert_eq!(shown(&all, None).unwrap(), "a0/2 c1/1 b2/0 d1/0 e0/0");
        assert_eq!(shown(&all, Some("a")).unwrap(), "c0/1 b1/0 d0/0");
        assert_eq!(shown(&all, Some("e")).unwrap(), "");
        assert_eq!(shown(&all, Some("nobody")), None);
    }

    #[test]
    fn a_circle_is_broken_at_its_earliest_member_and_each_observation_is_there_once() {
        let all = [
            ("hanging", Some("x")),
            ("x", Some("z")),
            ("y", Some("x")),
            ("z", Some("y")),
            ("own", Some("own")),
        ];
        let found = shown(&all, None).unwrap();
        assert_eq!(found, "x0/2 hanging1/0 y1/1 z2/0 own0/0");
    }

    #[test]
    fn a_chain_as_long_as_a_trace_can_be_is_no_matter_of_depth() {
        let ids: Vec<String> = (0..50_000).map(|n| n.to_string()).collect();
        let all: Vec<(&str, Option<&str>)> = ids
            .iter()
            .enumerate()
            .map(|(at, id)| (id.as_str(), at.checked_sub(1).map(|at| ids[at].as_str())))
            .collect();
        let bones = bones(&all);
        let lines = in_tree_order(&bones, None).unwrap();
        assert_eq!(lines.last().unwrap().depth, 49_999);
    }
}
