//! Formats numbers, durations, costs and times.

use perpend_domain::cost::CostSum;
use perpend_domain::time::Timestamp;

/// Placeholder for an absent value.
pub const NO_VALUE: &str = "–";
/// Placeholder for an unknown value.
const UNKNOWN: &str = "?";

/// A duration in microseconds with about three significant digits.
#[must_use]
pub fn duration(micros: i64) -> String {
    let micros = micros.max(0);
    let (seconds, millis) = (micros as f64 / 1e6, micros as f64 / 1e3);
    match micros {
        0 => "0 ms".to_owned(),
        1..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{millis:.1} ms"),
        // Each range ends where rounding would reach the next unit.
        10_000..999_500 => format!("{millis:.0} ms"),
        999_500..9_995_000 => format!("{seconds:.2} s"),
        9_995_000..59_950_000 => format!("{seconds:.1} s"),
        _ => {
            let whole = (micros + 500_000) / 1_000_000;
            let (hours, minutes, rest) = (whole / 3_600, whole / 60 % 60, whole % 60);
            match (hours, minutes) {
                (0, minutes) => format!("{minutes} min {rest:02} s"),
                (1..48, minutes) => format!("{hours} h {minutes:02} min"),
                _ => format!("{} d {} h", hours / 24, hours % 24),
            }
        }
    }
}

/// A duration in microseconds without rounding, such as `2 h 30 min 0.5 s`.
#[must_use]
pub fn exact_duration(micros: i64) -> String {
    let micros = micros.max(0);
    let (whole, rest) = (micros / 1_000_000, micros % 1_000_000);
    let seconds = format!("{}.{rest:06}", whole % 60);
    let seconds = seconds.trim_end_matches('0').trim_end_matches('.');
    let larger = [(whole / 86_400, "d"), (whole / 3_600 % 24, "h"), (whole / 60 % 60, "min")];
    let larger = larger.iter().filter(|(n, _)| 0 < *n);
    let mut parts: Vec<String> = larger.map(|(n, unit)| format!("{n} {unit}")).collect();
    if seconds != "0" || parts.is_empty() {
        parts.push(format!("{seconds} s"));
    }
    parts.join(" ")
}

/// Units of time, in milliseconds.
const UNITS_OF_TIME: [(&str, f64); 7] = [
    ("µs", 1e-3),
    ("us", 1e-3),
    ("ms", 1.0),
    ("s", 1e3),
    ("min", 60e3),
    ("h", 3_600e3),
    ("d", 86_400e3),
];

/// Parses a duration such as `1 min 10 s` into milliseconds. A number without a unit is in milliseconds.
#[must_use]
pub fn read_duration(text: &str) -> Option<f64> {
    let mut rest = text.trim();
    if let Ok(ms) = rest.parse::<f64>() {
        return (ms.is_finite() && 0.0 <= ms).then_some(ms);
    }
    let mut total = None;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, behind) = rest.split_at(end);
        let behind = behind.trim_start();
        let end = behind.find(|c: char| !c.is_alphabetic());
        let (unit, behind) = behind.split_at(end.unwrap_or(behind.len()));
        let (_, ms) = UNITS_OF_TIME.iter().find(|(known, _)| *known == unit)?;
        total = Some(total.unwrap_or(0.0) + number.parse::<f64>().ok()? * ms);
        rest = behind.trim_start();
    }
    total
}

/// An integer with thousands separators.
#[must_use]
pub fn count(n: u64) -> String {
    thousands(&n.to_string())
}

fn thousands(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// US dollars, rounded half to even on the decimal digits of the amount, so that `1.15` becomes `$1.15`.
/// Zero is `$0`; negative and non-finite amounts are [`NO_VALUE`].
#[must_use]
pub fn dollars(amount: f64) -> String {
    if !amount.is_finite() || amount < 0.0 {
        NO_VALUE.to_owned()
    } else if amount == 0.0 {
        "$0".to_owned()
    } else if amount < 0.000_001 {
        "<$0.000001".to_owned()
    } else {
        format!("${}", rounded(amount, decimal_places(amount)))
    }
}

/// Number of decimals; smaller amounts have more.
fn decimal_places(amount: f64) -> usize {
    match amount {
        ..0.01 => 6,
        ..1.0 => 4,
        _ => 2,
    }
}

/// `$0.12`; `≥ $0.12` if some observations have no price; `?` if none has a price; [`NO_VALUE`] if there is nothing to price.
#[must_use]
pub fn cost(sum: CostSum) -> String {
    match (sum.n_priced, sum.n_unpriced) {
        (0, 0) => NO_VALUE.to_owned(),
        (0, _) => UNKNOWN.to_owned(),
        (_, 0) => dollars(sum.dollars),
        _ => match dollars(sum.dollars) {
            shown if shown.starts_with('$') => format!("≥ {shown}"),
            // Below the smallest shown amount, or not a valid amount.
            _ => UNKNOWN.to_owned(),
        },
    }
}

/// Padding after a cost in a right-aligned column, so that the decimal points are aligned.
#[must_use]
pub fn decimal_blanks(sum: CostSum, column: impl Iterator<Item = CostSum>) -> String {
    const DIGIT: char = '\u{2007}';
    const POINT: char = '\u{2008}';
    let decimals = |sum: CostSum| match sum.dollars {
        _ if sum.n_priced == 0 => None,
        0.0 => Some(0),
        amount => Some(decimal_places(amount)),
    };
    let most = column.filter_map(decimals).max();
    match (decimals(sum), most) {
        (Some(own), Some(most)) if own < most => {
            let point = (own == 0).then_some(POINT).into_iter();
            point.chain(std::iter::repeat_n(DIGIT, most - own)).collect()
        }
        _ => String::new(),
    }
}

/// A positive amount with this many decimals, rounded half to even. Rounds the shortest decimal representation of the float,
/// because the binary values of amounts such as 1.15 and 1.005 are slightly smaller.
fn rounded(amount: f64, decimals: usize) -> String {
    let text = amount.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let kept: String = fraction.chars().chain(std::iter::repeat('0')).take(decimals).collect();
    let rest = fraction.get(decimals..).unwrap_or_default();
    let mut digits: Vec<u8> = whole.bytes().chain(kept.bytes()).collect();
    let is_odd = digits.last().is_some_and(|digit| digit % 2 == 1);
    let is_up = match rest.as_bytes() {
        [] => false,
        [b'5', tail @ ..] => is_odd || tail.iter().any(|digit| *digit != b'0'),
        [first, ..] => *first > b'5',
    };
    if is_up {
        let nines = digits.iter().rev().take_while(|digit| **digit == b'9');
        let n_nines = nines.count();
        let n = digits.len();
        digits[n - n_nines..].fill(b'0');
        match n.checked_sub(n_nines + 1) {
            Some(at) => digits[at] += 1,
            None => digits.insert(0, b'1'),
        }
    }
    let all: String = digits.into_iter().map(char::from).collect();
    let (whole, kept) = all.split_at(all.len() - decimals);
    format!("{}.{kept}", thousands(whole))
}

/// A size in bytes: `812 bytes`, `3.4 KB`, `34 KB`, `1.2 MB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    let kib = bytes as f64 / 1024.0;
    match bytes {
        1 => "1 byte".to_owned(),
        0..1_000 => format!("{bytes} bytes"),
        1_000..10_000 => format!("{kib:.1} KB"),
        10_000..1_000_000 => format!("{kib:.0} KB"),
        _ => format!("{:.1} MB", kib / 1024.0),
    }
}

/// `2026-03-01`, the day in UTC.
#[must_use]
pub fn date(at: Timestamp) -> String {
    let iso = at.to_string();
    iso.split('T').next().unwrap_or_default().to_owned()
}

/// `2026-03-01 10:00:00`, in UTC.
#[must_use]
pub fn clock(at: Timestamp) -> String {
    let iso = at.to_string();
    match iso.split_once('T') {
        Some((date, time)) => format!("{date} {}", time.split('.').next().unwrap_or(time)),
        None => iso,
    }
}

/// `10:00:00` in UTC, with the date if it differs from the date of `now`.
#[must_use]
pub fn short_time(at: Timestamp, now: Timestamp) -> String {
    let whole = clock(at);
    let time = whole.split_once(' ').filter(|_| date(at) == date(now));
    match time {
        Some((_, time)) => time.to_owned(),
        None => whole,
    }
}

/// `3 min ago`; `None` for times in the future.
#[must_use]
pub fn ago(at: Timestamp, now: Timestamp) -> Option<String> {
    const MIN: i64 = 60;
    const HOUR: i64 = 60 * MIN;
    const DAY: i64 = 24 * HOUR;
    let seconds = now.micros_since(at).div_euclid(1_000_000);
    let (unit, name) = match seconds {
        ..0 => return None,
        0..MIN => (1, "s"),
        MIN..HOUR => (MIN, "min"),
        HOUR..172_800 => (HOUR, "h"),
        172_800..5_184_000 => (DAY, "days"),
        5_184_000..63_072_000 => (30 * DAY, "months"),
        _ => (365 * DAY, "years"),
    };
    Some(format!("{} {name} ago", seconds / unit))
}

/// A number with all digits.
#[must_use]
pub fn exact_number(value: f64) -> String {
    match value == 0.0 || (0.001..1e15).contains(&value.abs()) {
        true => value.to_string(),
        false => format!("{value:e}"),
    }
}

/// A number with up to four decimals, and more if rounding would produce a rounder number.
#[must_use]
pub fn number(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    let text = if value.abs() < 0.001 || value.abs() >= 1e15 {
        format!("{value:e}")
    } else {
        // More digits would show floating-point noise of sums.
        let most = (14.0 - value.abs().log10().floor()).clamp(4.0, 12.0) as usize;
        let mut texts = (4..=most).map(|decimals| format!("{value:.decimals$}"));
        let shown = texts.find(|text| !text.ends_with('0'));
        shown.unwrap_or_else(|| format!("{value:.4}"))
    };
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A number with the decimals of a mean, for the bounds of its confidence interval.
#[must_use]
pub fn number_like(value: f64, mean: f64) -> String {
    let decimals = match mean.abs() {
        0.0 | 0.1..1_000.0 => 2,
        0.001..0.1 => 4,
        _ => return number(value),
    };
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(zero) if zero.chars().all(|c| matches!(c, '0' | '.')) => zero.to_owned(),
        _ => text,
    }
}

/// A share from 0 to 1 in percent. `0 %` and `100 %` are only shown for exactly 0 and 1.
#[must_use]
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        none if none <= 0.0 => "0 %".to_owned(),
        few if few < 0.1 => "under 0.1 %".to_owned(),
        all if 100.0 <= all => "100 %".to_owned(),
        most if 99.9 < most => "over 99.9 %".to_owned(),
        inner if (1.0..99.0).contains(&inner) => format!("{inner:.0} %"),
        outer => format!("{outer:.1} %"),
    }
}

/// An interval of shares in percent, with enough decimals to distinguish its bounds from 0 and 100.
#[must_use]
pub fn percent_range(ends: [f64; 2]) -> String {
    let ends = ends.map(|end| end * 100.0);
    let written = |decimals: usize| ends.map(|end| format!("{end:.decimals$}"));
    let is_exact = |decimals: usize| {
        let shown = written(decimals);
        ends.iter().zip(shown).all(|(end, shown)| {
            let shown = shown.parse().unwrap_or(*end);
            let is_inner = 1e-9 < *end && *end < 100.0 - 1e-9;
            !is_inner || (0.0 < shown && shown < 100.0)
        })
    };
    let decimals = (0..4).find(|decimals| is_exact(*decimals)).unwrap_or(4);
    let [low, high] = written(decimals);
    format!("{low}–{high}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_in_a_column_are_aligned_at_the_decimal_point() {
        let priced = |amount| CostSum::of_observation(Some(amount), true);
        let unknown = CostSum::of_observation(None, true);
        let column = [priced(0.002009), priced(0.25), priced(0.0), unknown];
        let widths = column.map(|sum| {
            let blanks = decimal_blanks(sum, column.into_iter());
            let shown = cost(sum) + &blanks;
            assert_eq!(shown.trim_end(), cost(sum));
            shown.chars().count()
        });
        assert_eq!(widths, [9, 9, 9, 1]);
        let alone = decimal_blanks(priced(1.15), std::iter::once(priced(20.0)));
        assert_eq!(alone, "");
    }

    #[test]
    fn durations_round_trip() {
        for micros in [0, 250, 850_000, 60_000_000, 70_000_000, 9_000_500_000, 93_784_000_000] {
            let ms = micros as f64 / 1e3;
            let read = read_duration(&exact_duration(micros));
            assert!(read.is_some_and(|read| (read - ms).abs() < 1e-6), "{micros}");
        }
        let read =
            ["300", "1.5 s", "2min", "3 min 01 s", "12 µs", " 1 h 05 min "].map(read_duration);
        let ms = [300.0, 1_500.0, 120_000.0, 181_000.0, 0.012, 3_900_000.0];
        assert_eq!(read, ms.map(Some));
        for odd in ["", "foo", "-1", "-1 s", "inf", "NaN", "1 hour", "s", "1 s 2", "1..5 s"] {
            assert_eq!(read_duration(odd), None, "{odd}");
        }
    }

    #[test]
    fn interval_bounds_have_the_decimals_of_the_mean() {
        let shown = [0.3023, 1.0, -0.001, -0.3].map(|end| number_like(end, 0.66));
        assert_eq!(shown, ["0.30", "1.00", "0.00", "-0.30"]);
        assert_eq!([number_like(0.0314, 0.0314), number_like(0.0, 0.0314)], ["0.0314", "0.0000"]);
        assert_eq!([number_like(5_000.5, 5_000.5), number_like(2e-5, 1e-5)], ["5000.5", "2e-5"]);
    }

    #[test]
    fn number_is_not_rounded_to_a_rounder_one() {
        let shown = [0.999_999_99, 0.499_999_999, 99.999_999_9, 0.199_99, -0.999_99].map(number);
        let expected = ["0.99999999", "0.499999999", "99.9999999", "0.19999", "-0.99999"];
        assert_eq!(shown, expected);
        // Floating-point noise of sums is not shown.
        let sums = [0.1 + 0.2, 2.0 / 3.0, 0.85, 12_345.678, 100.0 * 0.1].map(number);
        assert_eq!(sums, ["0.3", "0.6667", "0.85", "12345.678", "10"]);
        let exact = [0.666_666_66, 0.0, -3.5, 1e15, 0.000_012].map(exact_number);
        assert_eq!(exact, ["0.66666666", "0", "-3.5", "1e15", "1.2e-5"]);
    }

    #[test]
    fn zero_and_100_percent_are_only_shown_for_exact_values() {
        let shares = [0.0, 0.000_04, 0.004, 0.81, 0.994, 0.999_96, 1.0].map(percent);
        let expected = ["0 %", "under 0.1 %", "0.4 %", "81 %", "99.4 %", "over 99.9 %", "100 %"];
        assert_eq!(shares, expected);
        assert_eq!(percent_range([0.758, 0.854]), "76–85");
        assert_eq!(percent_range([0.999_76, 0.999_99]), "99.976–99.999");
        assert_eq!(percent_range([0.0, 0.3]), "0–30");
    }

    #[test]
    fn exact_durations_have_all_digits() {
        let shown = [0, 1, 900_000, 60_000_000, 9_000_000_000, 432_061_000_100];
        let shown = shown.map(exact_duration).join(", ");
        let expected = "0 s, 0.000001 s, 0.9 s, 1 min, 2 h 30 min, 5 d 1 min 1.0001 s";
        assert_eq!(shown, expected);
    }

    #[test]
    fn durations_have_a_suitable_unit() {
        let shown =
            [0, 420, 1_500, 812_400, 999_600, 1_234_000, 12_340_000, 59_960_000, 3_840_000_000]
                .map(duration);
        let expected = [
            "0 ms",
            "420 µs",
            "1.5 ms",
            "812 ms",
            "1.00 s",
            "1.23 s",
            "12.3 s",
            "1 min 00 s",
            "1 h 04 min",
        ];
        assert_eq!(shown, expected);
        assert_eq!(duration(i64::MAX / 2), "53375995 d 14 h");
    }

    #[test]
    fn costs_and_counts_are_formatted() {
        assert_eq!(dollars(0.000_123_4), "$0.000123");
        assert_eq!(dollars(0.5), "$0.5000");
        assert_eq!(dollars(1_234.567), "$1,234.57");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
    }

    #[test]
    fn costs_are_rounded_half_to_even_on_decimal_digits() {
        let shown = [1.15, 1.145, 1.135, 1.005, 1.0051, 9.999, 999.995, 1e15].map(dollars);
        let expected = [
            "$1.15",
            "$1.14",
            "$1.14",
            "$1.00",
            "$1.01",
            "$10.00",
            "$1,000.00",
            "$1,000,000,000,000,000.00",
        ];
        assert_eq!(shown, expected);
        let small = [0.000_000_5, 0.000_001_5, 0.009_999_95, 0.123_45, 0.999_96].map(dollars);
        let expected = ["<$0.000001", "$0.000002", "$0.010000", "$0.1234", "$1.0000"];
        assert_eq!(small, expected);
    }

    #[test]
    fn zero_cost_differs_from_unknown_cost() {
        assert_eq!(dollars(0.0), "$0");
        assert_eq!([f64::NAN, f64::INFINITY, -1.0].map(dollars), ["–"; 3]);
        let shown = |dollars, n_priced, n_unpriced| cost(CostSum { dollars, n_priced, n_unpriced });
        assert_eq!([shown(0.0, 2, 0), shown(1.15, 2, 0)], ["$0", "$1.15"]);
        assert_eq!([shown(0.0, 0, 3), shown(0.0, 0, 0)], ["?", "–"]);
        assert_eq!([shown(0.0, 1, 1), shown(0.125, 1, 9)], ["≥ $0", "≥ $0.1250"]);
        assert_eq!([shown(1e-9, 1, 1), shown(f64::NAN, 1, 1)], ["?"; 2]);
    }

    #[test]
    fn sizes_have_a_suitable_unit() {
        let shown = [0, 1, 999, 3_500, 34_816, 1_500_000].map(size);
        assert_eq!(shown, ["0 bytes", "1 byte", "999 bytes", "3.4 KB", "34 KB", "1.4 MB"]);
    }

    #[test]
    fn numbers_have_no_trailing_zeros() {
        assert_eq!([1.0, 0.5, 0.333_333_3, -2.25].map(number), ["1", "0.5", "0.3333", "-2.25"]);
        assert_eq!(number(0.000_01), "1e-5");
    }

    #[test]
    fn times_of_today_have_no_date_and_future_times_have_no_age() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let now = at("2026-03-01T10:00:00Z");
        for (then, shown, how_long) in [
            ("2026-03-01T09:59:18Z", "09:59:18", Some("42 s ago")),
            ("2026-03-01T09:57:00.5Z", "09:57:00", Some("2 min ago")),
            ("2026-02-28T10:00:00Z", "2026-02-28 10:00:00", Some("24 h ago")),
            ("2026-02-27T10:00:00Z", "2026-02-27 10:00:00", Some("2 days ago")),
            ("2025-12-01T10:00:00Z", "2025-12-01 10:00:00", Some("3 months ago")),
            ("2023-03-01T10:00:00Z", "2023-03-01 10:00:00", Some("3 years ago")),
            ("2026-03-01T10:00:00.2Z", "10:00:00", None),
        ] {
            let then = at(then);
            assert_eq!(short_time(then, now), shown);
            assert_eq!(ago(then, now).as_deref(), how_long);
        }
    }

    #[test]
    fn times_are_in_utc() {
        assert_eq!(clock(Timestamp::from_millis(1_772_359_200_123)), "2026-03-01 10:00:00");
    }
}
