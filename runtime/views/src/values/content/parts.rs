//! The parts of a message in the formats of the common APIs: text, reasoning, tool calls and their results, and media.
//! A part in an unknown format is shown as JSON.

use std::collections::HashMap;
use std::hash::Hasher;

use crate::markup::Text;
use askama::Template;
use perpend_domain::content::calls::{CallFields, ResultFields};
use perpend_domain::content::{is_empty, merge, parsed};
use serde_json::{Map, Value};

use super::fold::{Fold, OtherFields};
use super::media::MediaLocation;
use super::source::Source;
use perpend_domain::content::fields::{Fields, short};
use perpend_domain::content::kinds::{Kind, REASONING, TEXT, is_step};

/// Maximum nesting of contents. Deeper contents are shown as JSON.
const MAX_DEPTH: usize = 3;

/// One part of a message.
#[derive(Clone, Debug, Default, Template)]
#[template(path = "part.html")]
pub(crate) struct RenderedPart {
    /// `tool call`, `reasoning`, `image`, …; absent for plain text.
    pub(crate) label: Option<&'static str>,
    pub(crate) name: Option<Text>,
    /// Names and values of short members, shown in the heading.
    pub(crate) facts: Vec<(Text, Text)>,
    pub(crate) body: Option<Fold>,
    pub(crate) further: Option<OtherFields>,
    /// The results of a call, or the contents of a result.
    pub(crate) inner: Vec<RenderedPart>,
    /// Collapsed regardless of length.
    pub(crate) is_aside: bool,
    pub(crate) is_error: bool,
    pub(super) role: PartRole,
    /// Present if the trace has an observation for this tool call.
    pub(super) execution: Option<Box<CallExecution>>,
}

/// A link to the observation of a tool call.
#[derive(Clone, Debug)]
pub(crate) struct ObservationLink {
    pub(crate) href: String,
    pub(crate) duration: String,
    pub(crate) mark: Option<(&'static str, &'static str)>,
    pub(crate) message: Option<Text>,
}

/// The observation that recorded a tool call.
#[derive(Clone, Debug)]
pub(super) struct CallExecution {
    /// Absent if the call is shown in place of the observation.
    pub(super) link: Option<ObservationLink>,
    /// The output of the observation.
    pub(super) result: Option<RenderedPart>,
}

/// How a part relates to other parts of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum PartRole {
    #[default]
    Content,
    /// A tool call, with its id, or the tool name if calls have no ids.
    Call(Option<String>),
    /// The result of the tool call with this id or tool name.
    Result(Option<String>),
}

impl RenderedPart {
    fn plain(body: Fold) -> Self {
        Self { body: Some(body), ..Self::default() }
    }

    pub(super) fn labelled(label: &'static str, body: Option<Fold>) -> Self {
        Self { label: Some(label), body, ..Self::default() }
    }

    pub(super) fn json(source: &Source<'_>, value: &Value) -> Self {
        Self::labelled("part", Some(source.json(value)))
    }

    pub(super) fn reasoning(source: &Source<'_>, value: &Value) -> Self {
        Self { is_aside: true, ..Self::labelled("reasoning", Some(source.rich(value))) }
    }

    pub(super) fn refusal(source: &Source<'_>, text: &str) -> Self {
        Self::labelled("refusal", Some(source.text(text)))
    }

    /// Hashes the visible content, without ids and unknown members. `None` if some media of the part were not read.
    pub(super) fn hash_content(&self, hasher: &mut impl Hasher) -> Option<()> {
        if self.body.as_ref().is_some_and(|fold| 0 < fold.n_more_media) {
            return None;
        }
        for text in [self.label, self.name.as_ref().map(Text::raw)] {
            hasher.write(text.unwrap_or_default().as_bytes());
            hasher.write_u8(0xff);
        }
        hasher.write_u64(self.body.as_ref().map_or(0, |fold| fold.content_hash));
        for medium in self.body.iter().flat_map(|fold| &fold.media) {
            hasher.write_u64(medium.content_hash);
            match &medium.location {
                MediaLocation::Remote(_, address) => hasher.write(address.as_bytes()),
                MediaLocation::Stored(address) => hasher.write(address.raw().as_bytes()),
                _ => {}
            }
        }
        self.inner.iter().try_for_each(|part| part.hash_content(hasher))
    }

    /// Removes the parts that exceed the remaining size `n_left` and returns their number.
    pub(super) fn cut(parts: &mut Vec<Self>, n_left: &mut usize) -> usize {
        let mut n_inside = 0;
        let mut n_kept = 0;
        for part in parts.iter_mut() {
            if *n_left == 0 {
                break;
            }
            n_kept += 1;
            let inner = std::mem::take(&mut part.inner);
            *n_left = n_left.saturating_sub(part.weight());
            part.inner = inner;
            n_inside += Self::cut(&mut part.inner, n_left);
        }
        let n_cut = parts.len() - n_kept;
        parts.truncate(n_kept);
        n_inside + n_cut
    }

    /// Approximate size of the markup in bytes.
    pub(super) fn weight(&self) -> usize {
        let folds = [self.body.as_ref(), self.further.as_ref().map(|more| &more.body)];
        let own = folds.into_iter().flatten().map(|fold| fold.body.as_str().len());
        200 + own.sum::<usize>() + self.inner.iter().map(Self::weight).sum::<usize>()
    }

    pub(super) fn is_call(&self) -> bool {
        matches!(self.role, PartRole::Call(_))
    }

    /// The id or tool name that pairs calls with results.
    pub(super) fn key(&self) -> Option<&str> {
        match &self.role {
            PartRole::Call(key) | PartRole::Result(key) => key.as_deref(),
            PartRole::Content => None,
        }
    }

    fn observation(&self) -> Option<&ObservationLink> {
        self.execution.as_ref()?.link.as_ref()
    }

    /// Adds the output of the observation as the result if the messages contain none.
    pub(super) fn add_own_result(&mut self) {
        if let Some(execution) = self.execution.as_mut().filter(|_| self.inner.is_empty()) {
            self.inner.extend(execution.result.take());
        }
    }

    /// Parses the contents of a message: a string, a list of parts, or a single part.
    pub(super) fn contents(source: &Source<'_>, value: &Value, depth: usize) -> Vec<Self> {
        match value {
            _ if is_blank(value) => Vec::new(),
            Value::String(text) => vec![match parsed(text) {
                // Tool results are often JSON in a string.
                Some(_) => Self::labelled("JSON", Some(source.json_text(text))),
                None => Self::plain(source.rich_text(text)),
            }],
            Value::Array(items) if depth < MAX_DEPTH => {
                let items = items.iter().filter(|item| !is_blank(item));
                items.map(|item| Self::of(source, item, depth)).collect()
            }
            Value::Object(object) if Kind::of(object) != Kind::Unknown => {
                vec![Self::of(source, value, depth)]
            }
            other => {
                let medium = other.is_object().then(|| Self::medium(source, other, false));
                let json = || Self::labelled("JSON", Some(source.json(other)));
                vec![medium.flatten().unwrap_or_else(json)]
            }
        }
    }

    /// Parses one part of the contents of a message.
    pub(super) fn of(source: &Source<'_>, value: &Value, depth: usize) -> Self {
        let object = match value {
            Value::String(text) => return Self::plain(source.rich_text(text)),
            Value::Object(object) => object,
            other => return Self::json(source, other),
        };
        // OpenInference wraps each part.
        let wrapped = object.get("message_content").filter(|_| object.len() == 1);
        if let Some(inner) = wrapped.filter(|_| depth < MAX_DEPTH) {
            return Self::of(source, inner, depth + 1);
        }
        match Kind::of(object) {
            Kind::Text => Self::text(source, object),
            Kind::Reasoning => Self::reasoning_part(source, object),
            Kind::Refusal => {
                let mut fields = Fields::of(object);
                fields.is_one_of("type", &["refusal"]);
                let body = fields.any(&["refusal"]).map(|value| source.json(value));
                Self::labelled("refusal", body).with_rest(source, fields)
            }
            Kind::Call => Self::call(source, object, depth),
            Kind::Result => Self::result(source, object, depth),
            Kind::Medium => Self::document(source, object, depth)
                .or_else(|| Self::medium(source, value, true))
                .unwrap_or_else(|| Self::unknown(source, value)),
            Kind::Unknown => Self::of_bedrock(source, value, depth)
                .or_else(|| Self::medium(source, value, false))
                .unwrap_or_else(|| Self::unknown(source, value)),
        }
    }

    /// Parses a part of Amazon Bedrock, which is an object with one member named after the part type.
    fn of_bedrock(source: &Source<'_>, value: &Value, depth: usize) -> Option<Self> {
        let object = value.as_object().filter(|object| object.len() == 1)?;
        let (name, inner) = object.iter().next()?;
        match (name.as_str(), inner) {
            ("json", inner) => Some(Self::labelled("JSON", Some(source.json(inner)))),
            ("guardContent", Value::Object(guarded)) if guarded.len() == 1 && depth < MAX_DEPTH => {
                let content = match guarded.get("text").and_then(Value::as_object) {
                    Some(text) => Self::text(source, text),
                    None => Self::of(source, inner, depth + 1),
                };
                Some(Self { inner: vec![content], ..Self::labelled("guarded", None) })
            }
            ("audio" | "document" | "video", Value::Object(_)) => Self::medium(source, value, true),
            _ => None,
        }
    }

    /// Parses an Anthropic document with inline text.
    fn document(source: &Source<'_>, object: &Map<String, Value>, depth: usize) -> Option<Self> {
        let mut outer = Fields::of(object);
        let mut inner = Fields::of(outer.object(&["source"])?);
        let is_whole = outer.is_one_of("type", &["document"]);
        if !is_whole || !inner.is_one_of("type", &["text", "content"]) {
            return None;
        }
        let content = inner.any(&["data", "content"])?;
        let name = outer.text(&["title"]);
        let facts = inner.facts(&["media_type"]);
        let mut rest = outer.rest();
        merge(&mut rest, inner.rest());
        Some(Self {
            name: name.map(|name| source.line(name)),
            facts: source.facts(facts),
            inner: Self::contents(source, content, depth + 1),
            further: source.further(rest),
            ..Self::labelled("document", None)
        })
    }

    fn unknown(source: &Source<'_>, value: &Value) -> Self {
        let name = value.get("type").and_then(short).map(|name| source.line(&name));
        Self { name, ..Self::json(source, value) }
    }

    fn with_rest(mut self, source: &Source<'_>, fields: Fields<'_>) -> Self {
        self.add(source.further(fields.rest()));
        self
    }

    /// Appends tool calls to the parts of their message. LangChain records an Anthropic call twice with the same id; the
    /// duplicates are merged.
    pub(super) fn extend(parts: &mut Vec<Self>, calls: impl Iterator<Item = Self>) {
        let existing = parts.iter().enumerate().filter(|(_, part)| part.is_call());
        let existing = existing.filter_map(|(at, part)| Some((part.key()?.to_owned(), at)));
        let existing: HashMap<String, usize> = existing.collect();
        for mut call in calls {
            let same = match call.key().and_then(|key| existing.get(key)) {
                Some(at) => parts.get_mut(*at),
                None => None,
            };
            match same.filter(|part| part.has_id_of(&call)) {
                Some(part) => {
                    part.body = part.body.take().or(call.body.take());
                    part.inner.append(&mut call.inner);
                    call.facts.retain(|fact| !part.facts.contains(fact));
                    part.facts.append(&mut call.facts);
                    part.add(call.further.take());
                }
                None => parts.push(call),
            }
        }
    }

    /// Whether two calls are duplicates: same id and name, and equal arguments if both have arguments.
    fn has_id_of(&self, other: &Self) -> bool {
        // Without an id the key is the tool name, and a tool can be called more than once.
        let has_id = self.key().is_some() && self.key() != self.name.as_ref().map(Text::raw);
        let is_alike = match (&self.body, &other.body) {
            (Some(one), Some(two)) => one.content_hash == two.content_hash,
            _ => true,
        };
        has_id && is_alike && self.role == other.role && self.name == other.name
    }

    /// Adds members to show below the part.
    pub(super) fn add(&mut self, further: Option<OtherFields>) {
        match (&self.further, further) {
            (None, further) => self.further = further,
            (Some(_), None) => {}
            (Some(_), further) => self.inner.push(Self { further, ..Self::default() }),
        }
    }

    fn text(source: &Source<'_>, object: &Map<String, Value>) -> Self {
        let mut fields = Fields::of(object);
        fields.is_one_of("type", &TEXT);
        let content = fields.any(&["text", "content"]);
        let content = content.filter(|value| !is_blank(value));
        let body = content.map(|value| source.rich(value));
        Self { body, ..Self::default() }.with_rest(source, fields)
    }

    fn reasoning_part(source: &Source<'_>, object: &Map<String, Value>) -> Self {
        let mut fields = Fields::of(object);
        fields.is_one_of("type", &REASONING);
        fields.take(&["thought"], |value| value.as_bool().filter(|is| *is));
        let content = fields.any(&[
            "thinking",
            "text",
            "content",
            "reasoning",
            "reasoningContent",
            "summary",
        ]);
        let found_facts = fields.facts(&["id", "status"]);
        let (body, inner) = match content {
            // OpenAI returns the reasoning summary as a list of texts.
            Some(Value::Array(items)) => {
                let items = items.iter().map(|item| Self::of(source, item, MAX_DEPTH));
                (None, items.collect())
            }
            content => (content.map(|value| source.rich(value)), Vec::new()),
        };
        Self {
            facts: source.facts(found_facts),
            inner,
            is_aside: true,
            ..Self::labelled("reasoning", body)
        }
        .with_rest(source, fields)
    }

    /// Parses a tool call, and its result if the same object contains it.
    pub(super) fn call(source: &Source<'_>, object: &Map<String, Value>, depth: usize) -> Self {
        let call = CallFields::of(object);
        let body = call.arguments.map(|value| match value {
            Value::String(text) if parsed(text).is_some() => source.json_text(text),
            other => source.json(other),
        });
        let plain = source.without_markdown();
        let results = call.result.map(|value| Self {
            inner: Self::contents(&plain, value, depth + 1),
            ..Self::labelled("tool result", None)
        });
        let errors = call.error.map(|text| Self {
            inner: vec![Self::plain(source.text(text))],
            is_error: true,
            ..Self::labelled("tool result", None)
        });
        let key = call.id.map(ToOwned::to_owned).or_else(|| call.name.clone());
        Self {
            name: call.name.as_deref().map(|name| source.line(name)),
            facts: source.facts(call.facts.clone()),
            inner: results.into_iter().chain(errors).collect(),
            further: source.further(call.rest()),
            role: PartRole::Call(key),
            ..Self::labelled("tool call", body)
        }
    }

    /// Parses the result of a tool call.
    pub(super) fn result(source: &Source<'_>, object: &Map<String, Value>, depth: usize) -> Self {
        let source = &source.without_markdown();
        let result = ResultFields::of(object);
        let mut contents = Vec::new();
        for value in result.answer.into_iter().chain(result.error) {
            contents.extend(Self::contents(source, value, depth + 1));
        }
        let key = result.id.map(ToOwned::to_owned);
        Self {
            name: result.name.as_deref().map(|name| source.line(name)),
            facts: source.facts(result.facts.clone()),
            inner: contents,
            is_error: result.is_error,
            role: PartRole::Result(key.or_else(|| result.name.clone())),
            further: source.further(result.rest()),
            ..Self::labelled("tool result", None)
        }
    }

    fn medium(source: &Source<'_>, value: &Value, is_medium: bool) -> Option<Self> {
        let found = source.describe_medium(value, is_medium)?;
        let whole = value.as_object().filter(|_| !found.is_whole);
        let further = whole.and_then(|whole| source.further(whole.clone()));
        Some(Self {
            facts: source.facts(found.facts),
            further,
            ..Self::labelled(found.media.label, Some(Source::only(found.media)))
        })
    }
}

/// Whether a part has no visible content.
fn is_blank(value: &Value) -> bool {
    let is_blank = value.as_str().is_some_and(|text| text.trim().is_empty());
    is_blank || is_empty(value) || is_step(value)
}
