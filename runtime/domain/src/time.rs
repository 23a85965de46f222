//! Instants as whole microseconds since 1970-01-01T00:00:00Z, the precision every store keeps.

use std::fmt;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant in microseconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// The text is not an ISO 8601 date-time with an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an ISO 8601 date-time with an offset, such as 2026-03-01T10:00:00Z")]
pub struct InvalidTimestamp;

impl Timestamp {
    /// From microseconds since the epoch.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// From milliseconds since the epoch, saturating.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Milliseconds since the epoch, rounded towards the past.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// This instant moved by `millis` milliseconds, saturating.
    #[must_use]
    pub const fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis.saturating_mul(1_000)))
    }

    /// Microseconds from `earlier` to this instant; negative when it is later.
    #[must_use]
    pub const fn micros_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Reads ISO 8601 with an offset or `Z`, any fraction length (cut to microseconds). A blank in
    /// the place of the offset's `+` is tolerated: that is what form decoding makes of it.
    ///
    /// # Errors
    /// [`InvalidTimestamp`] for any other text.
    pub fn parse(raw: &str) -> Result<Self, InvalidTimestamp> {
        let text = raw.trim();
        let parsed = text.parse::<jiff::Timestamp>().or_else(|error| {
            match (text.contains('T'), text.rsplit_once(' ')) {
                (true, Some((date, offset))) => format!("{date}+{offset}").parse(),
                _ => Err(error),
            }
        });
        parsed
            .map(|at| Self(at.as_nanosecond().div_euclid(1_000) as i64))
            .map_err(|_| InvalidTimestamp)
    }

    fn civil(self) -> jiff::Timestamp {
        let at = jiff::Timestamp::from_microsecond(self.0);
        at.unwrap_or(if self.0 < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX })
    }

    /// `YYYY-MM-DDTHH:MM:SS.ffffffZ`, without loss.
    #[must_use]
    pub fn to_iso_micros(self) -> String {
        format!("{:.6}", self.civil())
    }
}

/// `YYYY-MM-DDTHH:MM:SS.mmmZ`, the form of the compat API.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Cut, not rounded: a time must never show as later than it is.
        let cut = self.civil() - SignedDuration::from_micros(self.0.rem_euclid(1_000));
        write!(f, "{cut:.3}")
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_iso_micros())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_i64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
        } else {
            i64::deserialize(deserializer).map(Self)
        }
    }
}

/// A source of time: the system clock in the server, a test clock in tests.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The current instant.
    fn now(&self) -> Timestamp;
}

/// A clock with a fixed time.
impl Clock for Timestamp {
    fn now(&self) -> Timestamp {
        *self
    }
}

/// Instants without loss: their usual text ends at milliseconds.
pub(crate) mod micros {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Timestamp;

    pub(crate) fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        at.as_micros().serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        i64::deserialize(from).map(Timestamp::from_micros)
    }

    pub(crate) mod option {
        use super::{Deserialize, Deserializer, Serialize, Serializer, Timestamp};

        pub(crate) fn serialize<S: Serializer>(
            at: &Option<Timestamp>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            at.map(Timestamp::as_micros).serialize(to)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<Timestamp>, D::Error> {
            Ok(Option::<i64>::deserialize(from)?.map(Timestamp::from_micros))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_cut_and_not_rounded() {
        let at = Timestamp::parse("2026-03-01T10:00:00.123999Z").unwrap();
        assert_eq!(at.to_string(), "2026-03-01T10:00:00.123Z");
        assert_eq!(at.to_iso_micros(), "2026-03-01T10:00:00.123999Z");
        assert_eq!(Timestamp::from_micros(-1).to_string(), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn offsets_and_form_decoded_pluses_are_read() {
        let utc = Timestamp::parse("2026-03-01T10:00:00Z").unwrap();
        assert_eq!(Timestamp::parse("2026-03-01T11:00:00+01:00"), Ok(utc));
        assert_eq!(Timestamp::parse("2026-03-01T11:00:00 01:00"), Ok(utc));
        assert_eq!(Timestamp::parse("2026-03-01"), Err(InvalidTimestamp));
    }
}
