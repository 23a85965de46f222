//! Levenshtein distance, 64 rows of the table in one machine word.
//!
//! After Myers (1999) in Hyyrö's formulation: two bit vectors mark the rows where the column grows and where it
//! shrinks. Texts of 100 KB fit into the time limit of a call, unlike with the plain table.

use crate::Profile;
use std::collections::BTreeMap;

/// The edit distance of two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distance {
    /// The number of insertions, deletions and replacements.
    pub edits: usize,
    /// The length of the longer text, in the profile's unit.
    pub longest: usize,
}

impl Distance {
    /// 1 − edits / longest, and 1 for two empty texts.
    #[must_use]
    pub fn similarity(self) -> f64 {
        if self.longest == 0 {
            return 1.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^53")]
        let share = self.edits as f64 / self.longest as f64;
        1.0 - share
    }
}

/// The distance of two texts, in the unit of the profile.
#[must_use]
pub fn levenshtein(a: &str, b: &str, profile: Profile) -> Distance {
    let (a, b) = (units(a, profile), units(b, profile));
    Distance { edits: edits(&a, &b), longest: a.len().max(b.len()) }
}

fn units(text: &str, profile: Profile) -> Vec<u32> {
    match profile {
        Profile::Py => text.chars().map(u32::from).collect(),
        Profile::Js => text.encode_utf16().map(u32::from).collect(),
    }
}

fn edits(a: &[u32], b: &[u32]) -> usize {
    let (a, b) = without_common_ends(a, b);
    let (rows, columns) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if rows.is_empty() {
        return columns.len();
    }
    bit_parallel(rows, columns)
}

fn without_common_ends<'a>(a: &'a [u32], b: &'a [u32]) -> (&'a [u32], &'a [u32]) {
    let start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[start..], &b[start..]);
    let end = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    (&a[..a.len() - end], &b[..b.len() - end])
}

/// 64 rows of one column, as differences to the row above.
#[derive(Clone, Copy)]
struct Word {
    grows: u64,
    shrinks: u64,
}

/// The change from one column to the next at the border between two words: +1, −1 or neither.
#[derive(Clone, Copy)]
struct Carry {
    up: u64,
    down: u64,
}

impl Word {
    /// Moves to the next column. Returns the horizontal changes of all rows and the carry to the next word.
    fn step(&mut self, equal: u64, above: Carry) -> (u64, u64, Carry) {
        let vertical = equal | self.shrinks;
        let equal = equal | above.down;
        let diagonal = ((equal & self.grows).wrapping_add(self.grows) ^ self.grows) | equal;
        let up = self.shrinks | !(diagonal | self.grows);
        let down = self.grows & diagonal;
        let (up_in, down_in) = (up << 1 | above.up, down << 1 | above.down);
        self.grows = down_in | !(vertical | up_in);
        self.shrinks = up_in & vertical;
        (up, down, Carry { up: up >> 63, down: down >> 63 })
    }
}

fn bit_parallel(rows: &[u32], columns: &[u32]) -> usize {
    let n_words = rows.len().div_ceil(64);
    let last_row = (rows.len() - 1) % 64;

    // For each unit in `rows`: the bits of the rows with this unit.
    let mut places: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for (row, unit) in rows.iter().enumerate() {
        places.entry(*unit).or_insert_with(|| vec![0; n_words])[row / 64] |= 1 << (row % 64);
    }
    let nowhere = vec![0; n_words];

    let mut words = vec![Word { grows: !0, shrinks: 0 }; n_words];
    let mut edits = rows.len();
    for unit in columns {
        let equal = places.get(unit).unwrap_or(&nowhere);
        // The row above the first one grows by 1 in each column.
        let mut carry = Carry { up: 1, down: 0 };
        for (index, word) in words.iter_mut().enumerate() {
            let (up, down, below) = word.step(equal[index], carry);
            carry = below;
            if index + 1 == n_words {
                edits += usize::from(up >> last_row & 1 == 1);
                edits -= usize::from(down >> last_row & 1 == 1);
            }
        }
    }
    edits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The textbook algorithm with a full table.
    fn plain(a: &[u32], b: &[u32]) -> usize {
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, x) in a.iter().enumerate() {
            let mut diagonal = i;
            row[0] = i + 1;
            for (j, y) in b.iter().enumerate() {
                let replaced = diagonal + usize::from(x != y);
                diagonal = row[j + 1];
                row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
            }
        }
        row[b.len()]
    }

    proptest! {
        #[test]
        fn equals_the_plain_table(a in "[ab😀]{0,200}", b in "[abc😀]{0,200}") {
            for profile in [Profile::Py, Profile::Js] {
                let (x, y) = (units(&a, profile), units(&b, profile));
                prop_assert_eq!(levenshtein(&a, &b, profile).edits, plain(&x, &y));
            }
        }

        #[test]
        fn is_symmetric_and_bounded(a in ".{0,80}", b in ".{0,80}") {
            let there = levenshtein(&a, &b, Profile::Py);
            prop_assert_eq!(there, levenshtein(&b, &a, Profile::Py));
            prop_assert!(there.edits <= there.longest);
        }
    }
}
