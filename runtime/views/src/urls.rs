//! What the addresses of pages say: which traces are listed in which order with which columns, and the time and the
//! environments that a reader looks at. The requests of the API that read the same.
//!
//! Invariants:
//! - **Pure and total.** Any text is read; what it says that there is not is named, and the rest holds.
//! - **Round trip.** Parsing what was printed gives the same value. Defaults are not printed.

mod asked;
mod columns;
mod filtered;
mod focus;
mod others;
mod request;
mod row_columns;
mod sort;

pub use asked::{END, ListPage, MAX_LIST, ROWS, TracesQuery, containing, only, passing, tagged};
pub use columns::{Column, Columns, Known, MAX_COLUMNS, NamedColumns, Shape};
pub use filtered::{Filtered, OF_SESSIONS, OF_TRACES, OF_USERS, begins};
pub use focus::{Focus, Moment, RANGES};
pub use others::{Others, Parameter, is_known};
pub use request::ApiRequest;
pub use row_columns::RowColumn;
pub use sort::Sort;
