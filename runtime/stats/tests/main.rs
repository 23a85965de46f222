//! Statistics held to reference implementations, and to rules that any input keeps.

mod never_nan;
mod stats_corpus;
mod tables;
