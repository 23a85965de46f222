//! The item that is scored.

use crate::{EvalError, Json};

/// The item that is scored. Only the parts in [`Evaluator::NEEDS`](crate::Evaluator::NEEDS) are present; a
/// part that the data does not have is `None` as well.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Item {
    /// Unique inside one run. For log lines only: a score must not depend on it.
    pub id: String,
    /// The input of the subject.
    pub input: Option<Payload>,
    /// The output of the subject.
    pub output: Option<Payload>,
    /// The expected output.
    pub expected_output: Option<Payload>,
    /// The text of a JSON object.
    pub metadata: Option<String>,
    /// The reference to the recorded execution.
    pub trace: Option<TraceRef>,
    /// The id of the scored session, for [`session`](crate::session).
    pub session: Option<String>,
    /// The id of the scored run, for [`run`](crate::run).
    pub run: Option<String>,
}

/// A value of any JSON kind. A JSON string arrives as `Text`, unescaped and without quotes; every other
/// kind arrives as JSON text, which is parsed on demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A string.
    Text(String),
    /// The JSON text of an object, array, number, boolean or null.
    Json(String),
}

/// A reference to the recorded execution of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRef {
    /// The trace.
    pub trace_id: String,
    /// The scored observation; absent when the whole trace is scored.
    pub observation_id: Option<String>,
}

impl Payload {
    /// The payload of one JSON value.
    #[must_use]
    pub fn of(value: Json) -> Self {
        match value {
            Json::Text(text) => Self::Text(text),
            other => Self::Json(other.to_string()),
        }
    }

    /// The string itself, or the JSON text of any other value.
    #[must_use]
    pub fn as_text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Json(text) => text,
        }
    }

    /// True for JSON null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Json(text) if text.trim() == "null")
    }

    /// The value as a tree.
    ///
    /// # Errors
    /// `invalid-input` when the text is not JSON. The host only sends valid JSON.
    pub fn to_json(&self) -> Result<Json, EvalError> {
        match self {
            Self::Text(text) => Ok(Json::Text(text.clone())),
            Self::Json(text) => Json::parse(text)
                .map_err(|why| EvalError::invalid_input(format!("the value is not JSON: {why}"))),
        }
    }
}

impl From<&str> for Payload {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Payload {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Json> for Payload {
    fn from(value: Json) -> Self {
        Self::of(value)
    }
}

impl Item {
    /// An item with this output, for tests.
    #[must_use]
    pub fn with_output(output: impl Into<Payload>) -> Self {
        Self { output: Some(output.into()), ..Self::default() }
    }

    /// The same item with this expected output, for tests.
    #[must_use]
    pub fn expecting(mut self, expected: impl Into<Payload>) -> Self {
        self.expected_output = Some(expected.into());
        self
    }

    /// The input.
    ///
    /// # Errors
    /// `invalid-input` when it is absent.
    pub fn input(&self) -> Result<&Payload, EvalError> {
        self.input.as_ref().ok_or_else(|| EvalError::invalid_input("the item has no input"))
    }

    /// The output.
    ///
    /// # Errors
    /// `invalid-input` when it is absent.
    pub fn output(&self) -> Result<&Payload, EvalError> {
        self.output.as_ref().ok_or_else(|| EvalError::invalid_input("the item has no output"))
    }

    /// The output as text: a string unchanged, any other value as its JSON text.
    ///
    /// # Errors
    /// `invalid-input` when it is absent.
    pub fn output_text(&self) -> Result<&str, EvalError> {
        self.output().map(Payload::as_text)
    }

    /// The expected output.
    ///
    /// # Errors
    /// `invalid-input` when it is absent or null.
    pub fn expected(&self) -> Result<&Payload, EvalError> {
        self.expected_output
            .as_ref()
            .filter(|expected| !expected.is_null())
            .ok_or_else(|| EvalError::invalid_input("the item has no expected output"))
    }

    /// The expected output as a list of acceptable texts: the elements of an array, or the value itself.
    ///
    /// # Errors
    /// `invalid-input` when it is absent or null.
    pub fn targets(&self) -> Result<Vec<String>, EvalError> {
        let expected = self.expected()?;
        match expected {
            Payload::Text(text) => Ok(vec![text.clone()]),
            Payload::Json(_) => match expected.to_json()? {
                Json::Array(values) => Ok(values.into_iter().map(Json::into_text).collect()),
                value => Ok(vec![value.into_text()]),
            },
        }
    }
}
