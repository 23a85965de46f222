//! The path of a node in a JSON value, written as a normalized path of RFC 9535, which mappings accept.

use std::fmt::{self, Write as _};
use std::str::{Chars, FromStr};

/// One step into a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathSegment {
    /// The member of an object with this name.
    Name(String),
    /// The element of an array, from 0.
    Index(usize),
}

/// The steps from the root of a value to one of its nodes. `$['a'][3]` as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePath(pub Vec<PathSegment>);

/// The text is not a normalized path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a normalized path (RFC 9535), such as $['a'][3]")]
pub struct InvalidNodePath;

impl NodePath {
    /// The path of a node below this one.
    #[must_use]
    pub fn below(&self, step: PathSegment) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

impl fmt::Display for PathSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Index(index) => return write!(f, "[{index}]"),
            Self::Name(name) => name,
        };
        f.write_str("['")?;
        for c in name.chars() {
            match c {
                '\u{8}' => f.write_str("\\b")?,
                '\t' => f.write_str("\\t")?,
                '\n' => f.write_str("\\n")?,
                '\u{c}' => f.write_str("\\f")?,
                '\r' => f.write_str("\\r")?,
                '\'' => f.write_str("\\'")?,
                '\\' => f.write_str("\\\\")?,
                '\0'..='\u{1f}' => write!(f, "\\u{:04x}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        f.write_str("']")
    }
}

impl fmt::Display for NodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('$')?;
        self.0.iter().try_for_each(|step| write!(f, "{step}"))
    }
}

impl FromStr for NodePath {
    type Err = InvalidNodePath;

    fn from_str(raw: &str) -> Result<Self, InvalidNodePath> {
        let mut rest = raw.strip_prefix('$').ok_or(InvalidNodePath)?.chars();
        let mut steps = Vec::new();
        while let Some(c) = rest.next() {
            if c != '[' {
                return Err(InvalidNodePath);
            }
            steps.push(step(&mut rest)?);
        }
        Ok(Self(steps))
    }
}

/// A step, its opening bracket left out.
fn step(rest: &mut Chars<'_>) -> Result<PathSegment, InvalidNodePath> {
    if let Some(name) = rest.as_str().strip_prefix('\'') {
        *rest = name.chars();
        let mut name = String::new();
        loop {
            match rest.next().ok_or(InvalidNodePath)? {
                '\'' => break,
                '\\' => name.push(escaped(rest)?),
                '\0'..='\u{1f}' => return Err(InvalidNodePath),
                c => name.push(c),
            }
        }
        return match rest.next() {
            Some(']') => Ok(PathSegment::Name(name)),
            _ => Err(InvalidNodePath),
        };
    }
    let (digits, behind) = rest.as_str().split_once(']').ok_or(InvalidNodePath)?;
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_usual = digits == "0" || !digits.starts_with('0');
    let index = digits.parse().map_err(|_| InvalidNodePath)?;
    *rest = behind.chars();
    (is_plain && is_usual).then_some(PathSegment::Index(index)).ok_or(InvalidNodePath)
}

fn escaped(rest: &mut Chars<'_>) -> Result<char, InvalidNodePath> {
    Ok(match rest.next().ok_or(InvalidNodePath)? {
        'b' => '\u{8}',
        't' => '\t',
        'n' => '\n',
        'f' => '\u{c}',
        'r' => '\r',
        c @ ('\'' | '\\') => c,
        'u' => {
            let digits = rest.as_str().get(..4).ok_or(InvalidNodePath)?;
            let code = u32::from_str_radix(digits, 16).map_err(|_| InvalidNodePath)?;
            *rest = rest.as_str()[4..].chars();
            char::from_u32(code).filter(|c| *c < ' ').ok_or(InvalidNodePath)?
        }
        _ => return Err(InvalidNodePath),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::mapping::{JsonPath, MappingBudget, extract};

    #[test]
    fn a_path_is_written_as_the_standard_normalizes_it() {
        let name = |name: &str| PathSegment::Name(name.to_owned());
        let path = NodePath(vec![name("a"), PathSegment::Index(3), name("it's \\ \u{b}\n\"é")]);
        let text = path.to_string();
        assert_eq!(text, "$['a'][3]['it\\'s \\\\ \\u000b\\n\"é']");
        assert_eq!(text.parse(), Ok(path));
        assert_eq!("$".parse(), Ok(NodePath::default()));
    }

    #[test]
    fn a_path_that_is_not_normalized_is_rejected() {
        for raw in [
            "",
            "a",
            "$.a",
            "$[\"a\"]",
            "$[",
            "$[]",
            "$[01]",
            "$[-1]",
            "$[+1]",
            "$[*]",
            "$['a'",
            "$['a]",
            "$['a']x",
            "$['\\x']",
            "$['\\u0041']",
            "$['\\ud800']",
            "$['\\u00']",
            "$..['a']",
            "$['\n']",
            "$[99999999999999999999]",
            "$['\\u00é1']",
        ] {
            assert_eq!(raw.parse::<NodePath>(), Err(InvalidNodePath), "{raw}");
        }
    }

    proptest! {
        #[test]
        fn a_path_selects_its_node_in_a_mapping(names in prop::collection::vec(any::<String>(), 1..4), at in 0usize..4) {
            let mut value = json!("found");
            let mut steps = Vec::new();
            for name in names.iter().rev() {
                let mut list = vec![Value::Null; at];
                list.push(value);
                value = json!({ "other": 1 });
                value[name.as_str()] = Value::Array(list);
                steps.splice(0..0, [PathSegment::Name(name.clone()), PathSegment::Index(at)]);
            }
            let path = NodePath(steps);
            let text = path.to_string();
            prop_assert_eq!(text.parse::<NodePath>(), Ok(path));
            let path = JsonPath::parse(&text).unwrap();
            let selected = extract(&value, Some(&path), &mut MappingBudget::default());
            prop_assert_eq!(selected, Ok(Some(json!("found"))));
        }

        #[test]
        fn any_text_is_read_or_refused(raw in r"\$?[\[\]'\\u0-9a-f$é]{0,20}") {
            if let Ok(path) = raw.parse::<NodePath>() {
                prop_assert_eq!(path.to_string().parse::<NodePath>(), Ok(path));
            }
        }
    }
}
