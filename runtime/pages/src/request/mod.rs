//! Shared parts of all pages: query parameters, viewers, forms, errors and headers of responses.

pub(crate) mod cursor;
pub(crate) mod files;
pub(crate) mod forms;
pub(crate) mod fragment;
pub(crate) mod frame;
pub(crate) mod login;
pub(crate) mod multipart;
pub(crate) mod operations;
pub(crate) mod origin;
pub(crate) mod preferences;
pub(crate) mod query;
pub(crate) mod redirects;
pub(crate) mod reply;
pub(crate) mod submissions;
pub(crate) mod ttl_cache;
pub(crate) mod viewer;
