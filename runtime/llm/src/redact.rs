//! Removes the secrets of a connection from texts of its provider.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::endpoint::Endpoint;

const PLACEHOLDER: &str = "***";
/// Shorter keys are placeholders for servers without keys, such as `x`, which occur in every text.
const MIN_SECRET: usize = 6;
/// In replies, shorter keys such as `ollama` and `lm-studio` are also placeholders, which a verdict or comment may contain.
const MIN_IN_REPLY: usize = 12;
/// Minimum length of a secret that is removed from names of members.
const MIN_IN_NAME: usize = 12;
/// A header value without spaces is a secret from this length on.
const MIN_SECRET_VALUE: usize = 20;
/// Words in the names of headers that carry secrets.
const SECRET_HEADERS: [&str; 9] =
    ["auth", "key", "token", "secret", "cookie", "pass", "credential", "signature", "session"];

/// The encodings in which the secrets of a connection may occur.
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// The key and all header values, for messages of failures.
    pub(crate) fn all(endpoint: &Endpoint) -> Self {
        Self::of(endpoint, MIN_SECRET, |_, _| true)
    }

    /// The key, and header values that are secret by their name or length, for replies, in which other header values such as
    /// dates are ordinary words.
    pub(crate) fn in_replies(endpoint: &Endpoint) -> Self {
        Self::of(endpoint, MIN_IN_REPLY, |name, value| {
            let name = name.to_ascii_lowercase();
            let is_long = MIN_SECRET_VALUE <= value.len() && !value.contains(' ');
            is_long || SECRET_HEADERS.iter().any(|word| name.contains(word))
        })
    }

    fn of(endpoint: &Endpoint, least: usize, is_secret: impl Fn(&str, &str) -> bool) -> Self {
        let headers = endpoint.headers.iter();
        let values = headers.filter(|(name, value)| is_secret(name, value.expose()));
        let values = values.map(|(_, value)| value.expose());
        // The token of `Bearer TOKEN`.
        let tokens = values.clone().filter_map(|value| value.split_whitespace().last());
        let secrets = values.chain(tokens).chain([endpoint.key.expose()]);
        Self::from_texts(secrets, least)
    }

    /// From secrets of at least `least` bytes.
    fn from_texts<'s>(secrets: impl Iterator<Item = &'s str>, least: usize) -> Self {
        let mut forms: Vec<String> = secrets
            .filter(|secret| least <= secret.len())
            .flat_map(forms)
            .filter(|form| MIN_SECRET <= form.len())
            .collect();
        // Longer encodings first, because they may contain shorter ones.
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        forms.dedup();
        Self(forms)
    }

    fn occur_in(&self, text: &str) -> bool {
        self.0.iter().any(|form| text.contains(form.as_str()))
    }

    /// Removes secrets from a text. JSON that contains them with escapes is rewritten.
    pub(crate) fn removed<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        if text.contains("\\u")
            && let Ok(mut value) = serde_json::from_str::<Value>(&text)
            && self.remove_from(&mut value)
        {
            text = Cow::Owned(value.to_string());
        }
        if self.occur_in(&text) {
            let mut clean = text.into_owned();
            for form in &self.0 {
                clean = clean.replace(form.as_str(), PLACEHOLDER);
            }
            text = Cow::Owned(clean);
        }
        text
    }

    /// Removes secrets from all strings of a value. Returns whether there were any.
    pub(crate) fn remove_from(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => match self.removed(text) {
                Cow::Owned(clean) => {
                    *text = clean;
                    true
                }
                Cow::Borrowed(_) => false,
            },
            Value::Array(entries) => {
                entries.iter_mut().fold(false, |found, entry| self.remove_from(entry) | found)
            }
            Value::Object(members) => {
                let is_named = |name: &String| {
                    let mut forms = self.0.iter().filter(|form| MIN_IN_NAME <= form.len());
                    forms.any(|form| name.contains(form.as_str()))
                };
                let names: Vec<String> =
                    members.keys().filter(|name| is_named(name)).cloned().collect();
                for name in &names {
                    if let Some(value) = members.shift_remove(name) {
                        members.insert(self.removed(name).into_owned(), value);
                    }
                }
                members
                    .values_mut()
                    .fold(!names.is_empty(), |found, value| self.remove_from(value) | found)
            }
            _ => false,
        }
    }

    /// Removes secrets from a response body.
    pub(crate) fn removed_from_body<'b>(&self, body: &'b str) -> Cow<'b, str> {
        if self.0.is_empty()
            || !(self.occur_in(body) || body.contains("\\u") || body.contains("\\/"))
        {
            return Cow::Borrowed(body);
        }
        match serde_json::from_str::<Value>(body) {
            Ok(mut value) => match self.remove_from(&mut value) {
                true => Cow::Owned(value.to_string()),
                false => Cow::Borrowed(body),
            },
            Err(_) => self.removed(body),
        }
    }
}

/// A secret in plain text, escaped in JSON and URLs, and in base64 and hexadecimal.
fn forms(secret: &str) -> Vec<String> {
    let escaped = Value::from(secret).to_string();
    let hex = secret.bytes().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    let mut forms = vec![
        secret.to_owned(),
        escaped.trim_matches('"').to_owned(),
        utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string(),
        hex,
    ];
    // Base64 of a longer text depends on the offset of the secret in it.
    for n_before in 0..3 {
        let mut bytes = vec![0; n_before];
        bytes.extend(secret.bytes());
        let whole = bytes.len() / 3 * 4;
        let first = [0, 2, 3][n_before];
        for encoded in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            forms.extend(encoded.get(first..whole).map(str::to_owned));
        }
    }
    forms
}

/// Replaces keys that a provider masked itself.
pub(crate) fn without_masked(text: &str) -> String {
    let words = text.split_inclusive(char::is_whitespace).map(|word| {
        let end = word.trim_end().len();
        match word[..end].contains("**") {
            true => format!("{PLACEHOLDER}{}", &word[end..]),
            false => word.to_owned(),
        }
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-a/b+c?d\"e-0123456789";

    fn secrets() -> Secrets {
        Secrets::from_texts([KEY, "x", ""].into_iter(), MIN_SECRET)
    }

    #[test]
    fn a_secret_is_detected_in_each_encoding_and_at_each_offset() {
        let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
        let json = Value::from(KEY).to_string();
        let escapes: String = KEY.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
        let mut texts = vec![
            format!("the key is {KEY}."),
            format!("{{\"reasoning\": {json}}}"),
            format!("{{\"reasoning\": \"{escapes}\"}}"),
            format!("{{\"reasoning\": \"s\\u006b-{}\"}}", &json[4..json.len() - 1]),
            utf8_percent_encode(KEY, NON_ALPHANUMERIC).to_string(),
            hex,
        ];
        for before in ["", "a", "ab", "user:"] {
            texts.push(STANDARD_NO_PAD.encode(format!("{before}{KEY}:and more")));
            texts.push(URL_SAFE_NO_PAD.encode(format!("{before}{KEY}")));
        }
        for text in texts {
            let clean = secrets().removed(&text).into_owned();
            assert!(clean.contains(PLACEHOLDER), "{text}");
            assert!(!clean.contains("0123456789"), "{clean}");
        }
    }

    #[test]
    fn texts_without_secrets_are_unchanged() {
        for text in ["x marks the spot", r#"{"a": "\u00e9", "b": 1.0}"#, ""] {
            assert!(matches!(secrets().removed(text), Cow::Borrowed(_)), "{text}");
            assert!(matches!(secrets().removed_from_body(text), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn placeholder_keys_are_kept_in_replies() {
        for key in ["ollama", "default", "lm-studio"] {
            let verdict = format!(r#"{{"verdict":"{key}"}}"#);
            let in_replies = Secrets::from_texts([key].into_iter(), MIN_IN_REPLY);
            assert_eq!(in_replies.removed_from_body(&verdict), verdict);
            let in_failures = Secrets::from_texts([key].into_iter(), MIN_SECRET);
            assert!(!in_failures.removed(&verdict).contains(key));
        }
        let in_replies = Secrets::from_texts([KEY].into_iter(), MIN_IN_REPLY);
        assert!(!in_replies.removed(&format!("it is {KEY}")).contains(KEY));
    }

    #[test]
    fn a_redacted_body_is_json_and_its_members_keep_their_names() {
        let secrets = Secrets::from_texts(["content"].into_iter(), MIN_SECRET);
        let body = r#"{"content": "the content", "n": 1}"#;
        assert_eq!(secrets.removed_from_body(body), r#"{"content":"the ***","n":1}"#);
    }

    #[test]
    fn keys_that_a_provider_masked_are_removed() {
        let message = "Incorrect API key provided: sk-ab****yz. You sent it.";
        assert_eq!(without_masked(message), "Incorrect API key provided: *** You sent it.");
    }
}
