//! A prompt that fits its limit, and the metadata about it.

use perpend_plugin::model::{Message, Request, Tool, ToolChoice};
use perpend_plugin::{Json, Score};

use crate::prompt::FilledPrompt;

/// A prompt that fits its limit.
pub(crate) struct PreparedPrompt {
    /// The messages, without the instruction.
    pub(crate) messages: Vec<Message>,
    /// The tools that the messages refer to. They cannot be called any more.
    pub(crate) tools: Vec<Tool>,
    /// Members of the metadata of each score.
    details: Vec<(String, Json)>,
}

impl PreparedPrompt {
    pub(crate) fn of(filled: FilledPrompt) -> Self {
        let truncated = filled.truncated;
        let truncated = (!truncated.is_empty()).then_some(Json::Object(truncated));
        Self {
            messages: filled.messages,
            tools: Vec::new(),
            details: truncated
                .map(|truncated| ("truncated".to_owned(), truncated))
                .into_iter()
                .collect(),
        }
    }

    /// The score with the metadata about its prompt.
    pub(crate) fn annotate(&self, mut score: Score) -> Score {
        score.metadata.extend_from_slice(&self.details);
        score
    }

    /// Adds a member to the metadata of the score.
    pub(crate) fn with(mut self, name: &str, value: Json) -> Self {
        self.details.push((name.to_owned(), value));
        self
    }

    /// The request for the answer, in which no tool can be called.
    pub(crate) fn final_request(&self, request: Request) -> Request {
        match self.tools.is_empty() {
            true => request,
            false => {
                Request { tools: self.tools.clone(), tool_choice: ToolChoice::None, ..request }
            }
        }
    }
}
