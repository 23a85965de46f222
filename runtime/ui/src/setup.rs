//! What stands where nothing was recorded yet.

use crate::Text;

/// What an exporter has to know to reach this server.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Scheme, host and port of this server.
    pub origin: String,
    /// The project's public key; empty when it has none.
    pub public_key: String,
    /// How many requests of the project's keys were refused, and why the last one was.
    pub refused: Option<Text>,
}
