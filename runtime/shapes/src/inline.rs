//! Media inside a value: taken out before anything is rendered, a token left in their place, and
//! decoded one at a time when a browser asks for the bytes.
//!
//! Both directions walk the value in the same order, so that a number names the same medium for the
//! page and for the request that it leads to.

use std::hash::{DefaultHasher, Hasher as _};

use perpend_domain::payload::Payload;
use serde_json::{Map, Value};

use crate::encoded::{decoded, decoded_length, is_base64, sniffed, type_of};
use crate::parsed;
use crate::spans::{plain_type, spans};

/// Larger JSON is read as text: only its beginning is shown anyway.
const PARSED_BYTES: usize = 32 << 20;
/// JSON with more values is read as text too: each takes some 100 bytes once it is taken apart.
const PARSED_VALUES: usize = 300_000;

/// Members that are lists of media, and what the types of these begin with.
const LISTS: [(&str, &str); 3] = [
    ("images", "image/"),
    ("audios", "audio/"),
    ("videos", "video/"),
];

/// A medium that was taken out of a value.
#[derive(Clone, Debug)]
pub struct Found {
    /// MIME type in lower case; empty when neither the value nor the first bytes say it.
    pub content_type: String,
    /// Bytes when decoded; absent for a reference.
    pub size: Option<u64>,
    /// The id of a medium that is stored by itself.
    pub stored: Option<String>,
    /// Equal for media that were recorded alike.
    pub print: u64,
}

/// The media of a value. Tokens are `MARK NUMBER MARK`.
#[derive(Clone, Debug)]
pub struct Taken {
    /// A character that the value does not hold.
    pub mark: char,
    /// The media, in the order of their numbers.
    pub found: Vec<Found>,
    wanted: Option<usize>,
    bytes: Vec<u8>,
}

/// The bytes of a medium that was recorded inside a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineMedium {
    /// MIME type as recorded, in lower case. Not to be trusted: see [`inline_type`].
    pub content_type: String,
    /// The decoded bytes.
    pub bytes: Vec<u8>,
}

impl InlineMedium {
    /// The medium with this number in a recorded value, as the addresses on a page count them.
    #[must_use]
    pub fn of(payload: &Payload, number: usize) -> Option<Self> {
        let mut value = read(payload);
        let mut taken = Taken::new(&value, Some(number));
        taken.walk(&mut value, None);
        let found = taken.found.get(number)?;
        found.size.map(|_| Self {
            content_type: found.content_type.clone(),
            bytes: taken.bytes,
        })
    }
}

/// The value of a payload. Text that holds an object or a list as JSON is read as that.
pub fn read(payload: &Payload) -> Value {
    let text = payload.as_str();
    let is_small = text.len() <= PARSED_BYTES && n_values(text) <= PARSED_VALUES;
    let value = is_small.then(|| match payload {
        Payload::Text(text) => parsed(text),
        Payload::Json(json) => serde_json::from_str(json).ok(),
    });
    value
        .flatten()
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Values in a JSON text, at most.
fn n_values(json: &str) -> usize {
    let begins = |byte: &u8| matches!(byte, b',' | b'[' | b'{');
    json.bytes().filter(begins).count() + 1
}

/// Takes all media out of a value.
pub fn take(value: &mut Value) -> Taken {
    let mut taken = Taken::new(value, None);
    taken.walk(value, None);
    taken
}

impl Taken {
    fn new(value: &Value, wanted: Option<usize>) -> Self {
        // Private use characters. A token must not be a text that was recorded.
        let mut marks = ('\u{f0000}'..='\u{f000f}').filter(|mark| !holds(value, *mark));
        Self {
            mark: marks.next().unwrap_or('\u{f0000}'),
            found: Vec::new(),
            wanted,
            bytes: Vec::new(),
        }
    }

    /// `hint` is the MIME type that the object around this one gives for `bytes`.
    fn walk(&mut self, value: &mut Value, hint: Option<&str>) {
        if let Some(bytes) = bytes_of(value) {
            let found = Found {
                content_type: type_of(&bytes)
                    .unwrap_or("application/octet-stream")
                    .to_owned(),
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
                let data = data_of(members, hint);
                let of_source = type_of_source(members);
                for (key, member) in members.iter_mut() {
                    match (&data, &mut *member) {
                        (Some((place, content_type)), Value::String(text))
                            if key.as_str() == *place =>
                        {
                            self.encoded(text, content_type);
                        }
                        (_, Value::Array(items)) => self.list(key, items),
                        _ => self.walk(member, of_source.as_deref().filter(|_| key == "source")),
                    }
                }
            }
            _ => {}
        }
    }

    /// A list that may be nothing but media, each of them base64.
    fn list(&mut self, key: &str, items: &mut [Value]) {
        let family = LISTS.iter().find(|(name, _)| *name == key);
        for item in items {
            let data = item
                .as_str()
                .filter(|data| is_base64(data) && !data.contains(' '));
            let told = data.and_then(sniffed);
            let told =
                told.filter(|told| family.is_some_and(|(_, family)| told.starts_with(*family)));
            match (told, &mut *item) {
                (Some(content_type), Value::String(text)) => self.encoded(text, content_type),
                _ => self.walk(item, None),
            }
        }
    }

    /// Takes a medium that is all of a text.
    fn encoded(&mut self, text: &mut String, content_type: &str) {
        let data = std::mem::take(text);
        let found = Found {
            content_type: content_type.to_owned(),
            size: Some(decoded_length(&data)),
            stored: None,
            print: print(&data),
        };
        *text = self.push(found, || decoded(&data));
    }

    /// Takes media out of the names of members, which are rarely anything else than names.
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

    /// Notes a medium; the token for it.
    fn push(&mut self, found: Found, bytes: impl FnOnce() -> Vec<u8>) -> String {
        let number = self.found.len();
        if self.wanted == Some(number) {
            self.bytes = bytes();
        }
        self.found.push(found);
        format!("{0}{number}{0}", self.mark)
    }

    /// The text with all media in it replaced; none when there are none.
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
            let found = Found {
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
        Value::Object(members) => members
            .iter()
            .any(|(key, member)| key.contains(mark) || holds(member, mark)),
        _ => false,
    }
}

fn print(data: impl AsRef<[u8]>) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(data.as_ref());
    hasher.finish()
}

/// The bytes of a buffer of JavaScript: in JSON a list of numbers, or an object of them.
fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    let members = value.as_object()?;
    let byte = |value: &Value| u8::try_from(value.as_u64()?).ok();
    if members.len() == 2 && members.get("type").and_then(Value::as_str) == Some("Buffer") {
        let bytes: Option<Vec<u8>> = members.get("data")?.as_array()?.iter().map(byte).collect();
        return bytes.filter(|bytes| !bytes.is_empty());
    }
    let is_first = |(name, value): (&String, &Value)| name == "0" && value.is_u64();
    members.iter().next().filter(|first| is_first(*first))?;
    let is_numbered = |(at, name): (usize, &String)| *name == at.to_string();
    if !members.keys().enumerate().all(is_numbered) {
        return None;
    }
    let bytes: Option<Vec<u8>> = members.values().map(byte).collect();
    // Any list of numbers may be written so: these begin as a medium does.
    bytes.filter(|bytes| type_of(bytes).is_some())
}

fn percent_decoded(data: &str) -> Vec<u8> {
    percent_encoding::percent_decode_str(data).collect()
}

/// The member that is base64, in the shapes of the common APIs, and its MIME type.
fn data_of(members: &Map<String, Value>, hint: Option<&str>) -> Option<(&'static str, String)> {
    let text = |key: &str| members.get(key).and_then(Value::as_str);
    let is_data = |key: &str| text(key).is_some_and(is_base64);
    if let Some(hint) = hint.filter(|_| is_data("bytes")) {
        return Some(("bytes", hint.to_owned()));
    }
    let declared = [
        "media_type",
        "mime_type",
        "mediaType",
        "mimeType",
        "image_mimetype",
        "document_mimetype",
    ];
    let declared = declared
        .iter()
        .find_map(|key| text(key))
        .and_then(plain_type);
    let kinds = ["type", "kind", "block_type"];
    let kind = kinds.iter().find_map(|key| text(key)).unwrap_or_default();
    if let Some(declared) = declared {
        let is_file = [
            "base64",
            "blob",
            "file",
            "media",
            "binary",
            "input_file",
            "image",
        ];
        let is_medium = ["image/", "audio/", "video/"]
            .iter()
            .any(|prefix| declared.starts_with(prefix));
        let keys = [
            "data",
            "content",
            "image",
            "bytes",
            "base64",
            "file_data",
            "blob",
            "imageBytes",
            "base64_image",
            "base64Data",
            "bytesBase64Encoded",
        ];
        let key = keys.into_iter().find(|key| is_data(key))?;
        // A resource of MCP, which may be a file of any type.
        let is_resource = key == "blob" && members.contains_key("uri");
        let is_taken =
            is_medium || is_resource || is_file.contains(&kind) || declared == "application/pdf";
        return is_taken.then_some((key, declared));
    }
    // Audio of OpenAI: as sent with its format, as answered with what is said in it.
    let format = text("format").and_then(|format| plain_type(&format!("audio/{format}")));
    let is_spoken = members.contains_key("transcript");
    let spoken = || sniffed(text("data").unwrap_or_default()).unwrap_or("audio/wav");
    format
        .or_else(|| is_spoken.then(|| spoken().to_owned()))
        .filter(|_| is_data("data"))
        .map(|content_type| ("data", content_type))
        .or_else(|| untyped(members, kind))
}

/// The member that holds bytes in an object that does not say of which type: the first ones tell it.
fn untyped(members: &Map<String, Value>, kind: &str) -> Option<(&'static str, String)> {
    // No word is as long, and none has all of these.
    const LONG: usize = 64;
    let keys: &[&'static str] = match kind {
        "image" => &["image", "base64", "data"],
        "audio" => &["audio", "base64", "data"],
        "input_audio" => &["input_audio", "audio"],
        "image_generation_call" => &["result"],
        _ => &["b64_json", "base64_image", "base64Data"],
    };
    keys.iter().find_map(|key| {
        let data = members.get(*key)?.as_str()?;
        if !is_base64(data) || data.contains(' ') {
            return None;
        }
        let has = |is: fn(&u8) -> bool| data.as_bytes().iter().any(is);
        let is_mixed =
            has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit);
        let content_type = sniffed(data);
        let is_medium = content_type.is_some() || LONG <= data.len() && is_mixed;
        is_medium.then(|| (*key, content_type.unwrap_or_default().to_owned()))
    })
}

/// Bedrock: `{"format": "png", "source": {"bytes": ..}}`.
fn type_of_source(members: &Map<String, Value>) -> Option<String> {
    members.get("source")?.as_object()?.get("bytes")?;
    let format = members.get("format")?.as_str()?;
    let family = match format {
        "png" | "jpeg" | "jpg" | "gif" | "webp" | "avif" => "image",
        "mp3" | "wav" | "ogg" | "aac" | "flac" => "audio",
        "mp4" | "webm" | "mov" | "mkv" => "video",
        _ => "application",
    };
    plain_type(&format!("{family}/{format}"))
}

/// The types that a page shows in their place, by the names under which they are recorded.
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

/// The type under which bytes recorded as `content_type` may be sent to be shown. Anything else, SVG and
/// HTML above all, is only offered as a file.
#[must_use]
pub fn inline_type(content_type: &str) -> Option<&'static str> {
    let name = plain_type(content_type)?;
    let shown = SHOWN.iter().find(|(recorded, _)| *recorded == name);
    shown.map(|(_, sent)| *sent)
}
