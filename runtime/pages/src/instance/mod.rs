//! The page of the instance, and what the server observes about itself.

pub(crate) mod page;
pub(crate) mod state;

pub use state::{DiskFigures, InstanceCheck, InstanceState, WorkerFigures};
