//! The columns of a list of traces, and their names in URLs.

use std::fmt::Write as _;

use crate::markup::Text;
use perpend_domain::trace_list::TraceOrder;

/// Maximum number of shown columns.
pub const MAX_COLUMNS: usize = 40;
/// Maximum length in characters of a metadata key or score name of a column.
const MAX_NAME: usize = 200;

/// A column available in every list of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandardColumn {
    /// Link to the trace, with tags and previews.
    Trace,
    /// Start time.
    Started,
    /// User and session.
    People,
    /// Scores of the trace itself.
    Scores,
    /// Latency.
    Latency,
    /// Total tokens.
    Tokens,
    /// Total cost.
    Cost,
    /// Number of observations.
    Observations,
    /// Trace id.
    Id,
    /// Environment.
    Environment,
    /// User.
    User,
    /// Session.
    Session,
    /// Release.
    Release,
    /// Version.
    Version,
    /// Tags.
    Tags,
    /// Models of the observations.
    Models,
    /// Kinds of the observations.
    Kinds,
    /// Prompts of the observations.
    Prompts,
    /// Most severe level of the observations.
    Level,
    /// Number of observations with level ERROR.
    Errors,
    /// Number of observations with level WARNING.
    Warnings,
    /// Input tokens.
    InputTokens,
    /// Output tokens.
    OutputTokens,
    /// Beginning of the input.
    Input,
    /// Beginning of the output.
    Output,
}

/// Columns with their URL names and headings.
static STANDARD: [(StandardColumn, &str, &str); 25] = [
    (StandardColumn::Trace, "trace", "Trace"),
    (StandardColumn::Started, "timestamp", "Started"),
    (StandardColumn::People, "people", "User and session"),
    (StandardColumn::Scores, "scores", "Scores"),
    (StandardColumn::Latency, "latency", "Latency"),
    (StandardColumn::Tokens, "totalTokens", "Tokens"),
    (StandardColumn::Cost, "totalCost", "Cost"),
    (StandardColumn::Observations, "observationCount", "Observations"),
    (StandardColumn::Id, "id", "Id"),
    (StandardColumn::Environment, "environment", "Environment"),
    (StandardColumn::User, "userId", "User"),
    (StandardColumn::Session, "sessionId", "Session"),
    (StandardColumn::Release, "release", "Release"),
    (StandardColumn::Version, "version", "Version"),
    (StandardColumn::Tags, "tags", "Tags"),
    (StandardColumn::Models, "models", "Models"),
    (StandardColumn::Kinds, "kinds", "Observation kinds"),
    (StandardColumn::Prompts, "prompts", "Prompts"),
    (StandardColumn::Level, "level", "Level"),
    (StandardColumn::Errors, "errorCount", "Errors"),
    (StandardColumn::Warnings, "warningCount", "Warnings"),
    (StandardColumn::InputTokens, "inputTokens", "Input tokens"),
    (StandardColumn::OutputTokens, "outputTokens", "Output tokens"),
    (StandardColumn::Input, "input", "Input"),
    (StandardColumn::Output, "output", "Output"),
];
/// Number of columns of `STANDARD` that are shown by default.
const N_DEFAULT: usize = 8;

/// A column of a list of traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// A column available in every list.
    Standard(StandardColumn),
    /// A metadata key.
    Metadata(String),
    /// Scores of the trace itself with this name.
    Score(String),
}

/// The layout of the cells of a column.
pub enum CellKind {
    /// Link to the trace, with tags and previews.
    Trace,
    /// Timestamp.
    Started,
    /// Links to user and session.
    People,
    /// List of scores.
    Scores,
    /// List of tags.
    Tags,
    /// Long text.
    Long,
    /// Number or short text.
    Other,
}

impl Column {
    /// Parses a URL name.
    #[must_use]
    pub fn from_name(raw: &str) -> Option<Self> {
        let of_key = |prefix: &str| {
            let key = raw.strip_prefix(prefix)?;
            let key = match key.starts_with('"') {
                true => serde_json::from_str(key).ok()?,
                false => key.to_owned(),
            };
            let is_short = key.chars().nth(MAX_NAME).is_none();
            (!key.is_empty() && is_short).then_some(key)
        };
        let known = STANDARD.iter().find(|(_, name, _)| *name == raw);
        known
            .map(|(known, ..)| Self::Standard(*known))
            .or_else(|| of_key("metadata.").map(Self::Metadata))
            .or_else(|| of_key("score.").map(Self::Score))
    }

    /// The URL name.
    #[must_use]
    pub fn name(&self) -> String {
        let with_key = |prefix: &str, key: &str| {
            let is_plain = !key.contains([',', '"', '\\']) && key.trim() == key;
            match is_plain && key.chars().all(is_printable) {
                true => format!("{prefix}{key}"),
                false => format!("{prefix}{}", quoted(key)),
            }
        };
        match self {
            Self::Standard(known) => {
                let found = STANDARD.iter().find(|(own, ..)| own == known);
                found.map_or("trace", |(_, name, _)| name).to_owned()
            }
            Self::Metadata(key) => with_key("metadata.", key),
            Self::Score(name) => with_key("score.", name),
        }
    }

    /// The heading.
    #[must_use]
    pub fn label(&self) -> Text {
        match self {
            Self::Standard(known) => {
                let found = STANDARD.iter().find(|(own, ..)| own == known);
                Text::from(found.map_or("", |(.., label)| label))
            }
            Self::Metadata(key) => Text::from(key.as_str()),
            Self::Score(name) => Text::from(name.as_str()),
        }
    }

    /// The order of the list by this column, if available.
    #[must_use]
    pub fn order(&self) -> Option<TraceOrder> {
        let known = match self {
            Self::Standard(known) => known,
            Self::Score(name) => return Some(TraceOrder::Score(name.clone())),
            Self::Metadata(_) => return None,
        };
        Some(match known {
            StandardColumn::Started => TraceOrder::Timestamp,
            StandardColumn::Latency => TraceOrder::Latency,
            StandardColumn::Tokens => TraceOrder::TotalTokens,
            StandardColumn::Cost => TraceOrder::TotalCost,
            StandardColumn::Errors => TraceOrder::ErrorCount,
            _ => return None,
        })
    }

    /// Whether the cells are numbers.
    #[must_use]
    pub fn is_figure(&self) -> bool {
        use StandardColumn::{
            Cost, Errors, InputTokens, Latency, Observations, OutputTokens, Tokens, Warnings,
        };
        matches!(
            self,
            Self::Score(_)
                | Self::Standard(
                    Latency
                        | Tokens
                        | Cost
                        | Observations
                        | Errors
                        | Warnings
                        | InputTokens
                        | OutputTokens
                )
        )
    }

    /// The layout of the cells.
    #[must_use]
    pub fn cell_kind(&self) -> CellKind {
        match self {
            Self::Standard(StandardColumn::Trace) => CellKind::Trace,
            Self::Standard(StandardColumn::Started) => CellKind::Started,
            Self::Standard(StandardColumn::People) => CellKind::People,
            Self::Standard(StandardColumn::Scores) => CellKind::Scores,
            Self::Standard(StandardColumn::Tags) => CellKind::Tags,
            Self::Standard(StandardColumn::Input | StandardColumn::Output) | Self::Metadata(_) => {
                CellKind::Long
            }
            Self::Standard(_) | Self::Score(_) => CellKind::Other,
        }
    }
}

/// The columns of a list, in order. Always contains the column with the link to the trace, and no duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns(Vec<Column>);

impl Default for Columns {
    fn default() -> Self {
        let default = STANDARD.iter().take(N_DEFAULT);
        Self(default.map(|(known, ..)| Column::Standard(*known)).collect())
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
        for name in split(raw) {
            match Column::from_name(name) {
                None => read.unknown.push(name.to_owned()),
                Some(column) if columns.contains(&column) => {}
                Some(_) if columns.len() == MAX_COLUMNS => read.is_cut = true,
                Some(column) => columns.push(column),
            }
        }
        if !columns.is_empty() {
            let trace = Column::Standard(StandardColumn::Trace);
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
        let names: Vec<&str> = STANDARD.iter().map(|(_, name, _)| *name).collect();
        format!("{}, metadata.KEY, score.NAME", names.join(", "))
    }

    /// The metadata keys.
    pub fn metadata(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|column| match column {
            Column::Metadata(key) => Some(key.as_str()),
            _ => None,
        })
    }

    /// The score names.
    pub fn scores(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|column| match column {
            Column::Score(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Iterates over the columns in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Column> {
        self.0.iter()
    }

    /// The standard columns that are not included.
    pub fn others(&self) -> impl Iterator<Item = Column> {
        let all = STANDARD.iter().map(|(known, ..)| Column::Standard(*known));
        all.filter(|column| !self.0.contains(column))
    }

    /// Whether a standard column is included.
    #[must_use]
    pub fn has(&self, known: StandardColumn) -> bool {
        self.0.contains(&Column::Standard(known))
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

    /// A copy with the column at this index moved forward by one.
    #[must_use]
    pub fn moved(&self, at: usize) -> Self {
        let mut moved = self.clone();
        if 0 < at && at < moved.0.len() {
            moved.0.swap(at - 1, at);
        }
        moved
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

/// Splits at commas outside of quotes and drops empty parts.
fn split(raw: &str) -> impl Iterator<Item = &str> {
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
        assert_eq!(read.columns.iter().count(), 5);
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
        assert!(read.is_cut && read.columns.iter().count() == MAX_COLUMNS + 1);
    }

    proptest::proptest! {
        #[test]
        fn any_key_round_trips(key in ".{1,60}", name in "[a,\"\\\\ .]{1,9}") {
            let columns = Columns(vec![
                Column::Standard(StandardColumn::Trace), Column::Metadata(key), Column::Score(name),
            ]);
            let read = Columns::parse(&columns.to_parameter());
            proptest::prop_assert_eq!(read.columns, columns);
        }
    }
}
