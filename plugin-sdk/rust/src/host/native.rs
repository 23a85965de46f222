//! Who answers evaluators in a native test.

use std::cell::RefCell;
use std::rc::Rc;

use crate::Payload;
use crate::host::Level;
use crate::model::{Completion, Distribution, ModelError, Place, Request};
use crate::trace::{Filter, Hit, Outline, Page, Part, Slice, TraceError, TraceInfo};
use crate::{run, session};

/// What a test answers in the host's place. What it does not say is refused, as it is for a plug-in that
/// was granted nothing.
pub trait Host {
    /// Answers [`complete`](crate::model::complete) and each of [`complete_all`](crate::model::complete_all).
    ///
    /// # Errors
    /// What the evaluator is to see.
    fn complete(&self, _request: &Request) -> Result<Completion, ModelError> {
        Err(ModelError::NotGranted("the capability `model` was not granted".to_owned()))
    }

    /// Answers [`embed`](crate::model::embed).
    ///
    /// # Errors
    /// What the evaluator is to see.
    fn embed(&self, _slot: Option<&str>, _texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
        Err(ModelError::NotGranted("the capability `model` was not granted".to_owned()))
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

    /// Answers [`trace::outline`](crate::trace::outline) and [`trace::outline_page`](crate::trace::outline_page).
    ///
    /// # Errors
    /// What the evaluator is to see.
    fn outline(
        &self,
        _trace_id: &str,
        _parent_id: Option<&str>,
        _cursor: Option<&str>,
    ) -> Result<Outline, TraceError> {
        Err(no_trace())
    }

    /// Answers [`trace::search`](crate::trace::search).
    ///
    /// # Errors
    /// What the evaluator is to see.
    fn search(&self, _trace_id: &str, _text: &str, _limit: u32) -> Result<Vec<Hit>, TraceError> {
        Err(no_trace())
    }

    /// Answers [`trace::read_range`](crate::trace::read_range); without it a range of what [`Self::read`] gives.
    ///
    /// # Errors
    /// What the evaluator is to see.
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

    /// Answers [`session::get`](crate::session::get).
    ///
    /// # Errors
    /// What the evaluator is to see.
    fn session(&self, _session_id: &str) -> Result<session::SessionInfo, TraceError> {
        Err(no_trace())
    }

    /// Answers [`session::traces`](crate::session::traces) and [`session::page`](crate::session::page).
    ///
    /// # Errors
    /// What the evaluator is to see.
    fn session_traces(
        &self,
        _session_id: &str,
        _cursor: Option<&str>,
    ) -> Result<session::Page, TraceError> {
        Err(no_trace())
    }

    /// Answers [`run::get`](crate::run::get).
    ///
    /// # Errors
    /// What the evaluator is to see.
    fn run(&self, _run_id: &str) -> Result<run::RunInfo, TraceError> {
        Err(no_trace())
    }

    /// Answers [`run::items`](crate::run::items) and [`run::page`](crate::run::page).
    ///
    /// # Errors
    /// What the evaluator is to see.
    fn run_items(&self, _run_id: &str, _cursor: Option<&str>) -> Result<run::Page, TraceError> {
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

/// As the host computes it.
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
