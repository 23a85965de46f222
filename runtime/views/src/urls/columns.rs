//! The names of the columns of a list of traces in URLs.

use std::fmt::Write as _;

use perpend_domain::trace_list::TraceOrder;

use crate::lists::trace_rows::TRACE_ROWS;

/// Maximum number of shown columns.
pub const MAX_COLUMNS: usize = 40;
/// Maximum length in characters of a metadata key or score name of a column.
const MAX_NAME: usize = 200;
/// Prefixes of the names of columns with metadata and with scores.
pub(crate) const METADATA: &str = "metadata.";
pub(crate) const SCORE: &str = "score.";

/// A column of a list of traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// A column available in every list.
    Standard(&'static str),
    /// A metadata key.
    Metadata(String),
    /// Scores of the trace itself with this name.
    Score(String),
}

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

impl Column {
    /// Parses a URL name.
    #[must_use]
    pub fn from_name(raw: &str) -> Option<Self> {
        let known = TRACE_ROWS.columns.iter().find(|column| column.id == raw);
        known
            .map(|known| Self::Standard(known.id))
            .or_else(|| key_of_name(METADATA, raw).map(Self::Metadata))
            .or_else(|| key_of_name(SCORE, raw).map(Self::Score))
    }

    /// The URL name.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Standard(name) => (*name).to_owned(),
            Self::Metadata(key) => name_with_key(METADATA, key),
            Self::Score(name) => name_with_key(SCORE, name),
        }
    }

    /// The order of the list by this column, if available.
    #[must_use]
    pub fn order(&self) -> Option<TraceOrder> {
        let name = match self {
            Self::Standard(name) => *name,
            Self::Score(name) => return Some(TraceOrder::Score(name.clone())),
            Self::Metadata(_) => return None,
        };
        Some(match name {
            "timestamp" => TraceOrder::Timestamp,
            "latency" => TraceOrder::Latency,
            "totalTokens" => TraceOrder::TotalTokens,
            "totalCost" => TraceOrder::TotalCost,
            "errorCount" => TraceOrder::ErrorCount,
            _ => return None,
        })
    }
}

/// The columns of a list, in order. Always contains the column with the link to the trace, and no duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns(Vec<Column>);

impl Default for Columns {
    fn default() -> Self {
        let default = TRACE_ROWS.columns.iter().filter(|column| column.is_default);
        Self(default.map(|column| Column::Standard(column.id)).collect())
    }
}

/// The result of parsing column names.
#[derive(Debug, Default)]
pub struct ParsedColumns {
    /// The valid columns; the default columns if there are none.
    pub columns: Columns,
    /// Unknown names.
    pub unknown: Vec<String>,
    /// More than [`MAX_COLUMNS`] columns were given.
    pub is_cut: bool,
}

impl Columns {
    /// Parses names separated by commas. Keys that contain commas are JSON strings.
    #[must_use]
    pub fn parse(raw: &str) -> ParsedColumns {
        let mut read = ParsedColumns::default();
        let mut columns = Vec::new();
        for name in split_names(raw) {
            match Column::from_name(name) {
                None => read.unknown.push(name.to_owned()),
                Some(column) if columns.contains(&column) => {}
                Some(_) if columns.len() == MAX_COLUMNS => read.is_cut = true,
                Some(column) => columns.push(column),
            }
        }
        if !columns.is_empty() {
            let trace = Column::Standard("trace");
            if !columns.contains(&trace) {
                columns.insert(0, trace);
            }
            read.columns = Self(columns);
        }
        read
    }

    /// The `cols` parameter.
    #[must_use]
    pub fn to_parameter(&self) -> String {
        let names: Vec<String> = self.0.iter().map(Column::name).collect();
        names.join(",")
    }

    /// The valid names, for error messages.
    #[must_use]
    pub fn names() -> String {
        TRACE_ROWS.column_names()
    }

    /// The score names.
    pub fn scores(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|column| match column {
            Column::Score(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// A copy with a column of the scores with this name.
    #[must_use]
    pub fn with_score(&self, name: &str) -> Self {
        let column = Column::Score(name.to_owned());
        let mut columns = self.clone();
        if !columns.0.contains(&column) {
            columns.0.push(column);
        }
        columns
    }
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

    #[test]
    fn columns_round_trip_with_any_keys() {
        let raw = r#"totalCost,trace,metadata.a.b,score."is it, \"so\"?",metadata.with space"#;
        let read = Columns::parse(raw);
        assert!(read.unknown.is_empty() && !read.is_cut);
        assert_eq!(read.columns.to_parameter(), raw);
        assert_eq!(read.columns.0.len(), 5);
        assert_eq!(Columns::parse("").columns, Columns::default());
        let default = Columns::default().to_parameter();
        assert_eq!(Columns::parse(&default).columns, Columns::default());
    }

    #[test]
    fn unknown_names_are_reported_and_the_trace_column_is_always_included() {
        let read = Columns::parse("luck, id,,id,metadata.,score.\"open");
        assert_eq!(read.unknown, ["luck", "metadata.", "score.\"open"]);
        assert_eq!(read.columns.to_parameter(), "trace,id");
        let many: Vec<String> = (0..60).map(|n| format!("metadata.k{n}")).collect();
        let read = Columns::parse(&many.join(","));
        assert!(read.is_cut && read.columns.0.len() == MAX_COLUMNS + 1);
    }

    proptest::proptest! {
        #[test]
        fn any_key_round_trips(key in ".{1,60}", name in "[a,\"\\\\ .]{1,9}") {
            let columns = Columns(vec![
                Column::Standard("trace"), Column::Metadata(key), Column::Score(name),
            ]);
            let read = Columns::parse(&columns.to_parameter());
            proptest::prop_assert_eq!(read.columns, columns);
        }
    }
}
