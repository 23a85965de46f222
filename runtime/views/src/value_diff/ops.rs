//! The longest common subsequence of two lists.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// Corresponding ranges of two lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) is_equal: bool,
    pub(crate) a: Range<usize>,
    pub(crate) b: Range<usize>,
}

/// Alternating equal and different ranges of two lists. Swapping the lists swaps the ranges. `Algorithm::Myers` limits its
/// search by the length of the lists, so the result for very different lists may not be minimal.
pub(crate) fn ops<T: Ord + Hash>(a: &[T], b: &[T]) -> Vec<Op> {
    // The algorithm is asymmetric, so the lists are always passed in the same order.
    if b < a {
        let swapped = ops(b, a).into_iter();
        return swapped.map(|op| Op { a: op.b, b: op.a, ..op }).collect();
    }
    // The search compares often, and comparing numbers is cheaper than comparing lines.
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
