//! The SDK for Perpend plug-ins written in Rust.
//!
//! An evaluator is a type with an identifier, a configuration and one function from an item to scores;
//! [`plugin!`] combines some of them to a component:
//!
//! ```
//! use perpend_plugin::prelude::*;
//!
//! /// Passes when the output has at most `max_chars` characters.
//! pub struct MaxLength;
//!
//! #[derive(Deserialize, JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! pub struct MaxLengthConfig {
//!     /// The maximum number of characters that passes.
//!     max_chars: usize,
//! }
//!
//! impl Evaluator for MaxLength {
//!     const ID: &'static str = "max-length";
//!     const TITLE: &'static str = "Maximum length";
//!     const DESCRIPTION: &'static str = "Passes when the output is not too long.";
//!     const SCORES: &'static [ScoreSpec] = &[ScoreSpec::boolean("within_limit", "1 when it fits")];
//!     type Config = MaxLengthConfig;
//!
//!     fn evaluate(item: &Item, config: &MaxLengthConfig) -> Result<Vec<Score>, EvalError> {
//!         let length = item.output_text()?.chars().count();
//!         let score = Score::boolean("within_limit", length <= config.max_chars);
//!         Ok(vec![score.comment(format!("{length} of {} characters", config.max_chars))])
//!     }
//! }
//!
//! perpend_plugin::plugin! {
//!     name: "acme/length",
//!     description: "Checks on length",
//!     evaluators: [MaxLength],
//! }
//!
//! // An evaluator is a function: a test needs no sandbox.
//! let item = Item::with_output("four");
//! let scores = MaxLength::evaluate(&item, &MaxLengthConfig { max_chars: 3 }).unwrap();
//! assert_eq!(scores[0].value, ScoreValue::Boolean(false));
//! ```
//!
//! The crate of a plug-in depends on `perpend-plugin`, `serde` and `schemars` (required by the derive
//! macros). Built with `cargo build --release --target wasm32-wasip2` from a crate of type `cdylib`, the output
//! file is the plug-in. Native builds do not contain the bindings; all other code is the same.
//!
//! Evaluators that call models declare slots ([`Evaluator::SLOTS`]) and use [`model::complete`]; those that
//! read traces need [`Parts::trace`] and use [`trace`]. Native tests implement the host with
//! [`host::with_host`]. A component imports only the functions it calls, so that unused capabilities need no grant.
//!
//! Not supported: state between calls (every call has a fresh instance); files, clocks and environment,
//! which the sandbox does not have. [`Json`] preserves the notation of numbers.
#![warn(missing_docs)]

mod error;
mod evaluator;
#[cfg(target_arch = "wasm32")]
pub mod guest;
pub mod host;
mod item;
mod json;
pub mod model;
mod plugin;
pub mod run;
mod score;
pub mod session;
pub mod trace;

pub use error::EvalError;
pub use evaluator::{ConfigProblem, Evaluator, EvaluatorInfo, NoConfig, Parts};
pub use item::{Item, Payload, TraceRef};
pub use json::{InvalidJson, Json, Number};
pub use plugin::{
    Plugin, PluginInfo, check_config_as, evaluate_as, evaluate_batch_as, no_evaluator,
};
pub use score::{Domain, Score, ScoreSpec, ScoreValue};

/// The common imports of an evaluator: `use perpend_plugin::prelude::*;`.
pub mod prelude {
    pub use crate::{
        ConfigProblem, EvalError, Evaluator, Item, Json, NoConfig, Parts, Payload, Score,
        ScoreSpec, ScoreValue,
    };
    pub use schemars::JsonSchema;
    pub use serde::Deserialize;
}
