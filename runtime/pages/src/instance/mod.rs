//! The page of the instance, and the checks that the server makes of itself.

pub(crate) mod page;
pub(crate) mod state;

pub use state::{DiskFigures, InstanceCheck, InstanceState, WorkerFigures};
