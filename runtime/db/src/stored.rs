//! Columns that hold more than their SQL type says.

use std::fmt::Display;
use std::str::FromStr;

use perpend_domain::plugin::Digest;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Reading};

fn inconsistent(what: &'static str, detail: impl Display) -> Error {
    Error::Inconsistent { what, detail: detail.to_string() }
}

/// A text column as the type that checks it.
///
/// # Errors
/// [`Error::Inconsistent`] with what it is about, when the type refuses it; so for the others here.
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

/// A column of JSON text. What it takes in memory once it is parsed is charged to the present request.
pub fn from_json<T: DeserializeOwned>(what: &'static str, raw: &str) -> Result<T, Error> {
    /// Of a value and of a key, about.
    const VALUE_BYTES: usize = 48;
    if let Some(reading) = Reading::current() {
        let starts = raw.bytes().filter(|byte| b",:[{".contains(byte));
        reading.charge(raw.len() + VALUE_BYTES * starts.count())?;
    }
    serde_json::from_str(raw).map_err(|error| inconsistent(what, error))
}

/// What [`from_json`] reads.
pub fn to_json<T: Serialize>(what: &'static str, value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| inconsistent(what, error))
}
