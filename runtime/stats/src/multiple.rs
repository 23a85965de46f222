//! Several tests at once: p-values adjusted for their number (evaluation.md 5.5).

use crate::check::Error;

/// The controlled error rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// The chance of any false alarm; simple, and never less strict than Holm.
    Bonferroni,
    /// The chance of any false alarm: for gates.
    Holm,
    /// The share of false alarms among all alarms (Benjamini and Hochberg): for exploration.
    BenjaminiHochberg,
}

/// The adjusted p-values in the order given, at most 1. A test rejects where its adjusted value is at
/// most α. No tests give no values.
///
/// # Errors
/// [`Error::Setting`] where one of them is not within `0..=1`.
pub fn adjust(p: &[f64], correction: Correction) -> Result<Vec<f64>, Error> {
    if !p.iter().all(|p| (0.0..=1.0).contains(p)) {
        return Err(Error::Setting { name: "p", rule: "must be within 0 and 1" });
    }
    let n = p.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|left, right| p[*left].total_cmp(&p[*right]));
    let mut adjusted = vec![1.0; n];
    match correction {
        Correction::Bonferroni => {
            for (at, p) in p.iter().enumerate() {
                adjusted[at] = (p * n as f64).min(1.0);
            }
        }
        Correction::Holm => {
            let mut floor: f64 = 0.0;
            for (rank, at) in order.iter().enumerate() {
                floor = floor.max(p[*at] * (n - rank) as f64).min(1.0);
                adjusted[*at] = floor;
            }
        }
        Correction::BenjaminiHochberg => {
            let mut ceiling: f64 = 1.0;
            for (rank, at) in order.iter().enumerate().rev() {
                ceiling = ceiling.min(p[*at] * n as f64 / (rank + 1) as f64);
                adjusted[*at] = ceiling;
            }
        }
    }
    Ok(adjusted)
}
