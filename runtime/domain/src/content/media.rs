//! Locates base64 media in objects of the common APIs and determines their types, for extraction and for the pages.

use serde_json::{Map, Value};

use crate::content::encoded::{is_base64, python_literal, sniffed, type_of};
use crate::content::spans::plain_type;

/// Shorter base64 may be an ordinary word.
const SHORTEST: usize = 40;
/// Members with the MIME type of a medium.
const DECLARED: [&str; 8] = [
    "media_type",
    "mime_type",
    "mediaType",
    "mimeType",
    "image_mimetype",
    "audio_mimetype",
    "video_mimetype",
    "document_mimetype",
];
/// Members with the kind of an object.
const KINDS: [&str; 4] = ["type", "kind", "block_type", "content_type"];
/// Members with base64 next to the MIME type of a picture, sound, film or PDF.
const DATA: [&str; 23] = [
    "data",
    "content",
    "image",
    "audio",
    "video",
    "bytes",
    "base64",
    "base64Data",
    "base64_data",
    "base64Image",
    "base64_image",
    "b64_json",
    "image_base64",
    "file_data",
    "blob",
    "imageBytes",
    "image_bytes",
    "videoBytes",
    "video_bytes",
    "audioBytes",
    "audio_bytes",
    "bytesBase64Encoded",
    "bytes_base64_encoded",
];
/// Kinds of objects whose data are base64 for every type, and the members with the data.
const FILES: [(&str, &[&str]); 15] = [
    ("base64", &["data"]),
    ("media", &["data"]),
    ("file", &["data", "image", "base64", "file_data"]),
    ("file-data", &["data"]),
    ("blob", &["content", "data"]),
    ("binary", &["data", "content"]),
    ("data", &["data"]),
    ("document", &["data", "base64"]),
    ("image", &["data", "base64"]),
    ("image-data", &["data"]),
    ("audio", &["data", "base64"]),
    ("video", &["data", "base64"]),
    ("input_file", &["file_data"]),
    ("input_image", &["data"]),
    ("input_audio", &["data"]),
];
/// Kinds that declare encoded data: base64 of any length.
const ENCODED: [&str; 5] = ["base64", "blob", "binary", "file-data", "image-data"];
/// Prefixes of file ids of providers.
const FILE_IDS: [&str; 2] = ["file-", "file_"];
/// Members that are lists of media, and the prefix of their types.
const LISTS: [(&str, &str); 4] =
    [("images", "image/"), ("audios", "audio/"), ("videos", "video/"), ("artifacts", "image/")];
/// Names of formats and their MIME types. Raw samples have no playable type.
const FORMATS: [(&str, &str); 39] = [
    ("aac", "audio/aac"),
    ("avif", "image/avif"),
    ("csv", "text/csv"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("flac", "audio/flac"),
    ("flv", "application/octet-stream"),
    ("g711_alaw", "application/octet-stream"),
    ("g711_ulaw", "application/octet-stream"),
    ("gif", "image/gif"),
    ("html", "text/html"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("m4a", "audio/mp4"),
    ("md", "text/markdown"),
    ("mka", "application/octet-stream"),
    ("mkv", "video/x-matroska"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mp3"),
    ("mp4", "video/mp4"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
    ("ogg", "audio/ogg"),
    ("opus", "audio/opus"),
    ("pcm", "application/octet-stream"),
    ("pcm16", "application/octet-stream"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("three_gp", "application/octet-stream"),
    ("txt", "text/plain"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("wmv", "application/octet-stream"),
    ("x-aac", "audio/aac"),
    ("x-wav", "audio/wav"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
];
/// Audio formats among `FORMATS`.
const SOUND: [&str; 13] = [
    "aac",
    "flac",
    "g711_alaw",
    "g711_ulaw",
    "m4a",
    "mp3",
    "mp4",
    "ogg",
    "opus",
    "pcm",
    "pcm16",
    "wav",
    "webm",
];
/// Aliases of MIME types.
const ALIASES: [(&str, &str); 9] = [
    ("audio/l16", "application/octet-stream"),
    ("audio/m4a", "audio/mp4"),
    ("audio/pcm", "application/octet-stream"),
    ("audio/vnd.wave", "audio/wav"),
    ("audio/wave", "audio/wav"),
    ("audio/x-m4a", "audio/mp4"),
    ("audio/x-wav", "audio/wav"),
    ("image/pjpeg", "image/jpeg"),
    ("image/x-png", "image/png"),
];

/// A member of an object that contains a medium as base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base64Member {
    /// Its name.
    pub key: &'static str,
    /// The MIME type in lower case; empty if neither the object nor the first bytes determine it.
    pub content_type: String,
}

/// The member of an object that contains a medium as base64. `around` is the type from [`types_around`] for this object.
#[must_use]
pub fn base64_member(members: &Map<String, Value>, around: Option<&str>) -> Option<Base64Member> {
    let is_data = |key: &&'static str| text(members, key).is_some_and(is_encoded);
    let found = |key, content_type| Some(Base64Member { key, content_type });
    if let Some(around) = around
        && let Some(key) = ["bytes", "data"].into_iter().find(is_data)
    {
        return found(key, around.to_owned());
    }
    let mut kinds = KINDS.iter().filter_map(|key| text(members, key));
    let file = kinds.clone().find_map(|kind| {
        let (kind, keys) = FILES.iter().find(|(known, _)| *known == kind)?;
        let key = keys.iter().copied().find(is_data)?;
        Some((key, ENCODED.contains(kind)))
    });
    if let Some(content_type) = declared(members) {
        // A resource of MCP, which may be a file of any type.
        let is_resource = members.contains_key("uri");
        let blob = ["blob"].into_iter().find(is_data).filter(|_| is_resource);
        // Short base64 may be an ordinary word.
        let is_text = content_type.starts_with("text/") || content_type.ends_with("/json");
        let is_certain = |key: &str, is_encoded: bool| {
            let data = text(members, key).unwrap_or_default();
            is_bytes(data) || !is_text && (is_encoded || is_padded(data))
        };
        let file = file.filter(|(key, is_encoded)| is_certain(key, *is_encoded));
        let blob = blob.filter(|key| is_certain(key, true));
        if let Some(key) = file.map(|(key, _)| key).or(blob) {
            return found(key, content_type);
        }
        let families = ["image/", "audio/", "video/", "application/pdf"];
        let is_medium = families.iter().any(|family| content_type.starts_with(family));
        let is_bytes = |key: &&'static str| text(members, key).is_some_and(is_bytes);
        let key = DATA.into_iter().find(is_bytes).filter(|_| is_medium)?;
        return found(key, content_type);
    }
    let format = text(members, "format").filter(|format| SOUND.contains(format));
    let is_sound = |key: &&'static str| text(members, key).is_some_and(is_bytes);
    let sound = ["data", "audio"].into_iter().find(is_sound);
    if let Some((format, key)) = format.zip(sound) {
        return found(key, sound_type(format).to_owned());
    }
    untyped(members, kinds.next().unwrap_or_default())
}

/// The MIME type that an object declares of its data.
fn declared(members: &Map<String, Value>) -> Option<String> {
    let declared = DECLARED.iter().find_map(|key| text(members, key));
    declared.and_then(plain_type).map(|name| {
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
        alias.map_or(name, |(_, known)| (*known).to_owned())
    })
}

/// The member with bytes in an object that does not declare their type: it follows from the first bytes.
fn untyped(members: &Map<String, Value>, kind: &str) -> Option<Base64Member> {
    let keys: &[&'static str] = match kind {
        "image" => &["image", "base64", "data"],
        "audio" => &["audio", "base64", "data"],
        "file" | "document" | "input_file" => &["file_data", "data", "base64"],
        "input_audio" | "output_audio" => &["input_audio", "audio"],
        "image_generation_call" => &["result"],
        _ if members.contains_key("transcript") => &["data"],
        // A picture of AutoGen.
        "" if members.len() == 1 => &["data", "b64_json", "base64", "file_data"],
        _ => &[
            "b64_json",
            "base64",
            "base64_image",
            "base64Data",
            "base64_data",
            "file_data",
            "image_base64",
            "partial_image_b64",
            "bytesBase64Encoded",
        ],
    };
    keys.iter().find_map(|key| {
        let data = text(members, key)?;
        let content_type = sniffed(data);
        let is_certain = content_type.is_some() || !matches!(*key, "data" | "base64" | "image");
        let is_taken = is_bytes(data) && !data.contains(' ') && (is_certain || !kind.is_empty());
        let format = text(members, "output_format").and_then(type_of_format);
        let content_type = content_type.or(format).unwrap_or_default();
        is_taken.then(|| Base64Member { key, content_type: content_type.to_owned() })
    })
}

/// Names of members and the types that an object declares for the base64 in them. `around` is the type declared for the
/// object itself.
#[must_use]
pub fn types_around(
    members: &Map<String, Value>,
    around: Option<&str>,
) -> Vec<(&'static str, String)> {
    let names = ["source", "bytes", "inlineData", "inline_data", "input_audio"];
    let types = names.into_iter().filter_map(|name| {
        let inner = members.get(name)?.as_object()?;
        let content_type = match name {
            // Bedrock: `{"format": "png", "source": {"bytes": ..}}`
            "source" if inner.contains_key("bytes") => {
                let format = text(members, "format")?;
                type_of_format(format).unwrap_or_default().to_owned()
            }
            // Strands: `{"bytes": {"__bytes_encoded__": true, "data": ..}}`
            "bytes" if inner.contains_key("__bytes_encoded__") => around?.to_owned(),
            "inlineData" | "inline_data" => declared(inner)?,
            "input_audio" => sound_type(text(inner, "format")?).to_owned(),
            _ => return None,
        };
        Some((name, content_type))
    });
    types.collect()
}

/// The type of a medium that is an item of a list under this name.
#[must_use]
pub fn type_in_list(key: &str, item: &str) -> Option<&'static str> {
    let (_, family) = LISTS.iter().find(|(name, _)| *name == key)?;
    let is_whole = is_base64(item) && !item.contains(' ');
    let content_type = sniffed(item).filter(|_| is_whole)?;
    content_type.starts_with(family).then_some(content_type)
}

fn type_of_format(format: &str) -> Option<&'static str> {
    let format = format.to_ascii_lowercase();
    let known = FORMATS.iter().find(|(known, _)| *known == format);
    known.map(|(_, content_type)| *content_type)
}

fn sound_type(format: &str) -> &'static str {
    match format {
        "mp4" => "audio/mp4",
        "webm" => "audio/webm",
        format => type_of_format(format).unwrap_or("application/octet-stream"),
    }
}

/// Whether all of a text is base64, or the bytes of a Python literal.
fn is_encoded(text: &str) -> bool {
    let is_id = FILE_IDS.iter().any(|start| text.starts_with(start));
    !is_id && !text.contains(' ') && is_base64(text) || python_literal(text).is_some()
}

/// Whether base64 has padding, which words and names do not have.
fn is_padded(data: &str) -> bool {
    data.ends_with('=') && data.len().is_multiple_of(4)
}

/// As [`is_encoded`], for a text that may also be a word or a name.
fn is_bytes(data: &str) -> bool {
    let has = |is: fn(&u8) -> bool| data.as_bytes().iter().any(is);
    let is_mixed =
        || has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit);
    let is_long = || SHORTEST <= data.len() && is_mixed();
    is_encoded(data) && (sniffed(data).is_some() || python_literal(data).is_some() || is_long())
}

fn text<'v>(members: &'v Map<String, Value>, key: &str) -> Option<&'v str> {
    members.get(key).and_then(Value::as_str)
}

/// The bytes of a buffer of JavaScript: in JSON a list of numbers, or an object of them.
#[must_use]
pub fn buffer(value: &Value) -> Option<Vec<u8>> {
    let members = value.as_object()?;
    let byte = |value: &Value| u8::try_from(value.as_u64()?).ok();
    if members.len() == 2 && text(members, "type") == Some("Buffer") {
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
    // Any list of numbers may look like this: require the signature of a medium.
    bytes.filter(|bytes| type_of(bytes).is_some())
}
