//! Finds the JSON values in a reply that can be the answer. Values stay as the model wrote them.

use std::fmt;
use std::ops::Range;

use perpend_reply::ReplyOutline;
use perpend_worker_protocol::host_call::{Message, MessagePart, Role};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// JSON values of a reply that are compared, at most.
const MAX_VALUES: usize = 64;
/// Longest text after the answer that can be a mere courtesy, in bytes.
const MAX_COURTESY: usize = 200;
/// Parts of words, and phrases, in texts that speak of the answer or take it back.
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

/// The visible part of a reply, when it is a JSON value and nothing else, perhaps in a code fence.
pub(crate) fn whole(text: &str) -> Option<String> {
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
    // What was thought after the answer may take it back.
    let is_last = outline.hidden.last().is_none_or(|hidden| hidden.start < end);
    is_last.then(|| found.to_owned())
}

/// The content of the only code fence, when the text has nothing else.
fn unfenced(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("```")?.strip_suffix("```")?;
    let body = match inner.split_once('\n') {
        Some((language, body)) if !language.contains(['{', '[']) => body,
        // The language and the content on one line.
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
    /// Where the last part begins that is hidden.
    last_hidden: Option<usize>,
    /// Those that look like an answer, in order.
    pub(crate) candidates: Vec<Candidate<'t>>,
    pub(crate) is_cut: bool,
    pub(crate) has_more: bool,
}

impl<'t> Embedded<'t> {
    /// The values of a reply, outside of thinking and quotations, that have one of the members `names`, at any depth;
    /// without names, all of them.
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

    /// Whether the text around a value leaves no doubt that it is the answer: it begins the reply, ends it or stands on lines
    /// of its own, and what follows is a courtesy at most.
    pub(crate) fn is_final(&self, candidate: &Candidate<'_>, doubtful: &[String]) -> bool {
        // Thinking after the answer may take it back.
        if self.last_hidden.is_some_and(|start| candidate.at.end <= start) {
            return false;
        }
        let before = self.masked[..candidate.at.start].trim_start();
        let after = self.text[candidate.at.end..].trim_end();
        let (before, after) = untagged(before, after);
        // The end of a sentence, of inline code, of bold text or of a code fence says nothing.
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

    /// Whether a reply does no more than announce a value: such a reply has no room for a quotation.
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

/// The texts around a value without the tags that enclose it, such as `<answer>` and `</answer>`.
fn untagged<'t>(before: &'t str, after: &'t str) -> (&'t str, &'t str) {
    let name_of = |text: &'t str| {
        let (name, rest) = text.trim_start().strip_prefix("</")?.split_once('>')?;
        let start = before.trim_end().strip_suffix('>')?.strip_suffix(name)?;
        Some((start.strip_suffix('<')?, rest))
    };
    name_of(after).unwrap_or((before, after))
}

/// Whether a text says nothing about a verdict: it is short, and has no digit, no doubtful word and none of these texts.
fn is_courtesy(text: &str, doubtful: &[String]) -> bool {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '`');
    let lower = text.to_lowercase();
    let has_word = |word: &str| {
        let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        match word.len() {
            // `A` may be a choice, and `a` is in every text.
            1 => words.any(|own| own == word),
            _ => words.any(|own| own.eq_ignore_ascii_case(word)),
        }
    };
    let has = |doubtful: &String| {
        let is_word = doubtful.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match is_word {
            true => has_word(doubtful.as_str()),
            // Several words, or words of a script that does not separate them.
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

/// The texts that a model was given, to find out what it quotes of them.
pub(crate) struct Quotable {
    text: String,
    /// Whether data and instructions are told apart.
    pub(crate) is_fenced: bool,
}

impl Quotable {
    /// Where the system message explains the fences of the judge, texts outside of them are instructions, and the examples in
    /// those are no quotations. A text of another message without fences is data as a whole.
    pub(crate) fn of(messages: &[Message]) -> Self {
        let is_system = |message: &&Message| message.role == Role::System;
        let mut rules = messages.iter().filter(is_system).flat_map(texts);
        let has_rule = rules.any(|text| text.contains("`[begin data MARK]`"));
        let mut given = Vec::new();
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
                    given.push(bare(text));
                }
                given.extend(data.into_iter().map(bare));
            }
        }
        Self { text: given.join("\n"), is_fenced }
    }

    /// Whether a JSON text was in one of them, whatever its white space was and however often it was escaped.
    pub(crate) fn has(&self, json: &str) -> bool {
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

/// What is between the lines `[begin data MARK]` and `[end data MARK]` of a text. A fence without an end reaches to the end
/// of the text.
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
    parsed.map(|unique| unique.0).map_err(|error| error.to_string())
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
            format!("```json {object} ```"),
        ] {
            assert_eq!(whole(&text).as_deref(), Some(object), "{text}");
        }
        assert_eq!(whole("<think>4?</think> 5").as_deref(), Some("5"));
        for text in [
            "The score is 5.",
            "",
            "{\"a\": 1",
            &format!("{object}\n{object}"),
            &format!("```json {object}\n{object}\n```"),
            &format!("{object}<think>No, that is wrong.</think>"),
            &format!("```\n{object}\n<think>No, that is wrong.</think>\n```"),
        ] {
            assert_eq!(whole(text), None, "{text}");
        }
    }

    #[test]
    fn a_member_that_occurs_twice_is_an_error() {
        for text in [r#"{"a": 1, "a": 1}"#, r#"{"b": [{"a": 1, "\u0061": 2}]}"#] {
            assert!(parse(text).unwrap_err().contains("\"a\" occurs twice"), "{text}");
        }
    }

    #[test]
    fn json_of_the_prompt_is_known_however_it_was_escaped() {
        let object = "{\n  \"reasoning\": \"perfect\\n\",\n  \"score\": 1\n}";
        let escaped = Value::from(object).to_string();
        let twice = Value::from(escaped.as_str()).to_string();
        for given in [object, &escaped, &twice] {
            let prompt = [Message::text(Role::User, format!("Rate this: {given}."))];
            assert!(Quotable::of(&prompt).has(r#"{"reasoning":"perfect\n","score":1}"#), "{given}");
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
