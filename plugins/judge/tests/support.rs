//! A model that a test scripts, and what it was asked.

use std::cell::RefCell;
use std::rc::Rc;

use perpend_plugin::host::{Host, Level, with_host};
use perpend_plugin::model::{Completion, ModelError, Request};
use perpend_plugin::{EvalError, Item, Json, Payload, Plugin, Score};
use perpend_plugin_judge::ThisPlugin;

type Answer = dyn Fn(&Request) -> Result<Completion, ModelError>;

struct Script {
    answer: Box<Answer>,
    asked: Rc<RefCell<Vec<Request>>>,
    log: Rc<RefCell<Vec<String>>>,
}

impl Host for Script {
    fn complete(&self, request: &Request) -> Result<Completion, ModelError> {
        self.asked.borrow_mut().push(request.clone());
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

/// What an evaluation gave, and what it asked.
pub(crate) struct Run {
    pub(crate) outcome: Result<Vec<Score>, EvalError>,
    pub(crate) asked: Vec<Request>,
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
        let [score] = self.scores() else {
            unreachable!("{:?}", self.outcome)
        };
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
    let asked = Rc::<RefCell<Vec<Request>>>::default();
    let log = Rc::<RefCell<Vec<String>>>::default();
    let script = Script {
        answer: Box::new(answer),
        asked: Rc::clone(&asked),
        log: Rc::clone(&log),
    };
    let outcome = with_host(script, || ThisPlugin::evaluate(evaluator, item, config));
    Run {
        outcome,
        asked: asked.take(),
        log: log.take(),
    }
}

/// A judge whose model always gives the same structured reply.
pub(crate) fn judge(config: &str, reply: &str) -> Run {
    let reply = reply.to_owned();
    run("judge", config, &item(), move |_| Ok(structured(&reply)))
}

/// A structured reply.
pub(crate) fn structured(json: &str) -> Completion {
    Completion {
        structured: Some(json.to_owned()),
        ..Completion::of(json)
    }
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
