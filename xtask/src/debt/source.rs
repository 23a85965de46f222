//! The Rust sources, and the counters that are computed line by line.

use std::path::PathBuf;

use crate::shell;

/// A file of a crate without its comments and unit tests.
pub(super) struct File {
    /// The crate's folder, such as `runtime/storage`.
    pub krate: String,
    /// Its module path: `["telemetry", "read"]`.
    pub module: Vec<String>,
    /// Relative to the root.
    pub path: PathBuf,
    /// Comments and tests are empty lines, so that line numbers are unchanged.
    pub code: String,
}

/// Tables of observations, traces, scores and derived data.
const TELEMETRY_TABLES: [&str; 13] = [
    "observations",
    "payloads",
    "span_logs",
    "traces",
    "trace_counts",
    "trace_marks",
    "tenants",
    "touched",
    "observation_rollups",
    "scores",
    "superseded_scores",
    "media",
    "media_links",
];
/// The words before a table's name.
const BEFORE_TABLE: [&str; 4] = ["FROM", "JOIN", "INTO", "UPDATE"];
/// The crate of those tables.
const TELEMETRY: &str = "runtime/telemetry/";

/// Removed modules whose names must not occur in names of functions.
const OLD_MODULES: [&str; 1] = ["older"];

/// All files of the server's crates.
pub(super) fn read() -> anyhow::Result<Vec<File>> {
    let mut files = Vec::new();
    for path in shell::files()? {
        let text = path.to_string_lossy().into_owned();
        let Some((krate, inside)) = text.split_once("/src/") else {
            continue;
        };
        let is_test = shell::is_test_file(&text);
        if !krate.starts_with("runtime/") || !inside.ends_with(".rs") || is_test {
            continue;
        }
        let code = without_comments(&std::fs::read_to_string(shell::root().join(&path))?);
        let mut module: Vec<String> =
            inside.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
            module.pop();
        }
        files.push(File { krate: krate.to_owned(), module, path, code });
    }
    Ok(files)
}

fn without_comments(text: &str) -> String {
    let mut is_test = false;
    let lines = text.lines().map(|line| {
        is_test |= line.starts_with("#[cfg(test)]");
        let is_comment = line.trim_start().starts_with("//");
        if is_test || is_comment { "" } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

impl File {
    fn at(&self, line: usize, what: &str) -> String {
        format!("{}:{}: {what}", self.path.display(), line + 1)
    }
}

/// Crates of the server other than `db` that depend on sqlx outside of their tests.
pub(super) fn naming_sqlx() -> anyhow::Result<Vec<String>> {
    let metadata = shell::metadata()?;
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let mut dependencies = package["dependencies"].as_array().into_iter().flatten();
        let name = package["name"].as_str().unwrap_or_default();
        let is_of_server =
            package["manifest_path"].as_str().is_some_and(|path| path.contains("/runtime/"));
        let names_it = dependencies.any(|one| {
            one["kind"] != "dev"
                && one["name"].as_str().is_some_and(|name| name.starts_with("sqlx"))
        });
        if is_of_server && names_it && name != "perpend-db" {
            found.push(name.to_owned());
        }
    }
    Ok(found)
}

pub(super) fn telemetry_statements(files: &[File]) -> Vec<String> {
    let outside = files.iter().filter(|file| !file.path.starts_with(TELEMETRY));
    let mut found = Vec::new();
    for file in outside {
        for (at, line) in file.code.lines().enumerate() {
            let words: Vec<&str> = line
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .filter(|word| !word.is_empty())
                .collect();
            let named = words
                .windows(2)
                .find(|two| BEFORE_TABLE.contains(&two[0]) && TELEMETRY_TABLES.contains(&two[1]));
            if let Some(two) = named {
                found.push(file.at(at, two[1]));
            }
        }
    }
    found
}

pub(super) fn untyped_filters(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        for (at, line) in file.code.lines().enumerate() {
            let lists = [": Vec<Value>", ": Option<Vec<Value>>", ": &[Value]"];
            let named =
                lists.iter().find_map(|list| line.split(list).next().filter(|name| *name != line));
            let name = named.and_then(|before| before.rsplit([' ', '(']).next());
            if name.is_some_and(|name| name.contains("filter") || name.contains("condition")) {
                found.push(file.at(at, line.trim()));
            }
        }
    }
    found
}

pub(super) fn old_names(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        for (at, line) in file.code.lines().enumerate() {
            let Some((_, rest)) = line.split_once("fn ") else {
                continue;
            };
            let name = rest.split(['(', '<']).next().unwrap_or_default();
            let is_old = name.split('_').any(|word| OLD_MODULES.contains(&word));
            if is_old {
                found.push(file.at(at, name));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(code: &str) -> File {
        File {
            krate: "runtime/server".to_owned(),
            module: Vec::new(),
            path: "runtime/server/src/lib.rs".into(),
            code: without_comments(code),
        }
    }

    #[test]
    fn a_statement_on_a_telemetry_table_is_counted_in_its_file() {
        let code =
            "// FROM traces\nconst A: &str = \"\n SELECT 1 FROM traces t\";\n\"INSERT INTO rules\"";
        assert_eq!(telemetry_statements(&[file(code)]), ["runtime/server/src/lib.rs:3: traces"]);
    }

    #[test]
    fn a_filter_of_values_is_counted_and_a_typed_one_is_not() {
        let code = "    filter: Vec<Value>,\n    filter: Filter,\n    items: Vec<Value>,";
        assert_eq!(untyped_filters(&[file(code)]).len(), 1);
    }

    #[test]
    fn a_function_with_the_prefix_of_an_old_module_is_counted() {
        let code = "fn older(a: u8) {}\nfn folder() {}\npub(crate) fn view_older<T>() {}";
        assert_eq!(old_names(&[file(code)]).len(), 2);
    }
}
