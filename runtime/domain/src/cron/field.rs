//! One field of a cron expression: the numbers that it allows.

/// The allowed values of a field.
pub(super) struct Kind {
    /// The name in messages.
    pub(super) name: &'static str,
    min: u8,
    max: u8,
    /// Names in place of numbers, of which the first means `min`.
    names: &'static [&'static str],
}

pub(super) const MINUTE: Kind = Kind::numbers("minute", 0, 59);
pub(super) const HOUR: Kind = Kind::numbers("hour", 0, 23);
pub(super) const DAY_OF_MONTH: Kind = Kind::numbers("day of month", 1, 31);
pub(super) const MONTH: Kind = Kind {
    name: "month",
    min: 1,
    max: 12,
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
};
/// 0 and 7 are both Sunday.
pub(super) const DAY_OF_WEEK: Kind = Kind {
    name: "day of week",
    min: 0,
    max: 7,
    names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
};

impl Kind {
    const fn numbers(name: &'static str, min: u8, max: u8) -> Self {
        Self { name, min, max, names: &[] }
    }
}

/// The numbers that a field allows; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// Bit `n` represents the number `n`.
    bits: u64,
    /// Whether the field starts with `*`. Cron calls such a field unrestricted, with a step too.
    pub(super) is_star: bool,
}

impl Field {
    /// Reads a list of numbers, names, ranges and stars, the last two with or without a step.
    pub(super) fn parse(text: &str, kind: &Kind) -> Result<Self, String> {
        let mut bits = 0;
        for part in text.split(',') {
            bits |= part_bits(part, kind)?;
        }
        if kind.max == 7 && bits & 1 << 7 != 0 {
            bits = bits & !(1 << 7) | 1;
        }
        let is_star = text.starts_with('*');
        Ok(Self { bits, is_star })
    }

    /// Whether the field allows `number`.
    pub(super) fn allows(self, number: i8) -> bool {
        u32::try_from(number)
            .ok()
            .and_then(|number| self.bits.checked_shr(number))
            .is_some_and(|bits| bits & 1 == 1)
    }

    /// The first number allowed from `number` on.
    pub(super) fn first_from(self, number: i8) -> Option<i8> {
        (number..64).find(|number| self.allows(*number))
    }
}

/// The numbers of one part between commas.
fn part_bits(part: &str, kind: &Kind) -> Result<u64, String> {
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => (range, Some(read_step(step)?)),
        None => (part, None),
    };
    let (first, last) = match range.split_once('-') {
        _ if range == "*" => (kind.min, kind.max),
        Some((first, last)) => (number(first, kind)?, number(last, kind)?),
        None if step.is_some() => {
            return Err(format!(
                "a step needs `*` or a range before it, such as `{}-{}/2`, not `{}`",
                kind.min,
                kind.max,
                shown(part)
            ));
        }
        None => {
            let only = number(range, kind)?;
            (only, only)
        }
    };
    if last < first {
        return Err(format!("`{}` ends before it starts", shown(range)));
    }
    let numbers = (first..=last).step_by(step.unwrap_or(1));
    Ok(numbers.fold(0, |bits, number| bits | 1 << number))
}

fn read_step(text: &str) -> Result<usize, String> {
    match digits(text) {
        Some(step) if 0 < step => Ok(usize::from(step)),
        _ => Err(format!("`{}` must be a step from 1 to 255", shown(text))),
    }
}

fn number(text: &str, kind: &Kind) -> Result<u8, String> {
    let named = kind.names.iter().zip(kind.min..).find(|(name, _)| name.eq_ignore_ascii_case(text));
    let number = named.map(|(_, number)| number).or_else(|| digits(text));
    let allowed = number.filter(|number| (kind.min..=kind.max).contains(number));
    allowed.ok_or_else(|| {
        let (text, min, max) = (shown(text), kind.min, kind.max);
        match kind.names {
            [] => format!("`{text}` must be a number from {min} to {max}"),
            names => format!(
                "`{text}` must be a number from {min} to {max} or one of {}",
                names.join(", ")
            ),
        }
    })
}

/// Digits only: no sign.
fn digits(text: &str) -> Option<u8> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// The start of an expression, for a message.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}
