//! The lists with a text filter, and the help texts of their filters.

use perpend_domain::filter::{Column, GROUPS, OBSERVATIONS, SCORES, TRACES};

/// A list with a text filter.
#[derive(Debug)]
pub struct FilterableList {
    /// URL name, such as `traces`.
    pub list: &'static str,
    /// Singular name of a row, such as `trace`.
    pub row: &'static str,
    /// Filterable columns.
    pub columns: &'static [Column],
    /// Example filter.
    pub example: &'static str,
    /// Help text: which fields free text is searched in, and other rules of this list.
    pub help: &'static str,
    /// Labels and predefined filters.
    pub quick: &'static [(&'static str, &'static str)],
}

/// The list of traces.
pub static TRACE_LIST: FilterableList = FilterableList {
    list: "traces",
    row: "trace",
    columns: TRACES,
    example: "level:ERROR latency:>2 \"refund policy\"",
    help: "A word, or \"several words\", is searched in ids, names, inputs and outputs of all observations. Filter scores with \
           score.NAME:<0.5 or score.NAME:set, and metadata with metadata.KEY:value.",
    quick: &[
        ("With errors", "level:ERROR"),
        ("Slow", "latency:>5"),
        ("Has session", "sessionId:set"),
        ("Has user", "userId:set"),
    ],
};

/// The list of observations.
pub static OBSERVATION_LIST: FilterableList = FilterableList {
    list: "observations",
    row: "observation",
    columns: OBSERVATIONS,
    example: "type:TOOL level:ERROR latency:>2",
    help: "A word, or \"several words\", is searched in ids, names, inputs and outputs. Filter by scores of the observation itself \
           with score.NAME:<0.5 or score.NAME:set, by called tools with calledToolNames:NAME, and by metadata with \
           metadata.KEY:value.",
    quick: &[
        ("Errors", "level:ERROR"),
        ("Generations", "type:GENERATION"),
        ("Tools", "type:TOOL"),
        ("Slow", "latency:>5"),
        ("With tool calls", "toolCalls:>0"),
    ],
};

/// The list of sessions.
pub static SESSION_LIST: FilterableList = FilterableList {
    list: "sessions",
    row: "session",
    columns: GROUPS,
    example: "errorCount:>0 totalCost:>=0.5 userId:ada",
    help: "A word, or \"several words\", is searched in ids. Counts, tokens, cost and duration (in seconds) are totals of all \
           traces of a session in the selected time range and environments.",
    quick: &[
        ("With errors", "errorCount:>0"),
        ("Several traces", "traceCount:>1"),
        ("Has user", "userId:set"),
    ],
};

/// The list of users.
pub static USER_LIST: FilterableList = FilterableList {
    list: "users",
    row: "user",
    columns: GROUPS,
    example: "errorCount:>0 totalCost:>=0.5 lastSeen:>2026-03-01",
    help: "A word, or \"several words\", is searched in ids. Counts, tokens and cost are totals of all traces of a user in the \
           selected time range and environments.",
    quick: &[
        ("With errors", "errorCount:>0"),
        ("Several traces", "traceCount:>1"),
        ("Has session", "sessionId:set"),
    ],
};

/// The list of scores.
pub static SCORE_LIST: FilterableList = FilterableList {
    list: "scores",
    row: "score",
    columns: SCORES,
    example: "source:EVAL value:<0.5 tone",
    help: "A single word, or \"several words\", is searched for in names. The value of a boolean is 1 or 0. Use stringValue for \
           categories and texts, and metadata.KEY:value for metadata.",
    quick: &[
        ("By evaluators", "source:EVAL"),
        ("By people", "source:ANNOTATION"),
        ("Below 0.5", "value:<0.5"),
        ("With a comment", "comment:set"),
    ],
};

/// The prefix of a filter term for a column.
#[must_use]
pub fn term_prefix(id: &str) -> String {
    match id {
        "metadata" => "metadata.".to_owned(),
        "scores_avg" | "score_categories" | "score_booleans" => "score.".to_owned(),
        _ => format!("{id}:"),
    }
}
