//! Media as a page shows them, and the values that they were taken out of.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::Value;

use super::inline::{Found, inline_type};
use crate::format::size;
use crate::markup::Text;
use crate::shell::encode;

/// What the common APIs call a part of a message that is a medium.
pub(super) const MEDIUM_TYPES: [&str; 22] = [
    "audio",
    "audio_url",
    "base64",
    "binary",
    "blob",
    "document",
    "document-url",
    "file",
    "image",
    "image-url",
    "image_file",
    "image_url",
    "input_audio",
    "input_file",
    "input_image",
    "input_video",
    "media",
    "output_audio",
    "uri",
    "url",
    "video",
    "video_url",
];
/// What an address of others may not hold in ours.
const UNSAFE: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'\'')
    .add(b'<')
    .add(b'>')
    .add(b'`');

/// Where a browser finds what a value refers to.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// Path of the raw value; its media are below it, by number.
    pub value: String,
    /// Path below which stored media are, by id.
    pub media: String,
}

/// A picture, sound, film or file.
#[derive(Clone, Debug)]
pub(crate) struct Media {
    pub(crate) label: &'static str,
    pub(crate) name: Option<Text>,
    /// MIME type; empty when it is not known.
    pub(crate) content_type: Text,
    /// Empty when it is not known.
    pub(crate) size: String,
    pub(crate) place: Place,
    /// Equal for media that were recorded alike.
    pub(super) print: u64,
}

/// Where the bytes are, and what a browser does with them.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// On this server, of a type that is shown as a picture.
    Image(String),
    /// A sound that can be played here.
    Audio(String),
    /// A film that can be played here.
    Video(String),
    /// On this server, to be downloaded.
    File(String),
    /// On another server, which is never asked: its name, and the address to open.
    Remote(Text, String),
}

impl Media {
    pub(super) fn own(found: &Found, number: usize, at: &Addresses) -> Self {
        let address = match &found.stored {
            Some(id) => format!("{}/{}", at.media, encode(id)),
            None => format!("{}/media/{number}", at.value),
        };
        let shown = inline_type(&found.content_type);
        let family = |name: &str| name.split('/').next().unwrap_or_default().to_owned();
        let place = match shown.map(family).as_deref() {
            Some("image") => Place::Image(address),
            Some("audio") => Place::Audio(address),
            Some("video") => Place::Video(address),
            _ => Place::File(address),
        };
        Self {
            label: label(&found.content_type),
            name: None,
            content_type: Text::from(found.content_type.as_str()),
            size: found.size.map(size).unwrap_or_default(),
            place,
            print: found.print,
        }
    }

    /// A medium at an address of `http` or `https`.
    pub(super) fn remote(url: &str, content_type: &str) -> Option<Self> {
        let host = host_of(url)?;
        Some(Self {
            label: label(content_type),
            name: None,
            content_type: Text::from(content_type),
            size: String::new(),
            // Its address is part of what is read.
            print: 0,
            place: Place::Remote(
                Text::from(host),
                utf8_percent_encode(url, UNSAFE).to_string(),
            ),
        })
    }
}

fn label(content_type: &str) -> &'static str {
    match content_type.split('/').next().unwrap_or_default() {
        "image" => "image",
        "audio" => "audio",
        "video" => "video",
        _ => "file",
    }
}

/// What a part of a message calls its medium.
pub(super) fn family(value: &Value) -> &'static str {
    let members = value.as_object().into_iter().flatten();
    let names = members.flat_map(|(key, member)| [key.as_str(), member.as_str().unwrap_or("")]);
    let known = ["image", "audio", "video"];
    let mut found = names.filter_map(|name| known.iter().find(|known| name.contains(**known)));
    found.next().copied().unwrap_or("file")
}

/// The server of an address of `http` or `https`, without name and password.
pub(super) fn host_of(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let is_web = ["http", "https"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known));
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?;
    (is_web && !host.is_empty()).then_some(host)
}
