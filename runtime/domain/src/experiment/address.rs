//! Ids of runs in paths, where some words have a meaning of their own.

use std::borrow::Cow;

/// Segments in place of the id of a run, such as in `experiments/compare`.
const RESERVED: [&str; 4] = ["compare", "direction", "new", "results"];

/// The id of a run as a path segment, before percent-encoding: reserved words, and ids that look like their escaped form, get the
/// prefix `~`.
#[must_use]
pub fn escaped_run_id(id: &str) -> Cow<'_, str> {
    match RESERVED.contains(&id.trim_start_matches('~')) {
        true => format!("~{id}").into(),
        false => id.into(),
    }
}

/// The id of a run that was escaped with [`escaped_run_id`].
#[must_use]
pub fn unescaped_run_id(segment: &str) -> &str {
    match segment.strip_prefix('~') {
        Some(id) if RESERVED.contains(&id.trim_start_matches('~')) => id,
        _ => segment,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_of_a_run_has_a_segment_of_its_own_that_is_not_reserved() {
        let ids = ["compare", "~compare", "~~compare", "new", "compared", "~", "~a", "results"];
        let segments = ids.map(escaped_run_id);
        for (id, segment) in ids.iter().zip(&segments) {
            assert!(!RESERVED.contains(&segment.as_ref()), "{id}");
            assert_eq!(unescaped_run_id(segment), *id);
        }
        let different: std::collections::BTreeSet<_> = segments.iter().collect();
        assert_eq!(different.len(), ids.len());
    }
}
