//! Setup instructions of an empty project.

use askama::Template;

use crate::{Html, Shell};

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

/// The instructions as a section of a page.
#[derive(Template)]
#[template(path = "setup.html")]
struct SetupSection<'a> {
    setup: &'a Setup,
    shell: &'a Shell,
}

impl Setup {
    /// The instructions as a section of a page.
    #[must_use]
    pub fn html(&self, shell: &Shell) -> Option<Html> {
        Html::rendered(&SetupSection { setup: self, shell }).ok()
    }
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
