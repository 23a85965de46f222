//! Calls of tools and their results: which members of an object hold the name, the arguments, the answer. Every reader of
//! calls uses this module: the index of called tools, evaluator sources and pages.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::content::fields::Fields;
use crate::content::kinds::{
    CALL_IDS, CALL_MEMBERS, Kind, RESULT_MEMBERS, RESULTS, RUN_BY_GEMINI, name_in_type,
};
use crate::content::members::{MAX_VALUES, is_empty, merge, n_values, parsed, text};
use crate::content::messages::unify;
use crate::content::roles::{Speaker, speaker};

/// Objects around a call that are read.
const MAX_LAYERS: usize = 4;
/// Depth to which calls are searched in a value.
const MAX_DEPTH: usize = 20;
/// Values of a list of calls that is held as text, at most.
const MAX_PARSED: usize = 10_000;
/// Maximum number of calls that are read from one value.
const MAX_CALLS: usize = 1_000;
/// Members with the name of a tool, by priority.
const NAMES: [&str; 6] = ["name", "toolName", "tool_name", "function_name", "tool_type", "tool"];
/// Members with the arguments of a call, by priority.
const ARGUMENTS: [&str; 6] =
    ["arguments", "input", "args", "parameters", "tool_kwargs", "tool_input"];
/// The same in calls of tools that a provider runs, and in calls whose arguments could not be parsed.
const OTHER_ARGUMENTS: [&str; 6] =
    ["code", "action", "actions", "queries", "operation", "rawInput"];
/// Members of a message that hold its calls: a list or an object.
const LISTS: [&str; 11] = [
    "tool_calls",
    "toolCalls",
    "toolInvocations",
    "invalid_tool_calls",
    "functionCalls",
    "function_calls",
    "function_call",
    "functionCall",
    "tool_call",
    "toolCall",
    "toolUse",
];
/// Members that name tools without calling them, and pieces of calls that are complete elsewhere in the message.
const NO_CALLS: [&str; 4] = ["tool_choice", "toolChoice", "tool_call_chunks", "tool_definitions"];
/// Every shape of a call contains one of these words, in lower or mixed case.
const MARKERS: [&str; 5] = ["tool", "call", "executable", "\"arguments\"", "\"input\""];

/// The members of a call.
pub struct CallFields<'v> {
    /// The id, by which results refer to the call.
    pub id: Option<&'v str>,
    /// The name of the tool.
    pub name: Option<String>,
    /// The arguments, as recorded: text or a value.
    pub arguments: Option<&'v Value>,
    /// The result, where the same object has it.
    pub result: Option<&'v Value>,
    /// The error, where the same object has it.
    pub error: Option<&'v str>,
    /// Short members with their names.
    pub facts: Vec<(&'static str, String)>,
    inner: Fields<'v>,
    around: Vec<Fields<'v>>,
}

impl<'v> CallFields<'v> {
    /// Reads an object that is a call.
    #[must_use]
    pub fn of(object: &'v Map<String, Value>) -> Self {
        let mut around = Vec::new();
        let (mut object, mut members) = (object, with_function(&CALL_MEMBERS));
        let mut id = None;
        for _ in 0..MAX_LAYERS {
            let mut outer = Fields::of(object);
            let Some(inner) = outer.object(&members) else {
                break;
            };
            outer.is_one_of("type", &["function", "custom", "tool_use"]);
            id = id.or(outer.text(&CALL_IDS));
            around.push(outer);
            // Arguments may have members of any name.
            (object, members) = (inner, vec!["function"]);
        }
        let mut fields = Fields::of(object);
        let words = [
            "function_call",
            "tool_call",
            "tool-call",
            "tool_use",
            "function",
            "custom",
            "dynamic-tool",
        ];
        fields.is_one_of("type", &words);
        let id = id.or_else(|| fields.text(&CALL_IDS));
        let name = name(&mut fields, object, &around);
        let arguments = fields.any(&ARGUMENTS);
        let arguments = arguments.or_else(|| fields.any(&OTHER_ARGUMENTS));
        let result = fields.any(&["result", "output", "outputs"]);
        let error = fields.text(&["errorText"]);
        let mut facts: Vec<(&'static str, String)> = Vec::new();
        facts.extend(id.map(|id| ("id", id.to_owned())));
        facts.extend(fields.facts(&["id", "status", "state", "language"]));
        for outer in &mut around {
            facts.extend(outer.facts(&["id", "status", "index"]));
        }
        facts.dedup();
        Self { id, name, arguments, result, error, facts, inner: fields, around }
    }

    /// The members that are in no field.
    #[must_use]
    pub fn rest(self) -> Map<String, Value> {
        let mut rest = self.inner.rest();
        for outer in self.around.into_iter().rev() {
            merge(&mut rest, outer.rest());
        }
        rest
    }
}

/// The members of the result of a call.
pub struct ResultFields<'v> {
    /// The id of the call.
    pub id: Option<&'v str>,
    /// The name of the tool.
    pub name: Option<String>,
    /// The result of the call.
    pub answer: Option<&'v Value>,
    /// The error.
    pub error: Option<&'v Value>,
    /// Whether the call failed.
    pub is_error: bool,
    /// Short members with their names.
    pub facts: Vec<(&'static str, String)>,
    inner: Fields<'v>,
    outer: Option<Fields<'v>>,
}

impl<'v> ResultFields<'v> {
    /// Reads an object that is the result of a call.
    #[must_use]
    pub fn of(object: &'v Map<String, Value>) -> Self {
        let mut outer = Fields::of(object);
        let inner = outer.object(&RESULT_MEMBERS);
        let mut fields = Fields::of(inner.unwrap_or(object));
        fields.is_one_of("type", &RESULTS);
        fields.is_one_of("type", &["tool_result", "function_call_output"]);
        let id = fields.text(&CALL_IDS);
        let name = name(&mut fields, object, &[]);
        let answer = fields.any(&["content", "result", "response", "output", "outputs"]);
        let mut facts: Vec<(&'static str, String)> = Vec::new();
        facts.extend(id.map(|id| ("id", id.to_owned())));
        facts.extend(fields.facts(&["id", "status", "outcome"]));
        let is_flagged = fields.take(&["is_error", "isError"], Value::as_bool) == Some(true);
        let has_failed = facts.iter().any(|(name, value)| match *name {
            "status" => FAILED_STATES.contains(&value.as_str()),
            "outcome" => FAILED_OUTCOMES.contains(&value.as_str()),
            _ => false,
        });
        let error = fields.take(&["error", "errorText"], |value| {
            (!is_empty(value) && value.as_bool() != Some(false)).then_some(value)
        });
        let (answer, is_error_type) = answer.map_or((None, false), typed_answer);
        Self {
            id,
            name,
            answer,
            error,
            is_error: is_flagged || has_failed || error.is_some() || is_error_type,
            facts,
            inner: fields,
            outer: inner.map(|_| outer),
        }
    }

    /// The members that are in no field.
    #[must_use]
    pub fn rest(self) -> Map<String, Value> {
        let mut rest = self.inner.rest();
        if let Some(outer) = self.outer {
            merge(&mut rest, outer.rest());
        }
        rest
    }
}

/// States of a result whose call failed.
const FAILED_STATES: [&str; 4] = ["error", "failed", "failure", "incomplete"];
/// Outcomes of failed code that Gemini ran.
const FAILED_OUTCOMES: [&str; 2] = ["OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED"];

fn with_function(members: &[&'static str]) -> Vec<&'static str> {
    let more = ["function", "custom", "toolInvocation"];
    members.iter().copied().chain(more).collect()
}

/// The name of the tool in a call or a result; `object` is the object that holds it, in these objects.
fn name(
    fields: &mut Fields<'_>,
    object: &Map<String, Value>,
    around: &[Fields<'_>],
) -> Option<String> {
    if let Some(name) = fields.text(&NAMES) {
        return Some(name.to_owned());
    }
    let is_run = |object: &Map<String, Value>| {
        let mut members = RUN_BY_GEMINI.iter();
        members.any(|key| object.get(*key).is_some_and(Value::is_object))
    };
    if is_run(object) || around.iter().any(|outer| is_run(outer.all())) {
        return Some("code_execution".to_owned());
    }
    fields.take(&["type"], |value| name_in_type(value.as_str()?))
}

/// The value of an answer that names its type, as those of the AI SDK do, and whether the type is that of an error.
fn typed_answer(answer: &Value) -> (Option<&Value>, bool) {
    const TYPES: [&str; 5] = ["text", "json", "content", "error-text", "error-json"];
    let typed = answer.as_object().filter(|object| object.len() == 2);
    let value = typed.and_then(|object| {
        let kind = object.get("type")?.as_str()?;
        let kind = TYPES.iter().find(|known| **known == kind)?;
        Some((object.get("value")?, kind.starts_with("error")))
    });
    value.map_or((Some(answer), false), |(value, is_error)| (Some(value), is_error))
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedCall {
    /// The provider's id of the call.
    pub id: Option<String>,
    /// The name of the tool.
    pub name: String,
    /// Parsed when it was JSON text.
    pub arguments: Value,
}

/// Whether a JSON document may contain calls, but has too many values to be searched for them.
#[must_use]
pub fn is_too_large(json: &str) -> bool {
    MAX_VALUES < n_values(json) && may_hold_calls(json)
}

/// The calls in a JSON document, in order; none in one that is too large.
#[must_use]
pub fn calls_in(json: &str) -> Vec<RecordedCall> {
    if is_too_large(json) || !may_hold_calls(json) {
        return Vec::new();
    }
    let Ok(mut value) = serde_json::from_str(json) else {
        return Vec::new();
    };
    unify(&mut value);
    calls(&value)
}

/// Whether a JSON text may contain a call.
fn may_hold_calls(json: &str) -> bool {
    MARKERS.iter().any(|marker| {
        let first = marker.as_bytes()[0];
        let mut rest = json.as_bytes();
        while let Some(at) = rest.iter().position(|byte| byte.eq_ignore_ascii_case(&first)) {
            rest = &rest[at..];
            if rest
                .get(..marker.len())
                .is_some_and(|word| word.eq_ignore_ascii_case(marker.as_bytes()))
            {
                return true;
            }
            rest = &rest[1..];
        }
        false
    })
}

/// The calls in a value whose messages have the common shape, in order.
#[must_use]
pub fn calls(value: &Value) -> Vec<RecordedCall> {
    let mut calls = Vec::new();
    collect(value, 0, &mut calls);
    calls
}

fn collect(value: &Value, depth: usize, calls: &mut Vec<RecordedCall>) {
    if MAX_DEPTH < depth || MAX_CALLS <= calls.len() {
        return;
    }
    match value {
        Value::Array(items) => {
            let n_before = calls.len();
            for item in items {
                collect(item, depth + 1, calls);
            }
            // A stream sends a call when it begins and again when it is complete.
            if items.iter().any(is_event) {
                leave_out_repeats(calls, n_before);
            }
        }
        Value::Object(members) => collect_in_object(members, depth, calls),
        _ => {}
    }
}

fn is_event(item: &Value) -> bool {
    let kind = item.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| kind.starts_with("response.") || kind.starts_with("conversation."))
}

fn collect_in_object(members: &Map<String, Value>, depth: usize, calls: &mut Vec<RecordedCall>) {
    let has_list = LISTS.iter().any(|key| members.contains_key(*key));
    let is_message = members.contains_key("role") || has_list && members.contains_key("content");
    if is_message && speaker(members) == Some(Speaker::Tool) {
        return;
    }
    let kind = Kind::of(members);
    let is_message = is_message && !(kind == Kind::Call && is_bare(members));
    match kind {
        Kind::Result if !is_message => return,
        Kind::Call if !is_message => {
            if let Some(call) = call_of(members) {
                calls.push(call);
                return;
            }
        }
        _ => {}
    }
    let n_before = calls.len();
    for (key, inner) in members {
        match inner {
            _ if NO_CALLS.contains(&key.as_str()) || key == "additional_kwargs" => {}
            inner if LISTS.contains(&key.as_str()) => collect_listed(inner, depth, calls),
            inner => collect(inner, depth + 1, calls),
        }
    }
    // LangChain repeats the calls of a message there, in the shape of the provider.
    if calls.len() == n_before
        && let Some(more) = members.get("additional_kwargs")
    {
        collect(more, depth + 1, calls);
    }
    if has_list {
        leave_out_repeats(calls, n_before);
    }
    calls.truncate(MAX_CALLS);
}

/// Whether an object with a type has no content; it may have a role.
fn is_bare(members: &Map<String, Value>) -> bool {
    let is_set = |key: &&str| members.get(*key).is_some_and(|value| !value.is_null());
    let holds_more = ["content", "parts"].iter().chain(&LISTS).any(is_set);
    !text(members, "type").is_empty() && !holds_more
}

/// The member of a message that holds its calls.
fn collect_listed(listed: &Value, depth: usize, calls: &mut Vec<RecordedCall>) {
    match listed {
        Value::Array(items) => {
            let items = items.iter().filter_map(Value::as_object);
            let items = items.filter(|item| is_called(item));
            calls.extend(items.filter_map(call_of));
        }
        Value::Object(members) => match call_of(members).filter(|_| is_called(members)) {
            Some(call) => calls.push(call),
            None => collect(listed, depth + 1, calls),
        },
        Value::String(text) => {
            let is_read = depth < MAX_DEPTH && n_values(text) <= MAX_PARSED;
            if let Some(list) = is_read.then(|| parsed(text)).flatten() {
                collect_listed(&list, MAX_DEPTH, calls);
            }
        }
        _ => {}
    }
}

/// Whether an object in a list of calls has an id or arguments, perhaps empty ones, or holds the object that has them:
/// other lists have objects with names, too.
fn is_called(members: &Map<String, Value>) -> bool {
    let is_held = |key: &&str| members.get(*key).is_some_and(Value::is_object);
    CALL_IDS.iter().any(|key| !text(members, key).is_empty())
        || ARGUMENTS.iter().any(|key| members.contains_key(*key))
        || with_function(&CALL_MEMBERS).iter().any(is_held)
}

fn call_of(members: &Map<String, Value>) -> Option<RecordedCall> {
    // A provider lists the tools of a server; the model did not call one.
    if text(members, "type") == "mcp_list_tools_call" {
        return None;
    }
    let fields = CallFields::of(members);
    let name = fields.name.filter(|name| !name.is_empty())?;
    Some(RecordedCall {
        id: fields.id.map(str::to_owned),
        name,
        arguments: match fields.arguments {
            Some(Value::String(text)) => {
                serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
            }
            Some(other) => other.clone(),
            None => empty_arguments(members),
        },
    })
}

/// Arguments without members, which [`Fields::any`] takes for absent.
fn empty_arguments(members: &Map<String, Value>) -> Value {
    let inner = ["function", "functionCall", "function_call", "toolUse"]
        .iter()
        .find_map(|key| members.get(*key)?.as_object());
    let found = ARGUMENTS.iter().find_map(|key| inner.unwrap_or(members).get(*key));
    found.cloned().unwrap_or_default()
}

/// Leaves out the calls that are recorded twice: in the content of a message and in its list, or at its start and its end.
fn leave_out_repeats(calls: &mut Vec<RecordedCall>, first: usize) {
    let mut known: HashMap<(String, String), usize> = HashMap::new();
    for call in calls.split_off(first) {
        let Some(id) = call.id.clone() else {
            calls.push(call);
            continue;
        };
        let key = (id, call.name.clone());
        match known.get(&key) {
            Some(at) if calls[*at].arguments == call.arguments || is_empty(&call.arguments) => {}
            Some(at) if is_empty(&calls[*at].arguments) => calls[*at] = call,
            _ => {
                known.insert(key, calls.len());
                calls.push(call);
            }
        }
    }
}
