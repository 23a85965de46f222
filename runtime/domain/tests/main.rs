//! Evaluation, names, prices and totals, held to their golden data and to rules that any input keeps.

mod eval_corpus;
mod naming;
mod prices;
mod totals;
