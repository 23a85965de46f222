//! Statements over many rows in few sizes, so that all of them stay prepared.

use std::fmt::Write as _;
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

/// `($1, $2), ($3, $4)`: rows of parameters from `$first` on. `types` casts them where a bare VALUES
/// list would leave PostgreSQL without a type; empty text means no cast.
pub(super) fn rows(n_rows: usize, first: usize, types: &[&str]) -> String {
    let mut sql = String::new();
    for row in 0..n_rows {
        sql.push_str(if row == 0 { "(" } else { ", (" });
        for (column, kind) in types.iter().enumerate() {
            let comma = if column == 0 { "" } else { ", " };
            let at = first + row * types.len() + column;
            // Writing to a `String` cannot fail.
            let _ = match *kind {
                "" => write!(sql, "{comma}${at}"),
                kind => write!(sql, "{comma}CAST(${at} AS {kind})"),
            };
        }
        sql.push(')');
    }
    sql
}

/// `$1, $2, $3`: a list of parameters from `$first` on.
pub(super) fn list(n: usize, first: usize) -> String {
    let parameters: Vec<String> = (first..first + n).map(|at| format!("${at}")).collect();
    parameters.join(", ")
}
