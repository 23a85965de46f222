//! Agreement of the labels of a judge and a human (evaluation.md 6).

use std::collections::HashMap;
use std::hash::Hash;

use crate::check::{self, Error};

/// Weights of disagreements for Cohen's κ. Weights other than [`Weights::Equal`] require labels declared in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// Each disagreement counts the same.
    Equal,
    /// By the number of steps between both labels.
    Linear,
    /// By its square.
    Quadratic,
}

/// The quality of one label. A share with the denominator 0 is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabelQuality {
    /// Share of correct ones among the labels of the judge.
    pub precision: f64,
    /// Share of the human labels that the judge found.
    pub recall: f64,
    /// The harmonic mean of both.
    pub f1: f64,
}

/// The confusion matrix: rows are human labels, columns labels of the judge. It has at least one pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confusion {
    counts: Vec<Vec<u64>>,
}

impl Confusion {
    /// Counts the pairs of `human` and `judge`, matched by position, over the declared `labels`.
    ///
    /// # Errors
    /// [`Error::Empty`] for no pairs, [`Error::Lengths`], [`Error::UnknownLabel`], [`Error::Setting`]
    /// for a label that is declared twice.
    pub fn count<L: Eq + Hash>(human: &[L], judge: &[L], labels: &[L]) -> Result<Self, Error> {
        check::same_length(human.len(), judge.len())?;
        if human.is_empty() {
            return Err(Error::Empty);
        }
        let places: HashMap<&L, usize> = labels.iter().zip(0..).collect();
        if places.len() < labels.len() {
            return Err(Error::Setting {
                name: "labels",
                rule: "must be different from one another",
            });
        }
        let mut counts = vec![vec![0; labels.len()]; labels.len()];
        for (at, (human, judge)) in human.iter().zip(judge).enumerate() {
            let (Some(row), Some(column)) = (places.get(human), places.get(judge)) else {
                return Err(Error::UnknownLabel { at });
            };
            counts[*row][*column] += 1;
        }
        Ok(Self { counts })
    }

    /// The matrix with these counts.
    ///
    /// # Errors
    /// [`Error::Empty`] for no pairs, [`Error::Lengths`] unless there are as many columns as rows.
    pub fn of_counts(counts: Vec<Vec<u64>>) -> Result<Self, Error> {
        for row in &counts {
            check::same_length(counts.len(), row.len())?;
        }
        if counts.iter().flatten().all(|count| *count == 0) {
            return Err(Error::Empty);
        }
        Ok(Self { counts })
    }

    /// The counts, row by row in the order of the labels.
    #[must_use]
    pub fn counts(&self) -> &[Vec<u64>] {
        &self.counts
    }

    /// Number of pairs.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.counts.iter().flatten().sum()
    }

    /// The share of pairs with equal labels (also called accuracy).
    #[must_use]
    pub fn agreement(&self) -> f64 {
        self.n_equal() / self.n() as f64
    }

    /// Cohen's κ: agreement beyond what both base rates make by chance, at most 1. `None` where chance
    /// alone agrees always.
    #[must_use]
    pub fn kappa(&self, weights: Weights) -> Option<f64> {
        let cost = |row: usize, column: usize| {
            let steps = row.abs_diff(column) as f64;
            match weights {
                Weights::Equal => f64::from(u8::from(row != column)),
                Weights::Linear => steps,
                Weights::Quadratic => steps * steps,
            }
        };
        let (rows, columns) = (self.row_sums(), self.column_sums());
        let mut observed = 0.0;
        let mut by_chance = 0.0;
        for (row, counts) in self.counts.iter().enumerate() {
            for (column, count) in counts.iter().enumerate() {
                observed += cost(row, column) * *count as f64;
                by_chance += cost(row, column) * rows[row] * columns[column];
            }
        }
        let by_chance = by_chance / self.n() as f64;
        (0.0 < by_chance).then(|| 1.0 - observed / by_chance)
    }

    /// Gwet's AC1, which stays stable where one label dominates. `None` with fewer than two labels.
    #[must_use]
    pub fn gwet_ac1(&self) -> Option<f64> {
        let n_others = self.counts.len().checked_sub(1).filter(|n| 0 < *n)?;
        let spread = self.pooled_shares().map(|share| share * (1.0 - share));
        beyond_chance(self.agreement(), spread.sum::<f64>() / n_others as f64)
    }

    /// Scott's π: as κ, with one base rate for both. `None` where chance alone agrees always.
    #[must_use]
    pub fn scott_pi(&self) -> Option<f64> {
        let (rows, columns) = (self.row_sums(), self.column_sums());
        let n_used =
            (rows.iter().zip(&columns)).filter(|(row, column)| 0.0 < *row + *column).count();
        if n_used < 2 {
            return None;
        }
        let by_chance = self.pooled_shares().map(|share| share * share).sum();
        beyond_chance(self.agreement(), by_chance)
    }

    /// Precision, recall and F1 of each label, in the order of the labels.
    #[must_use]
    pub fn labels(&self) -> Vec<LabelQuality> {
        let (rows, columns) = (self.row_sums(), self.column_sums());
        let quality = |at: usize| {
            let hits = self.counts[at][at] as f64;
            LabelQuality {
                precision: share(hits, columns[at]),
                recall: share(hits, rows[at]),
                f1: share(2.0 * hits, rows[at] + columns[at]),
            }
        };
        (0..self.counts.len()).map(quality).collect()
    }

    /// The mean of F1 over all declared labels.
    #[must_use]
    pub fn macro_f1(&self) -> f64 {
        let labels = self.labels();
        labels.iter().map(|label| label.f1).sum::<f64>() / labels.len() as f64
    }

    /// The mean of recall over the labels used by the human.
    #[must_use]
    pub fn balanced_accuracy(&self) -> f64 {
        let (rows, labels) = (self.row_sums(), self.labels());
        let used = || rows.iter().zip(&labels).filter(|(row, _)| 0.0 < **row);
        used().map(|(_, label)| label.recall).sum::<f64>() / used().count() as f64
    }

    /// The Matthews coefficient, in `-1..=1`; 0 where one side used a single label.
    #[must_use]
    pub fn matthews(&self) -> f64 {
        let (rows, columns) = (self.row_sums(), self.column_sums());
        let n = self.n() as f64;
        let dot = |left: &[f64], right: &[f64]| -> f64 {
            left.iter().zip(right).map(|(left, right)| left * right).sum()
        };
        let together = self.n_equal() * n - dot(&rows, &columns);
        let spread = |sums: &[f64]| (n * n - dot(sums, sums)).max(0.0).sqrt();
        share(together, spread(&rows) * spread(&columns)).clamp(-1.0, 1.0)
    }

    fn n_equal(&self) -> f64 {
        (0..self.counts.len()).map(|at| self.counts[at][at] as f64).sum()
    }

    fn row_sums(&self) -> Vec<f64> {
        let sum = |row: &Vec<u64>| row.iter().sum::<u64>() as f64;
        self.counts.iter().map(sum).collect()
    }

    fn column_sums(&self) -> Vec<f64> {
        let sum = |at| self.counts.iter().map(|row| row[at]).sum::<u64>() as f64;
        (0..self.counts.len()).map(sum).collect()
    }

    /// The share of each label among all labels given by either side.
    fn pooled_shares(&self) -> impl Iterator<Item = f64> {
        let n = 2.0 * self.n() as f64;
        let sums = self.row_sums().into_iter().zip(self.column_sums());
        sums.map(move |(row, column)| (row + column) / n)
    }
}

/// Agreement corrected for chance.
fn beyond_chance(agreement: f64, by_chance: f64) -> Option<f64> {
    (by_chance < 1.0).then(|| (agreement - by_chance) / (1.0 - by_chance))
}

fn share(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}
