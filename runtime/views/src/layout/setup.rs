//! What stands where nothing was recorded yet.

/// What an exporter needs to reach this server.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Scheme, host and port of this server.
    pub origin: String,
    /// The id of the project.
    pub project: String,
    /// The project's public key; empty when it has none.
    pub public_key: String,
    /// The last request of the project's keys that was refused.
    pub refused: Option<RejectedRequest>,
}

/// A request that was refused.
#[derive(Clone, Debug)]
pub struct RejectedRequest {
    /// When, in UTC.
    pub at: String,
    /// What was answered.
    pub status: u16,
    /// Why, in a few words.
    pub reason: &'static str,
}
