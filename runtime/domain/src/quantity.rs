//! Quantities of usage.

use std::fmt;
use std::iter::Sum;

use rust_decimal::prelude::ToPrimitive;
use rust_decimal::{Decimal, RoundingStrategy};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of tokens, or of fractional units such as seconds. Never negative; a whole number is serialized as an
/// integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity(Decimal);

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self(Decimal::ZERO);

    /// From a double; `None` if it is negative, not finite, or larger than the largest `u64`.
    #[must_use]
    pub fn from_f64(number: f64) -> Option<Self> {
        let fits = (0.0..=u64::MAX as f64).contains(&number);
        let decimal = Decimal::try_from(number).ok().filter(|_| fits)?;
        Some(Self(decimal.abs().normalize()))
    }

    /// From decimal text, under the bounds of [`Self::from_f64`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.parse::<u64>() {
            Ok(whole) => Some(whole.into()),
            Err(_) => Self::from_f64(text.parse().ok()?),
        }
    }

    /// The nearest whole number.
    #[must_use]
    pub fn to_u64(self) -> u64 {
        let whole = self.0.round_dp_with_strategy(0, RoundingStrategy::MidpointAwayFromZero);
        whole.to_u64().unwrap_or(u64::MAX)
    }

    /// The nearest double.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.0.to_f64().unwrap_or(f64::MAX)
    }

    /// The exact value.
    #[must_use]
    pub const fn to_decimal(self) -> Decimal {
        self.0
    }

    /// Whether it has no fraction.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.0.is_integer()
    }

    /// Whether nothing was used.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    /// The sum, at most the largest decimal.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0).normalize())
    }

    /// The difference, at least zero.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        match other.0 < self.0 {
            true => Self(self.0.saturating_sub(other.0).normalize()),
            false => Self::ZERO,
        }
    }
}

impl From<u64> for Quantity {
    fn from(whole: u64) -> Self {
        Self(whole.into())
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Self::saturating_add)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_u64().filter(|_| self.0.is_integer()) {
            Some(whole) => serializer.serialize_u64(whole),
            None => serializer.serialize_f64(self.to_f64()),
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;

        impl Visitor<'_> for Number {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number that is not negative")
            }

            fn visit_u64<E: Error>(self, whole: u64) -> Result<Quantity, E> {
                Ok(whole.into())
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Quantity, E> {
                // The sum of a trace may be larger than what one observation may have.
                let decimal = Decimal::try_from(number).ok();
                let decimal = decimal.filter(|decimal| !decimal.is_sign_negative());
                decimal
                    .map(|decimal| Quantity(decimal.normalize()))
                    .ok_or_else(|| E::custom(format_args!("{number} is not a usage quantity")))
            }
        }

        deserializer.deserialize_any(Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_integers_and_fractions_are_exact_in_json() {
        for (text, json) in [("12", "12"), ("12.0", "12"), ("20.424", "20.424"), ("0", "0")] {
            let quantity = Quantity::parse(text).unwrap();
            assert_eq!(serde_json::to_string(&quantity).unwrap(), json);
            assert_eq!(serde_json::from_str::<Quantity>(json).unwrap(), quantity);
        }
        let largest = Quantity::from(u64::MAX);
        let json = serde_json::to_string(&largest).unwrap();
        assert_eq!(json, u64::MAX.to_string());
        let twice = largest.saturating_add(largest);
        let json = serde_json::to_string(&twice).unwrap();
        assert!(serde_json::from_str::<Quantity>(&json).is_ok());
        assert_eq!(twice.to_u64(), u64::MAX);
    }

    #[test]
    fn a_quantity_is_finite_and_not_negative() {
        for text in ["-1", "-0.5", "NaN", "inf", "1e300", "", "many"] {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
        assert!(serde_json::from_str::<Quantity>("-1").is_err());
        let (one, two) = (Quantity::from(1), Quantity::from(2));
        assert_eq!(one.saturating_sub(two), Quantity::ZERO);
        assert_eq!(Quantity::parse("2.5").unwrap().to_u64(), 3);
    }
}
