//! The runs of a comparison with what applies to all metrics.

use std::collections::BTreeMap;

use perpend_stats::Clusters;

use crate::grid::{Grid, GridRun};
use crate::matching::Matching;
use crate::options::CompareOptions;

/// The largest number of segments; the smallest ones are left out.
pub(crate) const MAX_SEGMENTS: usize = 50;

/// The runs of a comparison with what applies to all metrics.
pub(crate) struct Context<'a> {
    pub(crate) grid: &'a Grid<'a>,
    /// The number of the baseline.
    pub(crate) base: usize,
    /// By compared run; the baseline matches itself.
    pub(crate) matchings: &'a [Matching],
    pub(crate) options: &'a CompareOptions,
}

impl Context<'_> {
    pub(crate) fn runs(&self) -> &[GridRun<'_>] {
        self.grid.compared()
    }

    /// The clusters of these items; items without a key are clusters of their own.
    pub(crate) fn clusters(&self, items: &[usize]) -> Option<Clusters> {
        let groups = self.options.clusters.as_ref()?;
        let key = |item: &usize| {
            let id = self.grid.items[*item];
            groups.values.get(id).map_or((false, id), |value| (true, value.as_str()))
        };
        Some(Clusters::by_key(items.iter().map(key)))
    }

    /// Numbers of items by segment, largest first.
    pub(crate) fn groups(&self) -> Vec<(Option<String>, Vec<usize>)> {
        let Some(segments) = &self.options.segments else { return Vec::new() };
        let mut groups: BTreeMap<Option<&String>, Vec<usize>> = BTreeMap::new();
        for (number, id) in self.grid.items.iter().enumerate() {
            groups.entry(segments.values.get(*id)).or_default().push(number);
        }
        let groups = groups.into_iter().map(|(value, items)| (value.cloned(), items));
        let mut groups: Vec<(Option<String>, Vec<usize>)> = groups.collect();
        groups.sort_by_key(|(_, items)| std::cmp::Reverse(items.len()));
        groups
    }
}

/// The reason why a score without a direction has no verdict.
pub(crate) fn unknown_direction(name: &str) -> String {
    format!("the direction of score `{name}` is unknown: set it in the score config of `{name}`")
}
