//! Settings and output of the commands.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;

use perpend_catalog::KeyOwner;
use perpend_catalog::audit::{AuditActor, AuditObject, AuditOrigin};
use perpend_config::{Config, SettingArgs, Sources};
use perpend_storage::Store;

use crate::SystemClock;

/// Variables of the plug-in commands, which are not settings of a server.
pub(super) const CLIENT_VARIABLES: [&str; 5] = [
    "PERPEND_SERVER",
    "PERPEND_HOST",
    "PERPEND_PUBLIC_KEY",
    "PERPEND_SECRET_KEY",
    "PERPEND_TOOLCHAINS",
];

/// The `PERPEND_*` variables of the process that are settings.
pub(super) fn environment() -> anyhow::Result<BTreeMap<String, String>> {
    let mut variables = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        let Some(name) = name.to_str().filter(|name| name.starts_with("PERPEND_")) else {
            continue;
        };
        if CLIENT_VARIABLES.contains(&name) {
            continue;
        }
        let value = value.into_string();
        let value = value.map_err(|_| anyhow::anyhow!("the variable {name} is not UTF-8"))?;
        variables.insert(name.to_owned(), value);
    }
    Ok(variables)
}

pub(super) fn load(settings: &SettingArgs) -> anyhow::Result<Config> {
    Ok(Config::load(&Sources {
        file: settings.file.as_deref(),
        env: environment()?,
        flags: settings.given.clone(),
    })?)
}

/// Prints a line to standard output. Errors, such as a closed pipe, are ignored.
pub(super) fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// Runs a change of a key or an account that a command makes. The audit trail of the owner contains it.
pub(super) async fn recorded_change<T>(
    store: &Store,
    owner: &KeyOwner,
    command: &str,
    change: impl Future<Output = T>,
) -> T {
    let origin = AuditOrigin {
        owner: owner.clone(),
        project: None,
        actor: AuditActor { kind: "command".to_owned(), name: None },
        address: None,
        request_id: None,
        operation: command.to_owned(),
        object: AuditObject { kind: "api-key".to_owned(), id: None },
    };
    store.catalog.audited(origin, Arc::new(SystemClock), change).await
}

/// Text of clients and applications for a terminal: control characters except line ends become spaces.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_text_does_not_control_the_terminal() {
        assert_eq!(printable("a\u{1b}[2J\u{9b}b\nc"), "a [2J b\nc");
    }
}
