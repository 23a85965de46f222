//! Media as a page shows them, and the values that they were taken out of.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Map, Value};

use super::fields::short;
use super::fold::{Fold, Further, beginning};
use super::inline::{Found, Taken, inline_type};
use crate::format::size;
use crate::markup::Text;
use crate::shell::encode;

/// Media shown of one text or JSON value.
const MAX_SHOWN: usize = 100;
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
    fn own(found: &Found, number: usize, at: &Addresses) -> Self {
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
        }
    }

    /// A medium at an address of `http` or `https`.
    fn remote(url: &str, content_type: &str) -> Option<Self> {
        let host = host_of(url)?;
        Some(Self {
            label: label(content_type),
            name: None,
            content_type: Text::from(content_type),
            size: String::new(),
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
fn family(value: &Value) -> &'static str {
    let members = value.as_object().into_iter().flatten();
    let names = members.flat_map(|(key, member)| [key.as_str(), member.as_str().unwrap_or("")]);
    let known = ["image", "audio", "video"];
    let mut found = names.filter_map(|name| known.iter().find(|known| name.contains(**known)));
    found.next().copied().unwrap_or("file")
}

/// The server of an address of `http` or `https`, without name and password.
fn host_of(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let is_web = ["http", "https"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known));
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?;
    (is_web && !host.is_empty()).then_some(host)
}

/// A value whose media were taken out, and where they are.
pub(super) struct Source<'a> {
    taken: Taken,
    at: &'a Addresses,
}

impl<'a> Source<'a> {
    pub(super) fn new(taken: Taken, at: &'a Addresses) -> Self {
        Self { taken, at }
    }

    /// Whether there are any media in the value.
    pub(super) fn has_media(&self) -> bool {
        !self.taken.found.is_empty()
    }

    pub(super) fn text(&self, text: &str) -> Fold {
        self.fold(text, Fold::text)
    }

    pub(super) fn json(&self, value: &Value) -> Fold {
        match value {
            Value::String(text) => self.text(text),
            // A token has no character that JSON escapes.
            other => self.json_text(&other.to_string()),
        }
    }

    pub(super) fn json_text(&self, json: &str) -> Fold {
        self.fold(json, Fold::json)
    }

    pub(super) fn further(&self, members: Map<String, Value>) -> Option<Further> {
        if members.is_empty() {
            return None;
        }
        const NAMED: usize = 6;
        const MAX_NAME: usize = 40;
        let named = members.keys().take(NAMED);
        let mut names: Vec<String> = named
            .map(|name| beginning(self.line(name).raw(), MAX_NAME).to_owned())
            .collect();
        if NAMED < members.len() {
            names.push("…".to_owned());
        }
        Some(Further {
            n: members.len(),
            names: Text::from(names.join(", ")),
            body: self.json_text(&Value::Object(members).to_string()),
        })
    }

    /// A text that stays in one line: a name, a role, an id.
    pub(super) fn line(&self, text: &str) -> Text {
        match text.contains(self.taken.mark) {
            true => Text::from(self.labelled(text).text),
            false => Text::from(text),
        }
    }

    /// Short members with their names.
    pub(super) fn facts<N: AsRef<str>>(&self, found: Vec<(N, String)>) -> Vec<(Text, Text)> {
        let found = found.into_iter();
        found
            .map(|(name, value)| (self.line(name.as_ref()), self.line(&value)))
            .collect()
    }

    /// The number of the medium that a text is the token of.
    fn number(&self, text: &str) -> Option<usize> {
        let mark = self.taken.mark;
        let number = text.strip_prefix(mark)?.strip_suffix(mark)?.parse().ok()?;
        (number < self.taken.found.len()).then_some(number)
    }

    /// The text with a label in place of each medium.
    fn labelled(&self, text: &str) -> Labelled {
        let mark = self.taken.mark;
        let mut labelled = Labelled {
            text: String::with_capacity(text.len()),
            media: Vec::new(),
            is_blank: true,
        };
        for (at, piece) in text.split(mark).enumerate() {
            let number = (at % 2 == 1)
                .then(|| self.number(&format!("{mark}{piece}{mark}")))
                .flatten();
            if let Some(number) = number {
                labelled.text.push_str(&self.chip(number));
                labelled.media.push(number);
            } else {
                labelled.is_blank &= piece.trim().is_empty();
                labelled.text.push_str(piece);
            }
        }
        labelled
    }

    fn fold(&self, text: &str, fold: fn(&str) -> Fold) -> Fold {
        if !text.contains(self.taken.mark) {
            return fold(text);
        }
        let mut labelled = self.labelled(text);
        let mut fold = fold(&labelled.text);
        // Bytes of no known type are no more to look at than their size.
        labelled.media.retain(|number| {
            let found = &self.taken.found[*number];
            !found.content_type.is_empty() || found.stored.is_some()
        });
        let numbers = labelled.media;
        fold.is_blank = labelled.is_blank && !numbers.is_empty();
        let shown = numbers.iter().take(MAX_SHOWN);
        fold.media = shown.map(|number| self.own(*number)).collect();
        fold.n_more_media = numbers.len().saturating_sub(MAX_SHOWN);
        fold
    }

    fn own(&self, number: usize) -> Media {
        Media::own(&self.taken.found[number], number, self.at)
    }

    /// What stands in a text in place of a medium.
    fn chip(&self, number: usize) -> String {
        let found = &self.taken.found[number];
        let name = match found.content_type.as_str() {
            "" if found.stored.is_some() => "media",
            "" => "base64",
            name => name,
        };
        match found.size {
            Some(bytes) => format!("[{name}, {}]", size(bytes)),
            None => format!("[{name}]"),
        }
    }

    /// The medium that an object describes, and what else it says; none when there is no medium in it.
    /// An address of another server counts only where `is_medium`.
    pub(super) fn described(&self, value: &Value, is_medium: bool) -> Option<Described> {
        let mut leaves = Leaves::default();
        leaves.walk(value, "", 0);
        let own = leaves
            .list
            .iter()
            .position(|(_, leaf)| self.number(leaf).is_some());
        let at = own.or_else(|| {
            let mut list = leaves.list.iter();
            list.position(|(_, leaf)| is_medium && host_of(leaf).is_some())
        })?;
        let (_, leaf) = leaves.list.remove(at);
        let declared = leaves.find(&["media_type", "mime_type", "mediaType", "mimeType"]);
        let mut media = match self.number(&leaf) {
            Some(number) => self.own(number),
            None => Media::remote(&leaf, declared.as_deref().unwrap_or_default())?,
        };
        if media.content_type.is_empty() {
            media.label = family(value);
        }
        let said = |name: &str, leaf: &str| match name {
            // How to read the object, and nothing else.
            "type" => MEDIUM_TYPES.contains(&leaf),
            name => name.to_lowercase().contains("type") && leaf == media.content_type.raw(),
        };
        leaves.list.retain(|(name, leaf)| !said(name, leaf));
        let names = ["filename", "file_name", "fileName", "name"];
        if let Some(at) = leaves
            .list
            .iter()
            .position(|(name, _)| names.contains(&name.as_str()))
        {
            media.name = Some(self.line(&leaves.list.remove(at).1));
        }
        Some(Described {
            media,
            facts: leaves.list,
            is_whole: leaves.is_whole,
        })
    }

    /// A fold that holds a medium and nothing else.
    pub(super) fn only(media: Media) -> Fold {
        let mut fold = Fold::text("");
        fold.is_blank = true;
        fold.media = vec![media];
        fold
    }
}

/// A text whose media were replaced by labels.
struct Labelled {
    text: String,
    /// Their numbers.
    media: Vec<usize>,
    /// Nothing but media.
    is_blank: bool,
}

/// A medium with what an object says of it.
pub(super) struct Described {
    pub(super) media: Media,
    pub(super) facts: Vec<(String, String)>,
    /// Whether `facts` are all that the object says.
    pub(super) is_whole: bool,
}

/// The short texts of an object, by the names of their members.
#[derive(Default)]
struct Leaves {
    list: Vec<(String, String)>,
    is_whole: bool,
}

impl Leaves {
    fn walk(&mut self, value: &Value, name: &str, depth: usize) {
        const MAX_DEPTH: usize = 4;
        const MAX: usize = 12;
        if depth == 0 {
            self.is_whole = true;
        }
        if MAX_DEPTH < depth || MAX < self.list.len() {
            self.is_whole = false;
            return;
        }
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    self.walk(member, name, depth + 1);
                }
            }
            // A list is more than one line can say.
            Value::Array(items) => self.is_whole &= items.is_empty(),
            Value::String(text) if host_of(text).is_some() => {
                self.list.push((name.to_owned(), text.clone()));
            }
            other => match short(other) {
                Some(text) => self.list.push((name.to_owned(), text)),
                None => self.is_whole &= super::fields::is_empty(other),
            },
        }
    }

    fn find(&self, names: &[&str]) -> Option<String> {
        let found = self
            .list
            .iter()
            .find(|(name, _)| names.contains(&name.as_str()));
        found.map(|(_, leaf)| leaf.clone())
    }
}
