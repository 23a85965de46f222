//! Text search in a value. Searches the complete value, including JSON inside strings, and returns the paths of the matches.

use perpend_domain::mapping::{NodePath, PathSegment, opens};
use perpend_domain::text_search::{Excerpt, TextPattern};

use super::fold::SHOWN_BYTES;
use super::form::Form;
use super::media::{Addresses, MAX_PATH};
use super::node::{Node, unquoted};
use super::source::without_media;
use crate::Text;
use crate::format::json::{extent, skip_spaces, string_end};

use crate::trace::match_excerpt::MatchExcerpt;

/// The shortest segment is `[0]`, so a path with more segments exceeds `MAX_PATH`.
const MAX_SEGMENTS: usize = MAX_PATH / 3 + 1;
/// Maximum number of listed matches, and of listed matches per string.
const MAX_MATCHES: usize = 100;
const MAX_MATCHES_IN_TEXT: usize = 20;
/// Bytes shown before a match in a long string.
const CONTEXT_BYTES: usize = 400;

/// The matches of a search.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextMatches {
    pub(crate) list: Vec<TextMatch>,
    /// The list reached its limit.
    pub(crate) has_more: bool,
    /// A string has more matches than are listed.
    pub(crate) is_partial: bool,
}

/// A match and its context.
#[derive(Clone, Debug)]
pub(crate) struct TextMatch {
    pub(crate) path: Text,
    pub(crate) href: String,
    /// The match is in a key, not in a value.
    pub(crate) is_key: bool,
    pub(crate) around: MatchExcerpt,
}

impl TextMatches {
    /// Searches a node, ignoring case.
    pub(super) fn of(node: &Node, path: &NodePath, at: &Addresses, text: &str) -> Self {
        let Some(pattern) = TextPattern::new(text) else {
            return Self::default();
        };
        let mut search = Search { pattern, at, matches: Self::default() };
        match (node.holds_others(), node.string()) {
            (false, Some(whole)) => search.value(&path.0, &whole),
            _ => search.json(node.json(), &|| path.0.clone(), node.n_left()),
        }
        search.matches
    }
}

struct Search<'s> {
    pattern: TextPattern,
    at: &'s Addresses,
    matches: TextMatches,
}

/// An enclosing object or array of the read position.
struct Frame<'t> {
    is_object: bool,
    index: usize,
    /// JSON text of the name of the current member.
    name: &'t str,
    /// The next string is a member name.
    is_before_name: bool,
}

impl Search<'_> {
    fn json(&mut self, json: &str, base: &dyn Fn() -> Vec<PathSegment>, n_left: u32) {
        let bytes = json.as_bytes();
        let mut frames: Vec<Frame<'_>> = Vec::new();
        let mut at = skip_spaces(bytes, 0);
        while let Some(byte) = bytes.get(at).filter(|_| !self.matches.has_more) {
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
                    at = string_end(bytes, from);
                    let written = json.get(from..at).unwrap_or_default();
                    let string = unquoted(written);
                    let frame = frames.last_mut();
                    match frame.filter(|frame| frame.is_object && frame.is_before_name) {
                        Some(frame) => {
                            frame.name = written;
                            frame.is_before_name = false;
                            self.key(&|| segments(base, &frames), &string);
                        }
                        None if opens(&string, n_left) => {
                            self.json(&string, &|| segments(base, &frames), n_left - 1);
                        }
                        None if self.holds(&string) => {
                            self.value(&segments(base, &frames), &string)
                        }
                        None => {}
                    }
                }
                _ => {
                    at = extent(json, from).end.max(at);
                    let word = json.get(from..at).unwrap_or_default();
                    if self.holds(word) {
                        self.value(&segments(base, &frames), word);
                    }
                }
            }
            at = skip_spaces(bytes, at);
        }
    }

    fn holds(&self, whole: &str) -> bool {
        self.pattern.first(whole).is_some()
    }

    fn key(&mut self, segments: &dyn Fn() -> Vec<PathSegment>, name: &str) {
        if let Some(found) = self.pattern.first(name) {
            let text_match =
                self.text_match(&segments(), Excerpt::of(name, found).into(), "&as=tree");
            self.push(TextMatch { is_key: true, ..text_match });
        }
    }

    fn value(&mut self, segments: &[PathSegment], whole: &str) {
        let whole = without_media(whole);
        let mut from = 0;
        for _ in 0..MAX_MATCHES_IN_TEXT {
            let rest = whole.get(from..).unwrap_or_default();
            let Some((start, end)) = self.pattern.first(rest) else {
                return;
            };
            let found = (from + start, from + end);
            let form = match found.0 < SHOWN_BYTES - CONTEXT_BYTES {
                true => format!("&as={}", Form::Text.name()),
                false => format!("&as={}&from={}", Form::Text.name(), found.0 - CONTEXT_BYTES),
            };
            let text_match = self.text_match(segments, Excerpt::of(&whole, found).into(), &form);
            self.push(text_match);
            from = found.1;
        }
        let rest = whole.get(from..).unwrap_or_default();
        self.matches.is_partial |= self.pattern.first(rest).is_some();
    }

    fn text_match(&self, segments: &[PathSegment], around: MatchExcerpt, form: &str) -> TextMatch {
        let mut path = String::from("$");
        let mut form = form;
        for segment in segments {
            let segment = segment.to_string();
            if MAX_PATH < path.len() + segment.len() {
                form = "&as=tree";
                break;
            }
            path.push_str(&segment);
        }
        TextMatch {
            href: self.at.at(&path).page(form),
            path: Text::from(path),
            is_key: false,
            around,
        }
    }

    fn push(&mut self, text_match: TextMatch) {
        match self.matches.list.len() < MAX_MATCHES {
            true => self.matches.list.push(text_match),
            false => self.matches.has_more = true,
        }
    }
}

/// The path of the read position, limited to `MAX_SEGMENTS`.
fn segments(base: &dyn Fn() -> Vec<PathSegment>, frames: &[Frame<'_>]) -> Vec<PathSegment> {
    let own = frames.iter().take(MAX_SEGMENTS).map(|frame| match frame.is_object {
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

    fn matches(payload: &Payload, text: &str) -> TextMatches {
        let node = Node::of(payload).opened();
        let at = Addresses::new("/p", "t", None, "input");
        TextMatches::of(&node, &NodePath::default(), &at, text)
    }

    fn paths(value: Value, text: &str) -> Vec<String> {
        let matches = matches(&Payload::from_value(value), text);
        let line = |text_match: TextMatch| {
            let key = if text_match.is_key { " key" } else { "" };
            format!("{}{key}", text_match.path)
        };
        matches.list.into_iter().map(line).collect()
    }

    #[test]
    fn search_finds_keys_strings_and_numbers_in_any_case() {
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
    fn match_deep_in_a_string_links_to_that_part() {
        let text = format!("{}needle", "é".repeat(100_000));
        let found = matches(&Payload::Text(text), "needle");
        assert_eq!(found.list[0].href, "/p/value?trace=t&part=input&as=text&from=199600");
    }

    #[test]
    fn matches_and_path_lengths_are_limited() {
        let many: Vec<&str> = vec!["needle"; 1_000];
        let found = matches(&Payload::from_value(json!(many)), "needle");
        assert!(found.list.len() == MAX_MATCHES && found.has_more);
        let deep = format!("{}\"needle\"{}", "[".repeat(10_000), "]".repeat(10_000));
        let found = matches(&Payload::Json(deep), "needle");
        assert!(found.list[0].path.raw().len() <= MAX_PATH);
    }

    proptest::proptest! {
        #[test]
        fn search_accepts_any_text(json in r#"[\[\]{}":,\\a1é ]{0,60}"#) {
            let _ = matches(&Payload::Json(json), "a");
        }
    }
}
