//! Problems of filters.

use perpend_domain::filter::FilterError;
use serde_json::json;

use crate::problem::{Code, Issue, Problem};

/// The errors of the field `filter` as one problem.
#[must_use]
pub fn filter_problem(errors: Vec<FilterError>) -> Problem {
    filter_problem_at("filter", errors)
}

/// As [`filter_problem`], for a field of another name.
#[must_use]
pub fn filter_problem_at(field: &str, errors: Vec<FilterError>) -> Problem {
    let path = |error: &FilterError| error.path().replacen("filter", field, 1);
    let issues: Vec<_> =
        errors.iter().map(|error| Issue::new(&path(error), &error.message)).collect();
    let problem = Problem::issues(Code::InvalidFilter, issues);
    match errors.into_iter().next() {
        Some(first) => problem
            .with("field", path(&first))
            .with("column", json!(first.column))
            .with("invalidValues", json!(first.invalid_values))
            .with("allowedValues", json!(first.allowed_values)),
        None => problem,
    }
}
