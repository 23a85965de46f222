//! A figure with its change.

/// A figure with its change.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// Label.
    pub label: &'static str,
    /// Value with unit.
    pub value: String,
    /// `2 of 41`, for a share.
    pub of: Option<String>,
    /// Whether the value indicates a problem.
    pub is_bad: bool,
    /// Change relative to the previous period; absent without data.
    pub change: Option<String>,
    /// URL of its rows.
    pub rows: Option<String>,
}

/// Change in percent; `None` if `before` is not positive.
#[must_use]
pub fn percent_change(now: f64, before: f64) -> Option<String> {
    if before <= 0.0 || !now.is_finite() {
        return None;
    }
    let percent = ((now / before - 1.0) * 100.0).round();
    Some(match percent {
        0.0 => "unchanged".to_owned(),
        p if 1_000.0 < p => "over 10×".to_owned(),
        p if p < 0.0 => format!("−{:.0} %", -p),
        p => format!("+{p:.0} %"),
    })
}

/// Change of a share in percentage points; `None` if a share is undefined.
#[must_use]
pub fn point_change(now: f64, before: f64) -> Option<String> {
    let points = ((now - before) * 10.0).round() / 10.0;
    if !points.is_finite() {
        return None;
    }
    Some(match points {
        0.0 => "unchanged".to_owned(),
        p if p < 0.0 => format!("−{:.1} points", -p),
        p => format!("+{p:.1} points"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_a_sign_and_needs_a_previous_value() {
        let shown = [(150.0, 100.0), (50.0, 100.0), (100.2, 100.0), (1.0, 0.0)];
        let shown = shown.map(|(now, before)| percent_change(now, before));
        let wanted = [Some("+50 %"), Some("−50 %"), Some("unchanged"), None];
        assert_eq!(shown, wanted.map(|text| text.map(str::to_owned)));
        let shown = [(5.6, 3.5), (3.5, 5.6), (3.51, 3.49), (3.5, f64::NAN)];
        let shown = shown.map(|(now, before)| point_change(now, before));
        let wanted = [Some("+2.1 points"), Some("−2.1 points"), Some("unchanged"), None];
        assert_eq!(shown, wanted.map(|text| text.map(str::to_owned)));
    }
}
