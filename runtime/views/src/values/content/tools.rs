//! The tools offered to a model; called tools are marked.

use std::collections::HashSet;

use crate::markup::Text;
use perpend_domain::content::calls::calls;
use perpend_domain::content::{definitions, tool_name, unify};
use perpend_domain::payload::Payload;
use serde_json::Value;

use super::READ_BYTES;
use super::fold::Fold;
use super::media::read;
use super::source::Source;
use crate::format::count;

/// Tools in the order of the request.
#[derive(Clone, Debug)]
pub struct Tools {
    pub(crate) list: Vec<Tool>,
    n_called: usize,
    /// Number of unlisted tools, and the URL that shows them.
    pub(crate) rest: Option<(usize, String)>,
}

/// Maximum number of listed tools, and approximate maximum of the bytes of their definitions.
const MAX_TOOLS: usize = 200;
const MAX_BYTES: usize = 256 * 1024;

/// Collects tools up to the limits.
struct ToolCollector<'s, 'a> {
    source: &'s Source<'a>,
    called: &'s HashSet<&'s str>,
    list: Vec<Tool>,
    n_left: usize,
    n_more: usize,
}

impl ToolCollector<'_, '_> {
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

#[derive(Clone, Debug)]
pub(crate) struct Tool {
    pub(crate) name: Text,
    pub(crate) is_called: bool,
    /// The complete definition.
    pub(crate) body: Fold,
}

impl Tools {
    /// Parses the tool definitions of the common APIs, given as a list or an object. `None` if there are none.
    pub(super) fn of(source: &Source<'_>, value: &Value, called: &HashSet<&str>) -> Option<Self> {
        let mut collector =
            ToolCollector { source, called, list: Vec::new(), n_left: MAX_BYTES, n_more: 0 };
        for tool in definitions(value.clone()) {
            collector.push(tool_name(&tool).unwrap_or("tool"), &tool);
        }
        let ToolCollector { list, n_more, .. } = collector;
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
        format!("{} {tools} offered, {} called", count(n as u64), count(self.n_called as u64))
    }
}

/// The names of the tools called in the input and output of an observation, appended to the `known` names.
pub(crate) fn called_tools(known: &[String], values: [Option<&Payload>; 2]) -> Vec<String> {
    let mut called = known.to_vec();
    let is_read = |payload: &&Payload| payload.as_str().len() <= READ_BYTES;
    for payload in values.into_iter().flatten().filter(is_read) {
        let mut value = read(payload);
        unify(&mut value);
        called.extend(calls(&value).into_iter().map(|call| call.name));
    }
    called
}

impl Tool {
    fn new(source: &Source<'_>, name: &str, tool: &Value, called: &HashSet<&str>) -> Self {
        Self { name: source.line(name), is_called: called.contains(name), body: source.json(tool) }
    }
}
