//! Suggestions for a misspelled name.

use crate::filter::{Column, SCORE_COLUMNS};

/// Longer names get no suggestion: the comparison takes time proportional to the product of both lengths.
const MAX_CHARS: usize = 40;
const MAX_NAMES: usize = 3;

fn folded(name: &str) -> String {
    name.chars().take(MAX_CHARS + 1).flat_map(char::to_lowercase).collect()
}

/// The edit distance of two names, with transpositions; `None` if they are too different.
fn distance(written: &str, name: &str) -> Option<usize> {
    let name = folded(name);
    let n_written = written.chars().count();
    let max_distance = 1 + n_written / 4;
    if MAX_CHARS < n_written || max_distance < n_written.abs_diff(name.chars().count()) {
        return None;
    }
    let distance = strsim::osa_distance(written, &name);
    (distance <= max_distance && distance < n_written).then_some(distance)
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
        names.filter_map(|(name, of)| Some((distance(&written, name)?, of))).collect();
    found.sort_by_key(|(distance, _)| *distance);
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
