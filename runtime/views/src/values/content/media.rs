//! Media on pages, and the URLs of values and media.

use crate::markup::{Text, encode, segment};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use perpend_domain::content::inline::{self, ExtractedMedium, InlineMedium, inline_type};
use perpend_domain::mapping::PathSegment;
use perpend_domain::payload::Payload;
use serde_json::Value;

use crate::format::size;

/// Characters that are percent-encoded in external URLs.
const UNSAFE: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'\'').add(b'<').add(b'>').add(b'`');

/// Maximum length in bytes of a node path in a URL. Nodes with longer paths are only available in the raw value.
pub const MAX_PATH: usize = 2_000;

/// The URLs of a value, its nodes and its media.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// Common prefix of the pages of the project.
    base: String,
    /// Path of the raw value. Media are at `/media/NUMBER` below it.
    raw: String,
    /// Query parameters that identify the value.
    value: String,
    /// Path of the node; empty for the whole value.
    path: String,
    /// Whether traces can be filtered by the members of the value.
    is_filter: bool,
}

impl Addresses {
    /// URLs of the value `part` (`input`, `output`, …) of a trace or of one of its observations.
    #[must_use]
    pub fn new(base: &str, trace: &str, observation: Option<&str>, part: &str) -> Self {
        let (observation_path, id) = match observation {
            Some(id) => {
                (format!("/observations/{}", segment(id)), format!("&observation={}", encode(id)))
            }
            None => (String::new(), String::new()),
        };
        Self {
            raw: format!("{base}/traces/{}{observation_path}/raw/{part}", segment(trace)),
            value: format!("trace={}{id}&part={part}", encode(trace)),
            base: base.to_owned(),
            path: String::new(),
            is_filter: observation.is_none() && part == "metadata",
        }
    }

    /// URLs of a value of a dataset item. `raw` is the path of the raw value, which has no page.
    #[must_use]
    pub fn of_item(base: &str, raw: &str) -> Self {
        Self { base: base.to_owned(), raw: raw.to_owned(), ..Self::default() }
    }

    /// URLs of the node at a normalized path.
    #[must_use]
    pub fn at(&self, path: &str) -> Self {
        let path = if path == "$" { "" } else { path };
        Self { path: path.to_owned(), ..self.clone() }
    }

    /// URLs of a child node; `None` if its path exceeds [`MAX_PATH`].
    pub(crate) fn below(&self, segment: &PathSegment) -> Option<Self> {
        let around = match self.path.as_str() {
            "" => "$",
            path => path,
        };
        let path = format!("{around}{segment}");
        (path.len() <= MAX_PATH).then(|| self.at(&path))
    }

    /// The page of the value with the additional parameters `more`. The fragment of the page has the same URL below `_` of
    /// the project.
    ///
    /// The raw value if there is no page.
    pub(crate) fn page(&self, more: &str) -> String {
        if self.value.is_empty() {
            return self.raw();
        }
        let path = match self.path.as_str() {
            "" => String::new(),
            path => format!("&path={}", encode(path)),
        };
        format!("{}/value?{}{path}{more}", self.base, self.value)
    }

    /// Action of forms about the value.
    pub(crate) fn form(&self) -> String {
        format!("{}/value", self.base)
    }

    /// Hidden form fields that identify the value.
    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        let pairs = self.value.split('&').filter_map(|pair| pair.split_once('='));
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let mut pairs: Vec<(String, String)> =
            pairs.map(|(name, value)| (name.to_owned(), decoded(value))).collect();
        if !self.path.is_empty() {
            pairs.push(("path".to_owned(), self.path.clone()));
        }
        pairs
    }

    /// URL of the raw value.
    pub(crate) fn raw(&self) -> String {
        self.below_raw("", "")
    }

    /// URL that downloads the raw value.
    pub(crate) fn download(&self) -> String {
        self.below_raw("", "download=1")
    }

    /// The base of the project if traces can be filtered by members of this value.
    pub(crate) fn filter(&self) -> Option<&str> {
        self.is_filter.then_some(&self.base)
    }

    fn below_raw(&self, below: &str, parameter: &str) -> String {
        let path = match self.path.as_str() {
            "" => String::new(),
            path => format!("path={}", encode(path)),
        };
        let query: Vec<&str> =
            [path.as_str(), parameter].into_iter().filter(|one| !one.is_empty()).collect();
        let sign = if query.is_empty() { "" } else { "?" };
        format!("{}{below}{sign}{}", self.raw, query.join("&"))
    }
}

/// Parses a payload. A text that is a JSON object or array is parsed too.
pub(crate) fn read(payload: &Payload) -> Value {
    let is_json = matches!(payload, Payload::Json(_));
    inline::read(payload.as_str(), is_json)
}

/// The medium with this number in a recorded value; pages number media in document order.
#[must_use]
pub fn inline_medium(payload: &Payload, number: usize) -> Option<InlineMedium> {
    InlineMedium::of(read(payload), number)
}

/// An image, audio, video or other file.
#[derive(Clone, Debug)]
pub(crate) struct Media {
    pub(crate) label: &'static str,
    pub(crate) name: Option<Text>,
    /// MIME type; empty if unknown.
    pub(crate) content_type: Text,
    /// Empty if unknown.
    pub(crate) size: String,
    pub(crate) location: MediaLocation,
    /// Hash of the recorded bytes.
    pub(super) content_hash: u64,
}

/// Where the bytes are stored and how a browser shows them.
#[derive(Clone, Debug)]
pub(crate) enum MediaLocation {
    /// On this server, shown as an image.
    Image(String),
    /// On this server, played as audio.
    Audio(String),
    /// On this server, played as video.
    Video(String),
    /// On this server, for download.
    File(String),
    /// On another server: host and URL. The server itself never requests it.
    Remote(Text, String),
    /// In storage that browsers cannot read: URL or id.
    Stored(Text),
}

impl Media {
    pub(super) fn own(found: &ExtractedMedium, number: usize, at: &Addresses) -> Self {
        let address = match &found.stored {
            Some(id) => format!("{}/media/{}", at.base, segment(id)),
            None => at.below_raw(&format!("/media/{number}"), ""),
        };
        let shown = inline_type(&found.content_type);
        let family = |name: &str| name.split('/').next().unwrap_or_default().to_owned();
        let location = match shown.map(family).as_deref() {
            Some("image") => MediaLocation::Image(address),
            Some("audio") => MediaLocation::Audio(address),
            Some("video") => MediaLocation::Video(address),
            _ => MediaLocation::File(address),
        };
        Self {
            label: label(&found.content_type),
            name: None,
            content_type: Text::from(found.content_type.as_str()),
            size: found.size.map(size).unwrap_or_default(),
            location,
            content_hash: found.print,
        }
    }

    /// A medium at an `http`, `https` or object storage URL, or with a file id of a provider.
    pub(super) fn remote(url: &str, content_type: &str) -> Self {
        let location = match host_of(url) {
            Some(host) => MediaLocation::Remote(
                Text::from(host),
                utf8_percent_encode(url, UNSAFE).to_string(),
            ),
            None => MediaLocation::Stored(Text::from(url)),
        };
        Self {
            label: label(content_type),
            name: None,
            content_type: Text::from(content_type),
            size: String::new(),
            // The URL identifies the content.
            content_hash: 0,
            location,
        }
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

/// The kind of medium named by a message part.
pub(super) fn family(value: &Value) -> &'static str {
    let members = value.as_object().into_iter().flatten();
    let names = members.flat_map(|(key, member)| [key.as_str(), member.as_str().unwrap_or("")]);
    let known = ["image", "audio", "video"];
    let mut found = names.filter_map(|name| known.iter().find(|known| name.contains(**known)));
    found.next().copied().unwrap_or("file")
}

/// Whether a text is an object storage URL.
fn is_stored(url: &str) -> bool {
    ["s3://", "gs://"].iter().any(|scheme| url.starts_with(scheme))
}

/// Whether a text is a URL of a medium.
pub(super) fn is_address(text: &str) -> bool {
    host_of(text).is_some() || is_stored(text)
}

/// The host of an `http` or `https` URL, without user information.
fn host_of(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let is_web = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?;
    (is_web && !host.is_empty()).then_some(host)
}
