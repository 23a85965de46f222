//! A JSON tree that preserves the notation of numbers and accepts every text that is valid according to RFC 8259.
//!
//! Not serde_json: `1.0` and `1` must stay different, a number beyond `f64` and a lone surrogate escape
//! are valid JSON, and a component that only compares texts should not carry a second parser's features.

use std::collections::BTreeMap;
use std::fmt;

mod parse;

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number in its original notation.
    Number(Number),
    /// A string. A lone surrogate escape is kept as U+FFFD.
    Text(String),
    /// An array.
    Array(Vec<Json>),
    /// An object in its original order; of members with equal names the last value is kept.
    Object(Vec<(String, Json)>),
}

/// A JSON number in its original notation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number(String);

/// The error for a text that is not JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidJson {
    /// The reason.
    pub reason: &'static str,
    /// The byte offset.
    pub offset: usize,
}

impl fmt::Display for InvalidJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.reason, self.offset)
    }
}

impl std::error::Error for InvalidJson {}

impl Number {
    /// The text of the number.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True when it has neither fraction nor exponent.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        !self.0.contains(['.', 'e', 'E'])
    }

    /// The nearest `f64`; infinite when the number is beyond it.
    #[must_use]
    pub fn as_f64(&self) -> f64 {
        self.0.parse().unwrap_or(f64::NAN)
    }

    /// The integer, if it is one and in range.
    #[must_use]
    pub fn as_i128(&self) -> Option<i128> {
        self.0.parse().ok()
    }
}

impl Json {
    /// The maximum nesting depth, so that a hostile text cannot exhaust the stack.
    pub const MAX_DEPTH: usize = 512;

    /// Reads one complete JSON text.
    ///
    /// # Errors
    /// When the text is not valid, or nested deeper than [`Json::MAX_DEPTH`].
    pub fn parse(text: &str) -> Result<Self, InvalidJson> {
        parse::document(text)
    }

    /// The string, or the JSON text of any other value.
    #[must_use]
    pub fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            other => other.to_string(),
        }
    }

    /// True for objects and arrays.
    #[must_use]
    pub fn is_container(&self) -> bool {
        matches!(self, Self::Array(_) | Self::Object(_))
    }

    /// An object from members that may repeat a name.
    fn object(members: Vec<(String, Self)>) -> Self {
        let mut last: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, (name, _)) in members.iter().enumerate() {
            last.insert(name, index);
        }
        if last.len() == members.len() {
            return Self::Object(members);
        }
        // The position of the first member of a name, with the value of the last one.
        let mut place: BTreeMap<String, usize> = BTreeMap::new();
        let mut kept: Vec<(String, Self)> = Vec::new();
        for (name, value) in members {
            match place.get(&name) {
                Some(&index) => kept[index].1 = value,
                None => {
                    place.insert(name.clone(), kept.len());
                    kept.push((name, value));
                }
            }
        }
        Self::Object(kept)
    }
}

/// Compact JSON with members in their order and minimal escaping.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(yes) => write!(f, "{yes}"),
            Self::Number(number) => f.write_str(number.as_str()),
            Self::Text(text) => write_text(f, text),
            Self::Array(values) => {
                f.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma}{value}")?;
                }
                f.write_str("]")
            }
            Self::Object(members) => {
                f.write_str("{")?;
                for (index, (name, value)) in members.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { "," })?;
                    write_text(f, name)?;
                    write!(f, ":{value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    let mut plain_from = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        f.write_str(&text[plain_from..at])?;
        plain_from = at + 1;
        match byte {
            b'"' => f.write_str("\\\"")?,
            b'\\' => f.write_str("\\\\")?,
            0x08 => f.write_str("\\b")?,
            0x0c => f.write_str("\\f")?,
            b'\n' => f.write_str("\\n")?,
            b'\r' => f.write_str("\\r")?,
            b'\t' => f.write_str("\\t")?,
            other => write!(f, "\\u{other:04x}")?,
        }
    }
    f.write_str(&text[plain_from..])?;
    f.write_str("\"")
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Json {
    fn from(yes: bool) -> Self {
        Self::Bool(yes)
    }
}

impl From<usize> for Json {
    fn from(number: usize) -> Self {
        Self::Number(Number(number.to_string()))
    }
}

/// Null when the number is not finite.
impl From<f64> for Json {
    fn from(number: f64) -> Self {
        if !number.is_finite() {
            return Self::Null;
        }
        Self::Number(Number(format!("{number:?}")))
    }
}

impl<T: Into<Json>> From<Vec<T>> for Json {
    fn from(values: Vec<T>) -> Self {
        Self::Array(values.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
