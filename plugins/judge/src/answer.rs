//! The answer of a model, and its conversion to scores.

use perpend_plugin::model::Distribution;
use perpend_plugin::{Json, Score};

use crate::distribution::to_metadata;

/// The value of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A number.
    Number(f64),
    /// True or false.
    Boolean(bool),
    /// One category, or several.
    Categories(Vec<String>),
}

impl Value {
    /// The scores of this value: one, or one for each category.
    pub(crate) fn scores(&self, name: &str) -> Vec<Score> {
        match self {
            Self::Number(number) => vec![Score::numeric(name, *number)],
            Self::Boolean(yes) => vec![Score::boolean(name, *yes)],
            Self::Categories(categories) => {
                let categories = categories.iter();
                categories.map(|category| Score::categorical(name, category.as_str())).collect()
            }
        }
    }

    pub(crate) fn to_json(&self) -> Json {
        match self {
            Self::Number(number) => Json::from(*number),
            Self::Boolean(yes) => Json::from(*yes),
            Self::Categories(categories) => match categories.as_slice() {
                [one] => Json::from(one.as_str()),
                several => Json::from(several.to_vec()),
            },
        }
    }
}

/// An answer of a model.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) value: Value,
    /// The explanation that the model wrote.
    pub(crate) reasoning: Option<String>,
    /// Further members of the metadata of the score.
    pub(crate) details: Vec<(String, Json)>,
}

impl Answer {
    pub(crate) fn of(value: Value, reasoning: Option<String>) -> Self {
        Self { value, reasoning, details: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Json>) -> Self {
        self.details.push((name.to_owned(), value.into()));
        self
    }

    /// Adds the distribution over the choices to the details.
    pub(crate) fn with_distribution(mut self, distribution: &Distribution) -> Self {
        self.details.extend(to_metadata(distribution));
        self
    }
}

/// A text, or a list of values as lines; `None` when absent or of another type.
pub(crate) fn lines(value: Option<&Json>) -> Option<String> {
    match value? {
        Json::Text(text) => Some(text.clone()),
        Json::Array(lines) => {
            let lines = lines.iter().cloned().map(Json::into_text);
            Some(lines.collect::<Vec<_>>().join("\n"))
        }
        _ => None,
    }
}

/// A member of an object.
pub(crate) fn member<'a>(object: &'a Json, name: &str) -> Option<&'a Json> {
    match object {
        Json::Object(members) => {
            members.iter().find(|(key, _)| key == name).map(|(_, value)| value)
        }
        _ => None,
    }
}
