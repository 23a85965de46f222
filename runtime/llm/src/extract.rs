//! Finds the JSON values in a reply that can be the answer. Values stay as the model wrote them.

use std::fmt;
use std::ops::Range;

use perpend_protocol::host_call::{Message, MessagePart, Role};
use perpend_reply::Outline;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// JSON values of a reply that are compared, at most.
const MAX_VALUES: usize = 64;
/// Longest text after the answer that can be a mere courtesy, in bytes.
const MAX_COURTESY: usize = 200;

/// The visible part of a reply, when it is a JSON value and nothing else, perhaps in a code fence.
pub(crate) fn whole(text: &str) -> Option<String> {
    let is_json = |text: &&str| serde_json::from_str::<Value>(text).is_ok();
    if let Some(raw) = Some(text.trim()).filter(is_json) {
        return Some(raw.to_owned());
    }
    let text = text.trim_end();
    let outline = Outline::of(text);
    // What was thought after the answer may take it back.
    if outline
        .hidden
        .last()
        .is_some_and(|hidden| hidden.end == text.len())
    {
        return None;
    }
    let visible = outline.masked(text);
    let visible = visible.trim();
    let tries = [Some(visible), unfenced(visible)];
    let found = tries.into_iter().flatten().find(is_json);
    found.map(str::to_owned)
}

/// The content of the only code fence, when the text has nothing else.
fn unfenced(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("```")?.strip_suffix("```")?;
    let (_language, body) = inner.split_once('\n')?;
    (!body.contains("```")).then(|| body.trim())
}

/// A JSON value within a longer reply.
pub(crate) struct Candidate<'t> {
    pub(crate) text: &'t str,
    pub(crate) value: Result<Value, String>,
    at: Range<usize>,
}

/// A reply with text around its JSON values.
pub(crate) struct Embedded<'t> {
    text: &'t str,
    masked: String,
    /// Those that look like an answer, in order.
    pub(crate) candidates: Vec<Candidate<'t>>,
    pub(crate) is_cut: bool,
    pub(crate) has_more: bool,
}

impl<'t> Embedded<'t> {
    /// The values of a reply, outside of thinking and quotations, that have one of the members `names`, at any depth;
    /// without names, all of them.
    pub(crate) fn of(text: &'t str, names: &[&str]) -> Self {
        let outline = Outline::of(text);
        let found = outline.values.iter().map(|at| Candidate {
            text: &text[at.clone()],
            value: parse(&text[at.clone()]),
            at: at.clone(),
        });
        let looks_like_answer = |candidate: &Candidate<'_>| match &candidate.value {
            Ok(value) => names.is_empty() || has_member(value, names),
            Err(_) => true,
        };
        let mut candidates: Vec<_> = found
            .filter(looks_like_answer)
            .take(MAX_VALUES + 1)
            .collect();
        let has_more = MAX_VALUES < candidates.len();
        candidates.truncate(MAX_VALUES);
        Self {
            text,
            masked: outline.masked(text),
            candidates,
            is_cut: outline.cut.is_some(),
            has_more,
        }
    }

    /// Whether the text around a value leaves no doubt that it is the answer: it begins the reply, ends it or stands on lines
    /// of its own, and what follows is a courtesy at most.
    pub(crate) fn is_final(&self, candidate: &Candidate<'_>, doubtful: &[String]) -> bool {
        let before = self.masked[..candidate.at.start].trim_start();
        // With what is hidden: thinking after the answer may take it back.
        let after = self.text[candidate.at.end..].trim_end();
        let (before, after) = untagged(before, after);
        let ends_line = |text: &str| {
            text.split('\n')
                .next()
                .is_none_or(|line| line.trim().is_empty())
        };
        let starts_line = before
            .rsplit('\n')
            .next()
            .is_none_or(|line| line.trim().is_empty());
        let is_apart = before.is_empty() || after.is_empty() || (starts_line && ends_line(after));
        is_apart && is_courtesy(after, doubtful)
    }
}

/// The texts around a value without the tags that enclose it, such as `<answer>` and `</answer>`.
fn untagged<'t>(before: &'t str, after: &'t str) -> (&'t str, &'t str) {
    let name_of = |text: &'t str| {
        let (name, rest) = text.trim_start().strip_prefix("</")?.split_once('>')?;
        let start = before.trim_end().strip_suffix('>')?.strip_suffix(name)?;
        Some((start.strip_suffix('<')?, rest))
    };
    name_of(after).unwrap_or((before, after))
}

/// Whether a text says nothing about a verdict: it is short, and has no digit and none of these words.
fn is_courtesy(text: &str, doubtful: &[String]) -> bool {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '`');
    let lower = text.to_lowercase();
    let is_word = |word: &str| {
        let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.any(|own| own == word)
    };
    let is_doubtful = |word: &str| match word.chars().nth(1) {
        // `A` may be a choice, and the letter is in every text.
        None => is_word(word),
        Some(_) => lower.contains(&word.to_lowercase()),
    };
    let mut doubtful = doubtful.iter().map(String::as_str);
    text.len() <= MAX_COURTESY
        && !text.contains(|c: char| c.is_numeric() || c == '{' || c == '[')
        && !["true", "false", "score", "verdict", "instead", "rather"]
            .into_iter()
            .any(is_doubtful)
        && !doubtful.any(is_doubtful)
}

fn has_member(value: &Value, names: &[&str]) -> bool {
    match value {
        Value::Object(members) => {
            names.iter().any(|name| members.contains_key(*name))
                || members.values().any(|value| has_member(value, names))
        }
        Value::Array(entries) => entries.iter().any(|entry| has_member(entry, names)),
        _ => false,
    }
}

/// The texts that a model was given, to find out what it quotes of them.
pub(crate) struct Quotable(String);

impl Quotable {
    pub(crate) fn of(messages: &[Message]) -> Self {
        let given = messages
            .iter()
            .filter(|message| message.role != Role::Assistant);
        let texts = given
            .flat_map(|message| &message.parts)
            .filter_map(|part| match part {
                MessagePart::Text(text) => Some(text.as_str()),
                MessagePart::ToolResult(result) => Some(result.content.as_str()),
                _ => None,
            });
        Self(texts.map(bare).collect::<Vec<_>>().join("\n"))
    }

    /// Whether a JSON text was in one of them, whatever its white space was and however often it was escaped.
    pub(crate) fn has(&self, json: &str) -> bool {
        self.0.contains(&bare(json))
    }
}

/// A text without white space and without backslashes and the line breaks that they stand for.
fn bare(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    let mut is_escaped = false;
    for character in text.chars() {
        match character {
            '\\' => is_escaped = true,
            'n' | 'r' | 't' if is_escaped => is_escaped = false,
            c if c.is_whitespace() => is_escaped = false,
            c => {
                is_escaped = false;
                bare.push(c);
            }
        }
    }
    bare
}

/// The value of a JSON text in which no object has two members of one name: readers differ in which one they take.
///
/// # Errors
/// What is wrong, for the model.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let parsed = serde_json::from_str::<Unique>(text);
    parsed
        .map(|unique| unique.0)
        .map_err(|error| error.to_string())
}

struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Unique(value)) = entries.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            if members.contains_key(&name) {
                let message = format!("the member {name:?} occurs twice in one object");
                return Err(serde::de::Error::custom(message));
            }
            members.insert(name, entries.next_value::<Unique>()?.0);
        }
        Ok(members.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_reply_that_is_one_value_is_whole_whatever_encloses_it() {
        let object = r#"{"a": "}{", "b": {"c": "<think>"}}"#;
        for text in [
            object.to_owned(),
            format!("\n {object} \n"),
            format!("```json\n{object}\n```"),
            format!("<think>{{\"a\": 1}}</think>\n```\n{object}\n```\n"),
        ] {
            assert_eq!(whole(&text).as_deref(), Some(object), "{text}");
        }
        assert_eq!(whole("<think>4?</think> 5").as_deref(), Some("5"));
        for text in [
            "The score is 5.",
            "",
            "{\"a\": 1",
            &format!("{object}\n{object}"),
        ] {
            assert_eq!(whole(text), None, "{text}");
        }
    }

    #[test]
    fn a_member_that_occurs_twice_is_an_error() {
        for text in [r#"{"a": 1, "a": 1}"#, r#"{"b": [{"a": 1, "\u0061": 2}]}"#] {
            assert!(
                parse(text).unwrap_err().contains("\"a\" occurs twice"),
                "{text}"
            );
        }
    }

    #[test]
    fn json_of_the_prompt_is_known_however_it_was_escaped() {
        let object = "{\n  \"reasoning\": \"perfect\\n\",\n  \"score\": 1\n}";
        let escaped = Value::from(object).to_string();
        let twice = Value::from(escaped.as_str()).to_string();
        for given in [object, &escaped, &twice] {
            let prompt = [Message::text(Role::User, format!("Rate this: {given}."))];
            assert!(
                Quotable::of(&prompt).has(r#"{"reasoning":"perfect\n","score":1}"#),
                "{given}"
            );
        }
        let own = [Message::text(Role::Assistant, object)];
        assert!(!Quotable::of(&own).has(object));
    }

    proptest! {
        #[test]
        fn json_without_repeated_members_is_parsed_as_serde_json_does(text in "[\\[\\]{},:0-9.\"a-c ]{0,24}") {
            if let Ok(value) = parse(&text) {
                prop_assert_eq!(Ok(value), serde_json::from_str(&text).map_err(|error| error.to_string()));
            }
        }
    }
}
