//! What the addresses of pages say: which traces are listed in which order with which columns, and the time and the
//! environments that a reader looks at. The requests of the API that read the same.
//!
//! Invariants:
//! - **Pure and total.** Any text is read; what it says that there is not is named, and the rest holds.
//! - **Round trip.** Parsing what was printed gives the same value. Defaults are not printed.

mod columns;
mod filterable_list;
mod focus;
mod request;
mod row_columns;
mod sort;
mod traces_query;
mod unknown_parameters;

pub use columns::{CellKind, Column, Columns, MAX_COLUMNS, ParsedColumns, StandardColumn};
pub use filterable_list::{FilterableList, SESSION_LIST, TRACE_LIST, USER_LIST, term_prefix};
pub use focus::{Focus, Moment, RANGES};
pub use request::ApiRequest;
pub use row_columns::RowColumn;
pub use sort::Sort;
pub use traces_query::{
    END, ListPage, MAX_LIST, ROWS, TracesQuery, traces_containing, traces_matching,
    traces_with_tag, traces_with_value,
};
pub use unknown_parameters::{Parameter, UnknownParameters, is_known};
