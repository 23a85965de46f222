//! The form that creates or changes a connection, and the confirmation of its deletion.

use askama::Template;

use crate::{RejectedForm, ResourceLink, Shell, Text};

/// The form of a connection. The key and the values of headers are never filled in.
#[derive(Clone, Debug, Template)]
#[template(path = "connection_form.html")]
pub struct ConnectionFormPage {
    /// Page frame.
    pub shell: Shell,
    /// Name and URL of the changed connection; absent for a new one.
    pub changed: Option<(Text, String)>,
    /// Values of the fields.
    pub fields: ConnectionFields,
    /// Protocols.
    pub adapters: &'static [&'static str],
    /// End of the stored key; absent without a key.
    pub key: Option<Text>,
    /// Fields that another request changed meanwhile.
    pub conflicts: Vec<ConnectionConflict>,
    /// The rejected form.
    pub rejected_form: RejectedForm,
}

/// Values of the fields of the form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionFields {
    /// Name.
    pub provider: String,
    /// Protocol.
    pub adapter: String,
    /// Address; empty for the default of the protocol.
    pub base_url: String,
    /// Additional models, one per line.
    pub custom_models: String,
    /// Whether the models of the protocol are offered.
    pub with_default_models: bool,
    /// Names of the extra headers, one per line.
    pub headers: String,
    /// Settings of the protocol as JSON.
    pub config: String,
    /// Maximum of concurrent requests.
    pub max_in_flight: String,
    /// Whether the Responses API is used.
    pub use_responses_api: bool,
    /// Time of the last change of the connection that the form shows.
    pub updated_at: String,
}

/// A field that another request changed.
#[derive(Clone, Debug)]
pub struct ConnectionConflict {
    /// Label of the field.
    pub label: &'static str,
    /// The stored value.
    pub stored: Text,
    /// The sent value.
    pub sent: Text,
}

impl ConnectionFormPage {
    pub(crate) fn action(&self) -> String {
        match &self.changed {
            Some((_, href)) => format!("{href}/edit"),
            None => format!("{}/settings/connections/new", self.shell.base()),
        }
    }

    pub(crate) fn cancel(&self) -> String {
        match &self.changed {
            Some((_, href)) => href.clone(),
            None => format!("{}/settings/connections", self.shell.base()),
        }
    }
}

/// The confirmation of the deletion of a connection.
#[derive(Clone, Debug, Template)]
#[template(path = "connection_delete.html")]
pub struct DeleteConnectionPage {
    /// Page frame.
    pub shell: Shell,
    /// Name.
    pub name: Text,
    /// URL of the page of the connection.
    pub href: String,
    /// The evaluators that the deletion pauses.
    pub evaluators: Vec<ResourceLink>,
    /// Whether the default evaluation model belongs to the connection.
    pub is_default: bool,
}
