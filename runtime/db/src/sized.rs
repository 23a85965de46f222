//! Statements over many rows, in a few sizes.

use std::sync::OnceLock;

/// Rows per statement, descending: few sizes, so that all of them stay prepared.
const SIZES: [usize; 9] = [256, 128, 64, 32, 16, 8, 4, 2, 1];

/// One statement in every size.
pub struct Sized {
    texts: [OnceLock<String>; SIZES.len()],
    build: fn(usize) -> String,
    /// Whether repeating a row changes nothing.
    is_repeatable: bool,
}

impl Sized {
    pub const fn new(build: fn(usize) -> String) -> Self {
        Self { texts: [const { OnceLock::new() }; SIZES.len()], build, is_repeatable: false }
    }

    /// A statement to which a row may be passed more than once. Then a larger statement serves a few rows
    /// less, and a batch needs fewer statements.
    pub const fn repeatable(build: fn(usize) -> String) -> Self {
        Self { texts: [const { OnceLock::new() }; SIZES.len()], build, is_repeatable: true }
    }

    /// The statement for as many as possible of `n` rows, and its number of rows.
    pub fn for_up_to(&'static self, n: usize) -> (&'static str, usize) {
        let at = SIZES.iter().position(|size| *size <= n);
        self.at(at.unwrap_or(SIZES.len() - 1))
    }

    /// The statement for the first of `n` rows, and its number of rows: more than `n` if few repetitions save
    /// statements.
    pub(crate) fn for_some_of(&'static self, n: usize) -> (&'static str, usize) {
        let larger = SIZES.iter().rposition(|size| n <= *size);
        match larger.filter(|at| self.is_repeatable && 3 * SIZES[*at] <= 4 * n) {
            Some(at) => self.at(at),
            None => self.for_up_to(n),
        }
    }

    fn at(&'static self, at: usize) -> (&'static str, usize) {
        let text = self.texts[at].get_or_init(|| (self.build)(SIZES[at]));
        (text, SIZES[at])
    }
}

/// `($1, $2), ($3, $4)` from `$first` on.
pub fn value_rows(n_rows: usize, n_columns: usize, first: usize) -> String {
    let mut sql = String::with_capacity(n_rows * n_columns * 7);
    for row in 0..n_rows {
        sql.push_str(if row == 0 { "(" } else { ", (" });
        for column in 0..n_columns {
            if column > 0 {
                sql.push_str(", ");
            }
            sql.push('$');
            sql.push_str(&(first + row * n_columns + column).to_string());
        }
        sql.push(')');
    }
    sql
}

/// `$1, $2, $3` from `$first` on.
pub fn value_list(n: usize, first: usize) -> String {
    let list: Vec<String> = (first..first + n).map(|at| format!("${at}")).collect();
    list.join(", ")
}
