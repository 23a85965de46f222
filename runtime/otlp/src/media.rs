//! Extracts media from payloads and replaces them by tokens (otlp.md 5).

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use perpend_domain::batch::Media;
use perpend_domain::content::encoded::{python_bytes, python_literal, run_length, type_of};
use perpend_domain::content::media::{base64_member, buffer, type_in_list, types_around};
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::payload::Payload;
use regex::Regex;
use serde_json::{Map, Value as Json};
use sha2::{Digest as _, Sha256};

use crate::json::{self, from_base64};
use crate::limits::MAX_MEDIA_ITEMS;

/// Deepest nesting in which provider objects are searched.
const MAX_DEPTH: usize = 10;
/// Longest head of a data URI, up to its comma.
const MAX_HEAD: usize = 256;
const DATA_URI: &str = ";base64,";
/// The type of bytes without declaration and known signature.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// Content types that are stored as media.
const ALLOWED: [&str; 52] = [
    "application/gzip",
    "application/javascript",
    "application/json",
    "application/msword",
    "application/octet-stream",
    "application/pdf",
    "application/rtf",
    "application/vnd.apache.parquet",
    "application/vnd.ms-excel",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/x-7z-compressed",
    "application/x-ndjson",
    "application/x-tar",
    "application/x-yaml",
    "application/xml",
    "application/zip",
    "audio/aac",
    "audio/flac",
    "audio/mp3",
    "audio/mp4",
    "audio/mpeg",
    "audio/oga",
    "audio/ogg",
    "audio/opus",
    "audio/wav",
    "audio/webm",
    "image/avif",
    "image/bmp",
    "image/gif",
    "image/heic",
    "image/jpeg",
    "image/jpg",
    "image/png",
    "image/svg+xml",
    "image/tiff",
    "image/webp",
    "text/css",
    "text/csv",
    "text/html",
    "text/markdown",
    "text/plain",
    "text/x-python",
    "text/x-typescript",
    "video/mp4",
    "video/mpeg",
    "video/ogg",
    "video/quicktime",
    "video/webm",
    "video/x-matroska",
    "video/x-msvideo",
];

/// Whether content of this type is stored as media.
#[must_use]
pub fn is_media_type(content_type: &str) -> bool {
    ALLOWED.contains(&content_type)
}

/// Markers of media in JSON text, also inside nested text: words of the objects that contain base64, or prefixes of a text
/// with it.
static MARKERS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let words = r#";base64,|"(?:media|blob|file|Buffer|bytes|images)\\*"|[bB]ase64|b64_json|inline_?[dD]ata|input_audio"#;
    let types = r"[mM]ime_?[tT]ype|media_?[tT]ype|_mimetype";
    let data = r#""[A-Za-z0-9+/_-]{40}|"b['\\]"#;
    Regex::new(&[words, types, data].join("|")).ok()
});

fn may_hold_media(json: &str) -> bool {
    MARKERS.as_ref().is_some_and(|markers| markers.is_match(json))
}

/// Extracts media from the fields of one observation.
pub(crate) struct Extractor<'e> {
    pub(crate) trace_id: &'e TraceId,
    pub(crate) observation_id: &'e ObservationId,
    pub(crate) max_bytes: usize,
    /// Of one observation, at most [`MAX_MEDIA_ITEMS`].
    pub(crate) found: &'e mut Vec<Media>,
}

impl Extractor<'_> {
    /// Replaces the media in a payload.
    pub(crate) fn payload(&mut self, payload: &mut Option<Payload>, field: &'static str) {
        match payload {
            Some(Payload::Text(text)) => {
                if let Some(replaced) = self.any_text(text, 0, field) {
                    *text = replaced;
                }
            }
            Some(Payload::Json(text)) => {
                if let Some(tree) = self.parsed(text, 0, field) {
                    *payload = Some(Payload::from_value(tree));
                }
            }
            None => {}
        }
    }

    /// Replaces the media in a value; JSON held as text becomes JSON by that.
    pub(crate) fn value(&mut self, value: &mut Json, field: &'static str) {
        let json_text = value.as_str().filter(|text| json::looks_structured(text));
        match json_text.and_then(|text| self.parsed(text, 0, field)) {
            Some(tree) => *value = tree,
            None => {
                self.tree(value, None, 0, field);
            }
        }
    }

    /// Replaces the media in metadata.
    pub(crate) fn metadata(&mut self, metadata: &mut Map<String, Json>) {
        for value in metadata.values_mut() {
            self.tree(value, None, 0, "metadata");
        }
    }

    /// Replaces the media below a value; how many places held some. `around` is the type that the object around this one
    /// gives to its base64.
    fn tree(
        &mut self,
        value: &mut Json,
        around: Option<&str>,
        depth: usize,
        field: &'static str,
    ) -> usize {
        if let Some(bytes) = (depth <= MAX_DEPTH).then(|| buffer(value)).flatten() {
            let content_type = type_of(&bytes).unwrap_or(UNKNOWN_TYPE);
            let token = self.store(content_type, bytes, "bytes", field);
            if let Some(token) = token {
                *value = Json::String(token);
                return 1;
            }
        }
        match value {
            Json::String(text) => match self.any_text(text, depth, field) {
                Some(replaced) => {
                    *text = replaced;
                    1
                }
                None => 0,
            },
            Json::Array(items) => self.list("", items, depth, field),
            Json::Object(members) => {
                let is_media =
                    depth <= MAX_DEPTH && self.take_base64_member(members, around, field);
                let types = types_around(members, around);
                let below = members.iter_mut().map(|(key, member)| match member {
                    Json::Array(items) => self.list(key, items, depth + 1, field),
                    member => {
                        let around = types.iter().find(|(name, _)| name == key);
                        let around = around.map(|(_, around)| around.as_str());
                        self.tree(member, around, depth + 1, field)
                    }
                });
                usize::from(is_media) + below.sum::<usize>()
            }
            _ => 0,
        }
    }

    /// The same for the items of a list under this name, which may be nothing but media.
    fn list(&mut self, key: &str, items: &mut [Json], depth: usize, field: &'static str) -> usize {
        let mut n_found = 0;
        for item in items {
            let content_type = item.as_str().and_then(|item| type_in_list(key, item));
            let token = content_type.and_then(|content_type| {
                let bytes = bytes_of(item.as_str()?)?;
                self.store(content_type, bytes, "bytes", field)
            });
            n_found += match token {
                Some(token) => {
                    *item = Json::String(token);
                    1
                }
                None => self.tree(item, None, depth + 1, field),
            };
        }
        n_found
    }

    /// Text with its media replaced, also within JSON; `None` without media. The JSON is serialized again only for
    /// provider objects.
    fn any_text(&mut self, text: &str, depth: usize, field: &'static str) -> Option<String> {
        let has_uri = text.contains(DATA_URI);
        let replaced = has_uri.then(|| self.text(text, field)).flatten();
        let rest = replaced.as_deref().unwrap_or(text);
        let is_json = depth <= MAX_DEPTH && json::looks_structured(rest);
        let tree = is_json.then(|| self.parsed(rest, depth + 1, field));
        tree.flatten().map(|tree| tree.to_string()).or(replaced)
    }

    /// JSON text as a tree with its media replaced; `None` without media.
    fn parsed(&mut self, text: &str, depth: usize, field: &'static str) -> Option<Json> {
        if !may_hold_media(text) {
            return None;
        }
        let mut tree = json::parse(text)?.to_json();
        (self.tree(&mut tree, None, depth, field) > 0).then_some(tree)
    }

    /// Leaves a token in place of the base64 in an object of a provider's API; whether it did.
    fn take_base64_member(
        &mut self,
        members: &mut Map<String, Json>,
        around: Option<&str>,
        field: &'static str,
    ) -> bool {
        let Some(found) = base64_member(members, around) else {
            return false;
        };
        let Some(Json::String(data)) = members.get_mut(found.key) else {
            return false;
        };
        let token = bytes_of(data).and_then(|bytes| {
            let content_type = match found.content_type.as_str() {
                "" => type_of(&bytes).unwrap_or(UNKNOWN_TYPE),
                content_type => content_type,
            };
            self.store(content_type, bytes, "bytes", field)
        });
        let is_taken = token.is_some();
        if let Some(token) = token {
            *data = token;
        }
        is_taken
    }

    /// The text with every data URI replaced; `None` without one. Scans forward only.
    fn text(&mut self, text: &str, field: &'static str) -> Option<String> {
        let mut out = String::new();
        let mut copied = 0;
        let mut at = 0;
        while let Some(found) = text[at..].find("data:") {
            let start = at + found;
            at = start + "data:".len();
            let before = text[..start].bytes().next_back();
            let is_inside_word = before
                .is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
            if is_inside_word {
                continue;
            }
            let Some((content_type, data)) = head_of(&text[at..]) else {
                continue;
            };
            let data_start = text.len() - data.len();
            let data_end = data_start + run_length(data);
            at = data_end;
            let token = from_base64(&text[data_start..data_end])
                .and_then(|bytes| self.store(&content_type, bytes, "base64_data_uri", field));
            if let Some(token) = token {
                out.push_str(&text[copied..start]);
                out.push_str(&token);
                copied = data_end;
            }
        }
        if copied == 0 {
            return None;
        }
        out.push_str(&text[copied..]);
        Some(out)
    }

    /// Stores the bytes and returns their token; `None` if they are not extracted.
    fn store(
        &mut self,
        content_type: &str,
        bytes: Vec<u8>,
        source: &str,
        field: &'static str,
    ) -> Option<String> {
        let is_allowed = ALLOWED.binary_search(&content_type).is_ok();
        let is_too_large = bytes.len() > self.max_bytes || MAX_MEDIA_ITEMS <= self.found.len();
        if !is_allowed || bytes.is_empty() || is_too_large {
            return None;
        }
        let sha256: [u8; 32] = Sha256::digest(&bytes).into();
        let mut id = URL_SAFE_NO_PAD.encode(sha256);
        id.truncate(22);
        let token = format!("@@@langfuseMedia:type={content_type}|id={id}|source={source}@@@");
        let is_known = self.found.iter().any(|media| {
            media.id == id
                && media.field == field
                && media.observation_id == *self.observation_id
                && media.trace_id == *self.trace_id
        });
        if !is_known {
            self.found.push(Media {
                id,
                sha256,
                content_type: content_type.to_owned(),
                bytes,
                trace_id: self.trace_id.clone(),
                observation_id: self.observation_id.clone(),
                field,
            });
        }
        Some(token)
    }
}

/// After `data:`: the content type, and everything behind the comma.
fn head_of(text: &str) -> Option<(String, &str)> {
    let window = crate::limits::cut_bytes(text, MAX_HEAD);
    let end = window.find(',')?;
    let head = window[..end].strip_suffix(";base64")?;
    let content_type = head.split(';').next()?.to_ascii_lowercase();
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/.+-_;=\"".contains(&b);
    (content_type.contains('/') && head.bytes().all(is_plain))
        .then(|| (content_type, &text[end + 1..]))
}

/// Base64, perhaps in lines, or a literal of bytes in Python.
fn bytes_of(data: &str) -> Option<Vec<u8>> {
    match python_literal(data) {
        Some(literal) => python_bytes(literal),
        None if data.contains('\n') => from_base64(&data.replace(['\r', '\n'], "")),
        None => from_base64(data),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn extract(payload: Payload) -> (Payload, Vec<Media>) {
        let ([payload], found) = extract_each([payload]);
        (payload, found)
    }

    fn extract_with(payload: Payload, max_bytes: usize) -> (Payload, Vec<Media>) {
        let ([payload], found) = extract_all([payload], max_bytes);
        (payload, found)
    }

    /// Payloads of one field.
    fn extract_each<const N: usize>(payloads: [Payload; N]) -> ([Payload; N], Vec<Media>) {
        extract_all(payloads, 100)
    }

    fn extract_all<const N: usize>(
        payloads: [Payload; N],
        max_bytes: usize,
    ) -> ([Payload; N], Vec<Media>) {
        let mut found = Vec::new();
        let (trace_id, observation_id) =
            (TraceId::new("t").unwrap(), ObservationId::new("o").unwrap());
        let mut extractor = Extractor {
            trace_id: &trace_id,
            observation_id: &observation_id,
            max_bytes,
            found: &mut found,
        };
        let payloads = payloads.map(|payload| {
            let mut payload = Some(payload);
            extractor.payload(&mut payload, "input");
            payload.unwrap()
        });
        (payloads, found)
    }

    #[test]
    fn the_list_of_content_types_is_sorted() {
        assert!(ALLOWED.is_sorted());
    }

    #[test]
    fn data_uris_are_taken_out_of_the_middle_of_text() {
        let text = "see data:image/png;base64,AP8= and xdata:image/png;base64,AP8= data:image/exe;base64,AP8=, data:image/gif;a=b;base64,-_8.";
        let (payload, found) = extract(Payload::Text(text.to_owned()));
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].bytes, [0, 255]);
        assert_eq!(found[1].content_type, "image/gif");
        let text = payload.as_str();
        assert!(text.starts_with("see @@@langfuseMedia:type=image/png|id="));
        assert!(
            text.contains("@@@ and xdata:image/png;base64,AP8= data:image/exe;base64,AP8=, @@@")
        );
        assert!(text.ends_with("|source=base64_data_uri@@@."));
    }

    #[test]
    fn provider_objects_of_every_shape_are_taken_out() {
        let shapes = [
            json!({ "type": "base64", "media_type": "image/png", "data": "AP8=" }),
            json!({ "type": "media", "mime_type": "image/png", "data": "AP8=" }),
            json!({ "inline_data": { "mime_type": "image/png", "data": "AP8=" } }),
            json!({ "inlineData": { "mimeType": "image/png", "data": "AP8=" } }),
            json!({ "type": "file", "mediaType": "image/png", "data": "AP8=" }),
            json!({ "type": "file", "mediaType": "image/png", "image": "AP8=" }),
            json!({ "type": "blob", "mime_type": "image/png", "content": "AP8=" }),
            json!({ "type": "input_audio", "input_audio": { "data": "AP8=", "format": "wav" } }),
            json!({ "type": "blob", "mime_type": "image/png", "content": "b'\\x00\\xff'" }),
            json!({ "url": "data:image/png;base64,AP8=" }),
        ];
        for shape in shapes {
            let (payload, found) = extract(Payload::from_value(json!([shape])));
            assert_eq!(found.len(), 1, "{shape}");
            assert_eq!(found[0].bytes, [0, 255], "{shape}");
            assert!(payload.as_str().contains("@@@langfuseMedia:type="), "{shape}");
        }
    }

    #[test]
    fn media_in_the_values_of_every_library_are_taken_out() {
        let cases = include_str!("../../../tests/corpus/shapes/media.json");
        let cases: Vec<Json> = serde_json::from_str(cases).unwrap();
        let mut wrong = Vec::new();
        for case in &cases {
            let data = from_base64(case["data"].as_str().unwrap()).unwrap();
            let (payload, found) = extract_with(Payload::from_value(case["value"].clone()), 10_000);
            let types: Json = found.iter().map(|media| json!(media.content_type)).collect();
            let is_whole = found.iter().all(|media| media.bytes == data);
            let is_left = payload.as_str().contains(case["data"].as_str().unwrap());
            if types != case["media"] || !is_whole || is_left {
                wrong.push(format!("{}: {}: {types}", case["source"], case["what"]));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn words_in_the_places_of_media_stay() {
        for value in [
            json!([{ "type": "image", "image": "cat", "mediaType": "image/png" }]),
            json!({ "type": "image", "mediaType": "image/png", "data": "cat" }),
            json!({ "type": "file", "mediaType": "application/pdf", "data": "file-6F2ksmvXxt4VdoqmHRw6kL" }),
            json!({ "format": "json", "data": "abcd" }),
            json!({ "format": "wav", "data": "see below" }),
            json!({ "mimeType": "text/plain", "content": "hello" }),
            json!({ "mimeType": "image/png", "name": "picture", "content": "Holiday" }),
            json!({ "images": ["a.png", "cat"] }),
            json!({ "audio": "yes", "transcript": "hi", "data": "none" }),
            json!({ "type": "Buffer", "data": ["a"] }),
            json!({ "0": 1, "1": 2 }),
        ] {
            let (payload, found) = extract(Payload::from_value(value.clone()));
            assert_eq!((payload.to_value(), found.len()), (value, 0));
        }
    }

    #[test]
    fn media_in_json_held_as_text_leaves_a_token_and_the_text_stays_text() {
        let part = json!({ "type": "base64", "media_type": "image/png", "data": "AP8=" });
        let nested = json!([{ "arguments": json!({ "parts": [part] }).to_string() }]);
        let deeper = json!({ "content": nested.to_string(), "n": 1 });
        for shape in [nested, deeper] {
            let (payload, found) = extract(Payload::from_value(shape.clone()));
            assert_eq!(found.len(), 1, "{shape}");
            let id = &found[0].id;
            let token = format!("@@@langfuseMedia:type=image/png|id={id}|source=bytes@@@");
            assert_eq!(payload.as_str(), shape.to_string().replace("AP8=", &token));
        }
        let spaced = json!({ "text": "[ \"data:image/png;base64,AP8=\" ]" });
        let (payload, _) = extract(Payload::from_value(spaced));
        let text = payload.to_value()["text"].clone();
        let text = text.as_str().unwrap();
        assert!(text.starts_with("[ \"@@@") && text.ends_with("@@@\" ]"), "{text}");
        let plain = json!({ "text": "[{ \"type\": \"media\" }]" });
        let (payload, found) = extract(Payload::from_value(plain.clone()));
        assert_eq!((payload.to_value(), found.len()), (plain, 0));
    }

    #[test]
    fn the_same_media_in_two_payloads_of_a_field_is_replaced_in_both() {
        let sent = Payload::from_value(json!([{ "url": "data:image/png;base64,AP8=" }]));
        let ([first, second], found) = extract_each([sent.clone(), sent.clone()]);
        assert_eq!((found.len(), &first), (1, &second));
        assert_ne!(first, sent);
    }

    #[test]
    fn what_is_not_media_stays() {
        let large = format!("data:image/png;base64,{}", "AAAA".repeat(100));
        for text in [
            "data:image/png;base64,",
            "data:image/png;base64,A",
            large.as_str(),
            "data:;base64,AP8=",
        ] {
            let (payload, found) = extract(Payload::Text(text.to_owned()));
            assert_eq!((payload.as_str(), found.len()), (text, 0));
        }
    }
}
