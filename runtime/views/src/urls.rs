//! The URLs of pages: filter, order and columns of the list of traces, and the selected time and environments. Also builds the
//! API requests that return the same rows.
//!
//! Invariants:
//! - **Pure and total.** Any text is accepted. Unknown names are reported, and the rest is used.
//! - **Round trip.** Parsing a printed URL returns the same value. Defaults are not printed.

mod columns;
mod filterable_list;
mod focus;
mod request;
mod row_columns;
mod sort;
mod traces_query;
mod unknown_parameters;

pub use columns::MAX_COLUMNS;
pub(crate) use columns::{METADATA, SCORE, key_of_name, name_with_key, split_names};
pub use filterable_list::{
    FilterableList, OBSERVATION_LIST, SCORE_LIST, SESSION_LIST, TRACE_LIST, USER_LIST, term_prefix,
};
pub use focus::{Focus, Moment, RANGES};
pub use request::ApiRequest;
pub use row_columns::RowColumn;
pub use sort::Sort;
pub use traces_query::{
    END, MAX_LIST, ROWS, TracesQuery, traces_containing, traces_matching, traces_with_tag,
    traces_with_value,
};
pub use unknown_parameters::{Parameter, UnknownParameters, is_known};
