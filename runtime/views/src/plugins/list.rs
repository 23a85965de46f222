//! The list of plug-ins.

use askama::Template;
use perpend_domain::time::Timestamp;

use crate::{Shell, Text};

/// The plug-ins that a project may use.
#[derive(Clone, Debug, Template)]
#[template(path = "plugins.html")]
pub struct PluginsPage {
    /// Page frame.
    pub shell: Shell,
    /// Plug-ins by name; of each the newest version.
    pub plugins: Vec<PluginLine>,
    /// Whether the viewer may upload plug-ins.
    pub may_write: bool,
}

/// A plug-in.
#[derive(Clone, Debug)]
pub struct PluginLine {
    /// `vendor/name`.
    pub name: Text,
    /// URL of the page of its newest version.
    pub href: String,
    /// Newest version.
    pub version: Text,
    /// Number of other versions, such as `2 other versions`; absent if there are none.
    pub others: Option<String>,
    /// Description.
    pub description: Option<Text>,
    /// Whether it is shipped with the server.
    pub is_first_party: bool,
    /// Number of its evaluators.
    pub evaluators: String,
    /// Capabilities that it requests; `none` if it requests none.
    pub capabilities: Text,
    /// Number of evaluators of the project that use any of its versions.
    pub users: String,
    /// Size.
    pub size: String,
    /// Registration time of the newest version.
    pub created_at: Timestamp,
}
