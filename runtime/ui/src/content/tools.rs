//! The tools that a model was offered, those that it called marked.

use std::collections::HashSet;

use serde_json::Value;

use super::fields::parsed;
use super::fold::Fold;
use super::source::Source;
use crate::format::count;
use crate::markup::Text;

/// Tools in the order in which they were offered.
#[derive(Clone, Debug)]
pub struct Tools {
    pub(crate) list: Vec<Tool>,
    n_called: usize,
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
        let mut list = Vec::new();
        match held.as_ref().unwrap_or(value) {
            Value::Array(items) => {
                for item in items {
                    add(source, item, called, &mut list);
                }
            }
            Value::Object(members) => {
                for (name, tool) in members {
                    list.push(Tool::new(source, name, tool, called));
                }
            }
            _ => return None,
        }
        let n_called = list.iter().filter(|tool| tool.is_called).count();
        (!list.is_empty()).then_some(Self { list, n_called })
    }

    pub(crate) fn title(&self) -> String {
        let n = self.list.len();
        let tools = if n == 1 { "tool" } else { "tools" };
        format!(
            "{} {tools} offered, {} called",
            count(n as u64),
            count(self.n_called as u64)
        )
    }
}

/// Adds a member of a list of tools: a tool, or Google's object with a list of them.
fn add(source: &Source<'_>, item: &Value, called: &HashSet<&str>, list: &mut Vec<Tool>) {
    let held = item.as_str().and_then(parsed);
    let item = held.as_ref().unwrap_or(item);
    let declared = ["functionDeclarations", "function_declarations"];
    let members = item.as_object().filter(|members| members.len() == 1);
    let declared = members.and_then(|members| {
        let declared = declared.iter().find_map(|key| members.get(*key));
        declared?.as_array()
    });
    if let Some(declared) = declared {
        let tools = declared
            .iter()
            .map(|tool| Tool::new(source, name_of(tool), tool, called));
        list.extend(tools);
        return;
    }
    list.push(Tool::new(source, name_of(item), item, called));
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
            is_called: called.contains(name),
            body: source.json(tool),
        }
    }
}
