//! Functions of the host besides models and traces. The bindings implement them in a component, and the test
//! in a native test.

#[cfg(not(target_arch = "wasm32"))]
mod native;

#[cfg(target_arch = "wasm32")]
pub(crate) use crate::guest::calls::{
    complete, complete_all, embed, get_run, get_session, get_trace, list_items, list_observations,
    list_traces, outline, probabilities, read_input, read_metadata, read_output, read_range,
    search,
};
#[cfg(not(target_arch = "wasm32"))]
pub use native::{Host, with_host};
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use native::{
    complete, complete_all, embed, get_run, get_session, get_trace, list_items, list_observations,
    list_traces, outline, probabilities, read_input, read_metadata, read_output, read_range,
    search,
};

use crate::Json;

/// The severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Details for the development of the plug-in.
    Debug,
    /// An event.
    Info,
    /// A possible problem.
    Warn,
    /// A failure.
    Error,
}

/// Adds a line to the log of this evaluation.
pub fn log(level: Level, message: &str) {
    log_with(level, message, []);
}

/// Adds a line with values to the log of this evaluation.
pub fn log_with<'a>(
    level: Level,
    message: &str,
    fields: impl IntoIterator<Item = (&'a str, Json)>,
) {
    let fields: Vec<(String, Json)> =
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let fields = (!fields.is_empty()).then(|| Json::Object(fields).to_string());
    #[cfg(target_arch = "wasm32")]
    crate::guest::calls::log(level, message, fields.as_deref());
    #[cfg(not(target_arch = "wasm32"))]
    native::log(level, message, fields.as_deref());
}

/// A number that is the same for equal calls. Use it to seed random generators.
#[must_use]
pub fn seed() -> u64 {
    #[cfg(target_arch = "wasm32")]
    return crate::guest::calls::seed();
    #[cfg(not(target_arch = "wasm32"))]
    native::seed()
}

/// The start time of the run in milliseconds since 1970, the same for each item.
#[must_use]
pub fn run_time_ms() -> u64 {
    #[cfg(target_arch = "wasm32")]
    return crate::guest::calls::run_time_ms();
    #[cfg(not(target_arch = "wasm32"))]
    native::run_time_ms()
}
