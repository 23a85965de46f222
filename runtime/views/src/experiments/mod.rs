//! Experiments: the list of runs, a run, the comparison of runs, an item in all compared runs, and the gate.
//!
//! `address`: URL parameters of a comparison; `estimate`: means and differences as text; `verdict`: the verdicts of a
//! comparison; `chart`: a score over runs; `bar`: drawings of intervals and distributions.

pub(crate) mod address;
mod bar;
pub(crate) mod chart;
pub(crate) mod compare;
pub(crate) mod deltas;
pub(crate) mod estimate;
pub(crate) mod gate;
pub(crate) mod item;
pub(crate) mod list;
pub(crate) mod new;
pub(crate) mod run;
#[cfg(test)]
mod tests;
pub(crate) mod verdict;
