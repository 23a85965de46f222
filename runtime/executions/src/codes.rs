//! Values of an enum as the small numbers in rows. Each number is written next to its value, so that order
//! and names of the values can change without changing stored data.

use crate::Error;

/// An enum that is stored as a number.
pub(crate) trait Coded: Copy + 'static {
    /// Name of the enum in errors.
    const WHAT: &'static str;
    /// Every value with its number.
    const CODES: &'static [(Self, i16)];

    /// The value of a stored number.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] for a number without a value.
    fn of_code(code: i16) -> Result<Self, Error> {
        let known = Self::CODES.iter().find(|(_, known)| *known == code);
        known.map(|(value, _)| *value).ok_or_else(|| Error::Inconsistent {
            what: Self::WHAT,
            detail: format!("there is no number {code}"),
        })
    }
}

/// Defines the numbers of an enum, and a `const fn` of the given name that maps a value to its number.
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
