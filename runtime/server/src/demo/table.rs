//! The scores as a table for a terminal.

use std::fmt::Write;

use serde_json::Value;

/// One line of the table.
pub(super) struct Row {
    /// `trace`, or the observation's name.
    pub(super) about: String,
    /// The customer's question, to know the trace by.
    pub(super) trace: String,
    pub(super) score: Value,
    /// Evaluator name and version.
    pub(super) evaluator: String,
}

/// The first characters of an id or digest: enough to find it again.
fn short(value: &Value) -> &str {
    let text = value.as_str().unwrap_or("-");
    text.get(..8).unwrap_or(text)
}

fn cut(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        None => text.to_owned(),
        Some((end, _)) => {
            let end = text[..end].char_indices().next_back().map_or(0, |(at, _)| at);
            format!("{}…", &text[..end])
        }
    }
}

/// The table, sorted by trace; a score below 1 stands out in colour.
pub(super) fn render(rows: &[Row], colour: bool) -> String {
    let paint = |code: &str, text: String| {
        if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text }
    };
    let mut out = String::new();
    let head = format!(
        "  {:<5}  {:<26} {:<14} {:<9} {:<9} {}",
        "score", "evaluator", "about", "made by", "execution", "why"
    );
    let mut trace = "";
    for row in rows {
        if row.trace != trace {
            trace = &row.trace;
            let _ = writeln!(out, "\n{}", paint("1", format!("“{}”", cut(trace, 90))));
            let _ = writeln!(out, "{}", paint("2", head.clone()));
        }
        let value = row.score["value"].as_f64().unwrap_or(f64::NAN);
        let code = if value < 1.0 { "31" } else { "32" };
        let origin = &row.score["origin"];
        let _ = writeln!(
            out,
            "  {}  {:<26} {:<14} {:<9} {:<9} {}",
            paint(code, format!("{value:>5.2}")),
            cut(&row.evaluator, 26),
            cut(&row.about, 14),
            short(&origin["fingerprint"]),
            short(&origin["executionId"]),
            cut(row.score["comment"].as_str().unwrap_or(""), 60),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_shows_value_maker_and_reason_and_cuts_at_characters() {
        let row = Row {
            about: "answer".to_owned(),
            trace: "Wo ist meine Bestellung? ".repeat(8),
            score: json!({
                "value": 0.25, "comment": "ü".repeat(80),
                "origin": {"fingerprint": "0123456789abcdef", "executionId": "fedcba9876543210"},
            }),
            evaluator: "answer is short v1".to_owned(),
        };
        let text = render(&[row], false);
        assert!(text.contains(" 0.25  answer is short v1"), "{text}");
        assert!(text.contains("01234567  fedcba98"), "{text}");
        assert!(text.contains(&format!("{}…", "ü".repeat(59))), "{text}");
    }
}
