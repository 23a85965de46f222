//! Renders inputs and outputs: chat messages as a conversation, other JSON as a tree, and everything else as text, unless the
//! reader selects another form. Media are extracted before rendering; their bytes never appear as text on a page.
//!
//! `perpend_domain::content` locates the messages in a value, normalizes their format and finds media.
//!
//! - `messages`, `parts`: messages and their parts; `pairs`: tool results at their calls; `tools`: offered tools.
//! - `media`: media and URLs; `perpend_domain::content::inline` extracts media.
//! - `call_messages`: the new messages of consecutive model calls (`crate::value_diff::repeats` finds repeated messages);
//!   `tool_calls`: tool observations at the calls in the messages.
//! - `node`: nodes of a value, located in its text; `tree`: a part of them as rows; `matches`: text search.
//! - `fold`: long texts; `form`: the forms of a value.

mod call_messages;
#[cfg(test)]
mod corpus_tests;
mod fold;
mod form;
#[cfg(test)]
mod hostile_tests;
mod matches;
mod media;
mod messages;
mod node;
mod pairs;
mod parts;
#[cfg(test)]
mod shapes_tests;
mod source;
#[cfg(test)]
mod tests;
mod tool_calls;
mod tools;
mod tree;

use std::borrow::Cow;
use std::collections::HashSet;

use perpend_domain::content::{inline, merge, unify};
use perpend_domain::mapping::NodePath;
use perpend_domain::payload::Payload;
use serde_json::{Map, Value};

use self::fold::{Fold, OtherFields, SHOWN_BYTES, Style, Window};
use self::media::read;
pub(crate) use self::media::{Media, MediaLocation};
use self::messages::Message;
use self::node::Node;
use self::source::Source;
use self::tools::Tools;
use self::tree::Tree;
pub(crate) use self::tree::TreeItem;
use perpend_domain::content::locate::{self, Item};

use crate::lists::page_links::PageLinks;

pub(crate) use self::call_messages::{CallMessages, NewMessages, new_messages, repeated_messages};
pub(crate) use self::parts::ObservationLink;
pub(crate) use self::tools::called_tools;
pub use crate::value_diff::repeats::MessageSelection;
pub(crate) use crate::value_diff::repeats::RepeatedMessages;

pub use self::form::{Form, Forms};
pub(crate) use self::matches::TextMatches;
pub use self::media::{Addresses, MAX_PATH, inline_medium};
pub(crate) use self::source::{display_text, json_without_media, separate_media, without_media};
pub use perpend_domain::content::inline::{InlineMedium, inline_type};

/// Conversations with more messages are collapsed in the middle.
const WHOLE_CONVERSATION: usize = 24;
/// Messages shown at the start (instructions) and at the end of a long conversation.
const KEPT_FIRST: usize = 2;
const KEPT_LAST: usize = 12;

/// Maximum length in bytes of JSON that is parsed as a conversation.
const READ_BYTES: usize = 4 << 20;
/// Maximum length in bytes of each text of a conversation longer than `SHOWN_BYTES`.
const LONG_PART: usize = 16 * 1024;
/// Maximum number of nodes and of bytes of text of a value in a list of values.
const FEW_NODES: usize = 24;
const FEW_BYTES: usize = 8 * 1024;

/// A value, ready to be rendered.
#[derive(Clone, Debug)]
pub enum Block {
    /// Nothing was recorded.
    Absent,
    /// Text.
    Plain(Box<Fold>),
    /// A conversation.
    Chat(Box<Chat>),
    /// JSON nodes.
    Tree(Tree),
    /// Tool definitions.
    Tools(Tools),
}

/// Messages in order; the middle of a long conversation is collapsed.
#[derive(Clone, Debug)]
pub struct Chat {
    pub(crate) tools: Option<Tools>,
    pub(crate) first: Vec<Message>,
    pub(crate) middle: Vec<Message>,
    pub(crate) last: Vec<Message>,
    /// Other members of the request or response, such as settings or usage.
    pub(crate) further: Option<OtherFields>,
    /// Number of omitted messages between the first and the last ones, and the URL that shows them.
    pub(crate) n_between: Option<(usize, String)>,
    /// Links to the previous and next messages.
    pub(crate) ways: PageLinks,
}

impl Block {
    /// A value in a list of values: default form, limited length.
    #[must_use]
    pub fn of(payload: Option<&Payload>, at: &Addresses) -> Self {
        Self::without(payload, at, MessageSelection::default())
    }

    /// The same without the messages in `excluded`.
    pub(crate) fn without(
        payload: Option<&Payload>,
        at: &Addresses,
        excluded: MessageSelection,
    ) -> Self {
        let params = ValueParams { is_brief: true, excluded, ..ValueParams::default() };
        RenderedValue::of(payload, &params, at).block
    }

    /// Whether no value was recorded.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// Selects the form and the part of a value to render.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueParams {
    /// Default form if absent or unavailable.
    pub form: Option<Form>,
    /// Offset of the first shown byte of a text, child node of a tree, or message of a conversation.
    pub from: usize,
    /// Messages of a conversation; all if absent.
    pub n: Option<MessageSelection>,
    /// Expanded levels of a tree.
    pub depth: Option<usize>,
    /// Expanded regardless of length.
    pub is_expanded: bool,
    /// The value is one of many on the page: limit its length.
    pub is_brief: bool,
    /// Messages of a conversation that are shown elsewhere on the page.
    pub excluded: MessageSelection,
}

impl ValueParams {
    /// A value in this form, from the start.
    pub(crate) fn form(form: Option<Form>) -> Self {
        Self { form, ..Self::default() }
    }
}

/// A value, rendered in one of its forms.
#[derive(Clone, Debug)]
pub(crate) struct RenderedValue {
    pub(crate) block: Block,
    /// The rendered form; absent if there is no value.
    pub(crate) form: Option<Form>,
    /// The available forms.
    pub(crate) forms: Vec<Form>,
}

impl RenderedValue {
    fn plain(block: Block) -> Self {
        Self { block, form: None, forms: Vec::new() }
    }

    /// Renders a recorded value.
    pub(crate) fn of(payload: Option<&Payload>, params: &ValueParams, at: &Addresses) -> Self {
        match payload {
            Some(payload) => Self::of_node(Node::of(payload), &NodePath::default(), params, at),
            None => Self::plain(Block::Absent),
        }
    }

    /// Renders the node at a path; `None` if the node does not exist.
    pub(crate) fn of_path(
        payload: &Payload,
        path: &NodePath,
        params: &ValueParams,
        at: &Addresses,
    ) -> Option<Self> {
        let node = Node::of(payload).at(path)?;
        let at = at.at(&path.to_string());
        Some(Self::of_node(node, path, params, &at))
    }

    /// Renders metadata. An empty object counts as absent.
    pub(crate) fn of_map(map: &Map<String, Value>, params: &ValueParams, at: &Addresses) -> Self {
        if map.is_empty() {
            return Self::plain(Block::Absent);
        }
        match serde_json::to_string(map) {
            Ok(json) => Self::of(Some(&Payload::Json(json)), params, at),
            Err(_) => Self::plain(Block::Absent),
        }
    }

    /// Renders tool definitions; `called` are the names of the called tools.
    pub(crate) fn of_tools(
        definitions: Option<&Value>,
        called: &[String],
        form: Option<Form>,
        at: &Addresses,
    ) -> Self {
        let Some(definitions) = definitions else {
            return Self::plain(Block::Absent);
        };
        let payload = Payload::from_value(definitions.clone());
        let mut other = Self::of(Some(&payload), &ValueParams::form(form), at);
        other.forms.insert(0, Form::List);
        if form.is_some_and(|form| form != Form::List) {
            return other;
        }
        // Must number media in the same order as `inline_medium`.
        let mut value = read(&payload);
        let source = Source::new(inline::take(&mut value), at);
        let called = called.iter().map(String::as_str).collect();
        match Tools::of(&source, &value, &called) {
            Some(tools) => Self { block: Block::Tools(tools), form: Some(Form::List), ..other },
            None => other,
        }
    }

    fn of_node(node: Node, path: &NodePath, params: &ValueParams, at: &Addresses) -> Self {
        let node_text = node.string();
        let node = node.opened();
        let is_json = node.holds_others();
        // Text of any length and JSON up to a limit are parsed completely.
        let payload = match node_text {
            Some(text) => Payload::Text(text),
            None => node.payload(),
        };
        let is_read = payload.as_str().len() <= READ_BYTES;
        let mut value = match &payload {
            Payload::Text(text) if !is_json => Value::String(text.clone()),
            payload if is_read => read(payload),
            _ => Value::Null,
        };
        let n = if params.is_brief { FEW_BYTES } else { SHOWN_BYTES };
        let window = Window { from: params.from, n };
        let source = Source::new(inline::take(&mut value), at).window(window);
        let chat = Chat::of(&source, &value, params);
        let default_form = match (&chat, is_json) {
            (Some(_), _) => Form::Conversation,
            (None, true) => Form::Tree,
            (None, false) => Form::Text,
        };
        let is_available = |form: &Form| match form {
            Form::List => false,
            Form::Conversation => chat.is_some(),
            Form::Tree => is_json,
            Form::Text | Form::Raw => true,
        };
        let forms = Form::ALL.iter().map(|(form, ..)| *form).filter(is_available);
        let forms: Vec<Form> = forms.collect();
        let form = params.form.filter(is_available).unwrap_or(default_form);
        let block = match (form, chat) {
            (Form::Conversation, Some(chat)) => Block::Chat(Box::new(chat)),
            (Form::Tree | Form::Conversation | Form::List, _) => {
                let max_nodes = params.is_brief.then_some(FEW_NODES);
                let tree = Tree::of(&node, path, at, (params.from, params.depth), max_nodes);
                let media = source.has_media().then(|| source.json_text(&value.to_string()));
                Block::Tree(Tree { media: media.map(Box::new), ..tree })
            }
            (Form::Text | Form::Raw, _) => {
                let text = (form, is_json.then_some(&node));
                Block::Plain(Box::new(fold(&source, &payload, &value, text)))
            }
        };
        let block = match block {
            Block::Plain(fold) if params.is_expanded => Block::Plain(Box::new(fold.expanded())),
            other => other,
        };
        Self { block, form: Some(form), forms }
    }
}

/// Renders a value in the form `Text` or `Raw`; `json` is its node if the value is an object or an array.
fn fold(
    source: &Source<'_>,
    payload: &Payload,
    value: &Value,
    (form, json): (Form, Option<&Node>),
) -> Fold {
    match (form, json, value) {
        (Form::Raw, ..) => {
            let text = source::without_media(payload.as_str());
            source.whole(&text, Style::Plain, form)
        }
        (_, Some(_), Value::Object(_) | Value::Array(_)) if source.has_media() => {
            source.whole(&value.to_string(), Style::Json, form)
        }
        // From the recorded text, which preserves all digits of numbers.
        (_, Some(node), _) => source.whole(&source::without_media(node.json()), Style::Json, form),
        (_, None, Value::String(text)) => source.whole(text, Style::Rich, form),
        (_, None, _) => source.whole(payload.as_str(), Style::Json, form),
    }
}

/// Searches the node at a path; `None` if the node does not exist.
pub(crate) fn find_text(
    payload: &Payload,
    path: &NodePath,
    text: &str,
    at: &Addresses,
) -> Option<TextMatches> {
    let node = Node::of(payload).at(path)?;
    Some(TextMatches::of(&node, path, at, text))
}

/// The node at a path, as recorded.
#[must_use]
pub fn node(payload: &Payload, path: &NodePath) -> Option<Payload> {
    match path.0.is_empty() {
        true => Some(payload.clone()),
        false => Some(Node::of(payload).at(path)?.payload()),
    }
}

/// A recorded value as text for comparisons. Media are replaced by their type, size and a hash of their bytes.
pub(crate) fn comparable(payload: &Payload) -> Cow<'_, str> {
    let mut value = read(payload);
    let taken = inline::take(&mut value);
    if taken.found.is_empty() {
        return Cow::Borrowed(payload.as_str());
    }
    let no_urls = Addresses::default();
    let source = Source::new(taken, &no_urls);
    Cow::Owned(match value {
        Value::String(text) => source.with_hashes(&text),
        other => source.with_hashes(&other.to_string()),
    })
}

impl Chat {
    /// Parses a value as a conversation; `None` if its format is unknown.
    fn of(source: &Source<'_>, value: &Value, params: &ValueParams) -> Option<Self> {
        if !value.is_array() && !value.is_object() {
            return None;
        }
        let mut value = value.clone();
        unify(&mut value);
        let located = locate::locate(&value)?;
        let is_long = SHOWN_BYTES < value.to_string().len();
        let n = match (params.is_brief, is_long) {
            (true, _) => FEW_BYTES,
            (false, true) => LONG_PART,
            (false, false) => SHOWN_BYTES,
        };
        let source = &source.texts(n);
        let is_included = |position| {
            let is_selected = params.n.as_ref().is_none_or(|n| n.contains(position));
            is_selected && !params.excluded.contains(position)
        };
        let items = located.items.iter().enumerate();
        let items = items.filter(|(position, _)| is_included(*position));
        let messages = items.map(|(_, item)| match item {
            Item::Message(message) => Message::of(source, message),
            Item::FromRole(role, content) => Message::from_content(source, role, content),
        });
        let mut messages: Vec<Message> = messages.collect();
        pairs::pair(&mut messages);
        if is_long {
            let rest = source.page("&as=tree");
            messages.iter_mut().for_each(|message| message.cut(SHOWN_BYTES / 2, &rest));
        }
        let calls = messages.iter().flat_map(|message| &message.parts);
        let called = calls.filter(|part| part.is_call());
        let called: HashSet<&str> =
            called.filter_map(|part| part.name.as_ref()).map(|name| name.raw()).collect();
        let mut further = located.further;
        let tools = located.tools.and_then(|tools| {
            let list = Tools::of(source, tools, &called);
            if list.is_none() {
                let tools = Map::from_iter([("tools".to_owned(), tools.clone())]);
                merge(&mut further, tools);
            }
            list
        });
        Some(Self {
            tools,
            further: source.further(further),
            ..match is_long || 0 < params.from {
                true => Self::window(messages, params, source),
                false => Self::collapsed(messages),
            }
        })
    }

    /// A part of a long conversation, limited to `SHOWN_BYTES`: the messages from `params.from` on, or the first and last
    /// messages with a link to the others if `from` is 0.
    fn window(mut all: Vec<Message>, params: &ValueParams, source: &Source<'_>) -> Self {
        let (n_all, from) = (all.len(), params.from);
        let selection = params.n.as_ref().map(|n| format!("&n={n}"));
        let start = format!("&as=conversation{}", selection.unwrap_or_default());
        let url = |from: usize| source.page(&format!("{start}&from={from}"));
        if 0 < from {
            let from = from.min(n_all.saturating_sub(1));
            let n = n_fitting(all.iter().skip(from));
            let shown = all.drain(from..n_all.min(from + n)).collect();
            return Self {
                first: shown,
                ways: PageLinks {
                    previous: Some(("Start of the conversation", source.page(&start))),
                    next: (from + n < n_all).then(|| ("More messages", url(from + n))),
                    ..PageLinks::default()
                },
                n_between: None,
                ..Self::collapsed(Vec::new())
            };
        }
        let n_last = n_fitting(all.iter().skip(KEPT_FIRST).rev()).min(n_all);
        if n_all <= KEPT_FIRST + n_last {
            return Self::collapsed(all);
        }
        let last = all.split_off(n_all - n_last);
        all.truncate(KEPT_FIRST);
        Self {
            n_between: Some((n_all - KEPT_FIRST - n_last, url(KEPT_FIRST))),
            first: all,
            last,
            ..Self::collapsed(Vec::new())
        }
    }

    /// All messages; the middle of a long conversation is collapsed.
    fn collapsed(mut all: Vec<Message>) -> Self {
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
            n_between: None,
            ways: PageLinks::default(),
        }
    }
}

/// How many of the first messages fit into `SHOWN_BYTES`; at least 1.
fn n_fitting<'m>(messages: impl Iterator<Item = &'m Message>) -> usize {
    let mut n_left = SHOWN_BYTES;
    let fitting = messages.take_while(|message| {
        let weight = message.weight();
        let is_fitting = weight <= n_left;
        n_left = n_left.saturating_sub(weight);
        is_fitting
    });
    fitting.count().max(1)
}
