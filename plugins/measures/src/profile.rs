//! The scorer library to follow.

use perpend_plugin::prelude::*;

/// The scorer library to follow where the Python and the JavaScript one differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The Python library: lengths in Unicode characters, `True`, `None`, `1.0`.
    #[default]
    Py,
    /// The JavaScript library: lengths in UTF-16 units, `true`, `null`, `1`.
    Js,
}
