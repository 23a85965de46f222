//! The outline of a trace for a model: one line for each observation.

use std::cmp::Reverse;

use perpend_plugin::trace::{self, Kind, OutlineEntry, Part, Severity, TraceError};
use perpend_plugin::{EvalError, TraceRef};

/// The bytes of a name that are shown.
const MAX_NAME: usize = 100;
/// The maximum number of levels of indentation.
const MAX_INDENT: u32 = 20;

/// The entries of the outline of a trace.
///
/// # Errors
/// `invalid-input` when the trace is too large for an outline, `upstream` when it cannot be read.
pub(crate) fn entries(trace: &TraceRef) -> Result<Vec<OutlineEntry>, EvalError> {
    trace::outline(&trace.trace_id, None).map_err(|error| match error {
        TraceError::TooLarge(why) => EvalError::invalid_input(format!("context_too_long: {why}")),
        other => other.into(),
    })
}

/// The line of an observation. `judged` is the id of the observation that is scored.
pub(crate) fn line(entry: &OutlineEntry, judged: Option<&str>) -> String {
    let mut line = "  ".repeat(entry.depth.min(MAX_INDENT) as usize);
    line.push_str(&one_line(&entry.id, usize::MAX));
    line.push(' ');
    line.push_str(kind(entry.kind));
    if let Some(name) = &entry.name {
        line.push_str(&format!(" \"{}\"", one_line(name, MAX_NAME)));
    }
    match entry.severity {
        Severity::Error => line.push_str(" ERROR"),
        Severity::Warning => line.push_str(" WARNING"),
        Severity::Standard | Severity::Debug => {}
    }
    if let Some(duration) = entry.duration_ms {
        line.push_str(&format!(" {duration} ms"));
    }
    line.push_str(&format!(", input {} B, output {} B", entry.input_size, entry.output_size));
    if entry.n_children > 0 {
        line.push_str(&format!(", {} below", entry.n_children));
    }
    if judged == Some(entry.id.as_str()) {
        line.push_str(", the judged one");
    }
    line.push('\n');
    line
}

/// The outline in at most `budget` bytes, in tree order, and the number of observations in it. When not all fit, the judged
/// observation has priority, then failed observations, then those near the root.
pub(crate) fn render(
    entries: &[OutlineEntry],
    judged: Option<&str>,
    budget: usize,
) -> (String, usize) {
    /// The bytes reserved for the note about omitted lines.
    const GAP: usize = 40;
    let lines: Vec<String> = entries.iter().map(|entry| line(entry, judged)).collect();
    if lines.iter().map(String::len).sum::<usize>() <= budget {
        return (lines.concat(), lines.len());
    }
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|at| {
        let entry = &entries[*at];
        let is_judged = judged == Some(entry.id.as_str());
        (Reverse(is_judged), rank(entry.severity), entry.depth, *at)
    });
    let mut remaining = budget;
    let mut is_shown = vec![false; entries.len()];
    for at in order {
        let Some(rest) = remaining.checked_sub(lines[at].len() + GAP) else {
            break;
        };
        remaining = rest;
        is_shown[at] = true;
    }
    let mut text = String::new();
    let mut n_absent = 0;
    let gap = |n_absent: &mut usize, text: &mut String| {
        if 0 < *n_absent {
            text.push_str(&format!("[{n_absent} observations left out]\n"));
        }
        *n_absent = 0;
    };
    for (line, is_shown) in lines.iter().zip(&is_shown) {
        if *is_shown {
            gap(&mut n_absent, &mut text);
            text.push_str(line);
        } else {
            n_absent += 1;
        }
    }
    gap(&mut n_absent, &mut text);
    (text, is_shown.into_iter().filter(|is_shown| *is_shown).count())
}

/// The first `n_bytes` of a text, with control characters replaced by spaces.
pub(crate) fn one_line(text: &str, n_bytes: usize) -> String {
    let short = &text[..text.floor_char_boundary(n_bytes)];
    let flat = short.chars().map(|char| match char.is_control() {
        true => ' ',
        false => char,
    });
    let dots = if short.len() < text.len() { "…" } else { "" };
    flat.collect::<String>() + dots
}

/// The rank of a severity; 0 is the most severe.
pub(crate) const fn rank(severity: Severity) -> u8 {
    match severity {
        Severity::Error => 0,
        Severity::Warning => 1,
        Severity::Standard => 2,
        Severity::Debug => 3,
    }
}

pub(crate) const fn part_name(part: Part) -> &'static str {
    match part {
        Part::Input => "input",
        Part::Output => "output",
        Part::Metadata => "metadata",
    }
}

const fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Span => "span",
        Kind::Generation => "generation",
        Kind::Event => "event",
        Kind::Agent => "agent",
        Kind::Tool => "tool",
        Kind::Chain => "chain",
        Kind::Retriever => "retriever",
        Kind::Evaluator => "evaluator",
        Kind::Embedding => "embedding",
        Kind::Guardrail => "guardrail",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_describes_an_observation_and_its_name_has_no_line_break() {
        let entry = OutlineEntry {
            id: "o1".to_owned(),
            depth: 2,
            kind: Kind::Tool,
            name: Some(format!("look\nup{}", "x".repeat(200))),
            severity: Severity::Error,
            duration_ms: Some(12),
            input_size: 3,
            n_children: 1,
            ..OutlineEntry::default()
        };
        let name = format!("look up{}…", "x".repeat(93));
        assert_eq!(
            line(&entry, Some("o1")),
            format!(
                "    o1 tool \"{name}\" ERROR 12 ms, input 3 B, output 0 B, 1 below, the judged one\n"
            )
        );
    }

    #[test]
    fn omitted_lines_are_counted_in_place_and_failed_observations_are_kept() {
        let entry = |n: usize| OutlineEntry {
            id: format!("o{n}"),
            depth: u32::from(n > 0),
            severity: match n {
                7 => Severity::Error,
                _ => Severity::Standard,
            },
            ..OutlineEntry::default()
        };
        let entries: Vec<_> = (0..10).map(entry).collect();
        let (whole, n_lines) = render(&entries, None, 10_000);
        assert_eq!((whole.lines().count(), n_lines), (10, 10));
        let (text, n_lines) = render(&entries, Some("o4"), 260);
        let shown: Vec<_> = text.lines().map(|line| line.trim().split(' ').next()).collect();
        assert_eq!(shown, ["o0", "[3", "o4", "[2", "o7", "[2"].map(Some), "{text}");
        assert!(n_lines == 3 && text.len() <= 260, "{text}");
        let (nothing, n_lines) = render(&entries, None, 0);
        assert_eq!((nothing.as_str(), n_lines), ("[10 observations left out]\n", 0));
    }
}
