//! The rows of a trace that stand out.

use std::cmp::Ordering;

use crate::outline::{Outline, OutlineNode};

/// The first `n` of them, the highest first and equal ones in their order, without sorting them all.
pub fn highest<'e, V: Copy>(
    n: usize,
    all: impl Iterator<Item = (&'e OutlineNode, V)>,
    order: impl Fn(&V, &V) -> Ordering,
) -> Vec<(&'e OutlineNode, V)> {
    let mut found: Vec<(&OutlineNode, V)> = Vec::with_capacity(n + 1);
    for (entry, value) in all {
        let at = found.partition_point(|(_, own)| order(own, &value).is_ge());
        if at < n {
            found.insert(at, (entry, value));
            found.truncate(n);
        }
    }
    found
}

impl Outline {
    /// The position of an entry among the rows of its name, from 1, and their number; `None` if the name is unique.
    #[must_use]
    pub fn place_among_alike(&self, entry: &OutlineNode) -> Option<(usize, usize)> {
        let alike = self.rows.iter().filter(|own| own.is_named_as(entry));
        let before = alike.clone().take_while(|own| own.id != entry.id);
        let (at, n) = (before.count() + 1, alike.count());
        (1 < n).then_some((at, n))
    }
}
