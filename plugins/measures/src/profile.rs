//! Which of two scorer libraries a number follows where they disagree.

use perpend_plugin::prelude::*;

/// Which scorer library's number is given where the Python and the JavaScript one disagree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// As the Python library: lengths in Unicode characters, `True`, `None`, `1.0`.
    #[default]
    Py,
    /// As the JavaScript library: lengths in UTF-16 units, `true`, `null`, `1`.
    Js,
}
