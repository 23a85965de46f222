//! What the commands have in common.

use std::collections::BTreeMap;
use std::io::Write as _;

use perpend_config::{Config, SettingArgs, Sources};

/// Variables of the author's path; a server that finds them set takes no offence.
pub(super) const AUTHORS: [&str; 4] =
    ["PERPEND_SERVER", "PERPEND_PUBLIC_KEY", "PERPEND_SECRET_KEY", "PERPEND_TOOLCHAINS"];

/// The `PERPEND_*` variables of the process that are settings.
pub(super) fn environment() -> anyhow::Result<BTreeMap<String, String>> {
    let mut variables = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        let Some(name) = name.to_str().filter(|name| name.starts_with("PERPEND_")) else {
            continue;
        };
        if AUTHORS.contains(&name) {
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

/// Prints a line for the person who started the program. A closed pipe is no reason to stop.
pub(super) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}
