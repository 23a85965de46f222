//! The lists that take a filter as text, and what is said of their filters.

use perpend_domain::filter::{Column, GROUPS, TRACES};

/// A list that takes a filter as text.
#[derive(Debug)]
pub struct FilterableList {
    /// Its name in addresses: `traces`.
    pub list: &'static str,
    /// One of its rows: `trace`.
    pub row: &'static str,
    /// What can be tested.
    pub columns: &'static [Column],
    /// A filter, to show how one is written.
    pub example: &'static str,
    /// Where a word alone is looked for, and what else holds for this list only: sentences.
    pub help: &'static str,
    /// Filters to begin with, and what they are called.
    pub quick: &'static [(&'static str, &'static str)],
}

/// The list of traces.
pub static TRACE_LIST: FilterableList = FilterableList {
    list: "traces",
    row: "trace",
    columns: TRACES,
    example: "level:ERROR latency:>2 \"refund policy\"",
    help: "A word alone, or \"several words\", is looked for in ids, names, inputs and outputs of all steps. Scores are \
           score.NAME:<0.5 or score.NAME:set, metadata metadata.KEY:value.",
    quick: &[
        ("With errors", "level:ERROR"),
        ("Slow", "latency:>5"),
        ("In a session", "sessionId:set"),
        ("Of a user", "userId:set"),
    ],
};

/// The list of sessions.
pub static SESSION_LIST: FilterableList = FilterableList {
    list: "sessions",
    row: "session",
    columns: GROUPS,
    example: "errorCount:>0 totalCost:>=0.5 userId:ada",
    help: "A word alone, or \"several words\", is looked for in ids. Counts, tokens, cost and duration (in seconds) are those of all \
           traces of a session in the chosen time and environments.",
    quick: &[
        ("With errors", "errorCount:>0"),
        ("Several traces", "traceCount:>1"),
        ("Of a user", "userId:set"),
    ],
};

/// The list of users.
pub static USER_LIST: FilterableList = FilterableList {
    list: "users",
    row: "user",
    columns: GROUPS,
    example: "errorCount:>0 totalCost:>=0.5 lastSeen:>2026-03-01",
    help: "A word alone, or \"several words\", is looked for in ids. Counts, tokens and cost are those of all traces of a user in the \
           chosen time and environments.",
    quick: &[
        ("With errors", "errorCount:>0"),
        ("Several traces", "traceCount:>1"),
        ("With sessions", "sessionId:set"),
    ],
};

/// How a term that tests a column begins.
#[must_use]
pub fn term_prefix(id: &str) -> String {
    match id {
        "metadata" => "metadata.".to_owned(),
        "scores_avg" | "score_categories" | "score_booleans" => "score.".to_owned(),
        _ => format!("{id}:"),
    }
}
