//! The room rule: which crate may name which (docs/architecture.md).

use anyhow::Context;

use crate::shell;

/// Each room with the rooms it may name. An arrow that is not here is forbidden.
const ARROWS: &[(&str, &[&str])] = &[
    ("perpend-template", &[]),
    ("perpend-reply", &[]),
    ("perpend-domain", &["perpend-shapes", "perpend-template"]),
    ("perpend-cron", &["perpend-domain"]),
    ("perpend-stats", &[]),
    ("perpend-choices", &[]),
    ("perpend-schema", &[]),
    ("perpend-memory", &[]),
    ("perpend-protocol", &["perpend-domain"]),
    ("perpend-otlp", &["perpend-domain", "perpend-shapes"]),
    ("perpend-found", &["perpend-domain"]),
    ("perpend-contract", &["perpend-domain", "perpend-found"]),
    ("perpend-sql", &["perpend-domain"]),
    (
        "perpend-rows",
        &["perpend-domain", "perpend-shapes", "perpend-sql"],
    ),
    (
        "perpend-telemetry",
        &[
            "perpend-domain",
            "perpend-found",
            "perpend-rows",
            "perpend-sql",
        ],
    ),
    ("perpend-catalog", &["perpend-domain", "perpend-sql"]),
    ("perpend-ledger", &["perpend-domain", "perpend-sql"]),
    (
        "perpend-store",
        &[
            "perpend-domain",
            "perpend-sql",
            "perpend-telemetry",
            "perpend-catalog",
            "perpend-ledger",
        ],
    ),
    (
        "perpend-host",
        &[
            "perpend-choices",
            "perpend-domain",
            "perpend-schema",
            "perpend-protocol",
        ],
    ),
    ("perpend-workers", &["perpend-domain", "perpend-protocol"]),
    ("perpend-query", &["perpend-domain"]),
    ("perpend-diff", &["perpend-domain"]),
    ("perpend-words", &["perpend-domain"]),
    ("perpend-markup", &[]),
    ("perpend-outline", &["perpend-domain"]),
    ("perpend-shapes", &[]),
    (
        "perpend-addresses",
        &["perpend-domain", "perpend-markup", "perpend-query"],
    ),
    ("perpend-reference", &["perpend-domain", "perpend-markup"]),
    (
        "perpend-ui",
        &[
            "perpend-addresses",
            "perpend-diff",
            "perpend-domain",
            "perpend-found",
            "perpend-markup",
            "perpend-outline",
            "perpend-query",
            "perpend-reference",
            "perpend-shapes",
            "perpend-words",
        ],
    ),
    (
        "perpend-scheduler",
        &[
            "perpend-domain",
            "perpend-sql",
            "perpend-telemetry",
            "perpend-catalog",
            "perpend-ledger",
            "perpend-memory",
            "perpend-store",
        ],
    ),
    (
        "perpend-author",
        &[
            "perpend-domain",
            "perpend-protocol",
            "perpend-host",
            "perpend-workers",
        ],
    ),
    ("perpend-plugin", &["perpend-choices"]),
    ("perpend-plugin-measures", &["perpend-plugin"]),
    (
        "perpend-plugin-text",
        &["perpend-plugin", "perpend-plugin-measures"],
    ),
    (
        "perpend-plugin-json",
        &["perpend-plugin", "perpend-plugin-measures"],
    ),
    (
        "perpend-plugin-judge",
        &["perpend-plugin", "perpend-reply", "perpend-template"],
    ),
    ("perpend-plugins-bundle", &["perpend-domain"]),
    ("perpend-outbound", &["perpend-domain"]),
    (
        "perpend-llm",
        &[
            "perpend-domain",
            "perpend-outbound",
            "perpend-protocol",
            "perpend-reply",
            "perpend-schema",
        ],
    ),
    (
        "perpend-config",
        &["perpend-otlp", "perpend-outbound", "perpend-sql"],
    ),
    (
        "perpend-engine",
        &[
            "perpend-catalog",
            "perpend-config",
            "perpend-domain",
            "perpend-host",
            "perpend-ledger",
            "perpend-llm",
            "perpend-outbound",
            "perpend-protocol",
            "perpend-scheduler",
            "perpend-sql",
            "perpend-store",
            "perpend-telemetry",
            "perpend-workers",
        ],
    ),
    (
        "perpend-web",
        &[
            "perpend-catalog",
            "perpend-config",
            "perpend-contract",
            "perpend-domain",
            "perpend-memory",
            "perpend-otlp",
            "perpend-schema",
            "perpend-sql",
        ],
    ),
    (
        "perpend-ingress",
        &[
            "perpend-catalog",
            "perpend-domain",
            "perpend-otlp",
            "perpend-scheduler",
            "perpend-store",
            "perpend-telemetry",
            "perpend-web",
        ],
    ),
    (
        "perpend-jobs",
        &[
            "perpend-catalog",
            "perpend-contract",
            "perpend-domain",
            "perpend-outbound",
            "perpend-sql",
            "perpend-store",
        ],
    ),
    (
        "perpend-admin",
        &[
            "perpend-catalog",
            "perpend-domain",
            "perpend-jobs",
            "perpend-outbound",
            "perpend-sql",
            "perpend-store",
            "perpend-web",
        ],
    ),
    (
        "perpend-records",
        &[
            "perpend-catalog",
            "perpend-contract",
            "perpend-domain",
            "perpend-found",
            "perpend-otlp",
            "perpend-outline",
            "perpend-scheduler",
            "perpend-sql",
            "perpend-store",
            "perpend-telemetry",
            "perpend-web",
        ],
    ),
    (
        "perpend-api",
        &[
            "perpend-author",
            "perpend-catalog",
            "perpend-contract",
            "perpend-domain",
            "perpend-engine",
            "perpend-ledger",
            "perpend-otlp",
            "perpend-outbound",
            "perpend-protocol",
            "perpend-scheduler",
            "perpend-sql",
            "perpend-stats",
            "perpend-store",
            "perpend-telemetry",
            "perpend-web",
        ],
    ),
    (
        "perpend-pages",
        &[
            "perpend-catalog",
            "perpend-domain",
            "perpend-found",
            "perpend-outline",
            "perpend-query",
            "perpend-reference",
            "perpend-scheduler",
            "perpend-stats",
            "perpend-store",
            "perpend-telemetry",
            "perpend-ui",
            "perpend-web",
        ],
    ),
    (
        "perpend-server",
        &[
            "perpend-admin",
            "perpend-api",
            "perpend-author",
            "perpend-catalog",
            "perpend-config",
            "perpend-contract",
            "perpend-domain",
            "perpend-engine",
            "perpend-host",
            "perpend-ingress",
            "perpend-jobs",
            "perpend-llm",
            "perpend-otlp",
            "perpend-outbound",
            "perpend-pages",
            "perpend-protocol",
            "perpend-records",
            "perpend-scheduler",
            "perpend-sql",
            "perpend-store",
            "perpend-web",
            "perpend-workers",
        ],
    ),
    ("perpend", &["perpend-server", "perpend-plugins-bundle"]),
];

/// A library that only these rooms may name.
const RESERVED: &[(&str, &[&str])] = &[
    ("wasmtime", &["perpend-host"]),
    ("wasmtime-wasi", &["perpend-host"]),
    ("sqlx", &["perpend-sql"]),
    (
        "axum",
        &[
            "perpend-web",
            "perpend-ingress",
            "perpend-admin",
            "perpend-records",
            "perpend-api",
            "perpend-pages",
            "perpend-server",
        ],
    ),
    ("askama", &["perpend-markup", "perpend-ui"]),
    ("jsonschema", &["perpend-schema", "perpend-plugin-json"]),
];

/// What `template`, `domain`, `stats`, `query`, `choices`, `otlp`, `schema` and `ui` must not name: they are pure.
const IMPURE: &[&str] = &[
    "tokio", "sqlx", "axum", "hyper", "reqwest", "wasmtime", "rand", "tempfile",
];
const PURE_ROOMS: &[&str] = &[
    "perpend-template",
    "perpend-reply",
    "perpend-domain",
    "perpend-cron",
    "perpend-found",
    "perpend-stats",
    "perpend-addresses",
    "perpend-diff",
    "perpend-markup",
    "perpend-outline",
    "perpend-query",
    "perpend-reference",
    "perpend-rows",
    "perpend-shapes",
    "perpend-words",
    "perpend-choices",
    "perpend-otlp",
    "perpend-schema",
    "perpend-ui",
];

/// Modules of the standard library that do I/O or read the surroundings.
const IMPURE_STD: &[&str] = &[
    "std::fs",
    "std::net",
    "std::process",
    "std::env",
    "std::thread",
    "SystemTime",
];
const PURE_FOLDERS: &[&str] = &[
    "runtime/template/src",
    "runtime/reply/src",
    "runtime/domain/src",
    "runtime/cron/src",
    "runtime/found/src",
    "runtime/stats/src",
    "runtime/markup/src",
    "runtime/query/src",
    "runtime/reference/src",
    "runtime/rows/src",
    "runtime/addresses/src",
    "runtime/shapes/src",
    "plugin-sdk/choices/src",
    "runtime/otlp/src",
    "runtime/schema/src",
    "runtime/ui/src",
    "plugins/measures/src",
    "plugins/text/src",
    "plugins/json/src",
    "plugins/judge/src",
];

/// Every forbidden arrow found, as sentences.
pub(crate) fn violations() -> anyhow::Result<Vec<String>> {
    let metadata = shell::metadata()?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let mut found = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let dependencies = package["dependencies"]
            .as_array()
            .context("no dependencies")?;
        for dependency in dependencies {
            // What only tests use does not end up in the room.
            if dependency["kind"] == "dev" {
                continue;
            }
            let other = dependency["name"].as_str().unwrap_or_default();
            found.extend(check_arrow(name, other));
        }
    }
    for file in shell::files()? {
        if PURE_FOLDERS.iter().any(|folder| file.starts_with(folder)) {
            let text = std::fs::read_to_string(shell::root().join(&file))?;
            found.extend(check_purity(&file.display().to_string(), &text));
        }
    }
    Ok(found)
}

/// What a file of a pure room names of the world outside, its tests apart.
fn check_purity(file: &str, text: &str) -> Vec<String> {
    if file.ends_with("tests.rs") || file.contains("/tests/") || !file.ends_with(".rs") {
        return Vec::new();
    }
    let code = text
        .lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .enumerate();
    code.filter(|(_, line)| !line.trim_start().starts_with("//"))
        .filter_map(|(at, line)| {
            let named = IMPURE_STD.iter().find(|module| line.contains(**module))?;
            Some(format!("{file}:{}: {named} in a room that is pure", at + 1))
        })
        .collect()
}

fn check_arrow(from: &str, to: &str) -> Option<String> {
    let allowed = ARROWS
        .iter()
        .find(|(room, _)| *room == from)
        .map(|(_, to)| *to);
    let is_ours = to.starts_with("perpend-");
    if let (Some(allowed), true) = (allowed, is_ours)
        && !allowed.contains(&to)
    {
        return Some(format!(
            "{from} may not name {to}: the arrow is not in docs/architecture.md"
        ));
    }
    if let (Some(_), Some((_, owners))) =
        (allowed, RESERVED.iter().find(|(library, _)| *library == to))
        && !owners.contains(&from)
    {
        return Some(format!(
            "{from} may not name {to}: only {} may",
            owners.join(", ")
        ));
    }
    if PURE_ROOMS.contains(&from) && IMPURE.contains(&to) {
        return Some(format!("{from} may not name {to}: the room is pure"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_that_is_not_drawn_is_named() {
        assert_eq!(check_arrow("perpend-scheduler", "perpend-store"), None);
        assert!(check_arrow("perpend-otlp", "perpend-store").is_some());
        assert!(check_arrow("perpend-workers", "wasmtime").is_some());
        assert!(check_arrow("perpend-domain", "tokio").is_some());
        assert!(check_arrow("perpend-server", "perpend-plugins-bundle").is_some());
        assert_eq!(check_arrow("perpend-it", "perpend-server"), None);
    }

    #[test]
    fn a_pure_room_that_opens_a_file_is_named_with_the_line() {
        let text = "//! std::fs is not used\nuse std::fs;\n#[cfg(test)]\nuse std::env;\n";
        assert_eq!(
            check_purity("runtime/domain/src/a.rs", text),
            ["runtime/domain/src/a.rs:2: std::fs in a room that is pure"]
        );
    }
}
