//! Checks the dependencies between crates against `docs/architecture.md`: the block that starts with `text crates` has one
//! line per crate, `NAME -> DEPENDENCIES`. A manifest has no dependency that its crate does not use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use crate::shell;

const MAP: &str = "docs/architecture.md";
const BLOCK: &str = "```text crates\n";
const PREFIX: &str = "perpend-";

/// Libraries that only some crates may depend on.
const RESERVED: &[(&str, &[&str])] = &[
    ("wasmtime", &["sandbox"]),
    ("wasmtime-wasi", &["sandbox"]),
    ("sqlx", &["db"]),
    ("axum", &["http-kit", "api", "pages", "server"]),
    ("askama", &["views"]),
    ("jsonschema", &["json-schema", "plugin-json"]),
];

/// Crates without I/O, clocks and randomness: folder and name.
const PURE: &[(&str, &str)] = &[
    ("plugin-sdk/choices", "choices"),
    ("plugin-sdk/reply", "reply"),
    ("plugin-sdk/template", "template"),
    ("plugins/json", "plugin-json"),
    ("plugins/judge", "plugin-judge"),
    ("plugins/measures", "plugin-measures"),
    ("plugins/text", "plugin-text"),
    ("runtime/domain", "domain"),
    ("runtime/experiments", "experiments"),
    ("runtime/json-schema", "json-schema"),
    ("runtime/otlp", "otlp"),
    ("runtime/stats", "stats"),
    ("runtime/views", "views"),
];

/// Libraries that a pure crate must not depend on.
const IMPURE: &[&str] =
    &["tokio", "sqlx", "axum", "hyper", "reqwest", "wasmtime", "rand", "tempfile"];

/// Modules of the standard library that do I/O or read the environment.
const IMPURE_STD: &[&str] =
    &["std::fs", "std::net", "std::process", "std::env", "std::thread", "SystemTime"];

/// Dependencies between crates of this repository, by name without prefix.
type Dependencies = BTreeMap<String, BTreeSet<String>>;

/// Every dependency that is not allowed, and every line of the map that no manifest confirms.
pub(crate) fn violations() -> anyhow::Result<Vec<String>> {
    let map = std::fs::read_to_string(shell::root().join(MAP)).context(MAP)?;
    let allowed = parse_map(&map)?;
    let metadata = shell::metadata()?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let files = shell::files()?;
    let mut violations = Vec::new();
    let mut actual = Dependencies::new();
    for package in packages {
        violations.extend(unused(package, &files)?);
        let name = short(package["name"].as_str().context("no name")?);
        let dependencies = package["dependencies"].as_array();
        // Dependencies of tests are not part of the crate.
        let dependencies = dependencies.into_iter().flatten();
        let dependencies = dependencies.filter(|dependency| dependency["kind"] != "dev");
        let dependencies = dependencies.filter_map(|dependency| dependency["name"].as_str());
        let dependencies: Vec<&str> = dependencies.collect();
        violations.extend(dependencies.iter().filter_map(|library| check_library(name, library)));
        let ours = dependencies.iter().filter_map(|library| library.strip_prefix(PREFIX));
        actual.insert(name.to_owned(), ours.map(str::to_owned).collect());
    }
    violations.extend(compare(&allowed, &actual));
    for file in files {
        let is_pure = |(folder, _): &(&str, &str)| file.starts_with(format!("{folder}/src"));
        if PURE.iter().any(is_pure) {
            let text = std::fs::read_to_string(shell::root().join(&file))?;
            violations.extend(check_purity(&file.display().to_string(), &text));
        }
    }
    Ok(violations)
}

/// Dependencies of a package that none of its files names.
fn unused(package: &Value, files: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let manifest = package["manifest_path"].as_str().context("no manifest")?;
    let folder = Path::new(manifest).parent().context("no folder")?;
    let folder = folder.strip_prefix(shell::root()).unwrap_or(folder);
    let is_source = |file: &&PathBuf| {
        file.starts_with(folder) && file.extension().is_some_and(|extension| extension == "rs")
    };
    let mut text = String::new();
    for file in files.iter().filter(is_source) {
        text.push_str(&std::fs::read_to_string(shell::root().join(file))?);
    }
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    let names = dependencies.filter_map(|dependency| {
        dependency["rename"].as_str().or_else(|| dependency["name"].as_str())
    });
    // The macro that derives `JsonSchema` uses the library without a name in the source.
    let is_used = |name: &str| {
        text.contains(&name.replace('-', "_"))
            || (name == "schemars" && text.contains("JsonSchema"))
    };
    let unused = names.filter(|name| !is_used(name));
    Ok(unused.map(|name| format!("{}: {name} is not used", folder.display())).collect())
}

fn short(package: &str) -> &str {
    package.strip_prefix(PREFIX).unwrap_or(package)
}

fn parse_map(text: &str) -> anyhow::Result<Dependencies> {
    let (_, block) =
        text.split_once(BLOCK).with_context(|| format!("{MAP} has no block of crates"))?;
    let (block, _) = block
        .split_once("```")
        .with_context(|| format!("{MAP}: the block of crates has no end"))?;
    let line = |line: &str| {
        let (name, dependencies) =
            line.split_once("->").with_context(|| format!("{MAP}: no `->` in {line:?}"))?;
        let dependencies = dependencies.split(',').map(|name| name.trim().to_owned());
        Ok((name.trim().to_owned(), dependencies.filter(|name| !name.is_empty()).collect()))
    };
    block.lines().filter(|text| !text.trim().is_empty()).map(line).collect()
}

/// Crates that the map does not name (tests, tools) are free.
fn compare(allowed: &Dependencies, actual: &Dependencies) -> Vec<String> {
    let mut violations = Vec::new();
    for (name, allowed) in allowed {
        let Some(actual) = actual.get(name) else {
            violations.push(format!("{MAP}: no crate is named {name}"));
            continue;
        };
        let added = actual.difference(allowed);
        violations.extend(
            added.map(|to| format!("{name} must not depend on {to}: {MAP} does not allow it")),
        );
        let unused = allowed.difference(actual);
        violations
            .extend(unused.map(|to| {
                format!("{MAP}: {name} does not depend on {to}; remove it from the map")
            }));
    }
    violations
}

fn check_library(name: &str, library: &str) -> Option<String> {
    let reserved = RESERVED.iter().find(|(reserved, _)| *reserved == library);
    let is_ours = PURE.iter().any(|(_, pure)| *pure == name);
    if is_ours && IMPURE.contains(&library) {
        return Some(format!("{name} must not depend on {library}: the crate is pure"));
    }
    let (_, owners) = reserved?;
    let is_tool = matches!(
        name,
        "it" | "bench" | "sdk" | "guests" | "browser" | "xtask" | "tests-sdk" | "tests-guests"
    );
    (!is_tool && !owners.contains(&name))
        .then(|| format!("{name} must not depend on {library}: only {} may", owners.join(", ")))
}

/// Uses of the outside world in a file of a pure crate, its tests excluded.
fn check_purity(file: &str, text: &str) -> Vec<String> {
    if shell::is_test_file(file) || !file.ends_with(".rs") {
        return Vec::new();
    }
    let code = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).enumerate();
    let code = code.filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.filter_map(|(at, line)| {
        let module = IMPURE_STD.iter().find(|module| line.contains(**module))?;
        Some(format!("{file}:{}: {module} in a pure crate", at + 1))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependencies(text: &str) -> Dependencies {
        parse_map(&format!("{BLOCK}{text}```")).unwrap()
    }

    #[test]
    fn a_dependency_that_the_map_does_not_allow_is_reported_and_so_is_an_unused_line() {
        let allowed = dependencies("domain ->\nscheduler -> domain, storage\n");
        let actual = dependencies("domain -> storage\nscheduler -> domain\ntool -> domain\n");
        let violations = compare(&allowed, &actual);
        assert_eq!(violations.len(), 2, "{violations:?}");
    }

    #[test]
    fn reserved_and_impure_libraries_are_reported() {
        assert!(check_library("worker-pool", "wasmtime").is_some());
        assert!(check_library("sandbox", "wasmtime").is_none());
        assert!(check_library("domain", "tokio").is_some());
    }

    #[test]
    fn a_pure_crate_that_opens_a_file_is_reported_with_the_line() {
        let text = "//! std::fs is not used\nuse std::fs;\n#[cfg(test)]\nuse std::env;\n";
        assert_eq!(check_purity("a.rs", text), ["a.rs:2: std::fs in a pure crate"]);
    }
}
