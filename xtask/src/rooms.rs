//! The room rule: which crate may name which (docs/architecture.md).

use anyhow::Context;

use crate::shell;

/// Each room with the rooms it may name. An arrow that is not here is forbidden.
const ARROWS: &[(&str, &[&str])] = &[
    ("perpend-template", &[]),
    ("perpend-reply", &[]),
    ("perpend-domain", &["perpend-domain", "perpend-template"]),
    ("perpend-domain", &["perpend-domain"]),
    ("perpend-stats", &[]),
    ("perpend-choices", &[]),
    ("perpend-json-schema", &[]),
    ("perpend-memory", &[]),
    ("perpend-worker-protocol", &["perpend-domain"]),
    ("perpend-otlp", &["perpend-domain", "perpend-domain"]),
    ("perpend-domain", &["perpend-domain"]),
    ("perpend-api-types", &["perpend-domain", "perpend-domain"]),
    ("perpend-db", &["perpend-domain"]),
    (
        "perpend-telemetry",
        &["perpend-domain", "perpend-domain", "perpend-db"],
    ),
    (
        "perpend-telemetry",
        &[
            "perpend-domain",
            "perpend-domain",
            "perpend-telemetry",
            "perpend-db",
        ],
    ),
    ("perpend-catalog", &["perpend-domain", "perpend-db"]),
    ("perpend-executions", &["perpend-domain", "perpend-db"]),
    (
        "perpend-storage",
        &[
            "perpend-domain",
            "perpend-db",
            "perpend-telemetry",
            "perpend-catalog",
            "perpend-executions",
        ],
    ),
    (
        "perpend-sandbox",
        &[
            "perpend-choices",
            "perpend-domain",
            "perpend-json-schema",
            "perpend-worker-protocol",
        ],
    ),
    (
        "perpend-worker-pool",
        &["perpend-domain", "perpend-worker-protocol"],
    ),
    ("perpend-domain", &["perpend-domain"]),
    ("perpend-views", &["perpend-domain"]),
    ("perpend-views", &["perpend-domain"]),
    ("perpend-views", &[]),
    ("perpend-domain", &["perpend-domain"]),
    ("perpend-domain", &[]),
    (
        "perpend-views",
        &["perpend-domain", "perpend-views", "perpend-domain"],
    ),
    ("perpend-views", &["perpend-domain", "perpend-views"]),
    (
        "perpend-views",
        &[
            "perpend-views",
            "perpend-views",
            "perpend-domain",
            "perpend-domain",
            "perpend-views",
            "perpend-domain",
            "perpend-domain",
            "perpend-views",
            "perpend-domain",
            "perpend-views",
        ],
    ),
    (
        "perpend-scheduler",
        &[
            "perpend-domain",
            "perpend-db",
            "perpend-telemetry",
            "perpend-catalog",
            "perpend-executions",
            "perpend-memory",
            "perpend-storage",
        ],
    ),
    (
        "perpend-plugin-cli",
        &[
            "perpend-domain",
            "perpend-worker-protocol",
            "perpend-sandbox",
            "perpend-worker-pool",
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
    ("perpend-http-client", &["perpend-domain"]),
    (
        "perpend-llm",
        &[
            "perpend-domain",
            "perpend-http-client",
            "perpend-worker-protocol",
            "perpend-reply",
            "perpend-json-schema",
        ],
    ),
    (
        "perpend-config",
        &["perpend-otlp", "perpend-http-client", "perpend-db"],
    ),
    (
        "perpend-broker",
        &[
            "perpend-catalog",
            "perpend-config",
            "perpend-domain",
            "perpend-sandbox",
            "perpend-executions",
            "perpend-llm",
            "perpend-http-client",
            "perpend-worker-protocol",
            "perpend-scheduler",
            "perpend-db",
            "perpend-storage",
            "perpend-telemetry",
            "perpend-worker-pool",
        ],
    ),
    (
        "perpend-http-kit",
        &[
            "perpend-catalog",
            "perpend-config",
            "perpend-api-types",
            "perpend-domain",
            "perpend-memory",
            "perpend-otlp",
            "perpend-json-schema",
            "perpend-db",
        ],
    ),
    (
        "perpend-api",
        &[
            "perpend-catalog",
            "perpend-domain",
            "perpend-otlp",
            "perpend-scheduler",
            "perpend-storage",
            "perpend-telemetry",
            "perpend-http-kit",
        ],
    ),
    (
        "perpend-jobs",
        &[
            "perpend-catalog",
            "perpend-api-types",
            "perpend-domain",
            "perpend-http-client",
            "perpend-db",
            "perpend-storage",
        ],
    ),
    (
        "perpend-api",
        &[
            "perpend-catalog",
            "perpend-domain",
            "perpend-jobs",
            "perpend-http-client",
            "perpend-db",
            "perpend-storage",
            "perpend-http-kit",
        ],
    ),
    (
        "perpend-api",
        &[
            "perpend-catalog",
            "perpend-api-types",
            "perpend-domain",
            "perpend-domain",
            "perpend-otlp",
            "perpend-domain",
            "perpend-scheduler",
            "perpend-db",
            "perpend-storage",
            "perpend-telemetry",
            "perpend-http-kit",
        ],
    ),
    (
        "perpend-api",
        &[
            "perpend-plugin-cli",
            "perpend-catalog",
            "perpend-api-types",
            "perpend-domain",
            "perpend-broker",
            "perpend-executions",
            "perpend-otlp",
            "perpend-http-client",
            "perpend-worker-protocol",
            "perpend-scheduler",
            "perpend-db",
            "perpend-stats",
            "perpend-storage",
            "perpend-telemetry",
            "perpend-http-kit",
        ],
    ),
    (
        "perpend-pages",
        &[
            "perpend-catalog",
            "perpend-domain",
            "perpend-domain",
            "perpend-domain",
            "perpend-domain",
            "perpend-views",
            "perpend-scheduler",
            "perpend-stats",
            "perpend-storage",
            "perpend-telemetry",
            "perpend-views",
            "perpend-http-kit",
        ],
    ),
    (
        "perpend-server",
        &[
            "perpend-api",
            "perpend-api",
            "perpend-plugin-cli",
            "perpend-catalog",
            "perpend-config",
            "perpend-api-types",
            "perpend-domain",
            "perpend-broker",
            "perpend-sandbox",
            "perpend-api",
            "perpend-jobs",
            "perpend-llm",
            "perpend-otlp",
            "perpend-http-client",
            "perpend-pages",
            "perpend-worker-protocol",
            "perpend-api",
            "perpend-scheduler",
            "perpend-db",
            "perpend-storage",
            "perpend-http-kit",
            "perpend-worker-pool",
        ],
    ),
    ("perpend", &["perpend-server", "perpend-plugins-bundle"]),
];

/// A library that only these rooms may name.
const RESERVED: &[(&str, &[&str])] = &[
    ("wasmtime", &["perpend-sandbox"]),
    ("wasmtime-wasi", &["perpend-sandbox"]),
    ("sqlx", &["perpend-db"]),
    (
        "axum",
        &[
            "perpend-http-kit",
            "perpend-api",
            "perpend-api",
            "perpend-api",
            "perpend-api",
            "perpend-pages",
            "perpend-server",
        ],
    ),
    ("askama", &["perpend-views", "perpend-views"]),
    (
        "jsonschema",
        &["perpend-json-schema", "perpend-plugin-json"],
    ),
];

/// What `template`, `domain`, `stats`, `query`, `choices`, `otlp`, `schema` and `ui` must not name: they are pure.
const IMPURE: &[&str] = &[
    "tokio", "sqlx", "axum", "hyper", "reqwest", "wasmtime", "rand", "tempfile",
];
const PURE_ROOMS: &[&str] = &[
    "perpend-template",
    "perpend-reply",
    "perpend-domain",
    "perpend-domain",
    "perpend-domain",
    "perpend-stats",
    "perpend-views",
    "perpend-views",
    "perpend-views",
    "perpend-domain",
    "perpend-domain",
    "perpend-views",
    "perpend-telemetry",
    "perpend-domain",
    "perpend-views",
    "perpend-choices",
    "perpend-otlp",
    "perpend-json-schema",
    "perpend-views",
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
    "plugin-sdk/template/src",
    "plugin-sdk/reply/src",
    "runtime/domain/src",
    "runtime/domain/src/cron",
    "runtime/domain/src/text_search",
    "runtime/stats/src",
    "runtime/views/src/markup",
    "runtime/domain/src/query",
    "runtime/views/src/openapi",
    "runtime/telemetry/src/rows",
    "runtime/views/src/urls",
    "runtime/domain/src/content",
    "plugin-sdk/choices/src",
    "runtime/otlp/src",
    "runtime/json-schema/src",
    "runtime/views/src",
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
        assert_eq!(check_arrow("perpend-scheduler", "perpend-storage"), None);
        assert!(check_arrow("perpend-otlp", "perpend-storage").is_some());
        assert!(check_arrow("perpend-worker-pool", "wasmtime").is_some());
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
