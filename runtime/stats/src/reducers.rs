//! From the repetitions of an item to its one number (evaluation.md 5.3).

use crate::check::{self, Error};
use crate::moments;

/// The reduction of repetitions to one number. A repetition succeeds if it reaches `value`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reducer {
    /// The arithmetic mean.
    Mean,
    /// The middle value, or the mean of both middle ones.
    Median,
    /// The most frequent value; of equally frequent ones that which was seen first.
    Mode,
    /// The largest value.
    Max,
    /// 1 when at least `k` repetitions succeed, otherwise 0.
    AtLeast {
        /// The required number of successes.
        k: usize,
        /// The lowest value that is a success, usually 1.
        value: f64,
    },
    /// The chance that one of `k` repetitions drawn without replacement succeeds.
    PassAt {
        /// Number of draws.
        k: usize,
        /// The lowest value that is a success, usually 1.
        value: f64,
    },
    /// The chance that all of `k` repetitions drawn without replacement succeed.
    PassK {
        /// Number of draws.
        k: usize,
        /// The lowest value that is a success, usually 1.
        value: f64,
    },
}

/// Reduces the repetitions of one item, in the order in which they ran. `None` where `k` are to be
/// drawn and there are fewer: such items are left out of a summary and counted.
///
/// # Errors
/// [`Error::Empty`], [`Error::Unusable`], and [`Error::Setting`] for a `k` of 0 or a `value` that is
/// no number.
pub fn reduce(values: &[f64], reducer: Reducer) -> Result<Option<f64>, Error> {
    check::some_usable(values)?;
    let reduced = match reducer {
        Reducer::Mean => moments::mean(values),
        Reducer::Median => moments::quantile(&moments::sorted(values), 0.5),
        Reducer::Mode => mode(values),
        Reducer::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Reducer::AtLeast { k, value } => {
            let n_passed = n_passed(values, k, value)?;
            f64::from(u8::from(k <= n_passed))
        }
        Reducer::PassAt { k, value } => {
            let n_failed = values.len() - n_passed(values, k, value)?;
            match all_drawn_from(n_failed, values.len(), k) {
                Some(all_failed) => 1.0 - all_failed,
                None => return Ok(None),
            }
        }
        Reducer::PassK { k, value } => {
            let n_passed = n_passed(values, k, value)?;
            return Ok(all_drawn_from(n_passed, values.len(), k));
        }
    };
    Ok(Some(reduced))
}

fn mode(values: &[f64]) -> f64 {
    let sorted = moments::sorted(values);
    let runs = || sorted.chunk_by(|left, right| left == right);
    let largest = runs().map(<[f64]>::len).max().unwrap_or_default();
    let modes: Vec<f64> = runs().filter(|run| run.len() == largest).map(|run| run[0]).collect();
    // The modes are in ascending order.
    let is_mode = |value: &&f64| {
        let below = modes.partition_point(|mode| mode < *value);
        modes.get(below).is_some_and(|mode| mode == *value)
    };
    values.iter().find(is_mode).copied().unwrap_or_default()
}

fn n_passed(values: &[f64], k: usize, value: f64) -> Result<usize, Error> {
    if k == 0 {
        return Err(Error::Setting { name: "k", rule: "must be at least 1" });
    }
    if value.is_nan() {
        return Err(Error::Setting { name: "value", rule: "must be a number" });
    }
    Ok(values.iter().filter(|each| value <= **each).count())
}

/// C(part, k) / C(all, k): the chance that `k` drawn of `all` are all of `part`.
fn all_drawn_from(part: usize, all: usize, k: usize) -> Option<f64> {
    if all < k {
        return None;
    }
    if part < k {
        return Some(0.0);
    }
    let chances = (0..k).map(|drawn| (part - drawn) as f64 / (all - drawn) as f64);
    Some(chances.product())
}
