//! Numbers as Python and JavaScript print them, and the closeness of two numbers.

use crate::Profile;
use perpend_plugin::{Json, Number};

/// Digits and decimal exponent of the shortest text that reads back as the same number:
/// `0.00012` is `("12", -4)`.
fn shortest(number: f64) -> (String, i32) {
    let text = format!("{:e}", number.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.replace('.', ""), exponent.parse().unwrap_or(0))
}

/// A finite number in plain notation, without a fraction when it is an integer.
fn plain(digits: &str, exponent: i32) -> String {
    let n_digits = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or(0));
    if exponent < 0 {
        return format!("0.{}{digits}", zeros(-exponent - 1));
    }
    if n_digits <= exponent + 1 {
        return format!("{digits}{}", zeros(exponent + 1 - n_digits));
    }
    let (whole, fraction) = digits.split_at(usize::try_from(exponent + 1).unwrap_or(0));
    format!("{whole}.{fraction}")
}

fn scientific(digits: &str) -> String {
    let (first, rest) = digits.split_at(1);
    if rest.is_empty() { first.to_owned() } else { format!("{first}.{rest}") }
}

/// A float as Python prints it: `1.0`, `1e-07`, `1e+16`.
#[must_use]
pub fn print_py(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() {
            "nan"
        } else if number > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .to_owned();
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    let (digits, exponent) = shortest(number);
    if !(-4..16).contains(&exponent) {
        let mark = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{}e{mark}{:02}", scientific(&digits), exponent.abs());
    }
    let text = plain(&digits, exponent);
    let fraction = if text.contains('.') { "" } else { ".0" };
    format!("{sign}{text}{fraction}")
}

/// A number as JavaScript prints it: `1`, `1e-7`, `1e+21`.
fn print_js(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    if !number.is_finite() {
        return if number.is_nan() {
            "NaN"
        } else if number > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .to_owned();
    }
    let sign = if number < 0.0 { "-" } else { "" };
    let (digits, exponent) = shortest(number);
    if !(-6..21).contains(&exponent) {
        let mark = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{}e{mark}{}", scientific(&digits), exponent.abs());
    }
    format!("{sign}{}", plain(&digits, exponent))
}

/// A JSON number as the language of the profile prints it after parsing.
pub(crate) fn print(number: &Number, profile: Profile) -> String {
    match profile {
        Profile::Js => print_js(number.as_f64()),
        Profile::Py if !number.is_integer() => print_py(number.as_f64()),
        // Python's integers have no negative zero and no limit.
        Profile::Py if number.as_str() == "-0" => "0".to_owned(),
        Profile::Py => number.as_str().to_owned(),
    }
}

/// The number of a value: of numbers and booleans; in profile js also of text and null, as that language
/// converts them. `None` for other values.
#[must_use]
pub fn number_of(value: &Json, profile: Profile) -> Option<f64> {
    match value {
        Json::Bool(yes) => Some(f64::from(u8::from(*yes))),
        Json::Number(number) => Some(number.as_f64()),
        Json::Null if profile == Profile::Js => Some(0.0),
        Json::Text(text) if profile == Profile::Js => coerced(text.trim()),
        _ => None,
    }
}

/// 1 − |a − b| / (|a| + |b|), and 1 when both are 0. `None` when a number is beyond the range of a float.
#[must_use]
pub fn closeness(a: f64, b: f64) -> Option<f64> {
    let sum = a.abs() + b.abs();
    if sum == 0.0 {
        return Some(1.0);
    }
    if sum.is_infinite() && a.is_finite() && b.is_finite() {
        return closeness(a / 2.0, b / 2.0);
    }
    let closeness = 1.0 - (a - b).abs() / sum;
    closeness.is_finite().then_some(closeness)
}

fn coerced(text: &str) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    let looks_decimal =
        text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    text.parse().ok().filter(|_| looks_decimal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_profile_prints_as_its_language_does() {
        for (written, py, js) in [
            ("1", "1", "1"),
            ("1.0", "1.0", "1"),
            ("-0", "0", "0"),
            ("-0.0", "-0.0", "0"),
            ("1e-7", "1e-07", "1e-7"),
            ("0.00001", "1e-05", "0.00001"),
            ("1e16", "1e+16", "10000000000000000"),
            ("123456.75", "123456.75", "123456.75"),
            ("1.5e300", "1.5e+300", "1.5e+300"),
            ("100000000000000000000000", "100000000000000000000000", "1e+23"),
        ] {
            let Ok(Json::Number(number)) = Json::parse(written) else { panic!("{written}") };
            assert_eq!(print(&number, Profile::Py), py, "{written} in Python");
            assert_eq!(print(&number, Profile::Js), js, "{written} in JavaScript");
        }
    }

    #[test]
    fn a_value_without_a_finite_number_is_none() {
        let huge = number_of(&Json::parse("1e400").unwrap(), Profile::Py).unwrap();
        assert_eq!(closeness(huge, huge), None);
        assert_eq!(number_of(&Json::Null, Profile::Py), None);
        assert_eq!(number_of(&Json::from("twelve"), Profile::Js), None);
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        assert_eq!(closeness(f64::MAX, f64::MAX), Some(1.0));
        assert_eq!(closeness(f64::MAX, f64::MIN), Some(0.0));
    }
}
