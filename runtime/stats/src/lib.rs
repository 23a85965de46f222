//! The statistics of experiments and of calibration (evaluation.md 5.3 to 5.5 and 6): arithmetic on
//! slices of numbers, and nothing else.
//!
//! Invariants:
//! - **Pure.** No clock, no file, no surroundings. What is random takes a seed, and the same seed gives
//!   the same bits on every machine.
//! - **Never NaN.** Numbers that cannot be used are an [`Error`]; a statistic that the data does not
//!   define is `None`. What is returned is finite.
//! - **Held to vectors.** `tests/corpus/stats` has the values of the reference libraries.
//!
//! Every p-value is two-sided, every interval has the requested `level` (0.95 for
//! "95 %"), and every result is in the unit of the values unless its text says otherwise.

pub mod agreement;
pub mod bootstrap;
mod check;
pub mod clusters;
pub mod correlation;
mod distribution;
pub mod drift;
pub mod krippendorff;
mod moments;
pub mod multiple;
pub mod paired;
pub mod proportion;
pub mod random;
pub mod reducers;
pub mod summary;
pub mod welch;

pub use check::Error;
pub use clusters::Clusters;

/// Both ends of an interval, in the unit of what it is around.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub lower: f64,
    /// The upper end, not below the lower one.
    pub upper: f64,
}

/// What a t test found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TTest {
    /// The difference in standard errors.
    pub t: f64,
    /// How likely a `t` this far from 0 is where nothing differs, in `0..=1`.
    pub p: f64,
}

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
