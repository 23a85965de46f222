//! Numbers in sentences and tables.

/// Three significant digits without an exponent: `0.0123`, `1.5`, `1234`.
#[must_use]
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let n_whole = value.abs().log10().floor() as i64;
    let n_decimals = usize::try_from((2 - n_whole).clamp(0, 9)).unwrap_or_default();
    let text = format!("{value:.n_decimals$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text.as_str(),
    };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// As [`number`], with a sign in front of positive numbers.
#[must_use]
pub fn signed(value: f64) -> String {
    let text = number(value);
    if 0.0 < value && text != "0" { format!("+{text}") } else { text }
}

/// `1 item`, `2 items`.
pub(crate) fn items(n: u64) -> String {
    if n == 1 { "1 item".to_owned() } else { format!("{n} items") }
}

/// Two numbers as [`number`], with all digits if they would look equal and are not.
pub(crate) fn distinct(left: f64, right: f64) -> (String, String) {
    let short = (number(left), number(right));
    let is_same = short.0 == short.1 && left != right;
    if is_same { (left.to_string(), right.to_string()) } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_shown() {
        assert_eq!(number(0.012_345), "0.0123");
        assert_eq!(number(1.5), "1.5");
        assert_eq!(number(1_234.4), "1234");
        assert_eq!(number(-0.2), "-0.2");
        assert_eq!(number(0.0), "0");
        assert_eq!(number(1e-12), "0");
        assert_eq!(signed(0.25), "+0.25");
        assert_eq!(signed(-3.0), "-3");
        assert_eq!(distinct(0.849_96, 0.85), ("0.84996".to_owned(), "0.85".to_owned()));
        assert_eq!(distinct(0.5, 0.75), ("0.5".to_owned(), "0.75".to_owned()));
    }
}
