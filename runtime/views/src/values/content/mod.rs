//! Inputs and outputs in the form in which they read best, or in another one that was chosen: chat messages as a
//! conversation, other JSON as a tree, the rest as text. Media are taken out before anything is rendered; their bytes are never
//! text on a page.
//!
//! Where in a value the messages are and what their parts are called is known by `perpend_domain::content`, which also gives them
//! one shape and finds media.
//!
//! - `messages`, `parts`: who speaks, and what is said; `pairs`: results of tools beside their calls; `tools`: what was
//!   offered.
//! - `media`: how media inside a value are shown; `perpend_domain::content::inline` takes them out.
//! - `spoken`: what is new in each of several conversations that continue each other (`crate::value_diff::repeats` says what is
//!   not); `ran`: steps that ran tools, at the calls that asked for them.
//! - `json`, `node`: nodes of a value, found in its text; `tree`: a window of them; `found`: where a text stands in it.
//! - `fold`: long values; `form`: the forms of a value.

#[cfg(test)]
mod corpus_tests;
mod fold;
mod form;
mod found;
#[cfg(test)]
mod hostile_tests;
mod media;
mod messages;
mod node;
mod pairs;
mod parts;
mod ran;
#[cfg(test)]
mod shapes_tests;
mod source;
mod spoken;
#[cfg(test)]
mod tests;
mod tools;
mod tree;

use std::borrow::Cow;
use std::collections::HashSet;

use perpend_domain::content::{inline, merge, unify};
use perpend_domain::mapping::NodePath;
use perpend_domain::payload::Payload;
use serde_json::{Map, Value};

use self::fold::{Fold, Further, SHOWN_BYTES, Style, Window};
use self::media::read;
pub(crate) use self::media::{Media, Place};
use self::messages::Message;
use self::node::Node;
use self::source::Source;
use self::tools::Tools;
use self::tree::Tree;
pub(crate) use self::tree::Twig;
use perpend_domain::content::locate::{self, Item};

use crate::lists::page_links::PageLinks;

pub(crate) use self::parts::StepLink;
pub(crate) use self::spoken::{Spoken, Told, repeated, told};
pub(crate) use self::tools::called_tools;
pub use crate::value_diff::repeats::MessageSelection;
pub(crate) use crate::value_diff::repeats::Repeated;

pub use self::form::{Form, Forms};
pub(crate) use self::found::Places;
pub use self::media::{Addresses, MAX_PATH, inline_medium};
pub(crate) use self::source::{beside_media, json_without_media, without_media, worded};
pub use perpend_domain::content::inline::{InlineMedium, inline_type};

/// Conversations longer than this fold their middle.
const WHOLE_CONVERSATION: usize = 24;
/// Messages kept at the start (instructions) and at the end (what happened last).
const KEPT_FIRST: usize = 2;
const KEPT_LAST: usize = 12;

/// JSON that is longer is not read as a conversation.
const READ_BYTES: usize = 4 << 20;
/// Texts of a conversation that is longer than what is shown of a value are cut to this.
const LONG_PART: usize = 16 * 1024;
/// What a value among many others shows: nodes, and bytes of a text.
const FEW_NODES: usize = 24;
const FEW_BYTES: usize = 8 * 1024;

/// A value ready to be shown.
#[derive(Clone, Debug)]
pub enum Block {
    /// Nothing was recorded.
    Absent,
    /// Text, or JSON of no known shape.
    Plain(Box<Fold>),
    /// A conversation.
    Chat(Box<Chat>),
    /// JSON by its nodes.
    Tree(Tree),
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
    /// Messages between the first and the last ones that are not here, and where they are.
    pub(crate) n_between: Option<(usize, String)>,
    /// Where the conversation goes on.
    pub(crate) ways: PageLinks,
}

impl Block {
    /// A recorded value among others, in its usual form and with little of it.
    #[must_use]
    pub fn of(payload: Option<&Payload>, at: &Addresses) -> Self {
        Self::without(payload, at, MessageSelection::default())
    }

    /// The same without these messages of a conversation.
    pub(crate) fn without(
        payload: Option<&Payload>,
        at: &Addresses,
        left_out: MessageSelection,
    ) -> Self {
        let few = ValueParams { is_brief: true, left_out, ..ValueParams::default() };
        Shown::of(payload, &few, at).block
    }

    /// Whether there is something to show.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// What of a value is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueParams {
    /// The form; the usual one when absent.
    pub form: Option<Form>,
    /// Where it begins: a byte of a text, a node of a tree, a message of a conversation.
    pub from: usize,
    /// Messages of a conversation; all of them when absent.
    pub n: Option<MessageSelection>,
    /// Levels of a tree that are open.
    pub depth: Option<usize>,
    /// Shown at once however long it is.
    pub is_unfolded: bool,
    /// Among many others.
    pub is_brief: bool,
    /// Messages of a conversation that stand elsewhere on the page.
    pub left_out: MessageSelection,
}

impl ValueParams {
    /// A value in this form, from its beginning.
    pub(crate) fn form(form: Option<Form>) -> Self {
        Self { form, ..Self::default() }
    }
}

/// A value in one of its forms.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) block: Block,
    /// The form; none for what has none, such as nothing.
    pub(crate) form: Option<Form>,
    /// Those that it can be shown in.
    pub(crate) forms: Vec<Form>,
}

impl Shown {
    fn plain(block: Block) -> Self {
        Self { block, form: None, forms: Vec::new() }
    }

    /// A recorded value.
    pub(crate) fn of(payload: Option<&Payload>, asked: &ValueParams, at: &Addresses) -> Self {
        match payload {
            Some(payload) => Self::of_node(Node::of(payload), &NodePath::default(), asked, at),
            None => Self::plain(Block::Absent),
        }
    }

    /// The node of a value at a path; none when there is no such node.
    pub(crate) fn of_path(
        payload: &Payload,
        path: &NodePath,
        asked: &ValueParams,
        at: &Addresses,
    ) -> Option<Self> {
        let node = Node::of(payload).at(path)?;
        let at = at.at(&path.to_string());
        Some(Self::of_node(node, path, asked, &at))
    }

    /// From metadata; an empty object is nothing.
    pub(crate) fn of_map(map: &Map<String, Value>, asked: &ValueParams, at: &Addresses) -> Self {
        if map.is_empty() {
            return Self::plain(Block::Absent);
        }
        match serde_json::to_string(map) {
            Ok(json) => Self::of(Some(&Payload::Json(json)), asked, at),
            Err(_) => Self::plain(Block::Absent),
        }
    }

    /// From the definitions of the tools that a model was offered, and the names of those it called.
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
        // As the request for a medium in it reads it.
        let mut value = read(&payload);
        let source = Source::new(inline::take(&mut value), at);
        let called = called.iter().map(String::as_str).collect();
        match Tools::of(&source, &value, &called) {
            Some(tools) => Self { block: Block::Tools(tools), form: Some(Form::List), ..other },
            None => other,
        }
    }

    fn of_node(node: Node, path: &NodePath, asked: &ValueParams, at: &Addresses) -> Self {
        let node_text = node.string();
        let node = node.opened();
        let is_json = node.holds_others();
        // Read whole, media taken out: text of any length, JSON up to a limit.
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
        let n = if asked.is_brief { FEW_BYTES } else { SHOWN_BYTES };
        let window = Window { from: asked.from, n };
        let source = Source::new(inline::take(&mut value), at).window(window);
        let chat = Chat::of(&source, &value, asked);
        let usual = match (&chat, is_json) {
            (Some(_), _) => Form::Conversation,
            (None, true) => Form::Tree,
            (None, false) => Form::Text,
        };
        let can = |form: &Form| match form {
            Form::List => false,
            Form::Conversation => chat.is_some(),
            Form::Tree => is_json,
            Form::Text | Form::Raw => true,
        };
        let forms = Form::ALL.iter().map(|(form, ..)| *form).filter(can);
        let forms: Vec<Form> = forms.collect();
        let form = asked.form.filter(can).unwrap_or(usual);
        let block = match (form, chat) {
            (Form::Conversation, Some(chat)) => Block::Chat(Box::new(chat)),
            (Form::Tree | Form::Conversation | Form::List, _) => {
                let few = asked.is_brief.then_some(FEW_NODES);
                let tree = Tree::of(&node, path, at, (asked.from, asked.depth), few);
                let media = source.has_media().then(|| source.json_text(&value.to_string()));
                Block::Tree(Tree { media: media.map(Box::new), ..tree })
            }
            (Form::Text | Form::Raw, _) => {
                let text = (form, is_json.then_some(&node));
                Block::Plain(Box::new(fold(&source, &payload, &value, text)))
            }
        };
        let block = match block {
            Block::Plain(fold) if asked.is_unfolded => Block::Plain(Box::new(fold.unfolded())),
            other => other,
        };
        Self { block, form: Some(form), forms }
    }
}

/// A value as text or as it was recorded; `json` is its node where it is an object or a list.
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
        // As it was recorded, down to the digits of its numbers.
        (_, Some(node), _) => source.whole(&source::without_media(node.json()), Style::Json, form),
        (_, None, Value::String(text)) => source.whole(text, Style::Rich, form),
        (_, None, _) => source.whole(payload.as_str(), Style::Json, form),
    }
}

/// Where a text stands in the node of a value at a path; none when there is no such node.
pub(crate) fn places(
    payload: &Payload,
    path: &NodePath,
    text: &str,
    at: &Addresses,
) -> Option<Places> {
    let node = Node::of(payload).at(path)?;
    Some(Places::of(&node, path, at, text))
}

/// The node of a value at a path, as it was recorded.
#[must_use]
pub fn node(payload: &Payload, path: &NodePath) -> Option<Payload> {
    match path.0.is_empty() {
        true => Some(payload.clone()),
        false => Some(Node::of(payload).at(path)?.payload()),
    }
}

/// A recorded value as a text to be compared with another: a medium in it is its type, its size and a print of its bytes.
pub(crate) fn comparable(payload: &Payload) -> Cow<'_, str> {
    let mut value = read(payload);
    let taken = inline::take(&mut value);
    if taken.found.is_empty() {
        return Cow::Borrowed(payload.as_str());
    }
    let nowhere = Addresses::default();
    let source = Source::new(taken, &nowhere);
    Cow::Owned(match value {
        Value::String(text) => source.told_apart(&text),
        other => source.told_apart(&other.to_string()),
    })
}

impl Chat {
    /// The conversation in a value of one of the known shapes.
    fn of(source: &Source<'_>, value: &Value, asked: &ValueParams) -> Option<Self> {
        if !value.is_array() && !value.is_object() {
            return None;
        }
        let mut value = value.clone();
        unify(&mut value);
        let located = locate::locate(&value)?;
        let is_long = SHOWN_BYTES < value.to_string().len();
        let n = match (asked.is_brief, is_long) {
            (true, _) => FEW_BYTES,
            (false, true) => LONG_PART,
            (false, false) => SHOWN_BYTES,
        };
        let source = &source.texts(n);
        let is_asked = |place| {
            let is_picked = asked.n.as_ref().is_none_or(|n| n.contains(place));
            is_picked && !asked.left_out.contains(place)
        };
        let items = located.items.iter().enumerate();
        let items = items.filter(|(place, _)| is_asked(*place));
        let messages = items.map(|(_, item)| match item {
            Item::Message(message) => Message::of(source, message),
            Item::FromRole(role, said) => Message::said(source, role, said),
        });
        let mut read: Vec<Message> = messages.collect();
        pairs::pair(&mut read);
        if is_long {
            let rest = source.page("&as=tree");
            read.iter_mut().for_each(|message| message.cut(SHOWN_BYTES / 2, &rest));
        }
        let calls = read.iter().flat_map(|message| &message.parts);
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
            ..match is_long || 0 < asked.from {
                true => Self::window(read, asked, source),
                false => Self::folded(read),
            }
        })
    }

    /// The messages of a long conversation from this one on, as many as are shown of a value. From the first one on they
    /// are those at the start and at the end; the ones in between are asked for.
    fn window(mut all: Vec<Message>, asked: &ValueParams, source: &Source<'_>) -> Self {
        let (n_all, from) = (all.len(), asked.from);
        let picked = asked.n.as_ref().map(|n| format!("&n={n}"));
        let start = format!("&as=conversation{}", picked.unwrap_or_default());
        let way = |from: usize| source.page(&format!("{start}&from={from}"));
        if 0 < from {
            let from = from.min(n_all.saturating_sub(1));
            let n = n_fitting(all.iter().skip(from));
            let shown = all.drain(from..n_all.min(from + n)).collect();
            return Self {
                first: shown,
                ways: PageLinks {
                    before: Some(("Start of the conversation", source.page(&start))),
                    behind: (from + n < n_all).then(|| ("Further messages", way(from + n))),
                    ..PageLinks::default()
                },
                n_between: None,
                ..Self::folded(Vec::new())
            };
        }
        let n_last = n_fitting(all.iter().skip(KEPT_FIRST).rev()).min(n_all);
        if n_all <= KEPT_FIRST + n_last {
            return Self::folded(all);
        }
        let last = all.split_off(n_all - n_last);
        all.truncate(KEPT_FIRST);
        Self {
            n_between: Some((n_all - KEPT_FIRST - n_last, way(KEPT_FIRST))),
            first: all,
            last,
            ..Self::folded(Vec::new())
        }
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
            n_between: None,
            ways: PageLinks::default(),
        }
    }
}

/// How many of the first messages are shown together; at least one.
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
