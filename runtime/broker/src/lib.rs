//! Where evaluators run, and the components they run from: the ports of the scheduler, filled.
//!
//! Invariants:
//! - **No guest beside the keys.** Evaluators run, and components are compiled, in worker processes; in this process
//!   only where the operator asked for it.
//! - **A guest's call of the host is decided here** ([`Broker`]): what it was not granted it does not get.

mod broker;
pub mod components;
pub mod confinement;
mod connected;
mod evaluate;
mod reply_validator;

pub use broker::{Broker, ClosedConnection, Models, NoModels};
pub use components::ComponentFolder;
pub use connected::{BudgetQueues, ConnectedModels, RecentCosts};
pub use evaluate::{Engine, LocalSandbox};
pub use reply_validator::EngineReplyValidator;
