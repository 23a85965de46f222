//! Text for a terminal: tables, sizes, durations. Control characters in the text of guests are escaped.

use std::fmt::Write as _;

/// The maximum width of a cell; longer texts end in an ellipsis. The last column is not cut.
const MAX_CELL: usize = 48;
const MAX_LAST: usize = 200;

/// A table with a header.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        let head = head.iter().map(|cell| (*cell).to_owned()).collect();
        Self { rows: vec![head] }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        let last = N.saturating_sub(1);
        let cells = cells.into_iter().enumerate();
        let cells = cells
            .map(|(at, cell)| cut(&inert(&cell), if at == last { MAX_LAST } else { MAX_CELL }));
        self.rows.push(cells.collect());
    }

    pub(crate) fn render(&self) -> String {
        let n_columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..n_columns)
            .map(|at| {
                let cells = self.rows.iter().filter_map(|row| row.get(at));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                let _ = write!(line, "{cell:width$}  ");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// The text with line breaks replaced by spaces and other control characters escaped.
pub(crate) fn inert(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' | '\r' => out.push(' '),
            c if c.is_control() || is_steering(c) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// As [`inert`], line by line.
pub(crate) fn lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(inert).collect();
    lines.join("\n")
}

/// Whether a character changes the direction of text.
fn is_steering(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most - 1).collect();
    short.push('…');
    short
}

/// A size with its unit.
pub(crate) fn size(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    match bytes {
        0..KIB => format!("{bytes} B"),
        KIB..MIB => format!("{} KiB", bytes.div_ceil(KIB)),
        _ => format!("{:.1} MiB", bytes as f64 / MIB as f64),
    }
}

/// A duration in microseconds, with its unit.
pub(crate) fn micros(us: f64) -> String {
    if us < 1_000.0 {
        format!("{us:.1} us")
    } else if us < 1_000_000.0 {
        format!("{:.2} ms", us / 1_000.0)
    } else {
        format!("{:.2} s", us / 1_000_000.0)
    }
}

/// `1 item`, `2 items`.
pub(crate) fn pluralized(n: usize, what: &str) -> String {
    let ending = if n == 1 { "" } else { "s" };
    format!("{n} {what}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_control_characters_are_escaped() {
        let mut table = Table::new(&["item", "comment"]);
        table.row(["a".to_owned(), "red\u{1b}[31m\nnext".to_owned()]);
        table.row(["longer".to_owned(), "ü".to_owned()]);
        assert_eq!(table.render(), "item    comment\na       red\\u{1b}[31m next\nlonger  ü\n");
    }

    #[test]
    fn sizes_and_durations_have_a_suitable_unit() {
        assert_eq!((size(12).as_str(), size(2048).as_str()), ("12 B", "2 KiB"));
        assert_eq!(size(3 << 20), "3.0 MiB");
        assert_eq!(micros(7.25), "7.2 us");
        assert_eq!(micros(1_500.0), "1.50 ms");
    }
}
