//! The host in a native test.

use std::cell::RefCell;
use std::rc::Rc;

use crate::Payload;
use crate::host::Level;
use crate::model::{Completion, Distribution, ModelError, Place, Request};
use crate::trace::{Filter, Hit, Outline, Page, Part, Slice, TraceError, TraceInfo};
use crate::{run, session};

/// The host of a test. Functions without an implementation refuse calls, as for a plug-in without
/// capabilities.
pub trait Host {
    /// Implements [`complete`](crate::model::complete) and each of [`complete_all`](crate::model::complete_all).
    ///
    /// # Errors
    /// The error for the evaluator.
    fn complete(&self, _request: &Request) -> Result<Completion, ModelError> {
        Err(ModelError::NotGranted("the capability `model` was not granted".to_owned()))
    }

    /// Implements [`embed`](crate::model::embed).
    ///
    /// # Errors
    /// The error for the evaluator.
    fn embed(&self, _slot: Option<&str>, _texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
        Err(ModelError::NotGranted("the capability `model` was not granted".to_owned()))
    }

    /// Implements [`trace::get`](crate::trace::get).
    ///
    /// # Errors
    /// The error for the evaluator.
    fn trace(&self, _trace_id: &str) -> Result<TraceInfo, TraceError> {
        Err(no_trace())
    }

    /// Implements [`observations`](crate::trace::observations) and [`page`](crate::trace::page).
    ///
    /// # Errors
    /// The error for the evaluator.
    fn observations(
        &self,
        _trace_id: &str,
        _filter: &Filter,
        _cursor: Option<&str>,
    ) -> Result<Page, TraceError> {
        Err(no_trace())
    }

    /// Implements [`read_input`](crate::trace::read_input) and the functions of the other parts.
    ///
    /// # Errors
    /// The error for the evaluator.
    fn read(
        &self,
        _trace_id: &str,
        _observation_id: &str,
        _part: Part,
    ) -> Result<Option<Payload>, TraceError> {
        Err(no_trace())
    }

    /// Implements [`trace::outline`](crate::trace::outline) and [`trace::outline_page`](crate::trace::outline_page).
    ///
    /// # Errors
    /// The error for the evaluator.
    fn outline(
        &self,
        _trace_id: &str,
        _parent_id: Option<&str>,
        _cursor: Option<&str>,
    ) -> Result<Outline, TraceError> {
        Err(no_trace())
    }

    /// Implements [`trace::search`](crate::trace::search).
    ///
    /// # Errors
    /// The error for the evaluator.
    fn search(&self, _trace_id: &str, _text: &str, _limit: u32) -> Result<Vec<Hit>, TraceError> {
        Err(no_trace())
    }

    /// Implements [`trace::read_range`](crate::trace::read_range); by default a range of the result of [`Self::read`].
    ///
    /// # Errors
    /// The error for the evaluator.
    fn read_range(
        &self,
        trace_id: &str,
        observation_id: &str,
        part: Part,
        offset: u64,
        length: u32,
    ) -> Result<Option<Slice>, TraceError> {
        let whole = self.read(trace_id, observation_id, part)?;
        Ok(whole.map(|whole| Slice::of(&whole, offset, length)))
    }

    /// Implements [`session::get`](crate::session::get).
    ///
    /// # Errors
    /// The error for the evaluator.
    fn session(&self, _session_id: &str) -> Result<session::SessionInfo, TraceError> {
        Err(no_trace())
    }

    /// Implements [`session::traces`](crate::session::traces) and [`session::page`](crate::session::page).
    ///
    /// # Errors
    /// The error for the evaluator.
    fn session_traces(
        &self,
        _session_id: &str,
        _cursor: Option<&str>,
    ) -> Result<session::Page, TraceError> {
        Err(no_trace())
    }

    /// Implements [`run::get`](crate::run::get).
    ///
    /// # Errors
    /// The error for the evaluator.
    fn run(&self, _run_id: &str) -> Result<run::RunInfo, TraceError> {
        Err(no_trace())
    }

    /// Implements [`run::items`](crate::run::items) and [`run::page`](crate::run::page).
    ///
    /// # Errors
    /// The error for the evaluator.
    fn run_items(&self, _run_id: &str, _cursor: Option<&str>) -> Result<run::Page, TraceError> {
        Err(no_trace())
    }

    /// Takes a log line; `fields` is the text of a JSON object.
    fn log(&self, _level: Level, _message: &str, _fields: Option<&str>) {}

    /// Implements [`seed`](crate::host::seed).
    fn seed(&self) -> u64 {
        0
    }

    /// Implements [`run_time_ms`](crate::host::run_time_ms).
    fn run_time_ms(&self) -> u64 {
        0
    }
}

fn no_trace() -> TraceError {
    TraceError::NotGranted("the capability `trace` was not granted".to_owned())
}

struct NoHost;
impl Host for NoHost {}

thread_local! {
    static HOST: RefCell<Rc<dyn Host>> = RefCell::new(Rc::new(NoHost));
}

/// Runs `test` with `host` as the host of evaluators on this thread.
pub fn with_host<T>(host: impl Host + 'static, test: impl FnOnce() -> T) -> T {
    /// Restores the previous host, also when the test panics.
    struct Restore(Option<Rc<dyn Host>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            if let Some(before) = self.0.take() {
                HOST.set(before);
            }
        }
    }
    let _restore = Restore(Some(HOST.replace(Rc::new(host))));
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
    requests.iter().map(|request| host.complete(request)).collect()
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

pub(crate) fn outline(
    trace: &str,
    parent: Option<&str>,
    cursor: Option<&str>,
    _limit: u32,
) -> Result<Outline, TraceError> {
    host().outline(trace, parent, cursor)
}

pub(crate) fn search(trace: &str, text: &str, limit: u32) -> Result<Vec<Hit>, TraceError> {
    host().search(trace, text, limit)
}

pub(crate) fn read_range(
    trace: &str,
    observation: &str,
    part: Part,
    offset: u64,
    length: u32,
) -> Result<Option<Slice>, TraceError> {
    host().read_range(trace, observation, part, offset, length)
}

pub(crate) fn get_session(session: &str) -> Result<session::SessionInfo, TraceError> {
    host().session(session)
}

pub(crate) fn list_traces(
    session: &str,
    cursor: Option<&str>,
    _limit: u32,
) -> Result<session::Page, TraceError> {
    host().session_traces(session, cursor)
}

pub(crate) fn get_run(run: &str) -> Result<run::RunInfo, TraceError> {
    host().run(run)
}

pub(crate) fn list_items(
    run: &str,
    cursor: Option<&str>,
    _limit: u32,
) -> Result<run::Page, TraceError> {
    host().run_items(run, cursor)
}

/// The same computation as in the host.
pub(crate) fn probabilities(
    completion: &Completion,
    choices: &[String],
    place: Place<'_>,
) -> Option<Distribution> {
    let tokens = completion.logprobs.iter().map(|own| perpend_choices::Token {
        token: &own.token,
        logprob: own.logprob,
        alternatives: own
            .alternatives
            .iter()
            .map(|(text, logprob)| (text.as_str(), *logprob))
            .collect(),
    });
    let tokens: Vec<_> = tokens.collect();
    let place = match place {
        Place::Whole => perpend_choices::Place::Whole,
        Place::Member(name) => perpend_choices::Place::Member(name),
        Place::Offset(byte) => {
            perpend_choices::Place::Offset { text: &completion.text, byte: byte as u64 }
        }
    };
    let found = perpend_choices::Distribution::of(&tokens, choices, place)?;
    let margin = found.margin();
    Some(Distribution {
        shares: choices.iter().cloned().zip(found.shares).collect(),
        margin,
        coverage: found.coverage,
    })
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
