//! Comparison of experiment runs (evaluation.md 5.3 to 5.6): metrics with differences to a baseline, verdicts, gates and
//! reports; and statistics of stored scores. REST, pages and commands print the results of the functions here.
//!
//! Invariants:
//! - **Pure and reproducible.** The same runs and options give the same bits, in whatever order the results are. Random
//!   procedures are seeded with the ids of both runs and the name of the metric.
//! - **Symmetric.** If the baseline and the run change places, differences change their sign, wins become losses and
//!   `better` becomes `worse`; p-values stay.
//! - **Fail closed.** A score without a direction or with values of two types has no verdict, and a difference that could
//!   not have been seen is `inconclusive`, never "no difference".
//! - **Numbers keep their sign.** A direction changes verdicts, wins and losses only.

mod backtest;
mod columns;
mod compare;
pub mod comparison;
mod context;
pub mod gate;
pub mod gate_config;
mod gate_items;
mod gate_status;
mod grid;
mod items;
mod matching;
pub mod names;
mod noise;
mod number;
pub mod options;
pub mod report;
pub mod run_file;
pub mod run_summary;
mod sample;
pub mod score_analysis;
mod selection;
mod tested;
mod verdict;
mod warnings;

pub use backtest::{BacktestPairs, backtest_scores};
pub use compare::{compare, summarize};
pub use comparison::Comparison;
pub use gate::{GateReport, gate, gate_with_items};
pub use gate_config::GateConfig;
pub use gate_items::GateItemCheck;
pub use gate_status::CheckStatus;
pub use number::{number, signed};
pub use options::{CompareError, CompareOptions};
pub use selection::ItemSelection;
