//! axe-core in a page. `cargo xtask check` installs it at the version and digest of this crate's lock file;
//! `PERPEND_SDKS` names the folder.

use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::browser::{Browser, REQUIRE, is_required};

const SDKS: &str = "PERPEND_SDKS";
const FILE: &str = "axe/node_modules/axe-core/axe.min.js";

/// The rules that a run checks.
#[derive(Clone, Copy, Debug)]
pub enum Rules {
    /// Those of WCAG 2.2 up to level AA.
    All,
    /// Those that depend on colours.
    Colours,
}

impl Rules {
    /// Options of the run. The rule on the size of targets is off by default.
    fn options(self) -> Value {
        match self {
            Self::All => json!({
                "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
                "rules": { "target-size": { "enabled": true } },
                "resultTypes": ["violations"],
            }),
            Self::Colours => json!({
                "runOnly": { "type": "rule", "values": ["color-contrast", "link-in-text-block"] },
                "resultTypes": ["violations"],
            }),
        }
    }
}

const RUN: &str = "return axe.run(document, arguments[0]).then(({ violations }) =>
    violations.flatMap(({ id, nodes }) => nodes.map((node) =>
    `${id}: ${node.html.slice(0, 300)}: ${[...node.any, ...node.all, ...node.none].map((one) => one.message).join('; ')}`)));";

/// The script; none where it is not installed.
///
/// # Errors
/// When it is missing though nothing may be left out.
pub fn script() -> Result<Option<&'static str>> {
    static SCRIPT: OnceLock<Option<String>> = OnceLock::new();
    let script = SCRIPT.get_or_init(|| {
        let folder = PathBuf::from(std::env::var_os(SDKS)?);
        std::fs::read_to_string(folder.join(FILE)).ok()
    });
    ensure!(
        script.is_some() || !is_required(),
        "axe-core is not installed ({SDKS}), and {REQUIRE}=require; `cargo xtask check --only tests` installs it"
    );
    Ok(script.as_deref())
}

/// The violations on the open page, one line each.
///
/// # Errors
/// When the script does not run.
pub async fn violations(browser: &Browser, script: &str, rules: Rules) -> Result<Vec<String>> {
    let is_there = browser.eval("'axe' in window").await?;
    if is_there != json!(true) {
        browser.client.execute(script, Vec::new()).await?;
    }
    let found = browser.client.execute(RUN, vec![rules.options()]).await?;
    let lines = found.as_array().context("a list of violations")?;
    let text = |line: &Value| line.as_str().map_or_else(|| line.to_string(), str::to_owned);
    Ok(lines.iter().map(text).collect())
}
