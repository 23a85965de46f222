//! The text of a value.

use crate::{Profile, number};
use perpend_plugin::{EvalError, Json, Payload};
use std::borrow::Cow;
use std::fmt::Write;

/// The rendering of containers as JSON text for comparisons.
#[derive(Clone, Copy, Debug)]
pub struct Rendering {
    /// The notation of numbers.
    pub profile: Profile,
    /// Sort members by name instead of keeping the written order.
    pub sort_keys: bool,
    /// Escape everything outside ASCII.
    pub ascii: bool,
}

impl Rendering {
    /// Compact JSON text of a value.
    #[must_use]
    pub fn json(self, value: &Json) -> String {
        let mut out = String::new();
        self.write(&mut out, value);
        out
    }

    fn write(self, out: &mut String, value: &Json) {
        match value {
            Json::Number(number) => out.push_str(&number::print(number, self.profile)),
            Json::Text(text) => self.write_text(out, text),
            Json::Array(values) => {
                out.push('[');
                for (index, value) in values.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    self.write(out, value);
                }
                out.push(']');
            }
            Json::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                if self.sort_keys {
                    members.sort_by(|a, b| a.0.cmp(&b.0));
                }
                out.push('{');
                for (index, (name, value)) in members.into_iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    self.write_text(out, name);
                    out.push(':');
                    self.write(out, value);
                }
                out.push('}');
            }
            word => out.push_str(&word.to_string()),
        }
    }

    fn write_text(self, out: &mut String, text: &str) {
        let plain = Json::Text(text.to_owned()).to_string();
        if !self.ascii {
            out.push_str(&plain);
            return;
        }
        for character in plain.chars() {
            if (' '..='~').contains(&character) {
                out.push(character);
                continue;
            }
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}

/// The text of a value: a string unchanged, others as the language of the profile converts them.
#[must_use]
pub fn text_of(value: &Json, profile: Profile) -> Cow<'_, str> {
    match (value, profile) {
        (Json::Text(text), _) => Cow::Borrowed(text),
        (Json::Null, Profile::Py) => Cow::Borrowed("None"),
        (Json::Bool(true), Profile::Py) => Cow::Borrowed("True"),
        (Json::Bool(false), Profile::Py) => Cow::Borrowed("False"),
        (Json::Object(_), Profile::Js) => Cow::Borrowed("[object Object]"),
        (Json::Array(values), Profile::Js) => {
            // JavaScript joins null as an empty string.
            let texts = values.iter().map(|value| match value {
                Json::Null => Cow::Borrowed(""),
                other => text_of(other, profile),
            });
            Cow::Owned(texts.collect::<Vec<_>>().join(","))
        }
        _ => Cow::Owned(Rendering { profile, sort_keys: false, ascii: false }.json(value)),
    }
}

/// The text of a payload. A string is borrowed.
///
/// # Errors
/// `invalid-input` when the payload is not JSON.
pub fn text_of_payload(payload: &Payload, profile: Profile) -> Result<Cow<'_, str>, EvalError> {
    match payload {
        Payload::Text(text) => Ok(Cow::Borrowed(text)),
        Payload::Json(_) => Ok(Cow::Owned(text_of(&payload.to_json()?, profile).into_owned())),
    }
}
