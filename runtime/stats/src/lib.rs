//! The statistics of experiments and of calibration (evaluation.md 5.3 to 5.5 and 6): arithmetic on
//! slices of numbers, and nothing else.
//!
//! Invariants:
//! - **Pure.** No clock, no files, no environment. Random procedures take a seed, and the same seed gives
//!   the same bits on every machine.
//! - **Never NaN.** Unusable numbers are an [`Error`]; a statistic that is undefined for the data is `None`. All results are
//!   finite.
//! - **Reference values.** `tests/corpus/stats` has the results of reference libraries.
//!
//! Every p-value is two-sided, every interval has the requested `level` (0.95 for
//! "95 %"), and every result is in the unit of the values unless documented otherwise.

pub mod agreement;
pub mod bootstrap;
mod check;
pub mod clusters;
pub mod correlation;
mod distribution;
pub mod drift;
pub mod fisher;
pub mod krippendorff;
mod moments;
pub mod multiple;
pub mod paired;
pub mod power;
pub mod proportion;
pub mod random;
pub mod reducers;
pub mod summary;
pub mod weighted;
pub mod welch;

pub use check::Error;
pub use clusters::Clusters;
pub use welch::Welch;

/// Both ends of an interval, in the unit of what it is around.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub lower: f64,
    /// The upper end, not below the lower one.
    pub upper: f64,
}

/// The result of a t test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TTest {
    /// The difference in standard errors.
    pub t: f64,
    /// The p-value, in `0..=1`.
    pub p: f64,
}

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
