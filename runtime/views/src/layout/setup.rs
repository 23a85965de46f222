//! Setup instructions of an empty project.

/// Values that an exporter needs.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Scheme, host and port of the server.
    pub origin: String,
    /// Id of the project.
    pub project: String,
    /// Public key of the project; empty without one.
    pub public_key: String,
    /// The last rejected request with a key of the project.
    pub refused: Option<RejectedRequest>,
}

/// A rejected request.
#[derive(Clone, Debug)]
pub struct RejectedRequest {
    /// Time in UTC.
    pub at: String,
    /// HTTP status.
    pub status: u16,
    /// Reason in a few words.
    pub reason: &'static str,
}
