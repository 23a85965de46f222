//! The columns of each kind of row, and the condition types they allow.

use super::ColumnKind::{
    Bool, BoolMembers, CategoryMembers, FullText, List, Members, NullOnly, Number, NumberMembers,
    Options, QueryMembers, Text, Time,
};

/// A column of a kind of row.
#[derive(Debug, PartialEq, Eq)]
pub struct Column {
    /// The name in filters and errors.
    pub id: &'static str,
    /// Determines the condition types.
    pub kind: ColumnKind,
    /// Aliases.
    pub aliases: &'static [&'static str],
    /// The closed list of values; empty for any value.
    pub values: &'static [&'static str],
}

/// The kind of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Free text.
    Text,
    /// Free text that is also searched with `matches`.
    FullText,
    /// Text from a usually small set.
    Options,
    /// A list of texts.
    List,
    /// An instant.
    Time,
    /// A number.
    Number,
    /// A truth value.
    Bool,
    /// An object; tests look at the text of a member.
    Members,
    /// An object; tests look at the text or number of a member, and search it.
    QueryMembers,
    /// Numbers by name.
    NumberMembers,
    /// Truth values by name, as the texts `name:true` and `name:false`.
    BoolMembers,
    /// Categories by name.
    CategoryMembers,
    /// Only its presence is tested.
    NullOnly,
}

impl ColumnKind {
    /// The condition types that fit, `null` left out because it fits all.
    #[must_use]
    pub const fn types(self) -> &'static [&'static str] {
        match self {
            Text | FullText => &["string", "stringOptions"],
            Options => &["stringOptions", "string"],
            List => &["arrayOptions", "stringOptions"],
            Time => &["datetime"],
            Number => &["number"],
            Bool => &["boolean"],
            Members => &["stringObject"],
            QueryMembers => &["stringObject", "numberObject", "categoryOptions"],
            NumberMembers => &["numberObject"],
            BoolMembers => &["booleanObject"],
            CategoryMembers => &["categoryOptions", "stringOptions"],
            NullOnly => &[],
        }
    }

    /// Whether tests apply to a member, selected by its key.
    #[must_use]
    pub const fn has_members(self) -> bool {
        matches!(self, Members | QueryMembers | NumberMembers | BoolMembers | CategoryMembers)
    }
}

impl Column {
    /// A column without aliases and fixed values.
    #[must_use]
    pub const fn new(id: &'static str, kind: ColumnKind) -> Self {
        Self { id, kind, aliases: &[], values: &[] }
    }

    const fn aka(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    const fn of(mut self, values: &'static [&'static str]) -> Self {
        self.values = values;
        self
    }
}

/// The column with this id or alias.
#[must_use]
pub fn find(columns: &'static [Column], name: &str) -> Option<&'static Column> {
    let mut all = columns.iter();
    all.find(|column| column.id == name || column.aliases.contains(&name))
}

const KINDS: &[&str] = &[
    "SPAN",
    "GENERATION",
    "EVENT",
    "AGENT",
    "TOOL",
    "CHAIN",
    "RETRIEVER",
    "EVALUATOR",
    "EMBEDDING",
    "GUARDRAIL",
];
const LEVELS: &[&str] = &["DEBUG", "DEFAULT", "WARNING", "ERROR"];
const COMPLETIONS: &[&str] = &["root_ended", "marker", "quiet", "max_wait"];
const SOURCES: &[&str] = &["EVAL", "ANNOTATION", "API"];
const DATA_TYPES: &[&str] = &["NUMERIC", "BOOLEAN", "CATEGORICAL", "TEXT", "CORRECTION"];

const KIND: Column = Column::new("type", Options).aka(&["Type"]).of(KINDS);
const NAME: Column = Column::new("name", Options).aka(&["Name"]);
const ENVIRONMENT: Column = Column::new("environment", Options).aka(&["Environment"]);
const LEVEL: Column = Column::new("level", Options).aka(&["Level"]).of(LEVELS);
const VERSION: Column = Column::new("version", Text).aka(&["Version"]);
const RELEASE: Column = Column::new("release", Text).aka(&["Release"]);
const TRACE_NAME: Column = Column::new("traceName", Options).aka(&["Trace Name"]);
const USER: Column = Column::new("userId", Text).aka(&["user", "User ID", "user_id"]);
const SESSION: Column =
    Column::new("sessionId", Text).aka(&["session", "Session ID", "session_id"]);
const TAGS: Column = Column::new("tags", List).aka(&["Tags", "traceTags", "Trace Tags"]);
const IS_ROOT: Column =
    Column::new("isRootObservation", Bool).aka(&["Is Root Observation", "isRoot"]);
const CALLED_TOOLS: Column = Column::new("calledToolNames", List).aka(&["Called Tool Names"]);
const TOOL_CALLS: Column = Column::new("toolCalls", Number).aka(&["Tool Calls"]);
const EXPERIMENT: Column = Column::new("experimentId", Options).aka(&["Experiment ID"]);
const LATENCY: Column = Column::new("latency", Number).aka(&["Latency (s)"]);
const INPUT_TOKENS: Column = Column::new("inputTokens", Number).aka(&["Input Tokens"]);
const OUTPUT_TOKENS: Column = Column::new("outputTokens", Number).aka(&["Output Tokens"]);
const TOTAL_TOKENS: Column =
    Column::new("totalTokens", Number).aka(&["tokens", "Tokens", "Total Tokens"]);
const INPUT_COST: Column = Column::new("inputCost", Number).aka(&["Input Cost ($)"]);
const OUTPUT_COST: Column = Column::new("outputCost", Number).aka(&["Output Cost ($)"]);
const TOTAL_COST: Column = Column::new("totalCost", Number).aka(&["cost", "Total Cost ($)"]);
const ERRORS: Column = Column::new("errorCount", Number).aka(&["errors", "Error Level Count"]);
const N_OBSERVATIONS: Column =
    Column::new("observationCount", Number).aka(&["observations", "steps", "Observation Count"]);
const BOOKMARKED: Column = Column::new("bookmarked", Bool).aka(&["⭐️"]);
const METADATA: Column = Column::new("metadata", Members).aka(&["Metadata"]);
const QUERY_METADATA: Column = Column::new("metadata", QueryMembers).aka(&["Metadata"]);
const SCORES_AVG: Column =
    Column::new("scores_avg", NumberMembers).aka(&["scores", "Scores", "Scores (numeric)"]);
const SCORE_CATEGORIES: Column =
    Column::new("score_categories", CategoryMembers).aka(&["Scores (categorical)"]);
const SCORE_BOOLEANS: Column =
    Column::new("score_booleans", BoolMembers).aka(&["Scores (boolean)"]);
const NAMES: Column = Column::new(SCORE_NAMES, List).aka(&["Score names"]);

/// Searched in: every text that a reader would look for a row by.
const TEXT: Column = Column::new("text", FullText).aka(&["Text"]);

/// Columns of observations for rules.
pub static RULE_OBSERVATION: &[Column] = &[
    KIND,
    NAME,
    ENVIRONMENT,
    LEVEL,
    VERSION,
    TRACE_NAME,
    USER,
    SESSION,
    TAGS,
    METADATA,
    IS_ROOT,
    Column::new("parentObservationId", NullOnly).aka(&["Parent Observation ID"]),
    EXPERIMENT,
    Column::new("datasetId", Options).aka(&["experimentDatasetId", "Dataset"]),
    Column::new("isExperimentItemRootSpan", Bool),
    CALLED_TOOLS,
    TOOL_CALLS,
    SCORES_AVG,
    SCORE_CATEGORIES,
    SCORE_BOOLEANS,
    NAMES,
];

/// The names of all scores of a row, whatever their values are.
pub const SCORE_NAMES: &str = "score_names";

/// The score columns of every kind of row that has scores.
pub const SCORE_COLUMNS: [&str; 4] =
    [SCORES_AVG.id, SCORE_CATEGORIES.id, SCORE_BOOLEANS.id, SCORE_NAMES];

/// Columns of traces for rules.
pub static RULE_TRACE: &[Column] = &[
    Column::new("id", Text).aka(&["ID"]),
    Column::new("name", Options).aka(&["traceName", "Name", "Trace Name"]),
    ENVIRONMENT,
    Column::new("timestamp", Time).aka(&["Timestamp"]),
    USER,
    SESSION,
    METADATA,
    VERSION,
    RELEASE,
    LEVEL,
    TAGS,
    BOOKMARKED,
    LATENCY,
    TOTAL_COST,
    TOTAL_TOKENS,
    ERRORS,
    N_OBSERVATIONS,
    Column::new("completionReason", Options).of(COMPLETIONS),
    SCORES_AVG,
    SCORE_CATEGORIES,
    SCORE_BOOLEANS,
    NAMES,
];

/// Columns of sessions for rules.
pub static RULE_SESSION: &[Column] = &[
    Column::new("id", Text).aka(&["ID", "sessionId"]),
    ENVIRONMENT,
    Column::new("timestamp", Time).aka(&["createdAt"]),
    Column::new("userIds", List).aka(&["User IDs"]),
    TAGS,
    METADATA,
    Column::new("duration", Number).aka(&["sessionDuration", "Session Duration (s)"]),
    Column::new("traceCount", Number).aka(&["countTraces", "Traces Count"]),
    N_OBSERVATIONS,
    ERRORS,
    TOTAL_COST,
    TOTAL_TOKENS,
    SCORES_AVG,
    SCORE_CATEGORIES,
    SCORE_BOOLEANS,
    NAMES,
];

/// Columns of runs of experiments for rules.
pub static RULE_RUN: &[Column] = &[
    EXPERIMENT,
    Column::new("name", Options).aka(&["experimentName", "Experiment Name"]),
    Column::new("datasetId", Options).aka(&["experimentDatasetId", "Dataset"]),
    METADATA,
];

/// Columns of traces for lists. `text` is its id, name, input and output, and those of each of its observations.
pub static TRACES: &[Column] = &[
    Column::new("id", Text).aka(&["ID"]),
    TEXT,
    Column::new("name", Options).aka(&["traceName", "Name", "Trace Name"]),
    Column::new("timestamp", Time).aka(&["started", "Timestamp"]),
    ENVIRONMENT,
    USER,
    SESSION,
    QUERY_METADATA,
    VERSION,
    RELEASE,
    LEVEL,
    TAGS,
    Column::new("kinds", List)
        .aka(&["kind", "type", "Type", "Observation kinds", "Kinds of steps"])
        .of(KINDS),
    Column::new("models", List).aka(&["model", "providedModelName", "Model"]),
    Column::new("prompts", List).aka(&["promptName", "Prompt Name"]),
    BOOKMARKED,
    LATENCY,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    TOTAL_TOKENS,
    INPUT_COST,
    OUTPUT_COST,
    TOTAL_COST,
    ERRORS,
    Column::new("warningCount", Number).aka(&["warnings", "Warning Level Count"]),
    Column::new("defaultCount", Number).aka(&["Default Level Count"]),
    Column::new("debugCount", Number).aka(&["Debug Level Count"]),
    N_OBSERVATIONS,
    SCORES_AVG,
    SCORE_CATEGORIES,
    SCORE_BOOLEANS,
    NAMES,
];

/// Columns of observations for lists. `text` is its id, name, input and output.
pub static OBSERVATIONS: &[Column] = &[
    Column::new("id", Text).aka(&["ID"]),
    TEXT,
    KIND,
    NAME,
    Column::new("traceId", Text).aka(&["Trace ID"]),
    Column::new("startTime", Time).aka(&["Start Time"]),
    Column::new("endTime", Time).aka(&["End Time"]),
    ENVIRONMENT,
    LEVEL,
    Column::new("statusMessage", Text).aka(&["Status Message"]),
    VERSION,
    RELEASE,
    USER,
    SESSION,
    IS_ROOT,
    Column::new("parentObservationId", Text).aka(&["Parent Observation ID"]),
    Column::new("hasParentObservation", Bool).aka(&["Has Parent Observation"]),
    TRACE_NAME,
    TAGS,
    LATENCY,
    Column::new("timeToFirstToken", Number).aka(&["Time To First Token (s)"]),
    Column::new("tokensPerSecond", Number).aka(&["Tokens per second"]),
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    TOTAL_TOKENS,
    INPUT_COST,
    OUTPUT_COST,
    TOTAL_COST,
    Column::new("model", Options).aka(&["providedModelName", "Model", "Provided Model Name"]),
    Column::new("modelId", Options).aka(&["Model ID"]),
    Column::new("promptName", Options).aka(&["Prompt Name"]),
    Column::new("promptVersion", Number).aka(&["Prompt Version"]),
    Column::new("input", FullText).aka(&["Input"]),
    Column::new("output", FullText).aka(&["Output"]),
    QUERY_METADATA,
    Column::new("toolNames", List).aka(&["Tool Names"]),
    CALLED_TOOLS,
    TOOL_CALLS,
    EXPERIMENT,
    Column::new("experimentName", Options).aka(&["Experiment Name"]),
    Column::new("experimentDatasetId", Options).aka(&["datasetId"]),
    SCORES_AVG,
    SCORE_CATEGORIES,
    SCORE_BOOLEANS,
    NAMES,
];

/// Columns of sessions and users for lists: texts of all their traces, and sums over them.
pub static GROUPS: &[Column] = &[
    Column::new("id", FullText).aka(&["ID", "text"]),
    USER,
    SESSION,
    ENVIRONMENT,
    Column::new("firstSeen", Time).aka(&["First seen", "started"]),
    Column::new("lastSeen", Time).aka(&["Last seen", "Last trace", "timestamp"]),
    Column::new("duration", Number).aka(&["lasted", "latency"]),
    Column::new("traceCount", Number).aka(&["traces"]),
    N_OBSERVATIONS,
    ERRORS,
    TOTAL_TOKENS,
    TOTAL_COST,
];

/// Columns of scores for lists. `text` is the name.
pub static SCORES: &[Column] = &[
    Column::new("id", Text).aka(&["ID"]),
    TEXT,
    NAME,
    Column::new("source", Options).aka(&["Source"]).of(SOURCES),
    Column::new("dataType", Options).aka(&["Data Type"]).of(DATA_TYPES),
    ENVIRONMENT,
    Column::new("timestamp", Time).aka(&["Timestamp"]),
    Column::new("value", Number).aka(&["Value"]),
    Column::new("stringValue", Options).aka(&["String Value"]),
    Column::new("comment", Text).aka(&["Comment"]),
    Column::new("traceId", Text).aka(&["Trace ID"]),
    Column::new("observationId", Text).aka(&["Observation ID"]),
    SESSION,
    Column::new("configId", Text),
    Column::new("queueId", Text),
    Column::new("authorUserId", Text),
    Column::new("executionId", Text),
    Column::new("fingerprint", Text),
    METADATA,
];
