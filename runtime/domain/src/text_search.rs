//! Search in recorded data: texts in the fields of observations, and frequencies of column values.
//!
//! Invariants:
//! - **Pure.** The searched data are arguments; nothing here reads a store.
//! - **Linear time.** The time of a search is linear in the length of the searched text, even for repetitive texts.

mod facets;
#[cfg(feature = "schema")]
mod schema;
mod search;

pub use facets::{BoundedCount, Facet, FacetColumn, Facets};
pub use search::{
    Excerpt, FieldMatch, HitObservation, SearchCursor, SearchField, SearchHit, TextPattern,
    TraceSearchPage, first,
};
