//! Parses response headers about rate limits: the time to wait, and the remaining requests and tokens.

use std::time::Duration;

use perpend_domain::time::Timestamp;

use crate::failure::MAX_RETRY_AFTER;
use crate::gate::{Quota, Remaining};

/// The time to wait: `retry-after-ms`, or `retry-after` in seconds or as a date. At most 15 minutes.
pub(crate) fn retry_after<'h>(
    header: impl Fn(&str) -> Option<&'h str>,
    now: Timestamp,
) -> Option<Duration> {
    let milliseconds = header("retry-after-ms").and_then(|text| seconds(text, 1000.0));
    let other = || {
        let text = header("retry-after")?;
        seconds(text, 1.0).or_else(|| until(http_date(text)?, now))
    };
    let wait = milliseconds.or_else(other)?;
    Some(wait.min(MAX_RETRY_AFTER))
}

/// Parses a number of units of 1 / `parts` seconds.
fn seconds(text: &str, parts: f64) -> Option<Duration> {
    let number: f64 = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(number / parts).ok()
}

fn http_date(text: &str) -> Option<Timestamp> {
    let at = jiff::fmt::rfc2822::parse(text.trim()).ok()?;
    Some(Timestamp::from_millis(at.timestamp().as_millisecond()))
}

/// The time from `now` until `then`; zero when `then` has passed.
fn until(then: Timestamp, now: Timestamp) -> Option<Duration> {
    let micros = then.micros_since(now).max(0);
    Some(Duration::from_micros(micros.unsigned_abs()))
}

/// The remaining requests and tokens, from the headers of OpenAI and compatible servers or of Anthropic.
pub(crate) fn remaining<'h>(header: impl Fn(&str) -> Option<&'h str>, now: Timestamp) -> Remaining {
    let quota = |n: &str, reset: &str| {
        let n = header(n)?.trim().parse().ok()?;
        let reset = header(reset).and_then(|text| reset_in(text, now));
        let reset = reset.map(|reset| reset.min(MAX_RETRY_AFTER));
        Some(Quota { n, reset })
    };
    let of = |what: &str| {
        let openai =
            quota(&format!("x-ratelimit-remaining-{what}"), &format!("x-ratelimit-reset-{what}"));
        openai.or_else(|| {
            quota(
                &format!("anthropic-ratelimit-{what}-remaining"),
                &format!("anthropic-ratelimit-{what}-reset"),
            )
        })
    };
    Remaining { requests: of("requests"), tokens: of("tokens") }
}

/// Parses `1s`, `6m0s`, `20ms`, a date, or a number of seconds.
fn reset_in(text: &str, now: Timestamp) -> Option<Duration> {
    span(text).or_else(|| seconds(text, 1.0)).or_else(|| until(Timestamp::parse(text).ok()?, now))
}

/// Parses a duration in Go's notation, such as `1h2m3.5s`; Google's `34s` has this form too.
pub(crate) fn span(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let factor = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * factor;
        rest = after;
    }
    Duration::try_from_secs_f64(total).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(name: &'static str, value: &'static str) -> Option<Duration> {
        let now = Timestamp::parse("1994-11-06T08:49:07Z").unwrap();
        retry_after(|requested| (requested == name).then_some(value), now)
    }

    #[test]
    fn all_forms_of_retry_after_are_parsed_and_limited_to_15_minutes() {
        assert_eq!(wait("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(wait("retry-after-ms", "1500"), Some(Duration::from_millis(1500)));
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(wait("retry-after", date), Some(Duration::from_secs(30)));
        let past = "Sun, 06 Nov 1994 08:00:00 GMT";
        assert_eq!(wait("retry-after", past), Some(Duration::ZERO));
        assert_eq!(wait("retry-after", "86400"), Some(MAX_RETRY_AFTER));
        for nonsense in ["-1", "soon", "NaN", "inf", ""] {
            assert_eq!(wait("retry-after", nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn durations_are_parsed() {
        assert_eq!(span("6m0s"), Some(Duration::from_secs(360)));
        assert_eq!(span("20ms"), Some(Duration::from_millis(20)));
        assert_eq!(span("1h2m3.5s"), Some(Duration::from_millis(3_723_500)));
        assert_eq!(span("5"), None);
        assert_eq!(span("5 s"), None);
    }

    #[test]
    fn remaining_quotas_are_parsed_in_both_forms() {
        let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        let header = |name: &str| match name {
            "x-ratelimit-remaining-requests" => Some("3"),
            "x-ratelimit-reset-requests" => Some("1s"),
            "anthropic-ratelimit-tokens-remaining" => Some("900"),
            "anthropic-ratelimit-tokens-reset" => Some("2026-01-01T00:00:09Z"),
            _ => None,
        };
        let left = |n, seconds| Some(Quota { n, reset: Some(Duration::from_secs(seconds)) });
        let expected = Remaining { requests: left(3, 1), tokens: left(900, 9) };
        assert_eq!(remaining(header, now), expected);
        assert_eq!(remaining(|_| None, now), Remaining::default());
        assert_eq!(remaining(|_| Some("-1"), now), Remaining::default());
    }
}
