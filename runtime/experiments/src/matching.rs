//! Items of a run next to those of the baseline.

use perpend_domain::experiment::ItemResult;

use crate::grid::{Grid, GridRun};

/// An item in the baseline and in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemMatch {
    /// In both, with the same expected output.
    Matched,
    /// In both, with another expected output.
    Changed,
    /// In the baseline only.
    BaseOnly,
    /// In the run only.
    RunOnly,
    /// In neither.
    Absent,
}

/// The items of a run next to those of the baseline.
pub(crate) struct Matching {
    /// By number of the item.
    pub(crate) items: Vec<ItemMatch>,
    /// Number of matched items with another version.
    pub(crate) n_other_version: u64,
}

impl Matching {
    pub(crate) fn new(grid: &Grid<'_>, base: &GridRun<'_>, run: &GridRun<'_>) -> Self {
        let mut n_other_version = 0;
        let numbers = 0..grid.items.len();
        let items = numbers.map(|number| {
            match (base.by_item[number].first(), run.by_item[number].first()) {
                (None, None) => ItemMatch::Absent,
                (Some(_), None) => ItemMatch::BaseOnly,
                (None, Some(_)) => ItemMatch::RunOnly,
                (Some(before), Some(after)) if is_changed(before, after) => ItemMatch::Changed,
                (Some(before), Some(after)) => {
                    n_other_version += u64::from(has_other_version(before, after));
                    ItemMatch::Matched
                }
            }
        });
        let items = items.collect();
        Self { items, n_other_version }
    }

    pub(crate) fn count(&self, state: ItemMatch) -> u64 {
        self.items.iter().filter(|item| **item == state).count() as u64
    }

    /// Whether no item is in both runs.
    pub(crate) fn is_disjoint(&self) -> bool {
        !self.items.iter().any(|item| matches!(item, ItemMatch::Matched | ItemMatch::Changed))
    }
}

/// An expected output that only one of them has is a change if their versions differ; otherwise it is unknown.
fn is_changed(before: &ItemResult, after: &ItemResult) -> bool {
    match (&before.expected_output, &after.expected_output) {
        (Some(before), Some(after)) => before != after,
        (None, None) => false,
        _ => has_other_version(before, after),
    }
}

fn has_other_version(before: &ItemResult, after: &ItemResult) -> bool {
    let versions = before.item_version.zip(after.item_version);
    versions.is_some_and(|(before, after)| before != after)
}
