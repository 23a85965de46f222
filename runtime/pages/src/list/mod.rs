//! Lists: one engine from the query string to the page and the file.
//!
//! A list is a [`ListDeclaration`](perpend_views::ListDeclaration) of its columns and a [`ListSource`] that reads its rows.
//! Everything else is here: parameters, filter, order, cursors, page numbers, links, searches that stop and continue, counts of an
//! empty list and of new rows, choice of columns, actions of rows, downloads.

pub(crate) mod empty;
pub(crate) mod export;
pub(crate) mod news;
pub(crate) mod page;
pub(crate) mod params;
pub(crate) mod selected;
pub(crate) mod source;
pub(crate) mod suggest;
pub(crate) mod terms;
