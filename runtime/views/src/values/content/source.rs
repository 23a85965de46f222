//! A value without its inline media, and the rendering of its texts with the media next to them.

use std::borrow::Cow;
use std::rc::Rc;

use crate::markup::Text;
use perpend_domain::content::inline::{self, ExtractedMedia};
use perpend_domain::content::{beginning, is_empty};
use perpend_domain::payload::Payload;
use serde_json::{Map, Value};

use super::fold::{Fold, OtherFields, Style, Window};
use super::form::Form;
use super::media::{Addresses, Media, family, is_address, read};
use crate::format::size;
use perpend_domain::content::fields::short;
use perpend_domain::content::kinds::MEDIUM_TYPES;

/// Maximum number of media shown per text or JSON value.
const MAX_SHOWN: usize = 100;

/// A value whose inline media were replaced by tokens, and the extracted media.
pub(super) struct Source<'a> {
    taken: Rc<ExtractedMedia>,
    at: &'a Addresses,
    /// The shown byte range of each text.
    window: Window,
    /// The format of message texts.
    style: Style,
}

impl<'a> Source<'a> {
    pub(super) fn new(taken: ExtractedMedia, at: &'a Addresses) -> Self {
        Self { taken: Rc::new(taken), at, window: Window::default(), style: Style::Rich }
    }

    pub(super) fn window(mut self, window: Window) -> Self {
        self.window = window;
        self
    }

    /// The same source, limited to the first `n` bytes of each text.
    pub(super) fn texts(&self, n: usize) -> Source<'_> {
        Source {
            taken: Rc::clone(&self.taken),
            at: self.at,
            window: Window { from: 0, n },
            style: self.style,
        }
    }

    /// The same source without markdown, for output of programs.
    pub(super) fn without_markdown(&self) -> Source<'a> {
        Source {
            taken: Rc::clone(&self.taken),
            at: self.at,
            window: self.window,
            style: Style::Plain,
        }
    }

    /// URL of the page of the value with the additional parameters `more`.
    pub(super) fn page(&self, more: &str) -> String {
        self.at.page(more)
    }

    /// Whether the value contains media.
    pub(super) fn has_media(&self) -> bool {
        !self.taken.found.is_empty()
    }

    pub(super) fn text(&self, text: &str) -> Fold {
        self.fold(text, Style::Plain)
    }

    /// A value in a message of a person or a model, rendered as markdown if it is text.
    pub(super) fn rich(&self, value: &Value) -> Fold {
        match value {
            Value::String(text) => self.rich_text(text),
            other => self.json(other),
        }
    }

    pub(super) fn rich_text(&self, text: &str) -> Fold {
        self.fold(text, self.style)
    }

    pub(super) fn json(&self, value: &Value) -> Fold {
        match value {
            Value::String(text) => self.text(text),
            // Media tokens contain no characters that JSON escapes.
            other => self.json_text(&other.to_string()),
        }
    }

    pub(super) fn json_text(&self, json: &str) -> Fold {
        self.fold(json, Style::Json)
    }

    pub(super) fn further(&self, members: Map<String, Value>) -> Option<OtherFields> {
        if members.is_empty() {
            return None;
        }
        const NAMED: usize = 6;
        const MAX_NAME: usize = 40;
        let named = members.keys().take(NAMED);
        let mut names: Vec<String> =
            named.map(|name| beginning(self.line(name).raw(), MAX_NAME).to_owned()).collect();
        if NAMED < members.len() {
            names.push("…".to_owned());
        }
        Some(OtherFields {
            n: members.len(),
            names: Text::from(names.join(", ")),
            body: self.json_text(&Value::Object(members).to_string()),
        })
    }

    /// A single-line text, such as a name, a role or an id.
    pub(super) fn line(&self, text: &str) -> Text {
        match text.contains(self.taken.mark) {
            true => Text::from(self.labelled(text).text),
            false => Text::from(text),
        }
    }

    /// Names and values of short members.
    pub(super) fn facts<N: AsRef<str>>(&self, found: Vec<(N, String)>) -> Vec<(Text, Text)> {
        let found = found.into_iter();
        found.map(|(name, value)| (self.line(name.as_ref()), self.line(&value))).collect()
    }

    /// The index of the medium if the text is a media token.
    fn number(&self, text: &str) -> Option<usize> {
        let mark = self.taken.mark;
        let number = text.strip_prefix(mark)?.strip_suffix(mark)?.parse().ok()?;
        (number < self.taken.found.len()).then_some(number)
    }

    /// Replaces each media token by a label that contains a hash of the bytes.
    pub(super) fn with_hashes(&self, text: &str) -> String {
        let mark = self.taken.mark;
        let pieces = text.split(mark).enumerate();
        let labelled = pieces.map(|(at, piece)| {
            let number = (at % 2 == 1).then(|| piece.parse().ok()).flatten();
            let found = number.and_then(|number: usize| self.taken.found.get(number));
            match (number, found) {
                (Some(number), Some(found)) => {
                    let label = self.media_label(number);
                    format!("{} {:016x}]", label.trim_end_matches(']'), found.print).into()
                }
                _ => Cow::Borrowed(piece),
            }
        });
        labelled.collect()
    }

    /// Replaces each media token by a label.
    fn labelled(&self, text: &str) -> LabelledText {
        let mark = self.taken.mark;
        let mut labelled = LabelledText {
            text: String::with_capacity(text.len()),
            media: Vec::new(),
            is_blank: true,
        };
        for (at, piece) in text.split(mark).enumerate() {
            let number =
                (at % 2 == 1).then(|| self.number(&format!("{mark}{piece}{mark}"))).flatten();
            if let Some(number) = number {
                labelled.text.push_str(&self.media_label(number));
                labelled.media.push(number);
            } else {
                labelled.is_blank &= piece.trim().is_empty();
                labelled.text.push_str(piece);
            }
        }
        labelled
    }

    /// The value as text, with a link to the next part if it is long.
    pub(super) fn whole(&self, text: &str, style: Style, form: Form) -> Fold {
        let mut fold = self.fold(text, style);
        if let Some(cut) = &mut fold.cut {
            let next = cut.next.map(|next| format!("&as={}&from={next}", form.name()));
            cut.more = next.map(|next| self.at.page(&next));
            cut.is_next = true;
        }
        fold
    }

    fn fold(&self, text: &str, style: Style) -> Fold {
        let mut fold = self.with_media(text, style);
        if let Some(cut) = &mut fold.cut {
            // The path of the node is unknown here, so link to the tree of the value.
            cut.more = Some(self.at.page("&as=tree"));
        }
        fold
    }

    fn with_media(&self, text: &str, style: Style) -> Fold {
        if !text.contains(self.taken.mark) {
            return Fold::new(text, style, self.window);
        }
        let labelled = self.labelled(text);
        let mut fold = Fold::new(&labelled.text, style, self.window);
        (fold.media, fold.n_more_media) = self.media(labelled.media, MAX_SHOWN);
        fold.is_blank = labelled.is_blank && !fold.media.is_empty();
        fold
    }

    /// The first `n_shown` media and the number of the others.
    fn media(&self, mut numbers: Vec<usize>, n_shown: usize) -> (Vec<Media>, usize) {
        // Bytes of unknown type have no preview; the label in the text is enough.
        numbers.retain(|number| {
            let found = &self.taken.found[*number];
            !found.content_type.is_empty() || found.stored.is_some()
        });
        let shown = numbers.iter().take(n_shown);
        let shown = shown.map(|number| self.own(*number)).collect();
        (shown, numbers.len().saturating_sub(n_shown))
    }

    fn own(&self, number: usize) -> Media {
        Media::own(&self.taken.found[number], number, self.at)
    }

    /// The label of a medium in a text, such as `[image/png, 70 bytes]`.
    fn media_label(&self, number: usize) -> String {
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

    /// The medium that an object describes, with its other members. An external URL or a provider file id is only
    /// accepted if `is_medium`, that is, if the object is known to describe a medium.
    pub(super) fn describe_medium(
        &self,
        value: &Value,
        is_medium: bool,
    ) -> Option<MediumDescription> {
        let mut leaves = Leaves::default();
        leaves.walk(value, "", 0);
        let own = leaves.list.iter().position(|(_, leaf)| self.number(leaf).is_some());
        let at = own.or_else(|| {
            let mut list = leaves.list.iter();
            let is_file = |name: &str| matches!(name, "file_id" | "fileId");
            list.position(|(name, leaf)| is_medium && (is_address(leaf) || is_file(name)))
        })?;
        let (_, leaf) = leaves.list.remove(at);
        let declared = leaves.find(&["media_type", "mime_type", "mediaType", "mimeType"]);
        let mut media = match self.number(&leaf) {
            Some(number) => self.own(number),
            None => Media::remote(&leaf, declared.as_deref().unwrap_or_default()),
        };
        if media.content_type.is_empty() {
            media.label = family(value);
        }
        let is_type = |name: &str, leaf: &str| match name {
            // The type of the object is structure, not content.
            "type" => MEDIUM_TYPES.contains(&leaf),
            name => name.to_lowercase().contains("type") && leaf == media.content_type.raw(),
        };
        leaves.list.retain(|(name, leaf)| !is_type(name, leaf));
        let names = ["filename", "file_name", "fileName", "name"];
        if let Some(at) = leaves.list.iter().position(|(name, _)| names.contains(&name.as_str())) {
            media.name = Some(self.line(&leaves.list.remove(at).1));
        }
        Some(MediumDescription { media, facts: leaves.list, is_whole: leaves.is_whole })
    }

    /// A text that consists of a single medium.
    pub(super) fn only(media: Media) -> Fold {
        let mut fold = Fold::new("", Style::Plain, Window::default());
        fold.is_blank = true;
        fold.media = vec![media];
        fold
    }
}

/// A text shown outside of values, such as a status message or a comment, with media replaced by labels.
pub(crate) fn display_text(text: &str) -> Text {
    Text::lines(without_media(text))
}

/// An object as indented JSON with media replaced by labels.
pub(crate) fn json_without_media(map: &Map<String, Value>) -> Option<String> {
    let mut value = Value::Object(map.clone());
    let taken = inline::take(&mut value);
    let json = serde_json::to_string_pretty(&value).ok()?;
    let no_urls = Addresses::default();
    Some(Source::new(taken, &no_urls).labelled(&json).text)
}

/// Replaces media in a text by labels.
pub(crate) fn without_media(text: &str) -> String {
    let mut value = Value::String(text.to_owned());
    let taken = inline::take(&mut value);
    match value {
        Value::String(text) if !taken.found.is_empty() => {
            Source::new(taken, &Addresses::default()).labelled(&text).text
        }
        _ => text.to_owned(),
    }
}

/// A value as text with media replaced by labels, the first `n_shown` media, and the number of the others.
pub(crate) fn separate_media(
    value: &Value,
    at: &Addresses,
    n_shown: usize,
) -> (String, Vec<Media>, usize) {
    let payload = Payload::from_value(value.clone());
    let mut value = read(&payload);
    let taken = inline::take(&mut value);
    if taken.found.is_empty() {
        return (payload.into_text(), Vec::new(), 0);
    }
    let source = Source::new(taken, at);
    let labelled = match value {
        Value::String(text) => source.labelled(&text),
        other => source.labelled(&other.to_string()),
    };
    let (media, n_more) = source.media(labelled.media, n_shown);
    (labelled.text, media, n_more)
}

/// A text in which labels replace media.
struct LabelledText {
    text: String,
    /// Indexes of the media.
    media: Vec<usize>,
    /// The text consists of media only.
    is_blank: bool,
}

/// A medium and the other members of its object.
pub(super) struct MediumDescription {
    pub(super) media: Media,
    pub(super) facts: Vec<(String, String)>,
    /// Whether `facts` contains all other members.
    pub(super) is_whole: bool,
}

/// The scalar members of an object and its nested objects.
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
            // Lists are not summarized.
            Value::Array(items) => self.is_whole &= items.is_empty(),
            Value::String(text) if is_address(text) => {
                self.list.push((name.to_owned(), text.clone()));
            }
            other => match short(other) {
                Some(text) => self.list.push((name.to_owned(), text)),
                None => self.is_whole &= is_empty(other),
            },
        }
    }

    fn find(&self, names: &[&str]) -> Option<String> {
        let found = self.list.iter().find(|(name, _)| names.contains(&name.as_str()));
        found.map(|(_, leaf)| leaf.clone())
    }
}
