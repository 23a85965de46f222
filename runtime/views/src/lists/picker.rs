//! The form that chooses the columns of a list and its number of rows.

use crate::Text;
use crate::urls::{Parameter, ROWS};

/// The form that chooses columns and number of rows.
#[derive(Clone, Debug)]
pub struct ColumnPicker {
    /// URL of the list.
    pub(crate) action: String,
    /// Other query parameters of the list.
    pub(crate) hidden_fields: Vec<Parameter>,
    /// Shown columns first.
    pub(crate) columns: Vec<PickerColumn>,
    /// Choices of the number of rows, and whether it is the current one.
    pub(crate) rows: [(u32, bool); ROWS.len()],
    /// URL of the list with the default columns and number of rows.
    pub(crate) default_href: String,
    /// Explanation of the columns of values with names; empty without such columns.
    pub(crate) named_note: &'static str,
}

/// A column of the form.
#[derive(Clone, Debug)]
pub(crate) struct PickerColumn {
    pub(crate) name: String,
    pub(crate) label: Text,
    /// Whether it is always shown.
    pub(crate) is_fixed: bool,
    pub(crate) is_shown: bool,
    /// URL of the list with this column moved to the left by one.
    pub(crate) earlier: Option<String>,
}

/// Choices of the number of rows, and whether it is the current one.
pub(crate) fn row_choices(current: u32) -> [(u32, bool); ROWS.len()] {
    let mut rows = ROWS;
    rows.sort_unstable();
    rows.map(|n| (n, n == current))
}
