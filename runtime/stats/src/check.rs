//! Errors of inputs, and the checks.

/// The reason why a statistic cannot be computed. Positions count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing to compute from.
    #[error("no values")]
    Empty,
    /// A value is not a number that sums and squares stay finite with.
    #[error("value {at} is not finite or is beyond 1e100")]
    Unusable {
        /// Index of the value.
        at: usize,
    },
    /// Two lists that belong together differ in length.
    #[error("{left} values against {right}")]
    Lengths {
        /// The length of the first list.
        left: usize,
        /// The length of the other list.
        right: usize,
    },
    /// A setting is out of its range.
    #[error("{name} {rule}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// The rule.
        rule: &'static str,
    },
    /// An undeclared label.
    #[error("pair {at} has a label that is not in the list of labels")]
    UnknownLabel {
        /// Index of the pair.
        at: usize,
    },
    /// A value falls into no bin.
    #[error("value {at} lies outside the bins")]
    OutsideBins {
        /// Index of the value.
        at: usize,
    },
}

/// Beyond it, sums of squares of many values might not be finite.
const LARGEST: f64 = 1e100;

/// Each value can be summed and squared.
pub(crate) fn usable(values: &[f64]) -> Result<(), Error> {
    let is_bad = |value: &f64| value.is_nan() || LARGEST < value.abs();
    match values.iter().position(is_bad) {
        Some(at) => Err(Error::Unusable { at }),
        None => Ok(()),
    }
}

/// As [`usable`], and there is at least one value.
pub(crate) fn some_usable(values: &[f64]) -> Result<(), Error> {
    if values.is_empty() {
        return Err(Error::Empty);
    }
    usable(values)
}

/// Both lists have one length.
pub(crate) fn same_length(left: usize, right: usize) -> Result<(), Error> {
    if left == right {
        return Ok(());
    }
    Err(Error::Lengths { left, right })
}

/// A level of confidence: strictly between 0 and 1.
pub(crate) fn level(level: f64) -> Result<(), Error> {
    if 0.0 < level && level < 1.0 {
        return Ok(());
    }
    Err(Error::Setting { name: "level", rule: "must be between 0 and 1, both excluded" })
}
