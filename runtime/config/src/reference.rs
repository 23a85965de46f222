//! `docs/config.md`, printed from the table of settings.

use std::fmt::Write as _;

use super::settings::SETTINGS;

/// The reference page.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::from(
        "# Settings\n\n\
         Printed by `perpend docs config`; do not edit by hand.\n\n\
         Each setting can stand in a TOML file (`--config FILE` or `PERPEND_CONFIG`), in the environment, or \
         be given as a flag. Flags win over the environment, the environment over the file. An unknown \
         key or a bad value stops the start with the name of the key.\n\n\
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
