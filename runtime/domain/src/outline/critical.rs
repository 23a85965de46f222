//! The critical path of a trace: what its end waited for.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::time::Timestamp;

use crate::outline::{Outline, OutlineNode};

/// Rows on the path by position, each with the microseconds of the path in which none of the rows below it was waited for.
pub type CriticalPath = BTreeMap<usize, i64>;

/// Walks back from the end of the trace: of the children of an observation, the critical one is the last to end, before
/// it the last to end before that one began, and so on. An open observation ends with the trace; an interval after the
/// end of the parent is clipped.
#[must_use]
pub fn critical_path(outline: &Outline) -> CriticalPath {
    let mut path = CriticalPath::new();
    let Some((start, end)) = outline.period() else {
        return path;
    };
    let rows = outline.rows();
    let mut left = vec![(None, start, end)];
    while let Some((row, from, until)) = left.pop() {
        let mut own_us = 0;
        let mut cursor = until;
        let mut is_last = true;
        for child in latest_first(rows, row, end) {
            let entry = &rows[child];
            let mut ended = entry.end.unwrap_or(end);
            if is_last {
                ended = ended.min(cursor);
            }
            let began = entry.start.max(from);
            if cursor < ended || ended <= began {
                continue;
            }
            is_last = false;
            own_us += cursor.micros_since(ended);
            left.push((Some(child), began, ended));
            cursor = began;
        }
        own_us += cursor.micros_since(from);
        if let Some(row) = row {
            path.insert(row, own_us);
        }
    }
    path
}

/// The rows directly below a row, or those of the top level.
fn latest_first(rows: &[OutlineNode], above: Option<usize>, open_end: Timestamp) -> Vec<usize> {
    let behind = above.map_or(rows.len(), |at| at + 1 + rows[at].n_below as usize);
    let mut next = above.map_or(0, |at| at + 1);
    let mut found = Vec::new();
    while next < behind {
        found.push(next);
        next += 1 + rows[next].n_below as usize;
    }
    // Of those that end together the one that began first was waited for longest.
    found.sort_by_key(|at| (Reverse(rows[*at].end.unwrap_or(open_end)), rows[*at].start));
    found
}

#[cfg(test)]
mod tests {
    use crate::observation::{Level, ObservationKind};
    use crate::telemetry::ObservationSummary;
    use proptest::prelude::*;

    use super::*;

    fn observation(id: &str, parent: Option<&str>, from_ms: i64, to_ms: i64) -> ObservationSummary {
        ObservationSummary {
            id: id.to_owned(),
            parent_id: parent.map(str::to_owned),
            kind: ObservationKind::Span,
            name: id.to_owned(),
            level: Level::Default,
            start: Timestamp::from_millis(from_ms),
            end: Some(Timestamp::from_millis(to_ms)),
            first_token: None,
            model: None,
            tokens: None,
            cost: None,
        }
    }

    fn named(outline: &Outline) -> Vec<(String, i64)> {
        let found = critical_path(outline).into_iter();
        let found = found.map(|(at, us)| (outline.rows()[at].id().to_owned(), us / 1_000));
        found.collect()
    }

    #[test]
    fn of_concurrent_children_the_last_to_end_is_critical() {
        let outline = Outline::new(vec![
            observation("root", None, 0, 100),
            observation("search", Some("root"), 10, 40),
            observation("slower", Some("root"), 10, 60),
            observation("inner", Some("slower"), 20, 50),
            observation("answer", Some("root"), 70, 95),
            observation("in the background", Some("root"), 72, 90),
        ]);
        let own = |id: &str, ms| (id.to_owned(), ms);
        assert_eq!(
            named(&outline),
            [own("root", 25), own("slower", 20), own("inner", 30), own("answer", 25)]
        );
    }

    #[test]
    fn of_children_with_equal_end_the_first_to_start_is_critical() {
        let outline = Outline::new(vec![
            observation("root", None, 0, 100),
            observation("long", Some("root"), 0, 100),
            observation("short", Some("root"), 90, 100),
        ]);
        let own = |id: &str, ms| (id.to_owned(), ms);
        assert_eq!(named(&outline), [own("root", 0), own("long", 100)]);
    }

    #[test]
    fn children_are_clipped_at_the_end_of_their_parent() {
        let outline = Outline::new(vec![
            observation("root", None, 0, 50),
            observation("child", Some("root"), 40, 90),
            observation("after", None, 60, 100),
        ]);
        let own = |id: &str, ms| (id.to_owned(), ms);
        assert_eq!(named(&outline), [own("root", 40), own("child", 10), own("after", 40)]);
    }

    proptest! {
        #[test]
        fn the_path_is_never_longer_than_the_trace(
            edges in prop::collection::vec((0..20_usize, 0..100_i64, 0..100_i64), 1..40),
        ) {
            let observations = edges.iter().enumerate().map(|(at, (parent, from, ms))| {
                let parent = (*parent < at).then(|| format!("o{parent}"));
                observation(&format!("o{at}"), parent.as_deref(), *from, from + ms)
            });
            let outline = Outline::new(observations.collect());
            let (start, end) = outline.period().unwrap();
            let found = critical_path(&outline);
            prop_assert!(found.values().all(|us| 0 <= *us));
            prop_assert!(found.values().sum::<i64>() <= end.micros_since(start));
            // The last child to end is on the path.
            let last = outline.rows().iter().filter(|row| row.parent.is_none() && row.start < end);
            if last.clone().any(|row| row.end == Some(end)) {
                prop_assert!(!found.is_empty());
            }
        }
    }
}
