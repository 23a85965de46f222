//! A scripted model, which records the requests to it.

use std::cell::RefCell;
use std::rc::Rc;

use perpend_plugin::host::{Host, Level, with_host};
use perpend_plugin::model::{Completion, ModelError, Request};
use perpend_plugin::trace::{Hit, Outline, OutlineEntry, Part, TraceError};
use perpend_plugin::{EvalError, Item, Json, Payload, Plugin, Score};
use perpend_plugin_judge::ThisPlugin;

type Answer = dyn Fn(&Request) -> Result<Completion, ModelError>;

/// Observations with inputs and outputs, in tree order. The id of the trace is `t`.
pub(crate) struct RecordedTrace(pub(crate) Vec<(OutlineEntry, String, String)>);

struct Script {
    trace: Option<Rc<RecordedTrace>>,
    answer: Box<Answer>,
    requests: Rc<RefCell<Vec<Request>>>,
    log: Rc<RefCell<Vec<String>>>,
}

impl Script {
    fn recorded(&self, trace: &str) -> Result<&RecordedTrace, TraceError> {
        let granted = self.trace.as_deref().filter(|_| trace == "t");
        let why = "the capability `trace` was not granted";
        granted.ok_or_else(|| TraceError::NotGranted(why.to_owned()))
    }
}

impl Host for Script {
    fn outline(
        &self,
        trace: &str,
        parent: Option<&str>,
        _: Option<&str>,
    ) -> Result<Outline, TraceError> {
        let all = self.recorded(trace)?.0.iter();
        let below =
            all.filter(|(entry, ..)| parent.is_none() || entry.parent_id.as_deref() == parent);
        let entry = |(entry, input, output): &(OutlineEntry, String, String)| OutlineEntry {
            input_size: input.len() as u64,
            output_size: output.len() as u64,
            ..entry.clone()
        };
        Ok(Outline { entries: below.map(entry).collect(), next_cursor: None })
    }

    fn search(&self, trace: &str, text: &str, limit: u32) -> Result<Vec<Hit>, TraceError> {
        let all = self.recorded(trace)?.0.iter();
        let hits = all.filter_map(|(entry, _, output)| {
            let offset = output.to_lowercase().find(&text.to_lowercase())?;
            Some(Hit {
                observation_id: entry.id.clone(),
                part: Part::Output,
                offset: offset as u64,
                excerpt: output[offset..].chars().take(100).collect(),
            })
        });
        Ok(hits.take(limit as usize).collect())
    }

    fn read(&self, trace: &str, id: &str, part: Part) -> Result<Option<Payload>, TraceError> {
        let mut all = self.recorded(trace)?.0.iter();
        let found = all.find(|(entry, ..)| entry.id == id);
        let missing = || TraceError::NotFound("the trace has no such observation".to_owned());
        let (_, input, output) = found.ok_or_else(missing)?;
        let text = match part {
            Part::Input => input,
            Part::Output => output,
            Part::Metadata => return Ok(None),
        };
        Ok((!text.is_empty()).then(|| Payload::from(text.as_str())))
    }

    fn complete(&self, request: &Request) -> Result<Completion, ModelError> {
        self.requests.borrow_mut().push(request.clone());
        (self.answer)(request)
    }

    fn log(&self, _: Level, message: &str, fields: Option<&str>) {
        let line = format!("{message} {}", fields.unwrap_or_default());
        self.log.borrow_mut().push(line);
    }

    fn seed(&self) -> u64 {
        7
    }
}

/// The outcome of an evaluation, with its requests to the model and its log.
pub(crate) struct Run {
    pub(crate) outcome: Result<Vec<Score>, EvalError>,
    pub(crate) requests: Vec<Request>,
    pub(crate) log: Vec<String>,
}

impl Run {
    #[track_caller]
    pub(crate) fn scores(&self) -> &[Score] {
        self.outcome.as_ref().unwrap()
    }

    /// The only score.
    #[track_caller]
    pub(crate) fn score(&self) -> &Score {
        let [score] = self.scores() else { unreachable!("{:?}", self.outcome) };
        score
    }

    #[track_caller]
    pub(crate) fn error(&self) -> &EvalError {
        self.outcome.as_ref().unwrap_err()
    }
}

/// Evaluates with a model that `answer` scripts.
pub(crate) fn run(
    evaluator: &str,
    config: &str,
    item: &Item,
    answer: impl Fn(&Request) -> Result<Completion, ModelError> + 'static,
) -> Run {
    run_on(None, evaluator, config, item, answer)
}

/// As [`run`], over an item whose trace can be read.
pub(crate) fn run_on(
    trace: Option<Rc<RecordedTrace>>,
    evaluator: &str,
    config: &str,
    item: &Item,
    answer: impl Fn(&Request) -> Result<Completion, ModelError> + 'static,
) -> Run {
    let requests = Rc::<RefCell<Vec<Request>>>::default();
    let log = Rc::<RefCell<Vec<String>>>::default();
    let script = Script {
        trace,
        answer: Box::new(answer),
        requests: Rc::clone(&requests),
        log: Rc::clone(&log),
    };
    let outcome = with_host(script, || ThisPlugin::evaluate(evaluator, item, config));
    Run { outcome, requests: requests.take(), log: log.take() }
}

/// Evaluates `judge` with a model that always returns the same structured reply.
pub(crate) fn judge(config: &str, reply: &str) -> Run {
    let reply = reply.to_owned();
    run("judge", config, &item(), move |_| Ok(structured(&reply)))
}

/// A structured reply.
pub(crate) fn structured(json: &str) -> Completion {
    Completion { structured: Some(json.to_owned()), ..Completion::of(json) }
}

pub(crate) fn item() -> Item {
    Item {
        input: Some(Payload::from("What is 2 + 2?")),
        output: Some(Payload::from("Four.")),
        ..Item::default()
    }
}

/// A member of the metadata of a score.
pub(crate) fn metadata<'a>(score: &'a Score, name: &str) -> Option<&'a Json> {
    let found = score.metadata.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value)
}

pub(crate) fn schema(request: &Request) -> serde_json::Value {
    serde_json::from_str(request.response_schema.as_deref().unwrap()).unwrap()
}
