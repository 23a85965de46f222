//! What stands where nothing was recorded yet.

/// What an exporter needs to reach this server.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Scheme, host and port of this server.
    pub origin: String,
    /// The project's public key; empty when it has none.
    pub public_key: String,
}
