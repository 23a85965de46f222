//! A prompt that can be asked with, and what its score has to say about it.

use perpend_plugin::model::{Message, Request, Tool, ToolChoice};
use perpend_plugin::{Json, Score};

use crate::prompt::Filled;

/// A prompt that can be asked with.
pub(crate) struct Prepared {
    /// Without the instruction.
    pub(crate) messages: Vec<Message>,
    /// What was used in these messages. It cannot be used any more.
    pub(crate) tools: Vec<Tool>,
    /// What the score has to say about its prompt.
    details: Vec<(String, Json)>,
}

impl Prepared {
    pub(crate) fn of(filled: Filled) -> Self {
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

    /// The score with what was done to fit its prompt.
    pub(crate) fn noted(&self, mut score: Score) -> Score {
        score.metadata.extend_from_slice(&self.details);
        score
    }

    /// The same with one more detail for the metadata of the score.
    pub(crate) fn with(mut self, name: &str, value: Json) -> Self {
        self.details.push((name.to_owned(), value));
        self
    }

    /// The request for the answer: tools that were used before cannot be any more.
    pub(crate) fn closing(&self, request: Request) -> Request {
        match self.tools.is_empty() {
            true => request,
            false => {
                Request { tools: self.tools.clone(), tool_choice: ToolChoice::None, ..request }
            }
        }
    }
}
