//! Suggestions for a misspelled name.

use crate::filter::{Column, SCORE_COLUMNS};

/// Longer names are typed by no mistake, and the comparison takes time in step with both lengths.
const MAX_CHARS: usize = 40;
const MAX_NAMES: usize = 3;

/// The edit distance, with transpositions.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX / 2);
            let mut best =
                (at(&last, j) + usize::from(x != y)).min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            let is_swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if is_swapped {
                best = best.min(at(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

fn folded(name: &str) -> Vec<char> {
    name.chars().take(MAX_CHARS + 1).flat_map(char::to_lowercase).collect()
}

/// The distance of two names; `None` if they are too different.
fn apart(written: &[char], name: &str) -> Option<usize> {
    let name = folded(name);
    let may_differ = 1 + written.len() / 4;
    if written.len() > MAX_CHARS || written.len().abs_diff(name.len()) > may_differ {
        return None;
    }
    Some(distance(written, &name)).filter(|n| *n <= may_differ && *n < written.len())
}

/// Those of the values nearest in spelling to what was written, the nearest first.
pub(super) fn values(written: &str, values: &[&'static str]) -> Vec<&'static str> {
    best(written, values.iter().map(|value| (*value, *value)))
}

/// The columns nearest in spelling to what was written, the nearest first. Other names of a column count
/// for it.
pub(super) fn columns(written: &str, columns: &'static [Column]) -> Vec<&'static str> {
    let has_scores = columns.iter().any(|column| SCORE_COLUMNS.contains(&column.id));
    let names = columns.iter().flat_map(|column| {
        let names = std::iter::once(&column.id).chain(column.aliases);
        names.map(|name| (*name, column.id))
    });
    best(written, names.chain(has_scores.then_some(("score", "score"))))
}

/// From pairs of a name and its value.
fn best(
    written: &str,
    names: impl Iterator<Item = (&'static str, &'static str)>,
) -> Vec<&'static str> {
    let written = folded(written);
    let mut found: Vec<(usize, &'static str)> =
        names.filter_map(|(name, of)| Some((apart(&written, name)?, of))).collect();
    found.sort_by_key(|(apart, _)| *apart);
    let mut nearest = Vec::new();
    for (_, name) in found {
        if nearest.len() < MAX_NAMES && !nearest.contains(&name) {
            nearest.push(name);
        }
    }
    nearest
}

/// As a question: "did you mean `latency` or `level`?"
pub(super) fn question(nearest: &[&str]) -> Option<String> {
    let (last, first) = nearest.split_last()?;
    Some(match first {
        [] => format!("did you mean `{last}`?"),
        first => format!("did you mean `{}` or `{last}`?", first.join("`, `")),
    })
}
