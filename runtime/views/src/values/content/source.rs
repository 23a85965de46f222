//! A value whose media were taken out, and how its texts are shown with the media in their places.

use std::borrow::Cow;
use std::rc::Rc;

use crate::markup::Text;
use perpend_domain::content::inline::{self, ExtractedMedia};
use perpend_domain::content::{beginning, is_empty};
use perpend_domain::payload::Payload;
use serde_json::{Map, Value};

use super::fold::{Fold, Further, Style, Window};
use super::form::Form;
use super::media::{Addresses, Media, family, is_address, read};
use crate::format::size;
use perpend_domain::content::fields::short;
use perpend_domain::content::kinds::MEDIUM_TYPES;

/// Media shown of one text or JSON value.
const MAX_SHOWN: usize = 100;

/// A value whose media were taken out, and where they are.
pub(super) struct Source<'a> {
    taken: Rc<ExtractedMedia>,
    at: &'a Addresses,
    /// What of each of its texts is shown.
    window: Window,
    /// How what is said in it is written.
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

    /// The same with at most so many bytes of each text, from its beginning.
    pub(super) fn texts(&self, n: usize) -> Source<'_> {
        Source {
            taken: Rc::clone(&self.taken),
            at: self.at,
            window: Window { from: 0, n },
            style: self.style,
        }
    }

    /// The same where programs speak, whose texts are no markdown.
    pub(super) fn plainly(&self) -> Source<'a> {
        Source {
            taken: Rc::clone(&self.taken),
            at: self.at,
            window: self.window,
            style: Style::Plain,
        }
    }

    /// The page of the value with these parameters.
    pub(super) fn page(&self, more: &str) -> String {
        self.at.page(more)
    }

    /// Whether there are any media in the value.
    pub(super) fn has_media(&self) -> bool {
        !self.taken.found.is_empty()
    }

    pub(super) fn text(&self, text: &str) -> Fold {
        self.fold(text, Style::Plain)
    }

    /// A value in a message of a person or a model: its text has markdown.
    pub(super) fn said(&self, value: &Value) -> Fold {
        match value {
            Value::String(text) => self.said_text(text),
            other => self.json(other),
        }
    }

    pub(super) fn said_text(&self, text: &str) -> Fold {
        self.fold(text, self.style)
    }

    pub(super) fn json(&self, value: &Value) -> Fold {
        match value {
            Value::String(text) => self.text(text),
            // A token has no character that JSON escapes.
            other => self.json_text(&other.to_string()),
        }
    }

    pub(super) fn json_text(&self, json: &str) -> Fold {
        self.fold(json, Style::Json)
    }

    pub(super) fn further(&self, members: Map<String, Value>) -> Option<Further> {
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
        found.map(|(name, value)| (self.line(name.as_ref()), self.line(&value))).collect()
    }

    /// The number of the medium that a text is the token of.
    fn number(&self, text: &str) -> Option<usize> {
        let mark = self.taken.mark;
        let number = text.strip_prefix(mark)?.strip_suffix(mark)?.parse().ok()?;
        (number < self.taken.found.len()).then_some(number)
    }

    /// The text with a label in place of each medium, another one for other bytes.
    pub(super) fn told_apart(&self, text: &str) -> String {
        let mark = self.taken.mark;
        let pieces = text.split(mark).enumerate();
        let labelled = pieces.map(|(at, piece)| {
            let number = (at % 2 == 1).then(|| piece.parse().ok()).flatten();
            let found = number.and_then(|number: usize| self.taken.found.get(number));
            match (number, found) {
                (Some(number), Some(found)) => {
                    let label = self.chip(number);
                    format!("{} {:016x}]", label.trim_end_matches(']'), found.print).into()
                }
                _ => Cow::Borrowed(piece),
            }
        });
        labelled.collect()
    }

    /// The text with a label in place of each medium.
    fn labelled(&self, text: &str) -> Labelled {
        let mark = self.taken.mark;
        let mut labelled =
            Labelled { text: String::with_capacity(text.len()), media: Vec::new(), is_blank: true };
        for (at, piece) in text.split(mark).enumerate() {
            let number =
                (at % 2 == 1).then(|| self.number(&format!("{mark}{piece}{mark}"))).flatten();
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

    /// The whole value as a text of which the rest is at hand.
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
            // Which node of the value it is is not known here: its tree has all of them.
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

    /// As many of these as are shown, and how many more there are.
    fn media(&self, mut numbers: Vec<usize>, n_shown: usize) -> (Vec<Media>, usize) {
        // Bytes of no known type are no more to look at than their size.
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
    /// An address of another server, or the id of a file that a provider keeps, counts only where `is_medium`.
    pub(super) fn described(&self, value: &Value, is_medium: bool) -> Option<Described> {
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
        let said = |name: &str, leaf: &str| match name {
            // How to read the object, and nothing else.
            "type" => MEDIUM_TYPES.contains(&leaf),
            name => name.to_lowercase().contains("type") && leaf == media.content_type.raw(),
        };
        leaves.list.retain(|(name, leaf)| !said(name, leaf));
        let names = ["filename", "file_name", "fileName", "name"];
        if let Some(at) = leaves.list.iter().position(|(name, _)| names.contains(&name.as_str())) {
            media.name = Some(self.line(&leaves.list.remove(at).1));
        }
        Some(Described { media, facts: leaves.list, is_whole: leaves.is_whole })
    }

    /// A fold that holds a medium and nothing else.
    pub(super) fn only(media: Media) -> Fold {
        let mut fold = Fold::new("", Style::Plain, Window::default());
        fold.is_blank = true;
        fold.media = vec![media];
        fold
    }
}

/// Words that are shown outside of values: a status, a comment. Each medium in them is a label.
pub(crate) fn worded(text: &str) -> Text {
    Text::lines(without_media(text))
}

/// An object as indented JSON with a label in place of each medium.
pub(crate) fn json_without_media(map: &Map<String, Value>) -> Option<String> {
    let mut value = Value::Object(map.clone());
    let taken = inline::take(&mut value);
    let json = serde_json::to_string_pretty(&value).ok()?;
    let nowhere = Addresses::default();
    Some(Source::new(taken, &nowhere).labelled(&json).text)
}

/// A text with a label in place of each medium.
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

/// The value at an address as a text with a label in place of each medium; so many of these media, and how many more there are.
pub(crate) fn beside_media(
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
