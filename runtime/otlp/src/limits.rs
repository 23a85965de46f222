//! Limits on one request and one span (otlp.md 6.3), and cutting text at them.

/// Limits on what one request and one span may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Spans in a request; resources and scopes together may be as many, and so may log records that are
    /// kept. A request with more is refused.
    pub max_spans: usize,
    /// Values that one span may hold: its attributes, the elements of their lists and maps, and of JSON
    /// that they hold as text. An attribute that does not fit is dropped and counted.
    pub max_values: usize,
    /// Attributes on a span; the rest is dropped and counted.
    pub max_attributes: usize,
    /// Bytes of input or output after media extraction.
    pub max_content_bytes: usize,
    /// Bytes of one metadata value.
    pub max_metadata_value_bytes: usize,
    /// Bytes of all metadata of an observation.
    pub max_metadata_bytes: usize,
    /// Characters of a name.
    pub max_name_chars: usize,
    /// Characters of a status message.
    pub max_status_chars: usize,
    /// Span events kept in metadata.
    pub max_events: usize,
    /// Links kept in metadata.
    pub max_links: usize,
    /// Decoded bytes of one media item.
    pub max_media_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_spans: 32_768,
            max_values: 100_000,
            max_attributes: 2_048,
            max_content_bytes: 10 * 1024 * 1024,
            max_metadata_value_bytes: 64 * 1024,
            max_metadata_bytes: 1024 * 1024,
            max_name_chars: 1_024,
            max_status_chars: 16_384,
            max_events: 64,
            max_links: 128,
            max_media_bytes: 20 * 1024 * 1024,
        }
    }
}

/// Values in the tree that is made of one JSON text; what has more stays text.
pub(crate) const MAX_NODES: usize = 100_000;
/// Span events that carry messages, scores or times: these are not under the limit of events in metadata.
pub(crate) const MAX_CONTENT_EVENTS: usize = 2_048;
/// Media items taken out of one span; further ones stay in its text.
pub(crate) const MAX_MEDIA_ITEMS: usize = 1_000;
/// Deepest JSON that is kept; deeper parts are null.
pub(crate) const MAX_DEPTH: usize = 64;
/// Array slots that flattened keys under one prefix may open.
pub(crate) const MAX_SLOTS: usize = 10_001;
/// Number arrays longer than this are replaced by a note of their length.
pub(crate) const MAX_NUMBERS: usize = 256;

/// The text truncated to `max_chars` characters.
pub(crate) fn cut_chars(text: &str, max_chars: usize) -> &str {
    if text.len() <= max_chars {
        return text;
    }
    text.char_indices().nth(max_chars).map_or(text, |(at, _)| &text[..at])
}

/// The text truncated to at most `max_bytes` bytes, at a character boundary.
pub(crate) fn cut_bytes(text: &str, max_bytes: usize) -> &str {
    let mut end = max_bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Whether compact JSON is as deep as is kept, with a null in the place of a deeper level.
pub(crate) fn is_deep(json: &str) -> bool {
    let opens = |byte: &u8| matches!(byte, b'{' | b'[');
    let mut brackets = json.bytes().filter(opens);
    // Nearly all JSON has too few of them.
    if brackets.nth(MAX_DEPTH - 1).is_none() {
        return false;
    }
    let (mut depth, mut in_string, mut is_escaped, mut is_deep) = (0_usize, false, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' if depth == MAX_DEPTH => return false,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'n' => is_deep |= depth == MAX_DEPTH,
            _ => {}
        }
    }
    is_deep
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_which_levels_are_missing_is_known() {
        let nested = |n: usize, inner: &str| {
            format!("{}{inner}{}", "{\"a{\":[".repeat(n / 2), "]}".repeat(n / 2))
        };
        assert!(is_deep(&nested(64, "null")));
        for (n, inner) in [(64, "1"), (64, "\"n\""), (62, "null"), (66, "null"), (0, "null")] {
            assert!(!is_deep(&nested(n, inner)), "{n} {inner}");
        }
    }
}
