//! The tools that a model was offered, those that it called marked.

use std::collections::HashSet;

use perpend_domain::payload::Payload;
use perpend_markup::Text;
use perpend_shapes::{inline, is_empty, parsed, unify};
use serde_json::{Map, Value};

use super::READ_BYTES;
use super::fold::{Fold, Window};
use super::media::Addresses;
use super::messages::Message;
use super::source::Source;
use perpend_shapes::locate::{Item, locate};
use perpend_words::count;

/// Tools in the order in which they were offered.
#[derive(Clone, Debug)]
pub struct Tools {
    pub(crate) list: Vec<Tool>,
    n_called: usize,
    /// Further ones that are not listed, and where they are.
    pub(crate) rest: Option<(usize, String)>,
}

/// Tools that are listed, and how much is said of them together, about.
const MAX_TOOLS: usize = 200;
const MAX_BYTES: usize = 256 * 1024;

/// Tools as they are read, within the bounds.
struct Reading<'s, 'a> {
    source: &'s Source<'a>,
    called: &'s HashSet<&'s str>,
    list: Vec<Tool>,
    n_left: usize,
    n_more: usize,
}

impl Reading<'_, '_> {
    fn push(&mut self, name: &str, tool: &Value) {
        if MAX_TOOLS <= self.list.len() || self.n_left == 0 {
            self.n_more += 1;
            return;
        }
        let tool = Tool::new(self.source, name, tool, self.called);
        self.n_left = self.n_left.saturating_sub(tool.body.body.as_str().len());
        self.list.push(tool);
    }
}

/// One tool.
#[derive(Clone, Debug)]
pub(crate) struct Tool {
    pub(crate) name: Text,
    pub(crate) is_called: bool,
    /// All that was said of it.
    pub(crate) body: Fold,
}

impl Tools {
    /// The tools in a list or an object of one of the common APIs; none when it is neither.
    pub(super) fn of(source: &Source<'_>, value: &Value, called: &HashSet<&str>) -> Option<Self> {
        let held = value.as_str().and_then(parsed);
        let mut reading = Reading {
            source,
            called,
            list: Vec::new(),
            n_left: MAX_BYTES,
            n_more: 0,
        };
        match held.as_ref().unwrap_or(value) {
            Value::Array(items) => items.iter().for_each(|item| add(item, &mut reading)),
            Value::Object(members) => {
                for (name, tool) in members {
                    reading.push(name, tool);
                }
            }
            _ => return None,
        }
        let Reading { list, n_more, .. } = reading;
        let n_called = list.iter().filter(|tool| tool.is_called).count();
        (!list.is_empty()).then(|| Self {
            rest: (0 < n_more).then(|| (n_more, source.page("&as=tree"))),
            list,
            n_called,
        })
    }

    pub(crate) fn title(&self) -> String {
        let n = self.list.len() + self.rest.as_ref().map_or(0, |(n, _)| *n);
        let tools = if n == 1 { "tool" } else { "tools" };
        format!(
            "{} {tools} offered, {} called",
            count(n as u64),
            count(self.n_called as u64)
        )
    }
}

/// The names of the tools that are called in what a step was asked and what it answered, behind those that are known.
pub(crate) fn called_tools(known: &[String], values: [Option<&Payload>; 2]) -> Vec<String> {
    let mut called = known.to_vec();
    let nowhere = Addresses::default();
    let is_read = |payload: &&Payload| payload.as_str().len() <= READ_BYTES;
    for payload in values.into_iter().flatten().filter(is_read) {
        let mut value = inline::read(payload);
        let source = Source::new(inline::take(&mut value), &nowhere);
        // Only names are read.
        let source = source.window(Window { from: 0, n: 0 });
        unify(&mut value);
        let items = locate(&value).map(|located| located.items);
        for item in items.iter().flatten() {
            let message = match item {
                Item::Message(message) => Message::of(&source, message),
                Item::Said(role, said) => Message::said(&source, role, said),
            };
            let calls = message.parts.iter().filter(|part| part.is_call());
            let names = calls.filter_map(|part| part.name.as_ref());
            called.extend(names.map(|name| name.raw().to_owned()));
        }
    }
    called
}

/// Adds a member of a list of tools: a tool, or Google's object with a list of them.
fn add(item: &Value, reading: &mut Reading<'_, '_>) {
    let held = item.as_str().and_then(parsed);
    let item = held.as_ref().unwrap_or(item);
    let declared = ["functionDeclarations", "function_declarations"];
    let said =
        |members: &&Map<String, Value>| members.values().filter(|said| !is_empty(said)).count();
    let members = item.as_object().filter(|members| said(members) == 1);
    let declared = members.and_then(|members| {
        let declared = declared.iter().find_map(|key| members.get(*key));
        declared?.as_array()
    });
    if let Some(declared) = declared {
        declared
            .iter()
            .for_each(|tool| reading.push(name_of(tool), tool));
        return;
    }
    reading.push(name_of(item), item);
}

fn name_of(tool: &Value) -> &str {
    let inner = ["function", "toolSpec", "custom"]
        .iter()
        .find_map(|key| tool.get(*key));
    let inner = inner.filter(|inner| inner.is_object()).unwrap_or(tool);
    let name = ["name", "type"]
        .iter()
        .find_map(|key| inner.get(*key)?.as_str());
    name.or_else(|| tool.as_str()).unwrap_or("tool")
}

impl Tool {
    fn new(source: &Source<'_>, name: &str, tool: &Value, called: &HashSet<&str>) -> Self {
        Self {
            name: source.line(name),
            // The calls of tools that providers run have the words of their type.
            is_called: called.contains(name) || called.contains(name.replace('_', " ").as_str()),
            body: source.json(tool),
        }
    }
}
