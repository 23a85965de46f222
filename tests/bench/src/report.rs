//! Figures with their bars, as a table and as JSON.

use std::io::IsTerminal;

use serde_json::{Value, json};

/// What a figure must reach.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bar {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// For information.
    None,
}

/// One measured figure.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// Scenario.
    pub(crate) scenario: &'static str,
    /// What was measured.
    pub(crate) what: String,
    /// The value.
    pub(crate) value: f64,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// What it must reach.
    pub(crate) bar: Bar,
}

impl Figure {
    fn verdict(&self) -> Option<bool> {
        match self.bar {
            Bar::AtLeast(bar) => Some(bar <= self.value),
            Bar::AtMost(bar) => Some(self.value <= bar),
            Bar::None => None,
        }
    }

    fn bar_text(&self) -> String {
        match self.bar {
            Bar::AtLeast(bar) => format!(">= {}", number(bar)),
            Bar::AtMost(bar) => format!("<= {}", number(bar)),
            Bar::None => String::new(),
        }
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        large if 1_000.0 <= large => {
            let digits = format!("{:.0}", large);
            let mut out = String::new();
            for (at, digit) in digits.chars().enumerate() {
                if at != 0 && (digits.len() - at).is_multiple_of(3) {
                    out.push(',');
                }
                out.push(digit);
            }
            if value < 0.0 { format!("-{out}") } else { out }
        }
        middle if 10.0 <= middle => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// The table, one line a figure.
#[must_use]
pub(crate) fn table(figures: &[Figure]) -> String {
    let colour = |code: u8, text: &str| {
        if std::io::stdout().is_terminal() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    };
    let wide = figures.iter().map(|figure| figure.what.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for figure in figures {
        let verdict = match figure.verdict() {
            Some(true) => colour(32, "ok"),
            Some(false) => colour(31, "MISSED"),
            None => String::new(),
        };
        out.push_str(&format!(
            "{:<10} {:<wide$} {:>12} {:<8} {:>12}  {verdict}\n",
            figure.scenario,
            figure.what,
            number(figure.value),
            figure.unit,
            figure.bar_text(),
        ));
    }
    out
}

/// The same as JSON.
#[must_use]
pub(crate) fn to_json(figures: &[Figure]) -> Value {
    figures
        .iter()
        .map(|figure| {
            let (at_least, at_most) = match figure.bar {
                Bar::AtLeast(bar) => (Some(bar), None),
                Bar::AtMost(bar) => (None, Some(bar)),
                Bar::None => (None, None),
            };
            json!({
                "scenario": figure.scenario, "what": figure.what, "value": figure.value, "unit": figure.unit,
                "atLeast": at_least, "atMost": at_most, "met": figure.verdict(),
            })
        })
        .collect()
}
