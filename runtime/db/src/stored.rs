//! Columns with more structure than their SQL type.

use std::fmt::Display;
use std::str::FromStr;

use perpend_domain::plugin::Digest;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Reading};

fn inconsistent(what: &'static str, detail: impl Display) -> Error {
    Error::Inconsistent { what, detail: detail.to_string() }
}

/// A text column as a type that validates it.
///
/// # Errors
/// [`Error::Inconsistent`] with the kind of row if the type refuses it; the same holds for the other
/// functions of this module.
pub fn checked<T>(what: &'static str, raw: &str) -> Result<T, Error>
where
    T: FromStr<Err: Display>,
{
    raw.parse().map_err(|error| inconsistent(what, error))
}

/// A 32-byte column.
pub fn digest(what: &'static str, raw: &[u8]) -> Result<Digest, Error> {
    match raw.try_into() {
        Ok(bytes) => Ok(Digest::from_bytes(bytes)),
        Err(_) => Err(inconsistent(what, "a digest has 32 bytes")),
    }
}

/// A column of JSON text. The memory of the parsed value is charged to the current request.
pub fn from_json<T: DeserializeOwned>(what: &'static str, raw: &str) -> Result<T, Error> {
    /// Approximate memory of a value and of a key.
    const VALUE_BYTES: usize = 48;
    if let Some(reading) = Reading::current() {
        let starts = raw.bytes().filter(|byte| b",:[{".contains(byte));
        reading.charge(raw.len() + VALUE_BYTES * starts.count())?;
    }
    serde_json::from_str(raw).map_err(|error| inconsistent(what, error))
}

/// The inverse of [`from_json`].
pub fn to_json<T: Serialize>(what: &'static str, value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| inconsistent(what, error))
}
