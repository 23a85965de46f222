//! A JSON value as a tree.

use std::borrow::Cow;

use serde_json::Value as Json;

/// A JSON value that borrows from the text. Object members are in order, repeats included.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node<'a> {
    Null,
    Bool(bool),
    /// The number as written.
    Number(&'a str),
    Text(Cow<'a, str>),
    Array(Vec<Node<'a>>),
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

impl<'a> Node<'a> {
    /// The last member of that name.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => {
                members.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn to_json(&self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Number(text) => number(text),
            Self::Text(text) => Json::String(text.as_ref().to_owned()),
            Self::Array(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Self::Object(members) => Json::Object(
                members
                    .iter()
                    .map(|(key, value)| (key.as_ref().to_owned(), value.to_json()))
                    .collect(),
            ),
        }
    }
}

/// A number as exact as the value type allows.
fn number(text: &str) -> Json {
    if let Ok(value) = text.parse::<i64>() {
        return value.into();
    }
    if let Ok(value) = text.parse::<u64>() {
        return value.into();
    }
    text.parse::<f64>().map_or(Json::Null, Json::from)
}
