//! Answers of a model from a file, to run a judge without a model.
//!
//! Each item starts with the first answer. A capability without answers is refused with the error of the
//! server.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use perpend_sandbox::Port;
use perpend_worker_pool::{Caller, HostCalls};
use perpend_worker_protocol::host_call::{
    Completion, CompletionRequest, FinishReason, HostReply, HostRequest, ModelError, ToolCall,
};
use serde_json::{Map, Value};

use crate::error::Error;

/// The answer to one request to a model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// A text, and its structured value for requests with a schema.
    Text { text: String, structured: Option<String> },
    /// Calls of tools.
    Tools(Vec<ToolCall>),
    /// The model is unavailable.
    Failure(String),
}

const FORMS: &str = "an answer must be a text, {\"structured\": JSON}, {\"toolCalls\": [{\"name\": .., \"arguments\": {..}}]} or \
     {\"error\": \"the reason\"}";

impl Answer {
    /// Parses an answer.
    pub(crate) fn read(value: Value) -> Result<Self, String> {
        match value {
            Value::String(text) => Ok(Self::Text { text, structured: None }),
            Value::Object(members) => Self::from_members(members),
            _ => Err(FORMS.to_owned()),
        }
    }

    fn from_members(mut members: Map<String, Value>) -> Result<Self, String> {
        let answer = match (
            members.shift_remove("structured"),
            members.shift_remove("toolCalls"),
            members.shift_remove("error"),
        ) {
            (Some(value), None, None) => {
                Self::Text { text: value.to_string(), structured: Some(value.to_string()) }
            }
            (None, Some(Value::Array(calls)), None) if !calls.is_empty() => {
                let calls = calls.into_iter().enumerate();
                let calls = calls.map(|(at, call)| tool_call(at, call));
                Self::Tools(calls.collect::<Option<_>>().ok_or(FORMS)?)
            }
            (None, None, Some(Value::String(why))) => Self::Failure(why),
            _ => return Err(FORMS.to_owned()),
        };
        match members.is_empty() {
            true => Ok(answer),
            false => Err(FORMS.to_owned()),
        }
    }

    fn into_completion(self, request: &CompletionRequest) -> Result<Completion, ModelError> {
        match self {
            Self::Failure(why) => Err(ModelError::Unavailable(why)),
            Self::Tools(tool_calls) => Ok(Completion {
                finish: FinishReason::ToolCalls,
                tool_calls,
                ..completion(String::new())
            }),
            Self::Text { text, structured } => Ok(Completion {
                // For a request with a schema, the text must be its JSON.
                structured: structured
                    .or_else(|| request.response_schema.as_ref().map(|_| text.clone())),
                ..completion(text)
            }),
        }
    }
}

fn completion(text: String) -> Completion {
    Completion {
        text,
        structured: None,
        finish: FinishReason::Stop,
        input_tokens: 0,
        output_tokens: 0,
        logprobs: Vec::new(),
        tool_calls: Vec::new(),
        model: "answers".to_owned(),
        from_cache: false,
    }
}

/// `{"name": .., "arguments": {..}}`, optionally with an `id`; the default is `call_` and the position.
fn tool_call(at: usize, call: Value) -> Option<ToolCall> {
    let Value::Object(mut call) = call else {
        return None;
    };
    let text = |value: Value| value.as_str().map(str::to_owned);
    let id = match call.shift_remove("id") {
        Some(id) => text(id)?,
        None => format!("call_{}", at + 1),
    };
    let name = text(call.shift_remove("name")?)?;
    let arguments = match call.shift_remove("arguments") {
        None => "{}".to_owned(),
        Some(arguments @ Value::Object(_)) => arguments.to_string(),
        Some(_) => return None,
    };
    call.is_empty().then_some(ToolCall { id, name, arguments })
}

/// The answers of a file with one JSON value per line.
pub(crate) fn read(file: &Path) -> Result<Vec<Answer>, Error> {
    let text = std::fs::read_to_string(file).map_err(|source| Error::file(file, source))?;
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            let value = serde_json::from_str(line).map_err(|error| format!("not JSON: {error}"));
            value.and_then(Answer::read).map_err(|message| Error::Line {
                file: file.display().to_string(),
                line: at + 1,
                message,
            })
        })
        .collect()
}

/// The current answers, and the number of answers given to each item.
#[derive(Debug, Default)]
pub(crate) struct Script(Mutex<ScriptState>);

#[derive(Debug, Default)]
struct ScriptState {
    answers: Option<Vec<Answer>>,
    n_given: HashMap<String, usize>,
}

impl Script {
    /// Starts over with these answers; `None` grants no model.
    pub(crate) fn begin(&self, answers: Option<Vec<Answer>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            ScriptState { answers, n_given: HashMap::new() };
    }

    fn reply(&self, item: &str, request: &HostRequest) -> HostReply {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ScriptState { answers, n_given } = &mut *inner;
        let (HostRequest::Complete(requests), Some(answers)) = (request, answers) else {
            return request.not_granted();
        };
        let n_given = n_given.entry(item.to_owned()).or_default();
        let one = |request: &CompletionRequest| {
            *n_given += 1;
            match answers.get(*n_given - 1) {
                Some(answer) => answer.clone().into_completion(request),
                None => Err(ModelError::Unavailable(format!(
                    "request {n_given} to the model has no answer: the file has {} answers",
                    answers.len()
                ))),
            }
        };
        HostReply::Complete(requests.iter().map(one).collect())
    }
}

/// The script as the broker of worker processes.
#[derive(Debug)]
pub(crate) struct Broker(pub(crate) Arc<Script>);

impl HostCalls for Broker {
    fn host_call(&self, caller: Caller, request: HostRequest) -> BoxFuture<'_, HostReply> {
        let reply = self.0.reply(&caller.call.item.id, &request);
        Box::pin(std::future::ready(reply))
    }
}

/// The script as the port of one call in this process.
#[derive(Debug)]
pub(crate) struct CallPort {
    pub(crate) script: Arc<Script>,
    pub(crate) item: String,
}

impl Port for CallPort {
    fn call(&self, request: HostRequest) -> BoxFuture<'static, HostReply> {
        Box::pin(std::future::ready(self.script.reply(&self.item, &request)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn complete(schema: Option<&str>) -> HostRequest {
        HostRequest::Complete(vec![CompletionRequest {
            response_schema: schema.map(str::to_owned),
            ..CompletionRequest::new(Vec::new())
        }])
    }

    fn first(reply: HostReply) -> Result<Completion, ModelError> {
        match reply {
            HostReply::Complete(mut all) => all.remove(0),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_item_starts_with_the_first_answer_and_too_few_answers_are_an_error() {
        let script = Script::default();
        let structured = Answer::read(json!({ "structured": { "choice": "A" } })).unwrap();
        script.begin(Some(vec![Answer::read(json!("yes")).unwrap(), structured]));
        for item in ["a", "b"] {
            let reply = first(script.reply(item, &complete(None))).unwrap();
            assert_eq!((reply.text.as_str(), reply.structured), ("yes", None));
        }
        let reply = first(script.reply("a", &complete(Some("{}")))).unwrap();
        assert_eq!(reply.structured.as_deref(), Some("{\"choice\":\"A\"}"));
        let over = first(script.reply("a", &complete(None))).unwrap_err();
        assert!(format!("{over:?}").contains("2 answers"), "{over:?}");
    }

    #[test]
    fn an_answer_can_call_tools() {
        let script = Script::default();
        let calls = json!({ "toolCalls": [{ "name": "look", "arguments": { "at": 1 } }, { "name": "end" }] });
        script.begin(Some(vec![Answer::read(calls).unwrap()]));
        let reply = first(script.reply("a", &complete(None))).unwrap();
        assert_eq!(reply.finish, FinishReason::ToolCalls);
        let shown: Vec<_> = reply
            .tool_calls
            .iter()
            .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
            .collect();
        assert_eq!(shown, [("call_1", "look", "{\"at\":1}"), ("call_2", "end", "{}")]);
    }

    #[test]
    fn without_answers_a_model_is_not_granted() {
        let refused = first(Script::default().reply("a", &complete(None))).unwrap_err();
        assert!(matches!(refused, ModelError::NotGranted(_)), "{refused:?}");
    }

    #[test]
    fn an_invalid_answer_is_refused_with_the_accepted_forms() {
        for wrong in [
            json!(1),
            json!({}),
            json!({ "error": "x", "more": 1 }),
            json!({ "toolCalls": [] }),
            json!({ "toolCalls": [{ "name": "a", "arguments": 1 }] }),
            json!(null),
        ] {
            assert!(Answer::read(wrong).unwrap_err().contains("structured"));
        }
    }
}
