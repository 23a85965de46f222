//! Plug-ins: list, one version, upload with the report of the check, capabilities, rollback, deletion. The API
//! operations make all changes.

mod changes;
pub(crate) mod delete;
pub(crate) mod grants;
pub(crate) mod list;
pub(crate) mod one;
pub(crate) mod rollback;
pub(crate) mod upload;
