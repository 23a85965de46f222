//! Who answers evaluators in a native test.

use std::cell::RefCell;
use std::rc::Rc;

use crate::Payload;
use crate::host::Level;
use crate::model::{Completion, ModelError, Request};
use crate::trace::{Filter, Page, Part, TraceError, TraceInfo};

/// What a test answers in the host's place. What it does not say is refused, as it is for a plug-in that
/// was granted nothing.
pub trait Host {
    /// Answers [`complete`](crate::model::complete) and each of [`complete_all`](crate::model::complete_all).
    ///
    /// # Errors
    /// What the evaluator is to see.
    fn complete(&self, _request: &Request) -> Result<Completion, ModelError> {
        Err(ModelError::NotGranted(
            "the capability `model` was not granted".to_owned(),
        ))
    }

    /// Answers [`embed`](crate::model::embed).
    ///
    /// # Errors
    /// What the evaluator is to see.
    fn embed(&self, _slot: Option<&str>, _texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
        Err(ModelError::NotGranted(
            "the capability `model` was not granted".to_owned(),
        ))
    }

    /// Answers [`trace::get`](crate::trace::get).
    ///
    /// # Errors
    /// What the evaluator is to see.
    fn trace(&self, _trace_id: &str) -> Result<TraceInfo, TraceError> {
        Err(no_trace())
    }

    /// Answers [`observations`](crate::trace::observations) and [`page`](crate::trace::page).
    ///
    /// # Errors
    /// What the evaluator is to see.
    fn observations(
        &self,
        _trace_id: &str,
        _filter: &Filter,
        _cursor: Option<&str>,
    ) -> Result<Page, TraceError> {
        Err(no_trace())
    }

    /// Answers [`read_input`](crate::trace::read_input) and its neighbours.
    ///
    /// # Errors
    /// What the evaluator is to see.
    fn read(
        &self,
        _trace_id: &str,
        _observation_id: &str,
        _part: Part,
    ) -> Result<Option<Payload>, TraceError> {
        Err(no_trace())
    }

    /// Takes a log line; `fields` is the text of a JSON object.
    fn log(&self, _level: Level, _message: &str, _fields: Option<&str>) {}

    /// Answers [`seed`](crate::host::seed).
    fn seed(&self) -> u64 {
        0
    }

    /// Answers [`run_time_ms`](crate::host::run_time_ms).
    fn run_time_ms(&self) -> u64 {
        0
    }
}

fn no_trace() -> TraceError {
    TraceError::NotGranted("the capability `trace` was not granted".to_owned())
}

struct Nobody;
impl Host for Nobody {}

thread_local! {
    static HOST: RefCell<Rc<dyn Host>> = RefCell::new(Rc::new(Nobody));
}

/// Runs `test` while `host` answers what evaluators ask on this thread.
pub fn with_host<T>(host: impl Host + 'static, test: impl FnOnce() -> T) -> T {
    /// Puts the one before back, also when the test panics.
    struct Before(Option<Rc<dyn Host>>);
    impl Drop for Before {
        fn drop(&mut self) {
            if let Some(before) = self.0.take() {
                HOST.set(before);
            }
        }
    }
    let _before = Before(Some(HOST.replace(Rc::new(host))));
    test()
}

fn host() -> Rc<dyn Host> {
    HOST.with_borrow(Rc::clone)
}

pub(crate) fn complete(request: &Request) -> Result<Completion, ModelError> {
    host().complete(request)
}

pub(crate) fn complete_all(requests: &[Request]) -> Vec<Result<Completion, ModelError>> {
    let host = host();
    requests
        .iter()
        .map(|request| host.complete(request))
        .collect()
}

pub(crate) fn embed(slot: Option<&str>, texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
    host().embed(slot, texts)
}

pub(crate) fn get_trace(trace_id: &str) -> Result<TraceInfo, TraceError> {
    host().trace(trace_id)
}

pub(crate) fn list_observations(
    trace_id: &str,
    filter: &Filter,
    cursor: Option<&str>,
    _limit: u32,
) -> Result<Page, TraceError> {
    host().observations(trace_id, filter, cursor)
}

pub(crate) fn read_input(trace: &str, observation: &str) -> Result<Option<Payload>, TraceError> {
    host().read(trace, observation, Part::Input)
}

pub(crate) fn read_output(trace: &str, observation: &str) -> Result<Option<Payload>, TraceError> {
    host().read(trace, observation, Part::Output)
}

pub(crate) fn read_metadata(trace: &str, observation: &str) -> Result<Option<Payload>, TraceError> {
    host().read(trace, observation, Part::Metadata)
}

pub(crate) fn log(level: Level, message: &str, fields: Option<&str>) {
    host().log(level, message, fields);
}

pub(crate) fn seed() -> u64 {
    host().seed()
}

pub(crate) fn run_time_ms() -> u64 {
    host().run_time_ms()
}
