//! Media as a page shows them, and the values that they were taken out of.

use crate::markup::{Text, encode, segment};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use perpend_domain::content::inline::{self, ExtractedMedium, InlineMedium, inline_type};
use perpend_domain::mapping::PathSegment;
use perpend_domain::payload::Payload;
use serde_json::Value;

use crate::format::size;

/// What an address of others may not hold in ours.
const UNSAFE: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'\'').add(b'<').add(b'>').add(b'`');

/// A longer path fits into no address: its node is in the raw value.
pub const MAX_PATH: usize = 2_000;

/// Where a browser finds a value, parts of it, and what it refers to.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// Address that those of all pages of the project begin with.
    base: String,
    /// Path of the raw value; its media are below it, by number.
    raw: String,
    /// The parameters that say which value it is.
    value: String,
    /// The node that is meant; the whole value when empty.
    path: String,
    /// Traces can be filtered by the members of the value.
    is_filter: bool,
}

impl Addresses {
    /// Of a part of a trace, or of one of its observations.
    #[must_use]
    pub fn new(base: &str, trace: &str, observation: Option<&str>, part: &str) -> Self {
        let (of_step, id) = match observation {
            Some(id) => {
                (format!("/observations/{}", segment(id)), format!("&observation={}", encode(id)))
            }
            None => (String::new(), String::new()),
        };
        Self {
            raw: format!("{base}/traces/{}{of_step}/raw/{part}", segment(trace)),
            value: format!("trace={}{id}&part={part}", encode(trace)),
            base: base.to_owned(),
            path: String::new(),
            is_filter: observation.is_none() && part == "metadata",
        }
    }

    /// Of the node at a normalized path.
    #[must_use]
    pub fn at(&self, path: &str) -> Self {
        let path = if path == "$" { "" } else { path };
        Self { path: path.to_owned(), ..self.clone() }
    }

    /// Of a node in this one; none where its path fits into no address.
    pub(crate) fn below(&self, step: &PathSegment) -> Option<Self> {
        let around = match self.path.as_str() {
            "" => "$",
            path => path,
        };
        let path = format!("{around}{step}");
        (path.len() <= MAX_PATH).then(|| self.at(&path))
    }

    /// The page of the value, with these parameters behind. The fragment that stands for it is below `_` of the project.
    pub(crate) fn page(&self, more: &str) -> String {
        let path = match self.path.as_str() {
            "" => String::new(),
            path => format!("&path={}", encode(path)),
        };
        format!("{}/value?{}{path}{more}", self.base, self.value)
    }

    /// Where a form about the value is sent.
    pub(crate) fn form(&self) -> String {
        format!("{}/value", self.base)
    }

    /// Names and values that say which value it is, for a form.
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

    /// The value as it was recorded.
    pub(crate) fn raw(&self) -> String {
        self.below_raw("", "")
    }

    /// The same, to be kept as a file.
    pub(crate) fn download(&self) -> String {
        self.below_raw("", "download=1")
    }

    /// The base of the project, where traces can be filtered by members of this value.
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

/// The value of a payload. Text that holds an object or a list as JSON is read as that.
pub(crate) fn read(payload: &Payload) -> Value {
    let is_json = matches!(payload, Payload::Json(_));
    inline::read(payload.as_str(), is_json)
}

/// The medium with this number in a recorded value, as the addresses on a page count them.
#[must_use]
pub fn inline_medium(payload: &Payload, number: usize) -> Option<InlineMedium> {
    InlineMedium::of(read(payload), number)
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
    /// In a store that no browser reads: its address, or its id.
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

    /// A medium at an address of `http` or `https`, or of a store, or that a provider keeps under an id.
    pub(super) fn remote(url: &str, content_type: &str) -> Self {
        let place = match host_of(url) {
            Some(host) => {
                Place::Remote(Text::from(host), utf8_percent_encode(url, UNSAFE).to_string())
            }
            None => Place::Stored(Text::from(url)),
        };
        Self {
            label: label(content_type),
            name: None,
            content_type: Text::from(content_type),
            size: String::new(),
            // Its address is part of what is read.
            print: 0,
            place,
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

/// What a part of a message calls its medium.
pub(super) fn family(value: &Value) -> &'static str {
    let members = value.as_object().into_iter().flatten();
    let names = members.flat_map(|(key, member)| [key.as_str(), member.as_str().unwrap_or("")]);
    let known = ["image", "audio", "video"];
    let mut found = names.filter_map(|name| known.iter().find(|known| name.contains(**known)));
    found.next().copied().unwrap_or("file")
}

/// Whether a text is the address of a file in a store.
fn is_stored(url: &str) -> bool {
    ["s3://", "gs://"].iter().any(|scheme| url.starts_with(scheme))
}

/// Whether a text is an address where a medium may be.
pub(super) fn is_address(text: &str) -> bool {
    host_of(text).is_some() || is_stored(text)
}

/// The server of an address of `http` or `https`, without name and password.
fn host_of(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let is_web = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?;
    (is_web && !host.is_empty()).then_some(host)
}
