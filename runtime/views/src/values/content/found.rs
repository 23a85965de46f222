//! Where in a value a text stands: the whole of it is read, JSON inside strings too, and the answer is a list of paths.

use perpend_domain::mapping::{NodePath, PathSegment, opens};
use perpend_domain::text_search::{Excerpt, TextPattern};

use super::fold::SHOWN_BYTES;
use super::form::Form;
use super::media::{Addresses, MAX_PATH};
use super::node::{Node, unquoted};
use super::source::without_media;
use crate::Text;
use crate::format::json::{behind_spaces, behind_string, extent};

use crate::trace::around::Around;

/// The shortest step is `[0]`: more of them make a path too long.
const MAX_STEPS: usize = MAX_PATH / 3 + 1;
/// Places that are listed, and of these in one text.
const PLACES: usize = 100;
const IN_TEXT: usize = 20;
/// What is shown before a place far inside a text.
const BEFORE: usize = 400;

/// Where a text stands in a value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    pub(crate) list: Vec<Place>,
    /// There are more.
    pub(crate) has_more: bool,
    /// Of one text not all are listed.
    pub(crate) is_partial: bool,
}

/// A place where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) path: Text,
    pub(crate) href: String,
    /// It stands in the key, not in what is there.
    pub(crate) is_key: bool,
    pub(crate) around: Around,
}

impl Places {
    /// Where this text stands in a node, in any case.
    pub(super) fn of(node: &Node, path: &NodePath, at: &Addresses, text: &str) -> Self {
        let Some(sought) = TextPattern::new(text) else {
            return Self::default();
        };
        let mut search = Search { sought, at, places: Self::default() };
        match (node.holds_others(), node.string()) {
            (false, Some(whole)) => search.value(&path.0, &whole),
            _ => search.json(node.json(), &|| path.0.clone(), node.n_left()),
        }
        search.places
    }
}

struct Search<'s> {
    sought: TextPattern,
    at: &'s Addresses,
    places: Places,
}

/// An object or array that is being read.
struct Frame<'t> {
    is_object: bool,
    index: usize,
    /// Of the member that is being read, as it is written.
    name: &'t str,
    /// A name comes next.
    is_before_name: bool,
}

impl Search<'_> {
    fn json(&mut self, json: &str, base: &dyn Fn() -> Vec<PathSegment>, n_left: u32) {
        let bytes = json.as_bytes();
        let mut frames: Vec<Frame<'_>> = Vec::new();
        let mut at = behind_spaces(bytes, 0);
        while let Some(byte) = bytes.get(at).filter(|_| !self.places.has_more) {
            let from = at;
            at += 1;
            match byte {
                b'{' | b'[' => frames.push(Frame {
                    is_object: *byte == b'{',
                    index: 0,
                    name: "",
                    is_before_name: true,
                }),
                b'}' | b']' => {
                    frames.pop();
                }
                b',' => {
                    if let Some(frame) = frames.last_mut() {
                        frame.index += 1;
                        frame.is_before_name = true;
                    }
                }
                b':' => {}
                b'"' => {
                    at = behind_string(bytes, from);
                    let written = json.get(from..at).unwrap_or_default();
                    let string = unquoted(written);
                    let frame = frames.last_mut();
                    match frame.filter(|frame| frame.is_object && frame.is_before_name) {
                        Some(frame) => {
                            frame.name = written;
                            frame.is_before_name = false;
                            self.key(&|| steps(base, &frames), &string);
                        }
                        None if opens(&string, n_left) => {
                            self.json(&string, &|| steps(base, &frames), n_left - 1);
                        }
                        None if self.holds(&string) => self.value(&steps(base, &frames), &string),
                        None => {}
                    }
                }
                _ => {
                    at = extent(json, from).end.max(at);
                    let word = json.get(from..at).unwrap_or_default();
                    if self.holds(word) {
                        self.value(&steps(base, &frames), word);
                    }
                }
            }
            at = behind_spaces(bytes, at);
        }
    }

    fn holds(&self, whole: &str) -> bool {
        self.sought.first(whole).is_some()
    }

    fn key(&mut self, steps: &dyn Fn() -> Vec<PathSegment>, name: &str) {
        if let Some(found) = self.sought.first(name) {
            let place = self.place(&steps(), Excerpt::of(name, found).into(), "&as=tree");
            self.push(Place { is_key: true, ..place });
        }
    }

    fn value(&mut self, steps: &[PathSegment], whole: &str) {
        let whole = without_media(whole);
        let mut from = 0;
        for _ in 0..IN_TEXT {
            let rest = whole.get(from..).unwrap_or_default();
            let Some((start, end)) = self.sought.first(rest) else {
                return;
            };
            let found = (from + start, from + end);
            let form = match found.0 < SHOWN_BYTES - BEFORE {
                true => format!("&as={}", Form::Text.name()),
                false => format!("&as={}&from={}", Form::Text.name(), found.0 - BEFORE),
            };
            let place = self.place(steps, Excerpt::of(&whole, found).into(), &form);
            self.push(place);
            from = found.1;
        }
        let rest = whole.get(from..).unwrap_or_default();
        self.places.is_partial |= self.sought.first(rest).is_some();
    }

    fn place(&self, steps: &[PathSegment], around: Around, form: &str) -> Place {
        let mut path = String::from("$");
        let mut form = form;
        for step in steps {
            let step = step.to_string();
            if MAX_PATH < path.len() + step.len() {
                form = "&as=tree";
                break;
            }
            path.push_str(&step);
        }
        Place { href: self.at.at(&path).page(form), path: Text::from(path), is_key: false, around }
    }

    fn push(&mut self, place: Place) {
        match self.places.list.len() < PLACES {
            true => self.places.list.push(place),
            false => self.places.has_more = true,
        }
    }
}

/// The steps to what is being read, no more of them than an address holds.
fn steps(base: &dyn Fn() -> Vec<PathSegment>, frames: &[Frame<'_>]) -> Vec<PathSegment> {
    let own = frames.iter().take(MAX_STEPS).map(|frame| match frame.is_object {
        true => PathSegment::Name(unquoted(frame.name)),
        false => PathSegment::Index(frame.index),
    });
    base().into_iter().chain(own).collect()
}

#[cfg(test)]
mod tests {
    use perpend_domain::payload::Payload;
    use serde_json::{Value, json};

    use super::*;

    fn places(payload: &Payload, text: &str) -> Places {
        let node = Node::of(payload).opened();
        let at = Addresses::new("/p", "t", None, "input");
        Places::of(&node, &NodePath::default(), &at, text)
    }

    fn paths(value: Value, text: &str) -> Vec<String> {
        let places = places(&Payload::from_value(value), text);
        let line = |place: Place| {
            let key = if place.is_key { " key" } else { "" };
            format!("{}{key}", place.path)
        };
        places.list.into_iter().map(line).collect()
    }

    #[test]
    fn keys_texts_and_numbers_are_found_in_any_case_at_their_paths() {
        let value = json!({
            "Needle": [0, {"x": "a needle, a NEEDLE"}],
            "arguments": "{\"deep\":[\"no\",\"needle\"]}",
            "n": 1234,
        });
        let expected = [
            "$['Needle'] key",
            "$['Needle'][1]['x']",
            "$['Needle'][1]['x']",
            "$['arguments']['deep'][1]",
        ];
        assert_eq!(paths(value.clone(), "needle"), expected);
        assert_eq!(paths(value.clone(), "23"), ["$['n']"]);
        assert!(paths(value.clone(), "nothing").is_empty() && paths(value, "").is_empty());
    }

    #[test]
    fn a_place_far_inside_a_text_leads_to_that_part_of_it() {
        let text = format!("{}needle", "é".repeat(100_000));
        let found = places(&Payload::Text(text), "needle");
        assert_eq!(found.list[0].href, "/p/value?trace=t&part=input&as=text&from=199600");
    }

    #[test]
    fn many_places_and_deep_ones_are_bounded() {
        let many: Vec<&str> = vec!["needle"; 1_000];
        let found = places(&Payload::from_value(json!(many)), "needle");
        assert!(found.list.len() == PLACES && found.has_more);
        let deep = format!("{}\"needle\"{}", "[".repeat(10_000), "]".repeat(10_000));
        let found = places(&Payload::Json(deep), "needle");
        assert!(found.list[0].path.raw().len() <= MAX_PATH);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_searched(json in r#"[\[\]{}":,\\a1é ]{0,60}"#) {
            let _ = places(&Payload::Json(json), "a");
        }
    }
}
