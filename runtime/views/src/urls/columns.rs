//! The columns of a list of traces: which there are, and how addresses name them.

use std::fmt::Write as _;

use crate::markup::Text;
use perpend_domain::trace_list::TraceOrder;

/// More columns than this are not shown.
pub const MAX_COLUMNS: usize = 40;
/// A longer name of a member or a score makes no column.
const MAX_NAME: usize = 200;

/// A column that every list of traces can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandardColumn {
    /// The link to the trace, and what stands below it.
    Trace,
    /// When it began.
    Started,
    /// The user and the session.
    People,
    /// All scores about the trace itself.
    Scores,
    /// How long it took.
    Latency,
    /// All tokens.
    Tokens,
    /// What it cost.
    Cost,
    /// The number of its observations.
    Observations,
    /// Its id.
    Id,
    /// Its environment.
    Environment,
    /// The end user.
    User,
    /// The session.
    Session,
    /// The release.
    Release,
    /// The version.
    Version,
    /// Its tags.
    Tags,
    /// The models that its observations called.
    Models,
    /// The kinds of its observations.
    Kinds,
    /// The prompts that its observations used.
    Prompts,
    /// The most severe level of its observations.
    Level,
    /// Observations with an error.
    Errors,
    /// Observations with a warning.
    Warnings,
    /// Tokens that went in.
    InputTokens,
    /// Tokens that came out.
    OutputTokens,
    /// The beginning of its input.
    Input,
    /// The beginning of its output.
    Output,
}

/// The column, its name in addresses, and its heading.
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
/// So many of them are shown where an address names none.
const USUAL: usize = 8;

/// A column of a list of traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// One that every list can have.
    Standard(StandardColumn),
    /// A member of the metadata.
    Metadata(String),
    /// The scores of this name that are about the trace itself.
    Score(String),
}

/// What the cells of a column look like.
pub enum CellKind {
    /// The link to the trace, and what stands below it.
    Trace,
    /// A point in time.
    Started,
    /// Links to the user and the session.
    People,
    /// Scores, one beside the other.
    Scores,
    /// Tags, one beside the other.
    Tags,
    /// A text that may be long.
    Long,
    /// A figure or a short text.
    Other,
}

impl Column {
    /// The column with this name, if there is one.
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

    /// As addresses name it.
    #[must_use]
    pub fn name(&self) -> String {
        let with_key = |prefix: &str, key: &str| {
            let is_plain = !key.contains([',', '"', '\\']) && key.trim() == key;
            match is_plain && key.chars().all(is_shown) {
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

    /// Its heading.
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

    /// The order of the list that it stands for.
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

    /// Whether its cells are numbers.
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

    /// What its cells look like.
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

/// The columns of a list, in order. The one with the link to the trace is always among them, and none is there twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns(Vec<Column>);

impl Default for Columns {
    fn default() -> Self {
        let usual = STANDARD.iter().take(USUAL);
        Self(usual.map(|(known, ..)| Column::Standard(*known)).collect())
    }
}

/// What columns an address asks for, and which of them there are not.
#[derive(Debug, Default)]
pub struct ParsedColumns {
    /// Those there are; the usual ones where none is named.
    pub columns: Columns,
    /// As they were named.
    pub unknown: Vec<String>,
    /// There were more than [`MAX_COLUMNS`].
    pub is_cut: bool,
}

impl Columns {
    /// The columns of an address: names with commas between them, keys as JSON strings where they hold any.
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

    /// As an address has them.
    #[must_use]
    pub fn in_address(&self) -> String {
        let names: Vec<String> = self.0.iter().map(Column::name).collect();
        names.join(",")
    }

    /// What a column can be called.
    #[must_use]
    pub fn names() -> String {
        let names: Vec<&str> = STANDARD.iter().map(|(_, name, _)| *name).collect();
        format!("{}, metadata.KEY, score.NAME", names.join(", "))
    }

    /// The keys of the metadata among them.
    pub fn metadata(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|column| match column {
            Column::Metadata(key) => Some(key.as_str()),
            _ => None,
        })
    }

    /// The names of scores among them.
    pub fn scores(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|column| match column {
            Column::Score(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Each, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Column> {
        self.0.iter()
    }

    /// Those of every list that are not among these.
    pub fn others(&self) -> impl Iterator<Item = Column> {
        let all = STANDARD.iter().map(|(known, ..)| Column::Standard(*known));
        all.filter(|column| !self.0.contains(column))
    }

    /// Whether this one is among them.
    #[must_use]
    pub fn has(&self, known: StandardColumn) -> bool {
        self.0.contains(&Column::Standard(known))
    }

    /// With a column of the scores of this name.
    #[must_use]
    pub fn with_score(&self, name: &str) -> Self {
        let column = Column::Score(name.to_owned());
        let mut columns = self.clone();
        if !columns.0.contains(&column) {
            columns.0.push(column);
        }
        columns
    }

    /// With the column at this place one place earlier.
    #[must_use]
    pub fn moved(&self, at: usize) -> Self {
        let mut moved = self.clone();
        if 0 < at && at < moved.0.len() {
            moved.0.swap(at - 1, at);
        }
        moved
    }
}

/// Whether a page may hold the character as it is: control and direction characters are written as escapes.
fn is_shown(c: char) -> bool {
    c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric()
}

/// As a JSON string.
fn quoted(key: &str) -> String {
    let mut quoted = String::new();
    for c in serde_json::Value::from(key).to_string().chars() {
        if is_shown(c) {
            quoted.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(quoted, "\\u{unit:04x}");
        }
    }
    quoted
}

/// At the commas that stand outside of quotes; nothing between them is no part.
fn split(raw: &str) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let is_between = move |c: char| {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = !is_quoted,
            ',' => return !is_quoted,
            _ => {}
        }
        false
    };
    let parts = raw.split(is_between).map(str::trim);
    parts.filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_come_back_from_their_address_whatever_their_keys_are() {
        let raw = r#"totalCost,trace,metadata.a.b,score."is it, \"so\"?",metadata.with space"#;
        let read = Columns::parse(raw);
        assert!(read.unknown.is_empty() && !read.is_cut);
        assert_eq!(read.columns.in_address(), raw);
        assert_eq!(read.columns.iter().count(), 5);
        assert_eq!(Columns::parse("").columns, Columns::default());
        let usual = Columns::default().in_address();
        assert_eq!(Columns::parse(&usual).columns, Columns::default());
    }

    #[test]
    fn what_there_is_not_is_named_and_the_link_to_the_trace_always_stands() {
        let read = Columns::parse("luck, id,,id,metadata.,score.\"open");
        assert_eq!(read.unknown, ["luck", "metadata.", "score.\"open"]);
        assert_eq!(read.columns.in_address(), "trace,id");
        let many: Vec<String> = (0..60).map(|n| format!("metadata.k{n}")).collect();
        let read = Columns::parse(&many.join(","));
        assert!(read.is_cut && read.columns.iter().count() == MAX_COLUMNS + 1);
    }

    proptest::proptest! {
        #[test]
        fn any_key_is_read_as_it_was_written(key in ".{1,60}", name in "[a,\"\\\\ .]{1,9}") {
            let columns = Columns(vec![
                Column::Standard(StandardColumn::Trace), Column::Metadata(key), Column::Score(name),
            ]);
            let read = Columns::parse(&columns.in_address());
            proptest::prop_assert_eq!(read.columns, columns);
        }
    }
}
