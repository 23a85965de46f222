//! Values that belong together: repetitions of an item, turns of a session.

use std::collections::HashMap;
use std::hash::Hash;

/// The cluster of each value. Clusters are numbered in the order of their first value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clusters {
    of: Vec<usize>,
    n_clusters: usize,
}

impl Clusters {
    /// One key for each value; equal keys are one cluster.
    pub fn by_key<K: Eq + Hash>(keys: impl IntoIterator<Item = K>) -> Self {
        let mut numbers = HashMap::new();
        let number = |key| {
            let next = numbers.len();
            *numbers.entry(key).or_insert(next)
        };
        let of: Vec<usize> = keys.into_iter().map(number).collect();
        let n_clusters = numbers.len();
        Self { of, n_clusters }
    }

    /// Number of clusters.
    #[must_use]
    pub fn count(&self) -> usize {
        self.n_clusters
    }

    /// Number of values.
    #[must_use]
    pub fn n_values(&self) -> usize {
        self.of.len()
    }

    /// The positions of the values of each cluster.
    #[must_use]
    pub fn members(&self) -> Vec<Vec<usize>> {
        let mut members = vec![Vec::new(); self.n_clusters];
        for (at, cluster) in self.of.iter().enumerate() {
            members[*cluster].push(at);
        }
        members
    }

    /// The sum of the values of each cluster. There are as many values as keys.
    pub(crate) fn sums(&self, values: impl Iterator<Item = f64>) -> Vec<f64> {
        let mut sums = vec![0.0; self.n_clusters];
        for (cluster, value) in self.of.iter().zip(values) {
            sums[*cluster] += value;
        }
        sums
    }
}
