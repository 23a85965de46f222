//! Values of an enum as the small numbers that rows hold. A number is written down with its value: neither
//! order nor name of the values in the code changes what is stored.

use crate::Error;

/// An enum that rows hold by number.
pub(crate) trait Coded: Copy + 'static {
    /// What it is, for an error.
    const WHAT: &'static str;
    /// Every value with its number.
    const CODES: &'static [(Self, i16)];

    /// The value of a stored number.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] for a number that none has.
    fn of_code(code: i16) -> Result<Self, Error> {
        let known = Self::CODES.iter().find(|(_, known)| *known == code);
        known.map(|(value, _)| *value).ok_or_else(|| Error::Inconsistent {
            what: Self::WHAT,
            detail: format!("there is no number {code}"),
        })
    }
}

/// Gives an enum its numbers, and a `const fn` of this name from value to number.
macro_rules! codes {
    ($code:ident, $what:literal, $type:ident { $($variant:ident = $number:literal,)* }) => {
        impl $crate::codes::Coded for $type {
            const WHAT: &'static str = $what;
            const CODES: &'static [(Self, i16)] = &[$(($type::$variant, $number),)*];
        }

        pub(super) const fn $code(value: $type) -> i16 {
            match value { $($type::$variant => $number,)* }
        }
    };
}
pub(crate) use codes;
