//! The SDK for Perpend plug-ins written in Rust.
//!
//! An evaluator is a type with an identifier, a configuration and one function from an item to scores;
//! [`plugin!`] makes a component out of some of them:
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
//! // An evaluator is a plain function: no sandbox is needed to test it.
//! let item = Item::with_output("four");
//! let scores = MaxLength::evaluate(&item, &MaxLengthConfig { max_chars: 3 }).unwrap();
//! assert_eq!(scores[0].value, ScoreValue::Boolean(false));
//! ```
//!
//! The crate of a plug-in depends on `perpend-plugin`, `serde` and `schemars` (the derive macros name
//! them). Built with `cargo build --release --target wasm32-wasip2` from a crate of type `cdylib`, the output
//! file is the plug-in. Native builds leave the bindings out; everything else is the same code.
//!
//! Evaluators that ask models declare slots ([`Evaluator::SLOTS`]) and call [`model::complete`]; those that
//! look into traces name [`Parts::trace`] and use [`trace`]. In native tests [`host::with_host`] answers. A
//! component imports only what it calls, so that nobody has to grant what is not used.
//!
//! What is deliberately absent: state between calls (every call gets a fresh instance), files, clocks
//! and environment (the sandbox has none), and a JSON tree that forgets how a number was written
//! ([`Json`] keeps it).
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

/// What an evaluator's file needs: `use perpend_plugin::prelude::*;`.
pub mod prelude {
    pub use crate::{
        ConfigProblem, EvalError, Evaluator, Item, Json, NoConfig, Parts, Payload, Score,
        ScoreSpec, ScoreValue,
    };
    pub use schemars::JsonSchema;
    pub use serde::Deserialize;
}
