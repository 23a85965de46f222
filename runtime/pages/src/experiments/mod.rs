//! Experiments: runs, a run, comparisons of runs and gates.

pub(crate) mod compare;
mod comparison;
mod contents;
pub(crate) mod delete;
pub(crate) mod direction;
pub(crate) mod export;
pub(crate) mod gate;
pub(crate) mod item;
pub(crate) mod list;
mod markdown;
pub(crate) mod new;
mod progress;
pub(crate) mod rename;
mod report;
pub(crate) mod run;
mod verdicts;

use perpend_views::{PageLinks, count};

/// The index of the first shown row: `at` rounded down to a page that has rows.
fn page_start(at: &str, n_rows: usize, size: usize) -> usize {
    let at: usize = at.trim().parse().unwrap_or_default();
    let last = n_rows.saturating_sub(1) / size * size;
    (at / size * size).min(last)
}

/// `26–50 of 340`.
fn position(at: usize, n_shown: usize, n_rows: usize) -> String {
    let [from, to, all] = [at + 1, at + n_shown, n_rows].map(|n| count(n as u64));
    format!("{from}–{to} of {all}")
}

/// Links to the pages before and after the one that starts at `at`.
fn page_links(
    at: usize,
    (n_shown, n_rows): (usize, usize),
    size: usize,
    address: impl Fn(usize) -> String,
) -> PageLinks {
    let end = at + n_shown;
    PageLinks {
        first: (size < at).then(|| address(0)),
        previous: (0 < at).then(|| ("Earlier", address(at.saturating_sub(size)))),
        next: (end < n_rows).then(|| ("Later", address(end))),
        last: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_starts_at_a_multiple_of_its_size_and_has_rows() {
        for (at, start) in [("", 0), ("25", 25), ("30", 25), ("900", 75), ("-1", 0)] {
            assert_eq!(page_start(at, 80, 25), start, "{at}");
        }
        assert_eq!(page_start("25", 0, 25), 0);
        assert_eq!(position(25, 25, 1_340), "26–50 of 1,340");
        let links = page_links(50, (25, 80), 25, |at| format!("?at={at}"));
        assert_eq!(links.first.as_deref(), Some("?at=0"));
        assert_eq!(links.previous.map(|(_, href)| href).as_deref(), Some("?at=25"));
        assert_eq!(links.next.map(|(_, href)| href).as_deref(), Some("?at=75"));
    }
}
