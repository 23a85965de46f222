//! What is found in what was recorded: a text in the parts of steps, and the values of columns with how often they occur.
//!
//! Invariants:
//! - **Pure.** What is searched is handed in; nothing here reads a store.
//! - **Linear time.** The time of a search grows linearly with the length of what is searched, even for repetitive texts.

mod facets;
#[cfg(feature = "schema")]
mod schema;
mod search;

pub use facets::{BoundedCount, Facet, FacetColumn, Facets};
pub use search::{
    Excerpt, FieldMatch, HitObservation, SearchCursor, SearchField, SearchHit, TextPattern,
    TraceSearchPage, first,
};
