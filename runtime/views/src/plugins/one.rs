//! The page of a plug-in: evaluators, versions, capabilities, users, rollback.

use askama::Template;
use perpend_domain::time::Timestamp;

use crate::{RejectedForm, ResourceLink, Shell, Text, with_query};

/// A version of a plug-in.
#[derive(Clone, Debug, Template)]
#[template(path = "plugin.html")]
pub struct PluginPage {
    /// Page frame.
    pub shell: Shell,
    /// `vendor/name`.
    pub name: Text,
    /// Version.
    pub version: Text,
    /// URL of the page.
    pub href: String,
    /// Description.
    pub description: Option<Text>,
    /// Labels and values.
    pub facts: Vec<(&'static str, Text)>,
    /// Its evaluators.
    pub evaluators: Vec<PluginEvaluatorView>,
    /// All versions, newest first.
    pub versions: Vec<PluginVersionLine>,
    /// Differences to the version before.
    pub changes: Option<PluginChanges>,
    /// Capabilities that it requests.
    pub capabilities: Vec<&'static str>,
    /// Evaluators of the project that use this version.
    pub users: Vec<PluginUserLine>,
    /// Versions to which evaluators can be moved.
    pub targets: Vec<(String, bool)>,
    /// The evaluators that a rollback would move; absent without a preview.
    pub moves: Option<Vec<PluginMoveLine>>,
    /// The rejected form of the rollback or of the capabilities.
    pub rejected_form: RejectedForm,
    /// Whether the viewer may delete it: it belongs to the project, and no evaluator uses it.
    pub is_deletable: bool,
    /// Whether the viewer may change plug-ins.
    pub may_write: bool,
    /// Whether the viewer may change the capabilities of evaluators.
    pub may_grant: bool,
}

impl PluginPage {
    /// URL of the form of a new evaluator with a function.
    fn use_href(&self, function: &str) -> String {
        let digest = self.href.rsplit('/').next().unwrap_or_default();
        let parameters = [("plugin", digest.to_owned()), ("function", function.to_owned())];
        with_query(&format!("{}/evaluators/new/plugin", self.shell.base()), &parameters)
    }
}

/// An evaluator of a plug-in.
#[derive(Clone, Debug)]
pub struct PluginEvaluatorView {
    /// Id within the plug-in.
    pub id: Text,
    /// Title.
    pub title: Text,
    /// Description.
    pub description: Option<Text>,
    /// Parts of the item that it reads.
    pub needs: Text,
    /// Scores that it gives.
    pub scores: Text,
    /// Models that it calls; absent if it calls none.
    pub slots: Option<Text>,
    /// JSON Schema of its configuration.
    pub schema: Text,
}

/// A version of a plug-in.
#[derive(Clone, Debug)]
pub struct PluginVersionLine {
    /// Version.
    pub version: Text,
    /// First digits of the digest.
    pub digest: String,
    /// URL of its page.
    pub href: String,
    /// Whether it is the version of the page.
    pub is_current: bool,
    /// Registration time.
    pub created_at: Timestamp,
}

/// Differences to the version before.
#[derive(Clone, Debug)]
pub struct PluginChanges {
    /// The version before.
    pub since: Text,
    /// A sentence for each difference; empty if the descriptions are equal.
    pub lines: Vec<Text>,
}

/// An evaluator of the project that uses a plug-in.
#[derive(Clone, Debug)]
pub struct PluginUserLine {
    /// The evaluator.
    pub evaluator: ResourceLink,
    /// Id for its form.
    pub id: String,
    /// Function of the plug-in, if its newest version uses the plug-in.
    pub function: Option<Text>,
    /// Numbers of its versions that use the plug-in.
    pub versions: String,
    /// Requested capabilities, whether they are granted, and whether the evaluator requires them. Empty if its newest version
    /// uses another version of the plug-in.
    pub grants: Vec<PluginGrant>,
}

/// A capability of an evaluator.
#[derive(Clone, Copy, Debug)]
pub struct PluginGrant {
    /// Name.
    pub name: &'static str,
    /// Whether it is granted.
    pub is_granted: bool,
    /// Whether the evaluator requires it.
    pub is_required: bool,
}

/// An evaluator that a rollback moves.
#[derive(Clone, Debug)]
pub struct PluginMoveLine {
    /// Name of the evaluator.
    pub name: Text,
    /// Version of the plug-in before.
    pub before: Text,
    /// Version of the plug-in after.
    pub after: Text,
}

/// The confirmation of the deletion of a plug-in.
#[derive(Clone, Debug, Template)]
#[template(path = "plugin_delete.html")]
pub struct DeletePluginPage {
    /// Page frame.
    pub shell: Shell,
    /// `vendor/name version`.
    pub name: Text,
    /// URL of the page of the plug-in.
    pub href: String,
}
