//! Validation errors of input, in one form for all checks.

use std::fmt;

use serde_json::Value;

/// A validation error. Checks of filters and variable mappings have more detailed errors
/// ([`FilterError`](crate::filter::FilterError), [`MappingError`](crate::mapping::MappingError)).
#[derive(Clone, Debug, PartialEq)]
pub struct Issue {
    /// Keys and indices down to the field; empty for the whole.
    pub path: Vec<Value>,
    /// The problem and the expectation.
    pub message: String,
}

impl Issue {
    /// An issue with one field; `a.b[0]` style paths stay one key.
    pub fn new(field: &str, message: impl Into<String>) -> Self {
        Self {
            path: if field.is_empty() { Vec::new() } else { vec![field.into()] },
            message: message.into(),
        }
    }

    /// Its path as `a.b[0]`.
    #[must_use]
    pub fn field(&self) -> String {
        let mut text = String::new();
        for part in &self.path {
            match part {
                Value::String(key) if text.is_empty() => text.push_str(key),
                Value::String(key) => text.extend([".", key]),
                index => text.push_str(&format!("[{index}]")),
            }
        }
        text
    }
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.field(), self.message)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn display_prefixes_the_path_except_for_the_root() {
        let of = |path: Value| Issue {
            path: path.as_array().cloned().unwrap_or_default(),
            message: "is wrong".to_owned(),
        };
        let paths = [json!(["a", 0, "b"]), json!(["a.b[0]"]), json!([])];
        let shown = paths.map(|path| of(path).to_string());
        assert_eq!(shown, ["a[0].b: is wrong", "a.b[0]: is wrong", "is wrong"]);
    }
}
