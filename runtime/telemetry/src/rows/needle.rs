//! Excludes rows before their content is parsed, by a text that each matching row must contain.

use perpend_domain::filter::{Condition, Test, TextOp};

/// Whether a condition is on the column of this id.
#[must_use]
pub fn is_on(condition: &Condition, id: &str) -> bool {
    condition.column.is_some_and(|column| column.id == id)
}

/// A text that a matching row must contain.
#[derive(Debug)]
pub struct Needle {
    /// In lower case if `in_any_case`.
    text: String,
    in_any_case: bool,
    /// Whether the id or the name may contain it instead of the content.
    is_search: bool,
}

impl Needle {
    /// `None` if the condition has no text, or a text with characters that JSON may escape.
    #[must_use]
    pub fn of(condition: &Condition) -> Option<Self> {
        let literal = |text: &str| !text.is_empty() && text.chars().all(is_literal);
        match &condition.test {
            Test::MemberText(key, ..) | Test::MemberNumber(key, ..) | Test::MemberIsSet(key)
                if is_on(condition, "metadata") =>
            {
                let head = key.split('.').next().filter(|head| literal(head))?;
                Some(Self { text: format!("\"{head}"), in_any_case: false, is_search: false })
            }
            Test::Text(op, value) => {
                let is_search = is_on(condition, "text");
                if !is_search && !is_on(condition, "input") && !is_on(condition, "output") {
                    return None;
                }
                let in_any_case = match op {
                    TextOp::Equal | TextOp::Contains | TextOp::StartsWith | TextOp::EndsWith => {
                        false
                    }
                    TextOp::MatchesAnyCase => true,
                    TextOp::DoesNotContain => return None,
                };
                let text = match in_any_case {
                    true => value.to_lowercase(),
                    false => value.clone(),
                };
                literal(&text).then_some(Self { text, in_any_case, is_search })
            }
            _ => None,
        }
    }

    fn is_in(&self, text: &str) -> bool {
        match self.in_any_case {
            true => text.to_lowercase().contains(&self.text),
            false => text.contains(&self.text),
        }
    }

    /// Whether a row with this content, in its stored form, may match.
    #[must_use]
    pub fn may_be_in(&self, id: &str, name: &str, content: &str) -> bool {
        let is_in_row = self.is_search && (self.is_in(id) || self.is_in(name));
        is_in_row || self.is_in(content) || has_escaped_literal(content)
    }
}

const fn is_literal(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ')
}

/// Whether a character of needles, in either case, may be written as an escape in the JSON of a payload. The
/// escape of a backslash counts too: in JSON inside a string it starts another escape.
fn has_escaped_literal(content: &str) -> bool {
    content.match_indices("\\u").any(|(at, _)| {
        let code = content.get(at + 2..at + 6).unwrap_or_default();
        let code = u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
        code.is_some_and(|c| c == '\\' || c.to_lowercase().any(is_literal))
    })
}
