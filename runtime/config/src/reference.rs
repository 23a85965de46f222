//! `docs/config.md`, printed from the table of settings.

use std::fmt::Write as _;

use super::settings::SETTINGS;

/// The reference page.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::from(
        "# Settings\n\n\
         Printed by `perpend docs config`; do not edit by hand.\n\n\
         Each setting can be set in a TOML file (`--config FILE` or `PERPEND_CONFIG`), in the environment, or \
         by a flag. Flags take precedence over the environment, and the environment over the file. With an \
         unknown key or an invalid value the server does not start; the error names the key.\n\n\
         ```toml\n[server]\nlisten = \"127.0.0.1:4717\"\n\n[log]\nlevel = \"info\"\n```\n",
    );
    let mut section = "";
    for setting in SETTINGS {
        let (this, _) = setting.key.split_once('.').unwrap_or((setting.key, ""));
        if this != section {
            section = this;
            let _ = write!(
                page,
                "\n## {section}\n\n| key | variable | flag | built-in value | since | meaning |\n\
                 |---|---|---|---|---|---|\n"
            );
        }
        let default = match setting.default {
            "" => "none".to_owned(),
            default => format!("`{default}`"),
        };
        let _ = writeln!(
            page,
            "| `{}` | `{}` | `--{}` | {default} | {} | {} |",
            setting.key,
            setting.env(),
            setting.flag(),
            setting.since,
            setting.text
        );
    }
    page
}
