//! Names of columns in URLs: the name of a declared column, or a prefix and the name of a value.

use std::fmt::Write as _;

/// Maximum number of shown columns.
pub const MAX_COLUMNS: usize = 40;
/// Maximum length in characters of a metadata key or score name of a column.
const MAX_NAME: usize = 200;
/// Prefixes of the names of columns with metadata and with scores.
pub(crate) const METADATA: &str = "metadata.";
pub(crate) const SCORE: &str = "score.";

/// The URL name of the column of values with this name.
pub(crate) fn name_with_key(prefix: &str, key: &str) -> String {
    let is_plain = !key.contains([',', '"', '\\']) && key.trim() == key;
    match is_plain && key.chars().all(is_printable) {
        true => format!("{prefix}{key}"),
        false => format!("{prefix}{}", quoted(key)),
    }
}

/// Inverse of [`name_with_key`]; absent for other names.
pub(crate) fn key_of_name(prefix: &str, name: &str) -> Option<String> {
    let key = name.strip_prefix(prefix)?;
    let key = match key.starts_with('"') {
        true => serde_json::from_str(key).ok()?,
        false => key.to_owned(),
    };
    let is_short = key.chars().nth(MAX_NAME).is_none();
    (!key.is_empty() && is_short).then_some(key)
}

/// Whether a character is printed unescaped. Control and direction characters are escaped.
fn is_printable(c: char) -> bool {
    c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric()
}

/// A JSON string.
fn quoted(key: &str) -> String {
    let mut quoted = String::new();
    for c in serde_json::Value::from(key).to_string().chars() {
        if is_printable(c) {
            quoted.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(quoted, "\\u{unit:04x}");
        }
    }
    quoted
}

/// Splits names at commas outside of quotes and drops empty ones.
pub(crate) fn split_names(raw: &str) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let is_separator = move |c: char| {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = !is_quoted,
            ',' => return !is_quoted,
            _ => {}
        }
        false
    };
    let parts = raw.split(is_separator).map(str::trim);
    parts.filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChosenColumn, TRACE_ROWS};

    /// The names of the columns that these names choose, and unknown names.
    fn chosen(names: &str) -> (String, Vec<String>) {
        let (columns, unknown) = TRACE_ROWS.choose(names);
        let names = TRACE_ROWS.columns_parameter(&columns).map(|(_, names)| names);
        (names.unwrap_or_default(), unknown)
    }

    #[test]
    fn columns_round_trip_with_any_keys() {
        let raw = r#"totalCost,trace,metadata.a.b,score."is it, \"so\"?",metadata.with space"#;
        assert_eq!(chosen(raw), (raw.to_owned(), Vec::new()));
        let (default, _) = TRACE_ROWS.choose("");
        let names: Vec<_> = default.iter().map(ChosenColumn::id).collect();
        assert_eq!(chosen(&names.join(",")), (String::new(), Vec::new()));
    }

    #[test]
    fn unknown_names_are_reported_and_the_trace_column_is_always_included() {
        let (columns, unknown) = chosen("luck, id,,id,metadata.,score.\"open");
        assert_eq!(unknown, ["luck", "metadata.", "score.\"open"]);
        assert_eq!(columns, "trace,id");
        let many: Vec<String> = (0..60).map(|n| format!("metadata.k{n}")).collect();
        let (columns, _) = TRACE_ROWS.choose(&many.join(","));
        assert!((MAX_COLUMNS + 1..60).contains(&columns.len()), "{}", columns.len());
    }

    proptest::proptest! {
        #[test]
        fn any_key_round_trips(key in ".{1,60}", name in "[a,\"\\\\ .]{1,9}") {
            let names = [name_with_key(METADATA, &key), name_with_key(SCORE, &name)].join(",");
            let names = format!("trace,{names}");
            proptest::prop_assert_eq!(chosen(&names), (names, Vec::new()));
        }
    }
}
