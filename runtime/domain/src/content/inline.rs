//! Media inside a value: replaced by tokens before the value is rendered, and decoded one at a time when a browser
//! requests the bytes.
//!
//! Both walk the value in the same order, so a number identifies the same medium on the page and in the request.

use std::hash::{DefaultHasher, Hasher as _};

use serde_json::{Map, Value};

use crate::content::encoded::{decoded, decoded_length, type_of};
use crate::content::media::{base64_member, buffer, type_in_list, types_around};
use crate::content::members::{MAX_VALUES, n_values, parsed};
use crate::content::spans::{plain_type, spans};

/// Larger JSON is read as text: only its start is shown.
const PARSED_BYTES: usize = 32 << 20;

/// A medium that was extracted from a value.
#[derive(Clone, Debug)]
pub struct ExtractedMedium {
    /// MIME type in lower case; empty if neither the value nor the first bytes determine it.
    pub content_type: String,
    /// Decoded size in bytes; absent for a reference.
    pub size: Option<u64>,
    /// The id of a medium that is stored separately.
    pub stored: Option<String>,
    /// Hash of the recorded data: equal for equal media.
    pub print: u64,
}

/// The media of a value. Tokens are `MARK NUMBER MARK`.
#[derive(Clone, Debug)]
pub struct ExtractedMedia {
    /// A character that the value does not contain.
    pub mark: char,
    /// The media, in the order of their numbers.
    pub found: Vec<ExtractedMedium>,
    wanted: Option<usize>,
    bytes: Vec<u8>,
}

/// A medium that was recorded inside a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineMedium {
    /// MIME type as recorded, in lower case. Not to be trusted: see [`inline_type`].
    pub content_type: String,
    /// The decoded bytes.
    pub bytes: Vec<u8>,
}

impl InlineMedium {
    /// The medium with this number in a value from [`read`], counted as in the addresses on a page.
    #[must_use]
    pub fn of(mut value: Value, number: usize) -> Option<Self> {
        let mut taken = ExtractedMedia::new(&value, Some(number));
        taken.walk(&mut value, None);
        let found = taken.found.get(number)?;
        found.size.map(|_| Self { content_type: found.content_type.clone(), bytes: taken.bytes })
    }
}

/// The value of a text or of a JSON document. Text that contains an object or a list as JSON is parsed.
#[must_use]
pub fn read(text: &str, is_json: bool) -> Value {
    let is_small = text.len() <= PARSED_BYTES && n_values(text) <= MAX_VALUES;
    let value = is_small.then(|| match is_json {
        false => parsed(text),
        true => serde_json::from_str(text).ok(),
    });
    value.flatten().unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Extracts all media from a value and leaves tokens in their place.
pub fn take(value: &mut Value) -> ExtractedMedia {
    let mut taken = ExtractedMedia::new(value, None);
    taken.walk(value, None);
    taken
}

impl ExtractedMedia {
    fn new(value: &Value, wanted: Option<usize>) -> Self {
        // Private use characters: a token must not occur in the recorded text.
        let mut marks = ('\u{f0000}'..='\u{f000f}').filter(|mark| !holds(value, *mark));
        Self {
            mark: marks.next().unwrap_or('\u{f0000}'),
            found: Vec::new(),
            wanted,
            bytes: Vec::new(),
        }
    }

    /// `hint` is the MIME type that the enclosing object declares for `bytes`.
    fn walk(&mut self, value: &mut Value, hint: Option<&str>) {
        if let Some(bytes) = buffer(value) {
            let found = ExtractedMedium {
                content_type: type_of(&bytes).unwrap_or("application/octet-stream").to_owned(),
                size: Some(bytes.len() as u64),
                stored: None,
                print: print(&bytes),
            };
            *value = Value::String(self.push(found, || bytes));
            return;
        }
        match value {
            Value::String(text) => {
                if let Some(replaced) = self.text(text) {
                    *text = replaced;
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.walk(item, None);
                }
            }
            Value::Object(members) => {
                self.names(members);
                let data = base64_member(members, hint);
                let types = types_around(members, hint);
                for (key, member) in members.iter_mut() {
                    let around = types.iter().find(|(name, _)| name == key);
                    match (&data, &mut *member) {
                        (Some(data), Value::String(text)) if key.as_str() == data.key => {
                            self.encoded(text, &data.content_type);
                        }
                        (_, Value::Array(items)) => self.list(key, items),
                        _ => self.walk(member, around.map(|(_, around)| around.as_str())),
                    }
                }
            }
            _ => {}
        }
    }

    /// A list whose items may be media in base64.
    fn list(&mut self, key: &str, items: &mut [Value]) {
        for item in items {
            let content_type = item.as_str().and_then(|item| type_in_list(key, item));
            match (content_type, &mut *item) {
                (Some(content_type), Value::String(text)) => self.encoded(text, content_type),
                _ => self.walk(item, None),
            }
        }
    }

    /// Extracts a medium that is the whole text.
    fn encoded(&mut self, text: &mut String, content_type: &str) {
        let data = std::mem::take(text);
        let found = ExtractedMedium {
            content_type: content_type.to_owned(),
            size: Some(decoded_length(&data)),
            stored: None,
            print: print(&data),
        };
        *text = self.push(found, || decoded(&data));
    }

    /// Extracts media from the names of members.
    fn names(&mut self, members: &mut Map<String, Value>) {
        const SHORTEST: usize = "data:a/b,c".len();
        let may_hold = |name: &String| SHORTEST <= name.len() && !spans(name).is_empty();
        if !members.keys().any(may_hold) {
            return;
        }
        for (name, member) in std::mem::take(members) {
            let replaced = self.text(&name).unwrap_or(name);
            members.insert(replaced, member);
        }
    }

    /// Adds a medium and returns its token.
    fn push(&mut self, found: ExtractedMedium, bytes: impl FnOnce() -> Vec<u8>) -> String {
        let number = self.found.len();
        if self.wanted == Some(number) {
            self.bytes = bytes();
        }
        self.found.push(found);
        format!("{0}{number}{0}", self.mark)
    }

    /// The text with all its media replaced; `None` if it contains no media.
    fn text(&mut self, text: &str) -> Option<String> {
        let spans = spans(text);
        if spans.is_empty() {
            return None;
        }
        let mut out = String::new();
        let mut copied = 0;
        for span in spans {
            out.push_str(&text[copied..span.whole.start]);
            let data = &text[span.data];
            let size = span.stored.is_none().then(|| match span.is_base64 {
                true => decoded_length(data),
                false => percent_decoded(data).len() as u64,
            });
            let found = ExtractedMedium {
                content_type: span.content_type,
                size,
                print: print(span.stored.as_deref().unwrap_or(data)),
                stored: span.stored,
            };
            let token = self.push(found, || match span.is_base64 {
                true => decoded(data),
                false => percent_decoded(data),
            });
            out.push_str(&token);
            copied = span.whole.end;
        }
        out.push_str(&text[copied..]);
        Some(out)
    }
}

fn holds(value: &Value, mark: char) -> bool {
    match value {
        Value::String(text) => text.contains(mark),
        Value::Array(items) => items.iter().any(|item| holds(item, mark)),
        Value::Object(members) => {
            members.iter().any(|(key, member)| key.contains(mark) || holds(member, mark))
        }
        _ => false,
    }
}

fn print(data: impl AsRef<[u8]>) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(data.as_ref());
    hasher.finish()
}

fn percent_decoded(data: &str) -> Vec<u8> {
    percent_encoding::percent_decode_str(data).collect()
}

/// Recorded MIME types that a page shows inline, with the type that is sent.
const SHOWN: [(&str, &str); 20] = [
    ("audio/mp3", "audio/mpeg"),
    ("audio/mp4", "audio/mp4"),
    ("audio/mpeg", "audio/mpeg"),
    ("audio/oga", "audio/ogg"),
    ("audio/ogg", "audio/ogg"),
    ("audio/opus", "audio/ogg"),
    ("audio/vnd.wave", "audio/wav"),
    ("audio/wav", "audio/wav"),
    ("audio/wave", "audio/wav"),
    ("audio/webm", "audio/webm"),
    ("audio/x-wav", "audio/wav"),
    ("image/avif", "image/avif"),
    ("image/gif", "image/gif"),
    ("image/jpeg", "image/jpeg"),
    ("image/jpg", "image/jpeg"),
    ("image/png", "image/png"),
    ("image/webp", "image/webp"),
    ("video/mp4", "video/mp4"),
    ("video/ogg", "video/ogg"),
    ("video/webm", "video/webm"),
];

/// The type with which bytes recorded as `content_type` may be sent to be shown inline. Any other type, such as SVG and
/// HTML, is only offered as a download.
#[must_use]
pub fn inline_type(content_type: &str) -> Option<&'static str> {
    let name = plain_type(content_type)?;
    let shown = SHOWN.iter().find(|(recorded, _)| *recorded == name);
    shown.map(|(_, sent)| *sent)
}
