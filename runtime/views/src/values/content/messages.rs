//! Messages in the formats of the common APIs and libraries: role, name and parts. Members that are not part of the format
//! are shown below the message.

use crate::markup::Text;
use perpend_domain::content::fields::Fields;
use perpend_domain::content::kinds::Kind;
use perpend_domain::content::roles::{
    LANGCHAIN, MAX_LAYERS, ROLES, Speaker, class_of, has_role, is_message, langchain_role, layer,
    names_role, role_of_class, text_at,
};
use perpend_domain::content::{is_empty, merge};
use serde_json::{Map, Value};

use super::fold::OtherFields;
use super::parts::{PartRole, RenderedPart};
use super::source::Source;

/// Short members shown in the heading of a message.
const FACTS: [&str; 10] = [
    "id",
    "finish_reason",
    "finishReason",
    "stop_reason",
    "stopReason",
    "status",
    "index",
    "phase",
    "done_reason",
    "tool_call_id",
];

#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    pub(crate) role: Text,
    /// CSS class of the role; `other` for unknown roles.
    pub(crate) role_class: &'static str,
    pub(crate) name: Option<Text>,
    pub(crate) facts: Vec<(Text, Text)>,
    pub(crate) parts: Vec<RenderedPart>,
    /// The message was merged into the tool call it belongs to.
    pub(super) is_moved: bool,
    /// Position among the inputs and outputs of several calls: `2 * call` for inputs, `2 * call + 1` for outputs.
    pub(super) position: usize,
    /// Number of ranges of repeated messages before this message in the same input.
    pub(super) range_index: usize,
    pub(crate) further: Option<OtherFields>,
    /// Number of omitted parts of a long message, and the URL that shows them.
    pub(crate) n_more: Option<(usize, String)>,
}

fn role_class(role: &str) -> &'static str {
    Speaker::of(role).map_or("other", Speaker::role)
}

impl Message {
    /// A message from a request member that has only content, such as `system` or `prompt`.
    pub(super) fn from_content(source: &Source<'_>, role: &str, value: &Value) -> Self {
        let mut message = Self::with_role(source, role);
        let parts = value.as_object().and_then(|object| object.get("parts"));
        message.parts = RenderedPart::contents(source, parts.unwrap_or(value), 0);
        if let (Some(object), Some(_)) = (value.as_object(), parts) {
            let mut fields = Fields::of(object);
            fields.any(&["parts"]);
            fields.is_one_of("role", &ROLES);
            message.further = source.further(fields.rest());
        }
        message
    }

    /// A list item that is not a message.
    fn other(source: &Source<'_>, value: &Value) -> Self {
        Self { parts: vec![RenderedPart::json(source, value)], ..Self::with_role(source, "other") }
    }

    /// Removes the parts that exceed `n` bytes of markup and links to `rest` instead.
    pub(super) fn cut(&mut self, n: usize, rest: &str) {
        let mut n_left = n;
        let n_cut = RenderedPart::cut(&mut self.parts, &mut n_left);
        self.n_more = (0 < n_cut).then(|| (n_cut, rest.to_owned()));
    }

    /// Approximate size of the markup in bytes.
    pub(super) fn weight(&self) -> usize {
        let further = self.further.as_ref();
        let further = further.map_or(0, |further| further.body.body.as_str().len());
        300 + further + self.parts.iter().map(RenderedPart::weight).sum::<usize>()
    }

    fn with_role(source: &Source<'_>, role: &str) -> Self {
        Self { role: source.line(role), role_class: role_class(role), ..Self::default() }
    }

    pub(super) fn of(source: &Source<'_>, value: &Value) -> Self {
        let Some(object) = value.as_object().filter(|_| is_message(value)) else {
            return Self::other(source, value);
        };
        let mut layers = Vec::new();
        let mut object = object;
        for _ in 0..MAX_LAYERS {
            let Some(key) = layer(object) else { break };
            let mut outer = Fields::of(object);
            let Some(inner) = outer.object(&[key]) else {
                break;
            };
            layers.push((outer, object));
            object = inner;
        }
        let class = layers.iter().find_map(|(_, outer)| class_of(outer));
        let (mut message, rest) = match has_role(object) || class.is_some() {
            true => Self::parse(source, object, class.as_deref()),
            false => Self::item(source, value, object),
        };
        let role = object.get("role").and_then(Value::as_str);
        let mut further = Map::new();
        for (mut outer, object) in layers {
            if class_of(object).is_some() {
                outer.take(&["lc"], |value| value.as_u64().filter(|lc| *lc == 1));
                outer.is_one_of("type", &["constructor"]);
                outer.take(&["id"], Value::as_array);
            }
            if role.is_none_or(|role| names_role(object, role)) {
                outer.is_one_of("type", &LANGCHAIN);
            }
            message.facts.extend(source.facts(outer.facts(&FACTS)));
            merge(&mut further, outer.rest());
        }
        merge(&mut further, rest);
        message.further = source.further(further);
        message
    }

    /// Parses an object with a role; `class` is the class path of LangChain.
    fn parse(
        source: &Source<'_>,
        object: &Map<String, Value>,
        class: Option<&str>,
    ) -> (Self, Map<String, Value>) {
        let mut fields = Fields::of(object);
        let of_class = class.map(|class| class.rsplit('.').next().unwrap_or(class));
        let role = fields
            .text(&["role"])
            .or_else(|| fields.take(&["type"], |value| langchain_role(value.as_str()?)))
            .or(of_class.and_then(role_of_class))
            .unwrap_or("assistant");
        let mut message = Self::with_role(source, role);
        fields.is_one_of("type", &["message"]);
        if names_role(object, role) {
            fields.is_one_of("type", &LANGCHAIN);
        }
        message.facts.extend(class.map(|class| (Text::from("class"), source.line(class))));
        message.name = fields.text(&["name"]).map(|name| source.line(name));
        // Both the call id and the role mark the result of a tool call.
        let call_id = fields.text(&["tool_call_id", "toolCallId"]);
        let is_result = call_id.is_some() || matches!(role, "tool" | "function");
        let plain = source.without_markdown();
        let source = if is_result { &plain } else { source };
        let aside = fields.any(&["reasoning_content", "reasoning", "thinking"]);
        message.parts.extend(aside.map(|value| RenderedPart::reasoning(source, value)));
        for key in ["content", "parts", "contents", "text", "images", "audio"] {
            if let Some(value) = fields.any(&[key]) {
                message.parts.extend(RenderedPart::contents(source, value, 0));
            }
        }
        let refusal = fields.text(&["refusal"]);
        message.parts.extend(refusal.map(|text| RenderedPart::refusal(source, text)));
        for key in ["tool_calls", "toolCalls", "toolInvocations", "function_call"] {
            let calls = fields.take(&[key], calls).unwrap_or_default();
            let calls = calls.into_iter().map(|call| match call.as_object() {
                Some(call) => RenderedPart::call(source, call, 0),
                None => RenderedPart::json(source, call),
            });
            RenderedPart::extend(&mut message.parts, calls);
        }
        message.facts.extend(source.facts(fields.facts(&FACTS)));
        let is_failed = text_at(object, "status") == "error"
            || object.get("is_error") == Some(&Value::Bool(true));
        let is_plain = message.parts.iter().all(|part| part.role == PartRole::Content);
        if is_result && is_plain {
            let id = call_id.or_else(|| object.get("name").and_then(Value::as_str));
            message.parts = vec![RenderedPart {
                label: Some("tool result"),
                inner: std::mem::take(&mut message.parts),
                facts: source.facts(call_id.map(|id| ("id", id.to_owned())).into_iter().collect()),
                is_error: is_failed,
                role: PartRole::Result(id.map(ToOwned::to_owned)),
                ..RenderedPart::default()
            }];
        } else if let Some(id) = call_id {
            message.facts.push((Text::from("answers"), source.line(id)));
        }
        (message, fields.rest())
    }

    /// Parses a message part that is not inside a message.
    fn item(
        source: &Source<'_>,
        value: &Value,
        object: &Map<String, Value>,
    ) -> (Self, Map<String, Value>) {
        let part = RenderedPart::of(source, value, 0);
        let role = match (&part.role, Kind::of(object)) {
            (PartRole::Result(_), _) => "tool",
            (PartRole::Call(_), _) | (_, Kind::Reasoning) => "assistant",
            _ => "content",
        };
        let mut message = Self::with_role(source, role);
        message.parts = vec![part];
        (message, Map::new())
    }
}

/// Tool calls in a member that is an object or a list.
fn calls(value: &Value) -> Option<Vec<&Value>> {
    match value {
        Value::Array(items) if !items.is_empty() => Some(items.iter().collect()),
        Value::Object(_) if !is_empty(value) => Some(vec![value]),
        _ => None,
    }
}
