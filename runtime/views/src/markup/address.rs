//! URL encoding.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything except letters, digits and the other unreserved characters (RFC 3986, 2.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes a path segment or a query value.
#[must_use]
pub fn encode(raw: &str) -> String {
    utf8_percent_encode(raw, ESCAPED).to_string()
}

/// Appends query parameters to a path.
#[must_use]
pub fn with_query<N: AsRef<str>>(path: &str, pairs: &[(N, String)]) -> String {
    let mut all = path.to_owned();
    for (at, (name, value)) in pairs.iter().enumerate() {
        all.push(if at == 0 { '?' } else { '&' });
        all.push_str(&encode(name.as_ref()));
        all.push('=');
        all.push_str(&encode(value));
    }
    all
}

/// Encodes an id as a path segment. Browsers resolve the segments `.` and `..`, even if percent-encoded, so these ids, and ids
/// that look like their encoding, get the prefix `~`.
#[must_use]
pub fn segment(id: &str) -> String {
    match id.trim_start_matches('~') {
        "." | ".." => format!("~{id}"),
        _ => encode(id),
    }
}

/// The id of a percent-decoded path segment that was encoded with [`segment`].
#[must_use]
pub fn decode_segment(segment: &str) -> &str {
    match segment.trim_start_matches('~') {
        "." | ".." => segment.strip_prefix('~').unwrap_or(segment),
        _ => segment,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_has_a_unique_segment_that_browsers_do_not_resolve() {
        let ids = [".", "..", "~.", "~..", "~~.", "...", "~", "~a", "a/b"];
        let segments = ids.map(segment);
        for (id, written) in ids.iter().zip(&segments) {
            assert!(written != "." && written != "..", "{id}");
            assert_eq!(decode_segment(&written.replace("%2F", "/")), *id);
        }
        let different: std::collections::BTreeSet<_> = segments.iter().collect();
        assert_eq!(different.len(), ids.len());
    }
}
