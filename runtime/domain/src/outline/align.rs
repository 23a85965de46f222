//! Aligns the rows of two outlines.

use std::collections::{HashMap, VecDeque};

use crate::outline::{Outline, OutlineNode};

/// A row of both outlines, or of one. Positions are those of [`Outline::rows`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPair {
    /// The row of the first outline.
    pub a: Option<u32>,
    /// The row of the second one.
    pub b: Option<u32>,
    /// 0 on the top level.
    pub depth: u32,
    /// The position of its parent pair.
    pub parent: Option<u32>,
    /// Number of descendants. They directly follow the pair.
    pub n_below: u32,
    /// Its siblings have another order in the second outline.
    pub is_moved: bool,
}

/// Pairs the rows of two outlines, parents before children: below paired rows the n-th child of a kind and name is paired
/// with the n-th such child of the other side. Swapped outlines give the same pairs, swapped. Linear time, no recursion.
#[must_use]
pub fn align(a: &Outline, b: &Outline) -> Vec<RowPair> {
    let sides = Sides { a, b };
    let mut pairs: Vec<RowPair> = Vec::with_capacity(a.rows().len().max(b.rows().len()));
    let mut stack: Vec<RowPair> = Vec::new();
    sides.push_below(&mut stack, (0..a.rows().len(), 0..b.rows().len()), None, 0);
    while let Some(pair) = stack.pop() {
        let own = Some(position(pairs.len()));
        let below = |outline: &Outline, row: Option<u32>| {
            row.map_or(0..0, |at| {
                let at = at as usize;
                at + 1..behind(outline, at)
            })
        };
        let rows = (below(a, pair.a), below(b, pair.b));
        sides.push_below(&mut stack, rows, own, pair.depth + 1);
        pairs.push(pair);
    }
    for at in (0..pairs.len()).rev() {
        if let Some(parent) = pairs[at].parent {
            pairs[parent as usize].n_below += pairs[at].n_below + 1;
        }
    }
    pairs
}

/// No trace has four billion observations: each takes more than a byte of memory.
fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The position behind the last row below a row.
fn behind(outline: &Outline, at: usize) -> usize {
    at + 1 + outline.rows()[at].n_below as usize
}

type Rows = std::ops::Range<usize>;

struct Sides<'o> {
    a: &'o Outline,
    b: &'o Outline,
}

/// Kind and name: the identity of a row for the alignment.
type Key<'o> = (&'static str, &'o str);

fn key<'o>(outline: &'o Outline, row: &OutlineNode) -> Key<'o> {
    (row.kind.as_str(), outline.name(row))
}

/// The rows of the uppermost level within these.
fn uppermost(outline: &Outline, rows: Rows) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = rows.start;
    while at < rows.end {
        found.push(at);
        at = behind(outline, at);
    }
    found
}

impl<'o> Sides<'o> {
    /// Puts the pairs of two ranges of siblings on the stack, the first one on top.
    fn push_below(
        &self,
        stack: &mut Vec<RowPair>,
        (a, b): (Rows, Rows),
        parent: Option<u32>,
        depth: u32,
    ) {
        let pair = |a: Option<usize>, b: Option<usize>, is_moved| RowPair {
            a: a.map(position),
            b: b.map(position),
            depth,
            parent,
            n_below: 0,
            is_moved,
        };
        let from = stack.len();
        let (a, b) = (uppermost(self.a, a), uppermost(self.b, b));
        let partners = self.partners(&a, &b);
        let stays = self.in_order(&a, &b, &partners);
        let mut taken = vec![false; b.len()];
        partners.iter().flatten().for_each(|at| taken[*at] = true);
        let mut next = 0;
        let mut push_new = |stack: &mut Vec<RowPair>, until: usize| {
            for at in next..until {
                if !taken[at] {
                    stack.push(pair(None, Some(b[at]), false));
                }
            }
            next = next.max(until);
        };
        for (nth, row) in a.iter().enumerate() {
            let partner = partners[nth];
            if let Some(at) = partner.filter(|_| stays[nth]) {
                push_new(stack, at);
            }
            let of_b = partner.map(|at| b[at]);
            stack.push(pair(Some(*row), of_b, of_b.is_some() && !stays[nth]));
        }
        push_new(stack, b.len());
        stack[from..].reverse();
    }

    /// For each row of `a` the place in `b` of the row that belongs to it.
    fn partners(&self, a: &[usize], b: &[usize]) -> Vec<Option<usize>> {
        let mut free: HashMap<Key<'_>, VecDeque<usize>> = HashMap::new();
        for (at, row) in b.iter().enumerate() {
            let key = key(self.b, &self.b.rows()[*row]);
            free.entry(key).or_default().push_back(at);
        }
        let partner = |row: &usize| {
            let key = key(self.a, &self.a.rows()[*row]);
            free.get_mut(&key).and_then(VecDeque::pop_front)
        };
        a.iter().map(partner).collect()
    }

    /// A largest set of rows of `a` that are in the same order as their partners.
    fn in_order(&self, a: &[usize], b: &[usize], partners: &[Option<usize>]) -> Vec<bool> {
        let pairs = partners.iter().enumerate();
        let mut pairs: Vec<(usize, usize)> = pairs.filter_map(|(a, b)| Some((a, (*b)?))).collect();
        let mut stays = vec![false; a.len()];
        if pairs.is_sorted_by_key(|(_, b)| *b) {
            pairs.iter().for_each(|(a, _)| stays[*a] = true);
            return stays;
        }
        // There may be several choices of as many rows. Which one is made must not depend on the side.
        let keys_a = a.iter().map(|row| key(self.a, &self.a.rows()[*row]));
        let keys_b = b.iter().map(|row| key(self.b, &self.b.rows()[*row]));
        let is_swapped = keys_b.lt(keys_a);
        if is_swapped {
            pairs.sort_by_key(|(_, b)| *b);
        }
        let ranks: Vec<usize> =
            pairs.iter().map(|(a, b)| if is_swapped { *a } else { *b }).collect();
        for at in longest_rise(&ranks) {
            stays[pairs[at].0] = true;
        }
        stays
    }
}

/// The places of a longest rising sequence.
fn longest_rise(ranks: &[usize]) -> Vec<usize> {
    // By length less one, where the sequence that ends lowest ends.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(ranks.len());
    for (at, rank) in ranks.iter().enumerate() {
        let length = ends.partition_point(|end| ranks[*end] < *rank);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut found = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(at) = next {
        found.push(at);
        next = before[at];
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::observation::{Level, ObservationKind};
    use crate::telemetry::ObservationSummary;
    use crate::time::Timestamp;

    fn outline(steps: &[(&str, Option<usize>)]) -> Outline {
        let observation =
            |(at, (name, parent)): (usize, &(&str, Option<usize>))| ObservationSummary {
                id: format!("{at:05}"),
                parent_id: parent.map(|parent| format!("{parent:05}")),
                kind: ObservationKind::Span,
                name: (*name).to_owned(),
                level: Level::Default,
                start: Timestamp::from_millis(i64::try_from(at).unwrap()),
                end: None,
                first_token: None,
                model: None,
                tokens: None,
                cost: None,
            };
        Outline::new(steps.iter().enumerate().map(observation).collect())
    }

    /// Each pair as its name, indented, with the side that has it, and a star where the order is another one.
    fn aligned(a: &Outline, b: &Outline) -> Vec<String> {
        let name =
            |outline: &Outline, row: u32| outline.name(&outline.rows()[row as usize]).to_owned();
        let pairs = align(a, b).into_iter();
        pairs
            .map(|pair| {
                let (name, side) = match (pair.a, pair.b) {
                    (Some(row), Some(_)) => (name(a, row), "="),
                    (Some(row), None) => (name(a, row), "-"),
                    (None, Some(row)) => (name(b, row), "+"),
                    (None, None) => unreachable!("a pair of nothing"),
                };
                let moved = if pair.is_moved { "*" } else { "" };
                format!("{}{side}{name}{moved}", "  ".repeat(pair.depth as usize))
            })
            .collect()
    }

    #[test]
    fn rows_of_one_kind_and_name_belong_together_in_their_order() {
        let a = outline(&[
            ("run", None),
            ("plan", Some(0)),
            ("ask", Some(0)),
            ("ask", Some(0)),
            ("tool", Some(3)),
        ]);
        let b = outline(&[
            ("run", None),
            ("ask", Some(0)),
            ("look", Some(0)),
            ("ask", Some(0)),
            ("ask", Some(0)),
        ]);
        let wanted = ["=run", "  -plan", "  =ask", "  +look", "  =ask", "    -tool", "  +ask"];
        assert_eq!(aligned(&a, &b), wanted);
        assert_eq!(align(&a, &b)[0].n_below, 6);
        assert_eq!(align(&a, &Outline::default()).len(), 5);
    }

    #[test]
    fn rows_in_another_order_are_marked_as_few_as_possible() {
        let a = outline(&[("x", None), ("y", None), ("z", None)]);
        let b = outline(&[("z", None), ("x", None), ("y", None)]);
        assert_eq!(aligned(&a, &b), ["=x", "=y", "=z*"]);
    }

    #[test]
    fn ten_thousand_rows_in_reverse_order_take_no_time() {
        let names: Vec<String> = (0..10_000).map(|n| format!("step {n}")).collect();
        let forth: Vec<_> = names.iter().map(|name| (name.as_str(), None)).collect();
        let back: Vec<_> = names.iter().rev().map(|name| (name.as_str(), None)).collect();
        let pairs = align(&outline(&forth), &outline(&back));
        assert_eq!(pairs.iter().filter(|pair| pair.is_moved).count(), 9_999);
        // Each below the one before.
        let at = |at: usize| at.checked_sub(1);
        let deep: Vec<_> =
            names.iter().enumerate().map(|(n, name)| (name.as_str(), at(n))).collect();
        assert_eq!(align(&outline(&deep), &outline(&deep))[0].n_below, 9_999);
    }

    proptest! {
        #[test]
        fn swapped_outlines_give_the_same_pairs_swapped(
            a in prop::collection::vec(("[a-c]", 0..4_usize), 0..12),
            b in prop::collection::vec(("[a-c]", 0..4_usize), 0..12),
        ) {
            let made = |steps: &[(String, usize)]| {
                let steps = steps.iter().enumerate();
                let steps: Vec<_> = steps
                    .map(|(at, (name, up))| (name.as_str(), at.checked_sub(*up + 1)))
                    .collect();
                outline(&steps)
            };
            let (a, b) = (made(&a), made(&b));
            let there = align(&a, &b);
            let back = align(&b, &a);
            let mut pairs: Vec<_> = there.iter().map(|pair| (pair.a, pair.b, pair.depth, pair.is_moved)).collect();
            let mut mirrored: Vec<_> = back.iter().map(|pair| (pair.b, pair.a, pair.depth, pair.is_moved)).collect();
            pairs.sort_unstable();
            mirrored.sort_unstable();
            prop_assert_eq!(&pairs, &mirrored);
            // Each row is in one pair.
            prop_assert_eq!(there.iter().filter(|pair| pair.a.is_some()).count(), a.rows().len());
            prop_assert_eq!(there.iter().filter(|pair| pair.b.is_some()).count(), b.rows().len());
        }
    }
}
