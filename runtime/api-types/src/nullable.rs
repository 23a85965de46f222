//! Members of a change for which `null` and absence differ.

use serde::{Deserialize, Deserializer};

/// Deserializes a present member; with `#[serde(default)]` an absent one is `None`.
///
/// # Errors
/// When the value is neither `null` nor a `T`.
pub fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}
