//! Runs evaluators and serves their host calls: the implementation of the scheduler's ports.
//!
//! Invariants:
//! - **Guests do not run in the process that has the keys.** Evaluators run, and components are compiled, in worker
//!   processes; in this process only when the operator configured it.
//! - **Host calls of guests are authorized here** ([`Broker`]): calls of capabilities that were not granted fail.

mod broker;
pub mod components;
pub mod confinement;
mod connected;
mod evaluate;
mod reply_validator;
pub mod server_runs;

pub use broker::{Broker, ClosedConnection, Models, NoModels};
pub use components::ComponentFolder;
pub use connected::{BudgetQueues, ConnectedModels, RecentCosts};
pub use evaluate::{Engine, LocalSandbox};
pub use perpend_llm::{ConnectionUsage, LearnedModel};
pub use reply_validator::EngineReplyValidator;
