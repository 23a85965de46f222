//! Locates the conversation in a value: the value itself, or a member of a request or a response, which may also have
//! tool definitions and other members.

use serde_json::{Map, Value};

use crate::content::members::{is_empty, merge};
use crate::content::messages::{HOLDERS, TOOLS};
use crate::content::roles::{is_chat_message, is_message, is_reply};

/// Objects and lists around the messages.
const MAX_DEPTH: usize = 6;
const INSTRUCTIONS: [&str; 11] = [
    "system",
    "instructions",
    "system_instruction",
    "systemInstruction",
    "system_instructions",
    "systemInstructions",
    "system_prompt",
    "systemPrompt",
    "system_message",
    "systemMessage",
    "preamble",
];
/// Members with a text from the user.
pub(crate) const QUESTIONS: [&str; 3] = ["prompt", "input", "contents"];

/// A message, where it is.
pub enum Item<'v> {
    Message(&'v Value),
    /// A value with this role in a separate member.
    FromRole(&'static str, &'v Value),
}

/// A conversation in a value.
#[derive(Default)]
pub struct Located<'v> {
    pub items: Vec<Item<'v>>,
    pub tools: Option<&'v Value>,
    /// The outermost member that holds the messages.
    pub holder: Option<&'static str>,
    /// The other members of the objects around it.
    pub further: Map<String, Value>,
}

/// The conversation in a value, if there is one.
pub fn locate(value: &Value) -> Option<Located<'_>> {
    locate_within(value, 0)
}

fn locate_within(value: &Value, depth: usize) -> Option<Located<'_>> {
    if MAX_DEPTH < depth {
        return None;
    }
    match value {
        // The contents of an answer, without the answer around them.
        Value::Array(items) if is_reply(items) => {
            Some(Located::of(vec![Item::FromRole("assistant", value)]))
        }
        Value::Array(items) => of_list(items, depth),
        Value::Object(_) if is_message(value) => Some(Located::of(vec![Item::Message(value)])),
        Value::Object(members) => of_object(members, depth),
        _ => None,
    }
}

impl<'v> Located<'v> {
    fn of(items: Vec<Item<'v>>) -> Self {
        Self { items, ..Self::default() }
    }
}

/// A list that contains a chat message, or of which at least half are messages; or a list of conversations.
fn of_list(items: &[Value], depth: usize) -> Option<Located<'_>> {
    let n_messages = items.iter().filter(|item| is_message(item)).count();
    let is_half = 0 < n_messages && items.len() <= 2 * n_messages;
    if is_half || items.iter().any(is_chat_message) {
        return Some(Located::of(items.iter().map(Item::Message).collect()));
    }
    let mut all = Located::default();
    for (at, item) in items.iter().enumerate() {
        let found = locate_within(item, depth + 1)?;
        all.items.extend(found.items);
        all.tools = all.tools.or(found.tools);
        match items.len() {
            1 => {
                all.holder = found.holder;
                merge(&mut all.further, found.further);
            }
            _ if found.further.is_empty() => {}
            _ => {
                let further = Value::Object(found.further);
                all.further.insert(format!("[{at}]"), further);
            }
        }
    }
    (!all.items.is_empty()).then_some(all)
}

fn of_object(members: &Map<String, Value>, depth: usize) -> Option<Located<'_>> {
    let member = |keys: &[&'static str]| {
        keys.iter()
            .find_map(|key| Some((*key, members.get(*key).filter(|value| !is_empty(value))?)))
    };
    let inside = HOLDERS.iter().find_map(|key| {
        let found = locate_within(members.get(*key)?, depth + 1)?;
        Some((*key, found))
    });
    let instructions = member(&INSTRUCTIONS).filter(|(_, value)| !value.is_number());
    let mut shown = Vec::new();
    let mut located = match inside {
        Some((key, mut found)) => {
            shown.push(key);
            let inner = std::mem::take(&mut found.further);
            if !inner.is_empty() {
                found.further.insert(key.to_owned(), Value::Object(inner));
            }
            found.holder = Some(key);
            found
        }
        // A question alone is a text like any other.
        None => {
            instructions?;
            let (key, prompt) = member(&QUESTIONS).filter(|(_, prompt)| prompt.is_string())?;
            shown.push(key);
            Located::of(vec![Item::FromRole("user", prompt)])
        }
    };
    if let Some((key, value)) = instructions {
        shown.push(key);
        located.items.insert(0, Item::FromRole("system", value));
    }
    if let Some((key, value)) = member(&TOOLS).filter(|_| located.tools.is_none()) {
        shown.push(key);
        located.tools = Some(value);
    }
    let rest =
        members.iter().filter(|(key, value)| !shown.contains(&key.as_str()) && !is_empty(value));
    let rest = rest.map(|(key, value)| (key.clone(), value.clone()));
    merge(&mut located.further, rest.collect());
    Some(located)
}
