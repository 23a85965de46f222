//! The plug-ins of the program: what they describe, and scores held to golden data.

mod descriptions;
mod presets;
mod scorers_corpus;
