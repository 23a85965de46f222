//! Which items of two lists are the same, in order.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// A part of two lists, as positions in each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) is_equal: bool,
    pub(crate) a: Range<usize>,
    pub(crate) b: Range<usize>,
}

/// Both lists as parts that are equal and parts that are not, in turns. Swapped lists give swapped parts. The search of
/// `Algorithm::Myers` is bounded by the length of the lists, so those with little in common may get more changes than
/// they need.
pub(crate) fn ops<T: Ord + Hash>(a: &[T], b: &[T]) -> Vec<Op> {
    // The algorithm prefers one side, so it always sees the two lists in the same order.
    if b < a {
        let swapped = ops(b, a).into_iter();
        return swapped.map(|op| Op { a: op.b, b: op.a, ..op }).collect();
    }
    // Comparing numbers is cheaper than comparing lines, and the search compares often.
    let mut known = HashMap::new();
    let (first, second) = (numbered(a, &mut known), numbered(b, &mut known));
    let mut all: Vec<Op> = Vec::new();
    for found in capture_diff_slices(Algorithm::Myers, &first, &second) {
        let is_equal = matches!(found, DiffOp::Equal { .. });
        let (a, b) = (found.old_range(), found.new_range());
        match all.last_mut().filter(|last| last.is_equal == is_equal) {
            Some(last) => (last.a.end, last.b.end) = (a.end, b.end),
            None => all.push(Op { is_equal, a, b }),
        }
    }
    all
}

fn numbered<'t, T: Eq + Hash>(items: &'t [T], known: &mut HashMap<&'t T, u32>) -> Vec<u32> {
    let number = |item| {
        let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
        *known.entry(item).or_insert(next)
    };
    items.iter().map(number).collect()
}
