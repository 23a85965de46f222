//! First-party plug-in `perpend/judge`: models as judges.
//!
//! The evaluator `judge` asks one question and returns one score; `questions` asks several at once and returns one score for
//! each. The host chooses the provider, requests structured output, validates replies against the schema and retries. This
//! crate builds the prompt and the schema, and turns replies into scores.

mod answer;
mod check;
mod config;
mod digest;
mod distribution;
mod explore;
mod fence;
mod free_text;
mod judge;
mod large;
mod outline;
mod panel;
mod prepared;
mod prompt;
mod questions;
mod reduce;
mod shape;
mod tools;
mod variables;
mod votes;

pub use config::{JudgeConfig, QuestionsConfig};
pub use judge::Judge;
pub use questions::Questions;

perpend_plugin::plugin! {
    name: "perpend/judge",
    description: "Language models as judges",
    evaluators: [Judge, Questions],
    exports: [config_check],
}
