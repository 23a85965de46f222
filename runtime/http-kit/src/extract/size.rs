//! Memory of a parsed JSON body, estimated before it is parsed: a body of small values is a tree many times its
//! size.

use serde_json::Value;

use crate::admission::ChargedBody;
use crate::problem::{Code, Problem};

/// Memory for a value in a tree: a list may have twice the capacity of its length.
const BYTES_PER_VALUE: usize = 3 * size_of::<Value>() / 2;
/// Memory for a member of an object, in addition to its value and its name.
const BYTES_PER_MEMBER: usize = 96;

/// Upper bounds of the values and members of a JSON text. Text that is not JSON gives an arbitrary number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    n_values: usize,
    n_members: usize,
}

impl Size {
    fn of(json: &[u8]) -> Self {
        let (mut n_values, mut n_members) = (1, 0);
        let (mut is_text, mut is_escaped) = (false, false);
        for byte in json {
            if is_text {
                match byte {
                    _ if is_escaped => is_escaped = false,
                    b'\\' => is_escaped = true,
                    b'"' => is_text = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => is_text = true,
                b',' | b'[' | b'{' => n_values += 1,
                b':' => n_members += 1,
                _ => {}
            }
        }
        Self { n_values, n_members }
    }

    const fn n_bytes(self, n_text_bytes: usize) -> usize {
        self.n_values * BYTES_PER_VALUE + self.n_members * BYTES_PER_MEMBER + n_text_bytes
    }
}

/// Charges the memory of the parsed body to the account of its request.
///
/// # Errors
/// 413 for more than `max_values`; the error of the account when the memory is in use.
pub(crate) fn charge(body: &ChargedBody, max_values: usize) -> Result<(), Problem> {
    let size = Size::of(&body.bytes);
    if max_values < size.n_values {
        let message = format!(
            "the body has more than {max_values} JSON values: send less in one request, or raise \
             api.max_body_values"
        );
        return Err(Problem::new(Code::TooLarge, message));
    }
    body.account.take(size.n_bytes(body.bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_members_are_counted_outside_of_texts() {
        for (json, n_values, n_members) in [
            ("", 1, 0),
            ("1", 1, 0),
            ("[1,1,1]", 4, 0),
            (r#"{"a":1,"b":[{},"x,:[{\",\\"]}"#, 6, 2),
            ("[[[[", 5, 0),
        ] {
            let size = Size { n_values, n_members };
            assert_eq!(Size::of(json.as_bytes()), size, "{json}");
        }
    }

    #[test]
    fn no_tree_has_more_values_than_were_counted() {
        fn count(value: &Value) -> usize {
            1 + match value {
                Value::Array(items) => items.iter().map(count).sum(),
                Value::Object(members) => members.values().map(count).sum(),
                _ => 0,
            }
        }
        for json in
            [r#"[1,[],{},[[]],{"a":{"b":[null,true]}}]"#, r#"{"a":[1,2,{"c":"d,e"}],"f":1.5e3}"#]
        {
            let tree: Value = serde_json::from_str(json).unwrap();
            assert!(count(&tree) <= Size::of(json.as_bytes()).n_values, "{json}");
        }
    }
}
