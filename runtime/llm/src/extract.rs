//! Finds candidates for the answer among the JSON values of a reply. Values are kept as the model wrote them.

use std::fmt;
use std::ops::Range;

use perpend_reply::ReplyOutline;
use perpend_worker_protocol::host_call::{Message, MessagePart, Role};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Maximum number of candidates.
const MAX_VALUES: usize = 64;
/// Maximum length of a courtesy after the answer, in bytes.
const MAX_COURTESY: usize = 200;
/// Word stems and phrases of texts that refer to the answer or retract it.
const DOUBTFUL: [&str; 25] = [
    "true",
    "false",
    "score",
    "verdict",
    "instead",
    "rather",
    "wait",
    "actual",
    "reflection",
    "correct",
    "mistake",
    "wrong",
    "take that back",
    "take it back",
    "taking that back",
    "reconsider",
    "revis",
    "however",
    "second thought",
    "withdraw",
    "retract",
    "ignore",
    "disregard",
    "should be",
    "hmm",
];

/// The visible part of a reply, if it consists of one JSON value, optionally in a code fence.
pub(crate) fn entire_value(text: &str) -> Option<String> {
    let is_json = |text: &&str| serde_json::from_str::<Value>(text).is_ok();
    if let Some(raw) = Some(text.trim()).filter(is_json) {
        return Some(raw.to_owned());
    }
    let text = text.trim_end();
    let outline = ReplyOutline::of(text);
    let masked = outline.masked(text);
    let visible = masked.trim();
    let tries = [Some(visible), unfenced(visible)];
    let found = tries.into_iter().flatten().find(is_json)?;
    let end = masked.find(found)? + found.len();
    // Thinking after the answer may retract it.
    let is_last = outline.hidden.last().is_none_or(|hidden| hidden.start < end);
    is_last.then(|| found.to_owned())
}

/// The content of a code fence that is the whole text.
fn unfenced(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("```")?.strip_suffix("```")?;
    let body = match inner.split_once('\n') {
        Some((language, body)) if !language.contains(['{', '[']) => body,
        // Language and content are on one line.
        _ => inner.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
    };
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
    /// Byte offset of the last hidden part.
    last_hidden: Option<usize>,
    /// Values that may be the answer, in order.
    pub(crate) candidates: Vec<Candidate<'t>>,
    pub(crate) is_cut: bool,
    pub(crate) has_more: bool,
}

impl<'t> Embedded<'t> {
    /// Finds the values outside thinking and quotations that have one of the members `names` at any depth; all values when
    /// `names` is empty.
    pub(crate) fn of(text: &'t str, names: &[&str]) -> Self {
        let outline = ReplyOutline::of(text);
        let found = outline.values.iter().map(|at| Candidate {
            text: &text[at.clone()],
            value: parse(&text[at.clone()]),
            at: at.clone(),
        });
        let looks_like_answer = |candidate: &Candidate<'_>| match &candidate.value {
            Ok(value) => names.is_empty() || has_member(value, names),
            Err(_) => true,
        };
        let mut candidates: Vec<_> = found.filter(looks_like_answer).take(MAX_VALUES + 1).collect();
        let has_more = MAX_VALUES < candidates.len();
        candidates.truncate(MAX_VALUES);
        Self {
            text,
            masked: outline.masked(text),
            last_hidden: outline.hidden.last().map(|hidden| hidden.start),
            candidates,
            is_cut: outline.cut.is_some(),
            has_more,
        }
    }

    /// Whether a value is certainly the answer: it starts or ends the reply or is on its own lines, and is followed by at most
    /// a courtesy.
    pub(crate) fn is_final(&self, candidate: &Candidate<'_>, doubtful: &[String]) -> bool {
        // Thinking after the answer may retract it.
        if self.last_hidden.is_some_and(|start| candidate.at.end <= start) {
            return false;
        }
        let before = self.masked[..candidate.at.start].trim_start();
        let after = self.text[candidate.at.end..].trim_end();
        let (before, after) = untagged(before, after);
        // Ignore the end of a sentence, of inline code, of bold text or of a code fence.
        let after = match after.chars().all(|c| c.is_whitespace() || "`*_.!".contains(c)) {
            true => "",
            false => after,
        };
        let ends_line =
            |text: &str| text.split('\n').next().is_none_or(|line| line.trim().is_empty());
        let starts_line = before.rsplit('\n').next().is_none_or(|line| line.trim().is_empty());
        let is_apart = before.is_empty() || after.is_empty() || (starts_line && ends_line(after));
        is_apart && is_courtesy(after, doubtful)
    }

    /// Whether the text around a value only announces it, so that the value is not a quotation.
    pub(crate) fn is_announced(&self, candidate: &Candidate<'_>) -> bool {
        const ANNOUNCING: [&str; 23] = [
            "a",
            "answer",
            "as",
            "evaluation",
            "final",
            "follows",
            "grade",
            "here",
            "i",
            "is",
            "it",
            "json",
            "judgement",
            "judgment",
            "my",
            "rating",
            "response",
            "result",
            "s",
            "score",
            "so",
            "the",
            "verdict",
        ];
        let at = &candidate.at;
        let around = [&self.masked[..at.start], &self.masked[at.end..]];
        let words = around.into_iter().flat_map(|text| text.split(|c: char| !c.is_alphanumeric()));
        words
            .filter(|word| !word.is_empty())
            .all(|word| ANNOUNCING.contains(&word.to_lowercase().as_str()))
    }
}

/// Removes tags around a value, such as `<answer>` and `</answer>`.
fn untagged<'t>(before: &'t str, after: &'t str) -> (&'t str, &'t str) {
    let name_of = |text: &'t str| {
        let (name, rest) = text.trim_start().strip_prefix("</")?.split_once('>')?;
        let start = before.trim_end().strip_suffix('>')?.strip_suffix(name)?;
        Some((start.strip_suffix('<')?, rest))
    };
    name_of(after).unwrap_or((before, after))
}

/// Whether a text does not refer to a verdict: it is short and has no digit, no doubtful word and none of `doubtful`.
fn is_courtesy(text: &str, doubtful: &[String]) -> bool {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '`');
    let lower = text.to_lowercase();
    let has_word = |word: &str| {
        let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        match word.len() {
            // Case-sensitive: `A` may be a choice, and `a` is an article.
            1 => words.any(|own| own == word),
            _ => words.any(|own| own.eq_ignore_ascii_case(word)),
        }
    };
    let has = |doubtful: &String| {
        let is_word = doubtful.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match is_word {
            true => has_word(doubtful.as_str()),
            // Several words, or a script without word separators.
            false => lower.contains(&doubtful.to_lowercase()),
        }
    };
    text.len() <= MAX_COURTESY
        && !text.contains(|c: char| c.is_numeric() || c == '{' || c == '[')
        && !DOUBTFUL.iter().any(|part| lower.contains(part))
        && !doubtful.iter().any(has)
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

/// The data in a prompt, to detect quotations of it in the reply.
pub(crate) struct PromptData {
    text: String,
    /// Whether fences separate data from instructions.
    pub(crate) is_fenced: bool,
}

impl PromptData {
    /// When the system message explains the fences of the judge, text outside fences is instructions, whose examples are not
    /// data. A text without fences in another message is entirely data.
    pub(crate) fn of(messages: &[Message]) -> Self {
        let is_system = |message: &&Message| message.role == Role::System;
        let mut rules = messages.iter().filter(is_system).flat_map(texts);
        let has_rule = rules.any(|text| text.contains("`[begin data MARK]`"));
        let mut data_texts = Vec::new();
        let mut is_fenced = false;
        for message in messages {
            if message.role == Role::Assistant {
                continue;
            }
            for text in texts(message) {
                let data = match has_rule {
                    true => fenced(text),
                    false => Vec::new(),
                };
                is_fenced |= !data.is_empty();
                if data.is_empty() && !(has_rule && message.role == Role::System) {
                    data_texts.push(bare(text));
                }
                data_texts.extend(data.into_iter().map(bare));
            }
        }
        Self { text: data_texts.join("\n"), is_fenced }
    }

    /// Whether the data contains a JSON text, ignoring white space and levels of escaping.
    pub(crate) fn contains(&self, json: &str) -> bool {
        self.text.contains(&bare(json))
    }
}

fn texts(message: &Message) -> impl Iterator<Item = &str> {
    message.parts.iter().filter_map(|part| match part {
        MessagePart::Text(text) => Some(text.as_str()),
        MessagePart::ToolResult(result) => Some(result.content.as_str()),
        _ => None,
    })
}

/// The texts between the lines `[begin data MARK]` and `[end data MARK]`. An unclosed fence extends to the end of the text.
fn fenced(text: &str) -> Vec<&str> {
    const N_MARK: usize = 16;
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("[begin data ") {
        rest = after;
        let Some((mark, data)) = after.split_at_checked(N_MARK) else {
            continue;
        };
        let is_mark = mark.bytes().all(|byte| byte.is_ascii_hexdigit());
        let Some(data) = data.strip_prefix("]\n").filter(|_| is_mark) else {
            continue;
        };
        let end = format!("\n[end data {mark}]");
        let (inside, after) = data.split_once(end.as_str()).unwrap_or((data, ""));
        found.push(inside);
        rest = after;
    }
    found
}

/// Removes white space, backslashes and escaped white space.
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

/// Parses JSON and rejects objects with duplicate members, which parsers resolve differently.
///
/// # Errors
/// With a sentence for the model.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let parsed = serde_json::from_str::<WithoutDuplicates>(text);
    parsed.map(|unique| unique.0).map_err(|error| error.to_string())
}

struct WithoutDuplicates(Value);

impl<'de> Deserialize<'de> for WithoutDuplicates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DuplicateVisitor).map(Self)
    }
}

struct DuplicateVisitor;

impl<'de> Visitor<'de> for DuplicateVisitor {
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
        while let Some(WithoutDuplicates(value)) = entries.next_element()? {
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
            members.insert(name, entries.next_value::<WithoutDuplicates>()?.0);
        }
        Ok(members.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_reply_with_one_value_is_whole_in_every_wrapping() {
        let object = r#"{"a": "}{", "b": {"c": "<think>"}}"#;
        for text in [
            object.to_owned(),
            format!("\n {object} \n"),
            format!("```json\n{object}\n```"),
            format!("<think>{{\"a\": 1}}</think>\n```\n{object}\n```\n"),
            format!("```json {object} ```"),
        ] {
            assert_eq!(entire_value(&text).as_deref(), Some(object), "{text}");
        }
        assert_eq!(entire_value("<think>4?</think> 5").as_deref(), Some("5"));
        for text in [
            "The score is 5.",
            "",
            "{\"a\": 1",
            &format!("{object}\n{object}"),
            &format!("```json {object}\n{object}\n```"),
            &format!("{object}<think>No, that is wrong.</think>"),
            &format!("```\n{object}\n<think>No, that is wrong.</think>\n```"),
        ] {
            assert_eq!(entire_value(text), None, "{text}");
        }
    }

    #[test]
    fn a_duplicate_member_is_an_error() {
        for text in [r#"{"a": 1, "a": 1}"#, r#"{"b": [{"a": 1, "\u0061": 2}]}"#] {
            assert!(parse(text).unwrap_err().contains("\"a\" occurs twice"), "{text}");
        }
    }

    #[test]
    fn json_of_the_prompt_is_detected_at_every_level_of_escaping() {
        let object = "{\n  \"reasoning\": \"perfect\\n\",\n  \"score\": 1\n}";
        let escaped = Value::from(object).to_string();
        let twice = Value::from(escaped.as_str()).to_string();
        for quoted in [object, &escaped, &twice] {
            let prompt = [Message::text(Role::User, format!("Rate this: {quoted}."))];
            assert!(
                PromptData::of(&prompt).contains(r#"{"reasoning":"perfect\n","score":1}"#),
                "{quoted}"
            );
        }
        let own = [Message::text(Role::Assistant, object)];
        assert!(!PromptData::of(&own).contains(object));
    }

    proptest! {
        #[test]
        fn json_without_duplicate_members_is_parsed_as_serde_json_does(text in "[\\[\\]{},:0-9.\"a-c ]{0,24}") {
            if let Ok(value) = parse(&text) {
                prop_assert_eq!(Ok(value), serde_json::from_str(&text).map_err(|error| error.to_string()));
            }
        }
    }
}
