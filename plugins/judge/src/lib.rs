//! First-party plug-in `perpend/judge`: models as judges.
//!
//! The evaluator `judge` asks one question and gives one score; `questions` asks several at once, each with a score of its
//! own. The host chooses the provider, asks for structured output, checks replies against the schema and retries. Here are
//! the prompt, the schema, and what a reply means.

mod answer;
mod ask;
mod check;
mod config;
mod digest;
mod distribution;
mod explore;
mod fence;
mod graded;
mod judge;
mod large;
mod outline;
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
    description: "Language models that judge",
    evaluators: [Judge, Questions],
    exports: [config_check],
}
