//! The digest of everything that produces a score (evaluation.md 1.1): SHA-256 over RFC 8785 JSON.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::evaluation::Fingerprint;
use crate::plugin::Digest;
use crate::slots::FingerprintSlot;

/// The fingerprint of one version.
#[must_use]
pub fn fingerprint(
    plugin: &Digest,
    evaluator: &str,
    config: &Value,
    slots: &[FingerprintSlot<'_>],
) -> Fingerprint {
    let slots = slots.iter().map(|slot| (slot.name.to_owned(), slot.value()));
    let slots: Map<String, Value> = slots.collect();
    let made_of = json!({
        "plugin_digest": plugin,
        "evaluator_id": evaluator,
        "config": config,
        "slots": slots,
        "prompt_text": null,
    });
    Digest::of(canonical(&made_of).as_bytes())
}

/// RFC 8785: keys in order of their UTF-16 units, numbers as ECMAScript prints them.
#[must_use]
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(left, _), (right, _)| left.encode_utf16().cmp(right.encode_utf16()));
            out.push('{');
            for (at, (key, member)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                // serde_json escapes strings as the RFC wants: short forms, else lower-case \u00xx.
                let _ = write!(out, "{}:", Value::from(key.as_str()));
                write(member, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Number(number) => out.push_str(&ecmascript(number.as_f64().unwrap_or(0.0))),
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

/// `Number::toString` of ECMAScript for a finite number.
fn ecmascript(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    // The shortest digits that read back as the same number, as `d.ddde±x`.
    let text = format!("{:e}", number.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = mantissa.replace('.', "");
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let n_digits = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let sign = if number < 0.0 { "-" } else { "" };
    // Number of digits before the decimal point.
    let point = exponent + 1;
    let split = usize::try_from(point).unwrap_or(0);
    match point {
        _ if n_digits <= point && point <= 21 => {
            format!("{sign}{digits}{}", "0".repeat(split - digits.len()))
        }
        1..=21 => format!("{sign}{}.{}", &digits[..split], &digits[split..]),
        -5..=0 => {
            let zeros = "0".repeat(usize::try_from(-point).unwrap_or(0));
            format!("{sign}0.{zeros}{digits}")
        }
        _ => {
            let (first, rest) = digits.split_at(1);
            let dot = if rest.is_empty() { "" } else { "." };
            let plus = if exponent < 0 { "" } else { "+" };
            format!("{sign}{first}{dot}{rest}e{plus}{exponent}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_the_rfc_shows_them() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (9_007_199_254_740_992.0, "9007199254740992"),
            (295_147_905_179_352_830_000.0, "295147905179352830000"),
            (1e21, "1e+21"),
            (9.999_999_999_999_997e22, "9.999999999999997e+22"),
            (0.000_001, "0.000001"),
            (1e-7, "1e-7"),
            (333_333_333.333_333_3, "333333333.3333333"),
            (5e-324, "5e-324"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
        ] {
            assert_eq!(ecmascript(number), text);
        }
    }

    #[test]
    fn keys_are_ordered_by_utf16_units_and_text_is_escaped_shortly() {
        let value = json!({ "\u{fb33}": 1, "\u{1f600}": 2, "b": 1.0, "a": "\u{7f}\n\u{1}\"é" });
        let text = "{\"a\":\"\u{7f}\\n\\u0001\\\"é\",\"b\":1,\"\u{1f600}\":2,\"\u{fb33}\":1}";
        assert_eq!(canonical(&value), text);
    }

    #[test]
    fn the_order_of_members_does_not_matter_and_each_part_does() {
        let digest = Digest::of(b"x");
        let config = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let one = fingerprint(&digest, "e", &config(r#"{"a":1,"b":2}"#), &[]);
        assert_eq!(one, fingerprint(&digest, "e", &config(r#"{"b":2.0,"a":1}"#), &[]));
        assert_ne!(one, fingerprint(&digest, "f", &config(r#"{"a":1,"b":2}"#), &[]));
        assert_ne!(one, fingerprint(&digest, "e", &config(r#"{"a":1,"b":3}"#), &[]));
        assert_ne!(one, fingerprint(&Digest::of(b"y"), "e", &config(r#"{"a":1,"b":2}"#), &[]));
    }
}
