//! `docs/plugins/contract.md`: the readable form of the WIT files.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context;

use crate::shell;

/// In reading order: the first one introduces the package.
const FILES: [&str; 3] = ["types.wit", "world.wit", "host.wit"];

const HEAD: &str = "# The contract

Generated from `plugin-sdk/wit` by `cargo xtask generate`. [Security](security.md) lists the limits and capabilities, and
[Failures and retries](../judges.md#failures-and-retries) the failures. [Plug-ins](README.md) is the overview.
";

/// The page, as a generated file.
pub(crate) fn files() -> anyhow::Result<Vec<(PathBuf, String)>> {
    let mut page = HEAD.to_owned();
    for file in FILES {
        let path = shell::root().join("plugin-sdk/wit").join(file);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        page.push_str(&sections(&text));
    }
    Ok(vec![(PathBuf::from("docs/plugins/contract.md"), page)])
}

/// A section for the package line, each interface and each world: its comment as prose, the rest unchanged.
fn sections(wit: &str) -> String {
    let mut page = String::new();
    let mut prose = String::new();
    let mut lines = wit.lines();
    while let Some(line) = lines.next() {
        if let Some(comment) = line.strip_prefix("///") {
            prose.push_str(comment.strip_prefix(' ').unwrap_or(comment));
            prose.push('\n');
            continue;
        }
        if line.starts_with("package ") {
            // Every file names the package; the one with the comment introduces it.
            if !prose.is_empty() {
                let _ = write!(page, "\n## `{}`\n\n{prose}", line.trim_end_matches(';'));
            }
        } else if let Some(name) = line.strip_suffix(" {") {
            let _ = write!(page, "\n## `{name}`\n");
            if !prose.is_empty() {
                let _ = write!(page, "\n{prose}");
            }
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "}").collect();
            let _ = write!(page, "\n```wit\n{line}\n{}\n}}\n```\n", body.join("\n"));
        }
        prose.clear();
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_its_comment_and_its_text() {
        let page = sections(
            "package a:b@1.0.0;\n\n/// Says.\n/// More.\ninterface i {\n    f: func();\n}\n",
        );
        assert_eq!(
            page,
            "\n## `interface i`\n\nSays.\nMore.\n\n```wit\ninterface i {\n    f: func();\n}\n```\n"
        );
    }
}
