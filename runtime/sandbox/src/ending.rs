//! Classes and messages of failed calls.

use perpend_domain::plugin::{CallResult, Failure, FailureClass, Limits};

use crate::bindings::types::EvalError;
use crate::guest::ConfigProblem;
use crate::meter::Stop;
use crate::state::{MAX_HANDLES, failure};
use wasmtime::component::ResourceTableError;

/// Maximum number of configuration problems that are listed.
const MAX_PROBLEMS: usize = 50;

/// The CPU limit was reached.
#[derive(Debug, thiserror::Error)]
#[error("the CPU limit was reached")]
pub(crate) struct CpuLimit;

/// The outcome of a guest call.
pub(crate) enum End<T> {
    Answer(T),
    Error(wasmtime::Error),
    Stopped(Stop),
}

pub(crate) fn failed_result(failure: Failure) -> CallResult {
    CallResult { outcome: Err(failure), ..CallResult::empty() }
}

pub(crate) fn stop_failure(stop: &Stop, limits: &Limits) -> Failure {
    match stop {
        Stop::WallLimit => {
            let message = format!("no answer within {} ms", limits.wall_ms);
            failure(FailureClass::WallTimeout, message)
        }
        Stop::Evicted(eviction) => {
            let used_mib = eviction.used_bytes >> 20;
            let message = format!(
                "the worker had too little memory for all of its calls, and this one used {used_mib} MiB; the call can \
                 be repeated"
            );
            failure(FailureClass::WorkerFull, message)
        }
    }
}

/// The failure for an error that the plug-in returned.
pub(crate) fn plugin_failure(error: EvalError, last_upstream: Option<FailureClass>) -> Failure {
    let (class, message) = match error {
        EvalError::InvalidConfig(text) => (FailureClass::InvalidConfig, text),
        EvalError::InvalidInput(text) => (FailureClass::InvalidInput, text),
        EvalError::NotApplicable(text) => (FailureClass::NotApplicable, text),
        // Accepted only after a host call failed.
        EvalError::Upstream(text) => (last_upstream.unwrap_or(FailureClass::PluginError), text),
        EvalError::Transient(text) => (FailureClass::Transient, text),
        EvalError::Internal(text) => (FailureClass::PluginError, text),
    };
    failure(class, message)
}

/// The failure for an error of the engine.
pub(crate) fn engine_failure(
    error: &wasmtime::Error,
    was_memory_refused: bool,
    limits: &Limits,
) -> Failure {
    let names = innermost_functions(error);
    if error.downcast_ref::<CpuLimit>().is_some() {
        let message = format!("more than {} ms of CPU time{names}", limits.cpu_ms);
        return failure(FailureClass::FuelExhausted, message);
    }
    if let Some(ResourceTableError::Full) = error.downcast_ref() {
        let message = format!("more than {MAX_HANDLES} host resources at a time{names}");
        return failure(FailureClass::OutputLimit, message);
    }
    let text = error.root_cause().to_string();
    if text.contains("fuel allocated for hostcalls") {
        let limit = limits.output_bytes;
        let message = format!("more than {limit} bytes passed in one call{names}");
        return failure(FailureClass::OutputLimit, message);
    }
    if was_memory_refused {
        let limit = limits.memory_bytes >> 20;
        let message = format!(
            "more than {limit} MiB of memory or too many table elements, then: {text}{names}"
        );
        return failure(FailureClass::MemoryLimit, message);
    }
    if let Some(trap) = error.downcast_ref::<wasmtime::Trap>() {
        return failure(FailureClass::PluginTrap, format!("{trap}{names}"));
    }
    if let Some(exit) = error.downcast_ref::<wasmtime_wasi::I32Exit>() {
        let message = format!("the plug-in exited with code {}{names}", exit.0);
        return failure(FailureClass::PluginTrap, message);
    }
    if error.is::<wasmtime::PoolConcurrencyLimitError>() {
        return failure(FailureClass::Internal, "the instance pool is exhausted");
    }
    if names.is_empty() && error.downcast_ref::<wasmtime::WasmBacktrace>().is_none() {
        let message = format!("the answer cannot be read: {error:#}");
        return failure(FailureClass::InvalidResult, message);
    }
    failure(FailureClass::PluginTrap, format!("{text}{names}"))
}

/// The functions of the backtrace, as ` in a, called by b`. Empty when the component has no names.
fn innermost_functions(error: &wasmtime::Error) -> String {
    let Some(backtrace) = error.downcast_ref::<wasmtime::WasmBacktrace>() else {
        return String::new();
    };
    let text = backtrace.to_string();
    let names = text.lines().filter_map(|line| line.split_once('!')).map(|(_, name)| name.trim());
    let names: Vec<&str> =
        names.filter(|name| !name.starts_with("<wasm function")).take(4).collect();
    if names.is_empty() { String::new() } else { format!(" in {}", names.join(", called by ")) }
}

/// The failure for problems that `check-config` found: a line per problem, with its pointer first.
pub(crate) fn config_failure(problems: &[ConfigProblem]) -> Result<(), Failure> {
    if problems.is_empty() {
        return Ok(());
    }
    let lines = problems.iter().take(MAX_PROBLEMS);
    let lines: Vec<String> =
        lines.map(|ConfigProblem { pointer, message }| format!("{pointer}: {message}")).collect();
    Err(failure(FailureClass::InvalidConfig, lines.join("\n")))
}
