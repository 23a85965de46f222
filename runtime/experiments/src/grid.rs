//! Runs with their results by item.

use std::collections::{BTreeMap, HashMap, HashSet};

use perpend_domain::experiment::{ItemResult, RunResults};

/// The items of all compared runs, numbered in the order of their ids, and the results of each run.
pub(crate) struct Grid<'a> {
    /// Item ids by number.
    pub(crate) items: Vec<&'a str>,
    /// The compared runs, then further runs of the baseline.
    pub(crate) runs: Vec<GridRun<'a>>,
    /// Number of compared runs.
    pub(crate) n_compared: usize,
}

/// The results of a run by the number of their item.
pub(crate) struct GridRun<'a> {
    pub(crate) results: &'a RunResults,
    /// The results of each item in the order of the run, each result once.
    pub(crate) by_item: Vec<Vec<&'a ItemResult>>,
    /// The number of results that most items have.
    pub(crate) n_repetitions: usize,
    /// Number of items with more results than most items, or with the same result twice.
    pub(crate) n_duplicates: u64,
}

impl<'a> Grid<'a> {
    /// Further runs are read for items of the compared runs only.
    pub(crate) fn new(compared: &'a [RunResults], further: &'a [RunResults]) -> Self {
        let results = compared.iter().flat_map(|run| &run.items);
        let items: HashSet<&str> = results.map(|result| result.item_id.as_str()).collect();
        let mut items: Vec<&str> = items.into_iter().collect();
        // Random procedures must not depend on the order of the results.
        items.sort_unstable();
        let numbers: HashMap<&str, usize> = items.iter().copied().zip(0..).collect();
        let runs = compared.iter().chain(further);
        let runs = runs.map(|run| GridRun::new(run, &numbers, items.len())).collect();
        Self { items, runs, n_compared: compared.len() }
    }

    /// The compared runs.
    pub(crate) fn compared(&self) -> &[GridRun<'a>] {
        &self.runs[..self.n_compared]
    }
}

impl<'a> GridRun<'a> {
    fn new(results: &'a RunResults, numbers: &HashMap<&str, usize>, n_items: usize) -> Self {
        let mut by_item: Vec<Vec<&ItemResult>> = vec![Vec::new(); n_items];
        let mut seen = HashSet::with_capacity(results.items.len());
        let mut doubled = HashSet::new();
        for result in &results.items {
            let Some(number) = numbers.get(result.item_id.as_str()) else { continue };
            if seen.insert((*number, &result.trace_id, &result.observation_id)) {
                by_item[*number].push(result);
            } else {
                doubled.insert(*number);
            }
        }
        let n_repetitions = most_frequent(by_item.iter().map(Vec::len));
        for (number, results) in by_item.iter().enumerate() {
            if n_repetitions < results.len() {
                doubled.insert(number);
            }
        }
        Self { results, by_item, n_repetitions, n_duplicates: doubled.len() as u64 }
    }

    /// Numbers of the items with a result.
    pub(crate) fn present(&self) -> impl Iterator<Item = usize> {
        let items = self.by_item.iter().enumerate();
        items.filter(|(_, results)| !results.is_empty()).map(|(number, _)| number)
    }

    /// The id of the run.
    pub(crate) fn id(&self) -> &'a str {
        &self.results.run.id
    }
}

/// The most frequent number above 0; of equally frequent ones the largest.
fn most_frequent(numbers: impl Iterator<Item = usize>) -> usize {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for number in numbers.filter(|number| 0 < *number) {
        *counts.entry(number).or_default() += 1;
    }
    // The last of equal maxima is the largest number.
    counts.into_iter().max_by_key(|(_, count)| *count).map_or(0, |(number, _)| number)
}
