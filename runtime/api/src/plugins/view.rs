//! Responses of plug-ins.

use perpend_api_types::plugin::{
    Plugin, PluginSupport, PluginUser, PluginVersion, PluginWithUsers, RegisteredComponent,
};
use perpend_broker::components::MAX_COMPONENT_BYTES;
use perpend_catalog as catalog;

/// Supported contracts and limits, in lists and in refusals.
pub(super) fn offer() -> PluginSupport {
    PluginSupport {
        contracts: vec![perpend_domain::plugin::CONTRACT_VERSION.to_owned()],
        max_component_bytes: MAX_COMPONENT_BYTES,
    }
}

/// A plug-in in a list.
pub(super) fn plugin(plugin: &catalog::Plugin) -> Plugin {
    let registered = RegisteredComponent {
        digest: plugin.digest,
        is_first_party: plugin.owner.is_none(),
        size_bytes: plugin.size_bytes,
        created_at: plugin.created_at,
    };
    Plugin::new(&plugin.info, registered)
}

/// A plug-in with all versions of its name and with its evaluators.
pub(super) fn detailed(
    one: &catalog::Plugin,
    all: &[catalog::Plugin],
    users: &[catalog::PluginUser],
) -> PluginWithUsers {
    let versions = all.iter().filter(|other| other.info.name == one.info.name);
    let versions = versions.map(|other| PluginVersion {
        version: other.info.version.clone(),
        digest: other.digest,
        created_at: other.created_at,
    });
    PluginWithUsers {
        plugin: plugin(one),
        versions: versions.collect(),
        users: users.iter().map(user).collect(),
    }
}

pub(super) fn user(user: &catalog::PluginUser) -> PluginUser {
    PluginUser {
        evaluator_id: user.evaluator.clone(),
        name: user.name.clone(),
        versions: user.versions.clone(),
        is_current: user.is_current,
    }
}
