//! Parts of addresses.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What stays as it is in an address (RFC 3986, 2.3), beside letters and digits.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// As a part of an address: a segment of its path, or a value of its query.
#[must_use]
pub fn encode(raw: &str) -> String {
    utf8_percent_encode(raw, ESCAPED).to_string()
}

/// A path with these parameters behind it.
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

/// An id as a segment of a path. Browsers take the segments `.` and `..` for steps in the path, escaped too: these two ids
/// are written behind a tilde, and so is what looks like an id written in this way.
#[must_use]
pub fn segment(id: &str) -> String {
    match id.trim_start_matches('~') {
        "." | ".." => format!("~{id}"),
        _ => encode(id),
    }
}

/// The id of what [`segment`] wrote, once its escapes are read.
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
    fn each_id_has_a_segment_of_its_own_that_no_browser_takes_for_a_step() {
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
