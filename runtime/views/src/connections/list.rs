//! The list of connections, with the default evaluation model.

use askama::Template;

use crate::layout::setup::Setup;
use crate::{RejectedForm, Shell, Text};

/// The connections of a project.
#[derive(Clone, Debug, Template)]
#[template(path = "connections.html")]
pub struct ConnectionsPage {
    /// Page frame.
    pub shell: Shell,
    /// Connections, newest first.
    pub connections: Vec<ConnectionLine>,
    /// Whether the project has more connections than listed.
    pub has_more: bool,
    /// The default evaluation model.
    pub default_model: DefaultModelForm,
    /// Whether the viewer may change connections.
    pub may_write: bool,
    /// The rejected form of the default evaluation model.
    pub rejected_form: RejectedForm,
    /// Values for the example command, if there are no connections.
    pub setup: Option<Setup>,
}

impl ConnectionsPage {
    /// Maximum number of connections on the page.
    pub const LIMIT: u32 = 100;
}

/// A connection.
#[derive(Clone, Debug)]
pub struct ConnectionLine {
    /// Its name.
    pub name: Text,
    /// URL of its page.
    pub href: String,
    /// Protocol.
    pub adapter: Text,
    /// Address, if it is not the default of the protocol.
    pub address: Option<Text>,
    /// End of the key; absent without a key.
    pub key: Option<Text>,
    /// Name of the default evaluation model, if it belongs to this connection.
    pub default_model: Option<Text>,
    /// Requests of seven days.
    pub calls: String,
    /// Of these, failed ones; absent if none failed.
    pub failed: Option<String>,
    /// Cost of seven days.
    pub cost: String,
    /// Number of evaluators that use it.
    pub evaluators: String,
    /// Number of these that are paused, such as `2 paused`; absent if none is paused.
    pub paused: Option<String>,
}

/// The form of the default evaluation model.
#[derive(Clone, Debug, Default)]
pub struct DefaultModelForm {
    /// Names of connections, and whether each is selected.
    pub providers: Vec<(String, bool)>,
    /// The model.
    pub model: String,
    /// Parameters as JSON.
    pub params: String,
    /// Whether the project has a default evaluation model.
    pub is_set: bool,
}
