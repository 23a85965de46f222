//! Statements over many rows in few sizes, so that all of them stay prepared.

use std::sync::OnceLock;

/// Rows per statement, descending.
const SIZES: [usize; 3] = [64, 8, 1];

/// One statement in every size.
pub(super) struct Sized {
    texts: [OnceLock<String>; SIZES.len()],
    build: fn(usize) -> String,
}

impl Sized {
    pub(super) const fn new(build: fn(usize) -> String) -> Self {
        Self {
            texts: [const { OnceLock::new() }; SIZES.len()],
            build,
        }
    }

    /// The statement for as many as possible of `rows`, those rows, and the rest.
    pub(super) fn next<'s, 'r, T>(&'s self, rows: &'r [T]) -> (&'s str, &'r [T], &'r [T]) {
        let at = SIZES.iter().position(|size| *size <= rows.len());
        let at = at.unwrap_or(SIZES.len() - 1);
        let text = self.texts[at].get_or_init(|| (self.build)(SIZES[at]));
        let (now, later) = rows.split_at(SIZES[at].min(rows.len()));
        (text, now, later)
    }
}

/// `($1, $2), ($3, $4)`: rows of parameters from `$first` on.
pub(super) fn rows(n_rows: usize, n_columns: usize, first: usize) -> String {
    let row = |at: usize| format!("({})", list(n_columns, first + at * n_columns));
    (0..n_rows).map(row).collect::<Vec<_>>().join(", ")
}

/// `$1, $2, $3`: a list of parameters from `$first` on.
pub(super) fn list(n: usize, first: usize) -> String {
    let parameters: Vec<String> = (first..first + n).map(|at| format!("${at}")).collect();
    parameters.join(", ")
}
