//! One number of many rows, with what it was before.

/// A number with what it was before.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// What is counted.
    pub label: &'static str,
    /// With its unit.
    pub value: String,
    /// How many of how many, of a share.
    pub of: Option<String>,
    /// It is a value that should not be.
    pub is_bad: bool,
    /// Against the same time before; absent where there was nothing.
    pub change: Option<String>,
    /// Where the rows behind it are.
    pub rows: Option<String>,
}

/// How much larger `now` is than `before`, in percent. Absent where there is nothing to compare with.
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

/// How many points the share `now` is above the share `before`, both in percent. Absent where a share is of nothing.
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
    fn a_change_has_a_sign_and_nothing_is_compared_with_nothing() {
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
