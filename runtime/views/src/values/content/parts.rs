//! The parts of a message, in the shapes of the common APIs: what is said, reasoning, calls of tools and
//! their results, media. A part of any other shape is shown as JSON.

use std::collections::HashMap;
use std::hash::Hasher;

use crate::markup::Text;
use askama::Template;
use perpend_domain::content::calls::{CallFields, ResultFields};
use perpend_domain::content::{is_empty, merge, parsed};
use serde_json::{Map, Value};

use super::fold::{Fold, Further};
use super::media::Place;
use super::source::Source;
use perpend_domain::content::fields::{Fields, short};
use perpend_domain::content::kinds::{Kind, REASONING, TEXT, is_step};

/// Contents inside contents; deeper ones are shown as JSON.
const MAX_DEPTH: usize = 3;

/// One part of a message.
#[derive(Clone, Debug, Default, Template)]
#[template(path = "part.html")]
pub(crate) struct Part {
    /// `tool call`, `reasoning`, `image` ...; absent for what was simply said.
    pub(crate) label: Option<&'static str>,
    pub(crate) name: Option<Text>,
    /// Short members, with their names.
    pub(crate) facts: Vec<(Text, Text)>,
    pub(crate) body: Option<Fold>,
    pub(crate) further: Option<Further>,
    /// The results of a call, or the contents of a result.
    pub(crate) inner: Vec<Part>,
    /// Folded away whatever its length.
    pub(crate) is_aside: bool,
    pub(crate) is_error: bool,
    pub(super) role: Role,
    /// The step of the trace that this call ran as.
    pub(super) ran: Option<Box<Ran>>,
}

/// The step that a call ran as.
#[derive(Clone, Debug)]
pub(crate) struct StepLink {
    pub(crate) href: String,
    pub(crate) took: String,
    pub(crate) mark: Option<(&'static str, &'static str)>,
    pub(crate) message: Option<Text>,
}

/// What a call in messages has of its step.
#[derive(Clone, Debug)]
pub(super) struct Ran {
    /// None where the call stands in the place of its step.
    pub(super) link: Option<StepLink>,
    /// The result that the step recorded.
    pub(super) result: Option<Part>,
}

/// What a part is to the other parts of its conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    #[default]
    Said,
    /// With the id of the call, or the name of the tool where calls have no ids.
    Call(Option<String>),
    /// The same, of the call that it answers.
    Result(Option<String>),
}

impl Part {
    fn said(body: Fold) -> Self {
        Self { body: Some(body), ..Self::default() }
    }

    pub(super) fn labelled(label: &'static str, body: Option<Fold>) -> Self {
        Self { label: Some(label), body, ..Self::default() }
    }

    pub(super) fn json(source: &Source<'_>, value: &Value) -> Self {
        Self::labelled("part", Some(source.json(value)))
    }

    pub(super) fn reasoning(source: &Source<'_>, value: &Value) -> Self {
        Self { is_aside: true, ..Self::labelled("reasoning", Some(source.said(value))) }
    }

    pub(super) fn refusal(source: &Source<'_>, text: &str) -> Self {
        Self::labelled("refusal", Some(source.text(text)))
    }

    /// What of it is read: neither ids nor members of no known meaning. None when not all of its media are.
    pub(super) fn read_by(&self, hasher: &mut impl Hasher) -> Option<()> {
        if self.body.as_ref().is_some_and(|fold| 0 < fold.n_more_media) {
            return None;
        }
        for text in [self.label, self.name.as_ref().map(Text::raw)] {
            hasher.write(text.unwrap_or_default().as_bytes());
            hasher.write_u8(0xff);
        }
        hasher.write_u64(self.body.as_ref().map_or(0, |fold| fold.print));
        for medium in self.body.iter().flat_map(|fold| &fold.media) {
            hasher.write_u64(medium.print);
            match &medium.place {
                Place::Remote(_, address) => hasher.write(address.as_bytes()),
                Place::Stored(address) => hasher.write(address.raw().as_bytes()),
                _ => {}
            }
        }
        self.inner.iter().try_for_each(|part| part.read_by(hasher))
    }

    /// Takes away those that are more than what is left of a page, and says how many.
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

    /// How much markup it is, about.
    pub(super) fn weight(&self) -> usize {
        let folds = [self.body.as_ref(), self.further.as_ref().map(|more| &more.body)];
        let own = folds.into_iter().flatten().map(|fold| fold.body.as_str().len());
        200 + own.sum::<usize>() + self.inner.iter().map(Self::weight).sum::<usize>()
    }

    pub(super) fn is_call(&self) -> bool {
        matches!(self.role, Role::Call(_))
    }

    /// What pairs it with other parts.
    pub(super) fn key(&self) -> Option<&str> {
        match &self.role {
            Role::Call(key) | Role::Result(key) => key.as_deref(),
            Role::Said => None,
        }
    }

    fn step(&self) -> Option<&StepLink> {
        self.ran.as_ref()?.link.as_ref()
    }

    /// Where the messages have no result of a call, the one that its step recorded stands.
    pub(super) fn add_own_result(&mut self) {
        if let Some(ran) = self.ran.as_mut().filter(|_| self.inner.is_empty()) {
            self.inner.extend(ran.result.take());
        }
    }

    /// The contents of a message: a text, a list of parts, or one part.
    pub(super) fn contents(source: &Source<'_>, value: &Value, depth: usize) -> Vec<Self> {
        match value {
            _ if is_nothing(value) => Vec::new(),
            Value::String(text) => vec![match parsed(text) {
                // Tools answer in JSON held as text.
                Some(_) => Self::labelled("JSON", Some(source.json_text(text))),
                None => Self::said(source.said_text(text)),
            }],
            Value::Array(items) if depth < MAX_DEPTH => {
                let items = items.iter().filter(|item| !is_nothing(item));
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

    /// One part of the contents of a message.
    pub(super) fn of(source: &Source<'_>, value: &Value, depth: usize) -> Self {
        let object = match value {
            Value::String(text) => return Self::said(source.said_text(text)),
            Value::Object(object) => object,
            other => return Self::json(source, other),
        };
        // OpenInference wraps each of its parts.
        let wrapped = object.get("message_content").filter(|_| object.len() == 1);
        if let Some(inner) = wrapped.filter(|_| depth < MAX_DEPTH) {
            return Self::of(source, inner, depth + 1);
        }
        match Kind::of(object) {
            Kind::Text => Self::text(source, object),
            Kind::Reasoning => Self::thought(source, object),
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

    /// A part of Bedrock, whose type is the name of its only member.
    fn of_bedrock(source: &Source<'_>, value: &Value, depth: usize) -> Option<Self> {
        let object = value.as_object().filter(|object| object.len() == 1)?;
        let (name, inner) = object.iter().next()?;
        match (name.as_str(), inner) {
            ("json", inner) => Some(Self::labelled("JSON", Some(source.json(inner)))),
            ("guardContent", Value::Object(guarded)) if guarded.len() == 1 && depth < MAX_DEPTH => {
                let said = match guarded.get("text").and_then(Value::as_object) {
                    Some(text) => Self::text(source, text),
                    None => Self::of(source, inner, depth + 1),
                };
                Some(Self { inner: vec![said], ..Self::labelled("guarded", None) })
            }
            ("audio" | "document" | "video", Value::Object(_)) => Self::medium(source, value, true),
            _ => None,
        }
    }

    /// A document of Anthropic that is written in the part itself.
    fn document(source: &Source<'_>, object: &Map<String, Value>, depth: usize) -> Option<Self> {
        let mut outer = Fields::of(object);
        let mut inner = Fields::of(outer.object(&["source"])?);
        let is_whole = outer.is_one_of("type", &["document"]);
        if !is_whole || !inner.is_one_of("type", &["text", "content"]) {
            return None;
        }
        let said = inner.any(&["data", "content"])?;
        let name = outer.text(&["title"]);
        let facts = inner.facts(&["media_type"]);
        let mut rest = outer.rest();
        merge(&mut rest, inner.rest());
        Some(Self {
            name: name.map(|name| source.line(name)),
            facts: source.facts(facts),
            inner: Self::contents(source, said, depth + 1),
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

    /// Puts calls behind the parts of their message. LangChain has a call of Anthropic in two places, with one id.
    pub(super) fn extend(parts: &mut Vec<Self>, calls: impl Iterator<Item = Self>) {
        let said = parts.iter().enumerate().filter(|(_, part)| part.is_call());
        let said = said.filter_map(|(at, part)| Some((part.key()?.to_owned(), at)));
        let said: HashMap<String, usize> = said.collect();
        for mut call in calls {
            let same = match call.key().and_then(|key| said.get(key)) {
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

    /// Whether two calls are one, with what it was called with in one place or in both.
    fn has_id_of(&self, other: &Self) -> bool {
        // Without an id, the key is the name, and a tool may be called twice.
        let has_id = self.key().is_some() && self.key() != self.name.as_ref().map(Text::raw);
        let is_alike = match (&self.body, &other.body) {
            (Some(one), Some(two)) => one.print == two.print,
            _ => true,
        };
        has_id && is_alike && self.role == other.role && self.name == other.name
    }

    /// Shows more members under the part.
    pub(super) fn add(&mut self, further: Option<Further>) {
        match (&self.further, further) {
            (None, further) => self.further = further,
            (Some(_), None) => {}
            (Some(_), further) => self.inner.push(Self { further, ..Self::default() }),
        }
    }

    fn text(source: &Source<'_>, object: &Map<String, Value>) -> Self {
        let mut fields = Fields::of(object);
        fields.is_one_of("type", &TEXT);
        let said = fields.any(&["text", "content"]);
        let said = said.filter(|value| !is_nothing(value));
        let body = said.map(|value| source.said(value));
        Self { body, ..Self::default() }.with_rest(source, fields)
    }

    fn thought(source: &Source<'_>, object: &Map<String, Value>) -> Self {
        let mut fields = Fields::of(object);
        fields.is_one_of("type", &REASONING);
        fields.take(&["thought"], |value| value.as_bool().filter(|is| *is));
        let said = fields.any(&[
            "thinking",
            "text",
            "content",
            "reasoning",
            "reasoningContent",
            "summary",
        ]);
        let facts_found = fields.facts(&["id", "status"]);
        let (body, inner) = match said {
            // The summary of OpenAI's reasoning is a list of texts.
            Some(Value::Array(items)) => {
                let items = items.iter().map(|item| Self::of(source, item, MAX_DEPTH));
                (None, items.collect())
            }
            said => (said.map(|value| source.said(value)), Vec::new()),
        };
        Self {
            facts: source.facts(facts_found),
            inner,
            is_aside: true,
            ..Self::labelled("reasoning", body)
        }
        .with_rest(source, fields)
    }

    /// A call of a tool, with its result where the same object has it.
    pub(super) fn call(source: &Source<'_>, object: &Map<String, Value>, depth: usize) -> Self {
        let call = CallFields::of(object);
        let body = call.arguments.map(|value| match value {
            Value::String(text) if parsed(text).is_some() => source.json_text(text),
            other => source.json(other),
        });
        let plain = source.plainly();
        let results = call.result.map(|value| Self {
            inner: Self::contents(&plain, value, depth + 1),
            ..Self::labelled("tool result", None)
        });
        let errors = call.error.map(|text| Self {
            inner: vec![Self::said(source.text(text))],
            is_error: true,
            ..Self::labelled("tool result", None)
        });
        let key = call.id.map(ToOwned::to_owned).or_else(|| call.name.clone());
        Self {
            name: call.name.as_deref().map(|name| source.line(name)),
            facts: source.facts(call.facts.clone()),
            inner: results.into_iter().chain(errors).collect(),
            further: source.further(call.rest()),
            role: Role::Call(key),
            ..Self::labelled("tool call", body)
        }
    }

    /// What a tool answered.
    pub(super) fn result(source: &Source<'_>, object: &Map<String, Value>, depth: usize) -> Self {
        let source = &source.plainly();
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
            role: Role::Result(key.or_else(|| result.name.clone())),
            further: source.further(result.rest()),
            ..Self::labelled("tool result", None)
        }
    }

    fn medium(source: &Source<'_>, value: &Value, is_medium: bool) -> Option<Self> {
        let found = source.described(value, is_medium)?;
        let whole = value.as_object().filter(|_| !found.is_whole);
        let further = whole.and_then(|whole| source.further(whole.clone()));
        Some(Self {
            facts: source.facts(found.facts),
            further,
            ..Self::labelled(found.media.label, Some(Source::only(found.media)))
        })
    }
}

/// Whether a part of a message shows nothing.
fn is_nothing(value: &Value) -> bool {
    let is_blank = value.as_str().is_some_and(|text| text.trim().is_empty());
    is_blank || is_empty(value) || is_step(value)
}
