//! Key pairs of the project. The API operations do the work; these pages call them.
//!
//! Invariant: **a secret is on one page, once**: on the response to the form that made it. It is neither stored nor in a URL.

pub(crate) mod create;
pub(crate) mod list;
pub(crate) mod one;
pub(crate) mod revoke;
mod stored;
