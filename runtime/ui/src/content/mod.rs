//! Inputs and outputs in the form in which they read best: chat messages as a conversation, other JSON
//! indented, the rest as text. Media are taken out before anything is rendered; their bytes are never
//! text on a page.
//!
//! - `locate`: where in a value the messages are; `messages`, `parts`, `kinds`: their shapes; `pairs`:
//!   results of tools beside their calls; `tools`: what was offered.
//! - `inline`, `spans`, `encoded`: media inside a value; `media`: how they are shown.
//! - `spoken`: what is new in each of several conversations that continue each other.
//! - `fields`: what of an object was shown, and what is left; `fold`: long values.

#[cfg(test)]
mod corpus_tests;
mod encoded;
mod fields;
mod fold;
#[cfg(test)]
mod hostile_tests;
mod inline;
mod kinds;
mod locate;
mod media;
mod messages;
mod pairs;
mod parts;
mod source;
mod spans;
mod spoken;
#[cfg(test)]
mod tests;
mod tools;

use std::collections::HashSet;

use perpend_domain::payload::Payload;
use serde_json::{Map, Value};

use self::fold::{Fold, Further, SHOWN_BYTES};
use self::locate::Item;
pub(crate) use self::media::Place;
use self::messages::Message;
use self::source::Source;
use self::tools::Tools;

pub(crate) use self::spoken::{Spoken, Told, told};

pub use self::inline::{InlineMedium, inline_type};
pub use self::media::Addresses;

/// Conversations longer than this fold their middle.
const WHOLE_CONVERSATION: usize = 24;
/// Messages kept at the start (instructions) and at the end (what happened last).
const KEPT_FIRST: usize = 2;
const KEPT_LAST: usize = 12;

/// A value ready to be shown.
#[derive(Clone, Debug)]
pub enum Block {
    /// Nothing was recorded.
    Absent,
    /// Text, or JSON of no known shape.
    Plain(Box<Fold>),
    /// A conversation.
    Chat(Box<Chat>),
    /// What a model was offered.
    Tools(Tools),
}

/// Messages in order, the middle of a long conversation apart.
#[derive(Clone, Debug)]
pub struct Chat {
    pub(crate) tools: Option<Tools>,
    pub(crate) first: Vec<Message>,
    pub(crate) middle: Vec<Message>,
    pub(crate) last: Vec<Message>,
    /// What else a request or an answer says, such as its settings or its usage.
    pub(crate) further: Option<Further>,
}

impl Block {
    /// From a recorded value, which is found again at these addresses.
    #[must_use]
    pub fn of(payload: Option<&Payload>, at: &Addresses) -> Self {
        let Some(payload) = payload else {
            return Self::Absent;
        };
        let mut value = inline::read(payload);
        let source = Source::new(inline::take(&mut value), at);
        if let Some(chat) = Chat::of(&source, &value) {
            return Self::Chat(Box::new(chat));
        }
        let fold = match &value {
            Value::String(text) if matches!(payload, Payload::Text(_)) => source.text(text),
            Value::String(json) => source.json_text(json),
            value if source.has_media() => source.json_text(&value.to_string()),
            // As it was recorded, down to the digits of its numbers.
            _ => source.json_text(payload.as_str()),
        };
        Self::Plain(Box::new(fold))
    }

    /// From metadata; an empty object is nothing.
    #[must_use]
    pub fn of_map(map: &Map<String, Value>, at: &Addresses) -> Self {
        if map.is_empty() {
            return Self::Absent;
        }
        let mut value = Value::Object(map.clone());
        let source = Source::new(inline::take(&mut value), at);
        Self::Plain(Box::new(source.json(&value)))
    }

    /// From the definitions of the tools that a model was offered, and the names of those it called.
    #[must_use]
    pub fn of_tools(definitions: Option<&Value>, called: &[String], at: &Addresses) -> Self {
        let Some(definitions) = definitions else {
            return Self::Absent;
        };
        // As the request for a medium in it reads it.
        let mut value = inline::read(&Payload::from_value(definitions.clone()));
        let source = Source::new(inline::take(&mut value), at);
        let called = called.iter().map(String::as_str).collect();
        Tools::of(&source, &value, &called)
            .map_or_else(|| Self::Plain(Box::new(source.json(&value))), Self::Tools)
    }

    /// Whether there is something to show.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl Chat {
    /// The conversation in a value of one of the known shapes.
    fn of(source: &Source<'_>, value: &Value) -> Option<Self> {
        if !value.is_array() && !value.is_object() {
            return None;
        }
        let mut value = value.clone();
        locate::expand(&mut value);
        let located = locate::locate(&value)?;
        // Above the limit only the beginning is shown, as JSON.
        if SHOWN_BYTES < value.to_string().len() {
            return None;
        }
        let messages = located.items.iter().map(|item| match item {
            Item::Message(message) => Message::of(source, message),
            Item::Said(role, said) => Message::said(source, role, said),
        });
        let mut read: Vec<Message> = messages.collect();
        pairs::pair(&mut read);
        let calls = read.iter().flat_map(|message| &message.parts);
        let called = calls.filter(|part| part.is_call());
        let called: HashSet<&str> = called
            .filter_map(|part| part.name.as_ref())
            .map(|name| name.raw())
            .collect();
        let mut further = located.further;
        let tools = located.tools.and_then(|tools| {
            let list = Tools::of(source, tools, &called);
            if list.is_none() {
                let tools = Map::from_iter([("tools".to_owned(), tools.clone())]);
                fields::merge(&mut further, tools);
            }
            list
        });
        Some(Self {
            tools,
            further: source.further(further),
            ..Self::folded(read)
        })
    }

    /// Messages, the middle of many apart.
    fn folded(mut all: Vec<Message>) -> Self {
        let (mut middle, mut last) = (Vec::new(), Vec::new());
        if WHOLE_CONVERSATION < all.len() {
            last = all.split_off(all.len() - KEPT_LAST);
            middle = all.split_off(KEPT_FIRST);
        }
        Self {
            tools: None,
            first: all,
            middle,
            last,
            further: None,
        }
    }
}
