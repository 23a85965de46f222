//! The versions of an evaluator, and the difference of two of them.

use perpend_domain::time::Timestamp;

use crate::{Diff, Text};

/// A version of an evaluator.
#[derive(Clone, Debug)]
pub struct EvaluatorVersionLine {
    /// Number.
    pub number: u32,
    /// URL of the page with its definition.
    pub href: String,
    /// Whether its definition is shown.
    pub is_shown: bool,
    /// Creation time.
    pub created_at: Timestamp,
    /// First digits of the fingerprint.
    pub fingerprint: String,
    /// The parts that differ from the version before; absent for the oldest listed one.
    pub changed: Option<Vec<Text>>,
    /// URL of the comparison with the version before.
    pub diff_href: Option<String>,
    /// Rules that use it, such as `2 rules`.
    pub users: Vec<String>,
    /// Number of its scores.
    pub scores: String,
    /// URL of the scores with its fingerprint.
    pub scores_href: String,
}

/// The difference of two versions.
#[derive(Clone, Debug)]
pub struct VersionComparison {
    /// Number of the first version.
    pub a: u32,
    /// Number of the second version.
    pub b: u32,
    /// Whether both have the same fingerprint.
    pub is_same_fingerprint: bool,
    /// Parts of the fingerprint that differ.
    pub in_fingerprint: Vec<Text>,
    /// Other parts that differ.
    pub others: Vec<Text>,
    /// Titles and differences of the parts that differ.
    pub diffs: Vec<(&'static str, Diff)>,
}
