//! The nodes of a recorded value, located in its JSON text. JSON inside strings is parsed like in mappings, so that a path
//! copied from a page selects the same node in a mapping.

use std::rc::Rc;

use perpend_domain::mapping::{MAX_OPENINGS, NodePath, PathSegment, opens};
use perpend_domain::payload::Payload;
use serde_json::value::RawValue;

use crate::format::json::{Extent, Members, extent};

/// The type of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    List,
    Text,
    Number,
    Boolean,
    Null,
}

/// A node of a value.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The text that contains the node: plain text if `is_plain`, else JSON.
    text: Rc<str>,
    at: Extent,
    is_plain: bool,
    is_root: bool,
    /// Remaining levels of JSON inside strings to parse.
    n_left: u32,
    /// The node was parsed from a string.
    pub(super) is_parsed: bool,
}

impl Node {
    /// The root of a value.
    pub(super) fn of(payload: &Payload) -> Self {
        let text: Rc<str> = Rc::from(payload.as_str());
        let is_plain = matches!(payload, Payload::Text(_));
        let at = match is_plain {
            true => Extent::default(),
            false => extent(&text, 0),
        };
        Self { text, at, is_plain, is_root: true, n_left: MAX_OPENINGS, is_parsed: false }
    }

    pub(super) fn kind(&self) -> Kind {
        if self.is_plain {
            return Kind::Text;
        }
        match self.json().as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::List,
            Some(b'"') => Kind::Text,
            Some(b't' | b'f') => Kind::Boolean,
            Some(b'n') | None => Kind::Null,
            Some(_) => Kind::Number,
        }
    }

    pub(super) fn holds_others(&self) -> bool {
        matches!(self.kind(), Kind::Object | Kind::List)
    }

    /// Remaining levels of JSON inside strings to parse below the node.
    pub(super) fn n_left(&self) -> u32 {
        self.n_left
    }

    /// Number of members or elements.
    pub(super) fn n(&self) -> usize {
        self.at.n
    }

    /// The node as recorded: a string as text, anything else as JSON.
    pub(super) fn payload(&self) -> Payload {
        match self.string() {
            Some(text) => Payload::Text(text),
            None => Payload::Json(self.json().to_owned()),
        }
    }

    /// The JSON of the node, or the text of a plain text value.
    pub(super) fn json(&self) -> &str {
        match self.is_plain {
            true => &self.text,
            false => self.text.get(self.at.start..self.at.end).unwrap_or(""),
        }
    }

    /// The text of a string node.
    pub(super) fn string(&self) -> Option<String> {
        match self.kind() {
            Kind::Text if self.is_plain => Some(self.text.to_string()),
            Kind::Text => Some(unquoted(self.json())),
            _ => None,
        }
    }

    /// Parses JSON inside a string, repeatedly. Returns other nodes unchanged.
    pub(super) fn opened(mut self) -> Self {
        while let Some(text) = self.string() {
            // The root value is parsed regardless of its length.
            let is_whole = || {
                let start = text.trim_start();
                start.starts_with(['{', '[']) && serde_json::from_str::<&RawValue>(&text).is_ok()
            };
            if !(opens(&text, self.n_left) || self.is_root && is_whole()) {
                break;
            }
            let text: Rc<str> = Rc::from(text);
            self = Self {
                at: extent(&text, 0),
                text,
                is_plain: false,
                is_root: false,
                n_left: self.n_left.saturating_sub(1),
                is_parsed: true,
            };
        }
        self
    }

    /// The children from index `from` on. Does not parse JSON inside strings; see [`Self::opened`].
    pub(super) fn members(&self, from: usize) -> impl Iterator<Item = (PathSegment, Self)> {
        let is_object = self.kind() == Kind::Object;
        let all = self.holds_others().then(|| self.starts());
        let all = all.into_iter().flatten().enumerate().skip(from);
        all.map(move |(index, (name, start))| {
            let segment = match is_object {
                true => PathSegment::Name(unquoted(name)),
                false => PathSegment::Index(index),
            };
            (segment, self.below(start))
        })
    }

    fn starts(&self) -> Members<'_> {
        Members::of(&self.text, self.at.start)
    }

    fn below(&self, start: usize) -> Self {
        Self { at: extent(&self.text, start), is_parsed: false, is_root: false, ..self.clone() }
    }

    /// The node at a relative path, with [`Self::opened`] applied. Reads the text only up to the node, so a long path costs no
    /// more than a short one.
    pub(super) fn at(self, path: &NodePath) -> Option<Self> {
        let mut node = self.opened();
        for segment in &path.0 {
            let mut starts = node.starts();
            let found = match (segment, node.kind()) {
                (PathSegment::Index(index), Kind::List) => starts.nth(*index),
                (PathSegment::Name(expected), Kind::Object) => {
                    starts.find(|(name, _)| has_name(name, expected))
                }
                _ => None,
            };
            let (_, start) = found?;
            node.is_parsed = false;
            node.is_root = false;
            node.at = Extent { start, end: node.text.len(), n: 0 };
            if node.kind() == Kind::Text {
                node.at = extent(&node.text, start);
                node = node.opened();
            }
        }
        if !node.is_plain && !path.0.is_empty() {
            node.at = extent(&node.text, node.at.start);
        }
        Some(node)
    }
}

/// The text of a JSON string. Returns invalid or truncated strings without their quotes.
pub(super) fn unquoted(json: &str) -> String {
    serde_json::from_str(json).unwrap_or_else(|_| json.trim_matches('"').to_owned())
}

fn has_name(json: &str, expected: &str) -> bool {
    match json.contains('\\') {
        true => unquoted(json) == expected,
        false => json.get(1..json.len().saturating_sub(1)) == Some(expected),
    }
}

#[cfg(test)]
mod tests {
    use perpend_domain::mapping::{JsonPath, MappingBudget, extract, open};
    use serde_json::{Value, json};

    use super::*;

    fn value(node: &Node) -> Value {
        node.payload().to_value()
    }

    fn opened(value: Value) -> Value {
        open(value, &mut MappingBudget::default()).unwrap()
    }

    #[test]
    fn paths_select_the_same_nodes_as_in_mappings() {
        let inner =
            json!({"city": "Oslo", "deep": "[{\"x\":\"{\\\"y\\\":1}\"}]", "n": "7"}).to_string();
        let whole = json!({
            "a": [1, 2.5, "x", null, true, {"it's\n": "é", "": []}],
            "arguments": inner,
            "b\"\\c": {"d": {"e": "text"}},
        });
        // A text that is JSON as a whole counts as one of the three parsed levels.
        for (payload, n_nodes) in
            [(Payload::from_value(whole.clone()), 20), (Payload::Text(format!(" {whole} ")), 19)]
        {
            let mut pending = vec![(NodePath::default(), Node::of(&payload).opened())];
            let mut n = 0;
            while let Some((path, node)) = pending.pop() {
                n += 1;
                let own = JsonPath::parse(&path.to_string()).unwrap();
                let mapped =
                    extract(&opened(payload.to_value()), Some(&own), &mut MappingBudget::default());
                let mapped = mapped.unwrap().map(opened);
                assert_eq!(mapped, Some(opened(value(&node))), "{path}");
                let again = Node::of(&payload).at(&path).unwrap();
                assert_eq!(value(&again), value(&node), "{path}");
                assert_eq!(again.n(), node.n());
                pending.extend(
                    node.members(0).map(|(segment, below)| (path.below(segment), below.opened())),
                );
            }
            assert_eq!(n, n_nodes);
        }
    }

    #[test]
    fn missing_path_returns_none() {
        let payload = Payload::from_value(json!({"a": [1], "b": "text"}));
        for path in ["$['c']", "$['a'][1]", "$['a']['x']", "$[0]", "$['b']['x']", "$['b'][0]"] {
            assert!(Node::of(&payload).at(&path.parse().unwrap()).is_none(), "{path}");
        }
    }

    #[test]
    fn deep_and_wide_values_are_supported() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let path = NodePath(vec![PathSegment::Index(0); 99_999]);
        let node = Node::of(&Payload::Json(deep)).at(&path).unwrap();
        assert_eq!(node.json(), "[]");
        let wide = format!("[{}1]", "0,".repeat(1_000_000));
        let node = Node::of(&Payload::Json(wide));
        assert_eq!(node.n(), 1_000_001);
        let last = node.at(&NodePath(vec![PathSegment::Index(1_000_000)])).unwrap();
        assert_eq!(last.json(), "1");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_accepted(json in r#"[\[\]{}":,\\a1é ]{0,60}"#) {
            let node = Node::of(&Payload::Json(json)).opened();
            for (_, below) in node.members(0).take(50) {
                let _ = (below.payload(), below.opened().kind());
            }
        }
    }
}
