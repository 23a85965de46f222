//! Span events that become content, a score or a time.

use perpend_domain::join::{CHOICE, EVALUATION_RESULT, OPERATION_DETAILS, message_role};

/// Events that mark the first part of an answer.
pub(crate) const FIRST_CHUNK_EVENTS: [&str; 4] = [
    "First Token Stream Event",
    "gen_ai.content.completion.chunk",
    "llm.content.completion.chunk",
    "ai.stream.firstChunk",
];

/// Events that became content, a score or a time.
pub(crate) fn is_consumed(name: &str) -> bool {
    message_role(name).is_some()
        || matches!(
            name,
            OPERATION_DETAILS
                | CHOICE
                | EVALUATION_RESULT
                | "gen_ai.content.prompt"
                | "gen_ai.content.completion"
        )
        || FIRST_CHUNK_EVENTS.contains(&name)
}
