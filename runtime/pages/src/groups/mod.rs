//! Sessions and users: lists, and the pages of one.

pub(crate) mod lines;
pub(crate) mod list;
pub(crate) mod session;
pub(crate) mod user;
