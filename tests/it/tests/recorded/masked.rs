//! Replaces values that differ from run to run by placeholders: generated ids, times, digests.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use perpend_domain::time::{Clock as _, Timestamp};
use perpend_server::SystemClock;
use regex::{Captures, Regex};
use serde_json::Value;

/// Ids of 16 or 32 hexadecimal digits, UUIDs and digests, as the server makes them.
static ID: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let pattern = concat!(
        r"\b(?:sha256:)?[0-9a-f]{64}\b",
        r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
        r"|\b[0-9a-f]{32}\b|\b[0-9a-f]{16}\b",
    );
    Regex::new(pattern).ok()
});
/// RFC 3339, with or without a fraction.
static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let pattern = r"\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})";
    Regex::new(pattern).ok()
});
/// Keys as the server makes them.
static KEY: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\b[ps]k-lf-[0-9a-f-]{36}").ok());
/// The end of a secret key, as lists show it.
static HINT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"…[0-9a-f]{4}\b").ok());
/// The signature in the URL of a medium. Its expiry differs if it is created a second later.
static SIGNED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"project=[^&"\s]+&until=\d+&signature=[\w-]+"#).ok());
/// Members whose value is another one in each run, or with each build of the server's own plug-ins.
const MEMBERS: [&str; 11] = [
    "cursor",
    "nextCursor",
    "wallMs",
    "since",
    "durationMs",
    "fuel",
    "cpuMicroseconds",
    "sizeBytes",
    "lastUsedAt",
    "latencyMedianMs",
    "latencyP95Ms",
];
/// Times of the script are older than this; those of a run, and what ends or began near it, are not.
const RUN_MS: i64 = 2 * 86_400_000;

/// Replaces each match of the pattern by this word, except values of the script itself.
fn replaced(pattern: &LazyLock<Option<Regex>>, text: &str, word: &str) -> String {
    let Some(pattern) = &**pattern else {
        return text.to_owned();
    };
    let word = |found: &Captures<'_>| match is_of_script(&found[0]) {
        true => found[0].to_owned(),
        false => word.to_owned(),
    };
    pattern.replace_all(text, word).into_owned()
}

/// Masks values of responses.
#[derive(Debug)]
pub(crate) struct Mask {
    origin: String,
    /// Values that steps kept, with their names.
    named: BTreeMap<String, String>,
    started: Timestamp,
}

impl Mask {
    pub(crate) fn new(origin: &str) -> Self {
        Self { origin: origin.to_owned(), named: BTreeMap::new(), started: SystemClock.now() }
    }

    /// From now on this value is shown as this name.
    pub(crate) fn name(&mut self, value: &str, name: &str) {
        let is_long = 12 <= value.len();
        if is_long {
            self.named.insert(value.to_owned(), format!("<{name}>"));
        }
    }

    pub(crate) fn text(&self, text: &str) -> String {
        let mut text = text.replace(&self.origin, "<origin>");
        // Before the names: two addresses that are made in one second are one value.
        text = replaced(&SIGNED, &text, "<signed>");
        for (value, name) in &self.named {
            text = text.replace(value, name);
        }
        let times = TIME
            .as_ref()
            .map(|times| times.replace_all(&text, |found: &Captures<'_>| self.time(&found[0])));
        text = times.map_or_else(String::new, std::borrow::Cow::into_owned);
        let words = [(&KEY, "<key>"), (&ID, "<id>"), (&HINT, "<hint>")];
        for (pattern, word) in words {
            text = replaced(pattern, &text, word);
        }
        text
    }

    fn time(&self, text: &str) -> String {
        match Timestamp::parse(text) {
            Ok(time) if (time.as_millis() - self.started.as_millis()).abs() < RUN_MS => {
                "<time>".to_owned()
            }
            _ => text.to_owned(),
        }
    }

    pub(crate) fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            // Names too: some are ids.
            Value::Object(members) => {
                let all = std::mem::take(members).into_iter();
                let all = all.map(|(name, mut value)| {
                    if MEMBERS.contains(&name.as_str()) && !value.is_null() {
                        value = Value::String(format!("<{name}>"));
                    } else {
                        self.value(&mut value);
                    }
                    (self.text(&name), value)
                });
                *members = all.collect();
            }
            Value::Number(number) => {
                let is_now = number
                    .as_i64()
                    .is_some_and(|ms| (ms - self.started.as_millis()).abs() < RUN_MS);
                if is_now {
                    *value = Value::String("<ms>".to_owned());
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
}

/// Ids that the script itself gives end in digits that say so.
fn is_of_script(id: &str) -> bool {
    id.starts_with("00000000") || id.starts_with("aaaaaaaa")
}
