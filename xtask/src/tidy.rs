//! Conventions that the compiler does not check.

use std::path::Path;

use serde_json::json;

use crate::{phrases, shell};

const MAX_LINES: usize = 800;

/// Words that are not allowed in source files, with the reason. Written in pieces so that this file passes.
fn banned() -> Vec<(String, &'static str)> {
    vec![
        (["TO", "DO"].concat(), "finish it or open an issue"),
        (["FIX", "ME"].concat(), "finish it or open an issue"),
        (["todo", "!("].concat(), "finish it"),
        (["#[ig", "nore"].concat(), "a test that does not run claims nothing"),
        (["#[should_", "panic"].concat(), "assert the error instead"),
    ]
}

/// Sleeps; in a test they hide the awaited event.
fn sleeps() -> [String; 2] {
    [["thread::", "sleep("].concat(), ["time::", "sleep("].concat()]
}

/// Calls that read the clock or random numbers. Only tests, measurements and the listed files may use them; all other code
/// takes them as parameters.
const CLOCK_AND_CHANCE: &[&str] = &["SystemTime::now", "Uuid::new_v4", "Timestamp::now"];
const MAY_READ_CLOCK: &[&str] =
    &["runtime/server/src/system.rs", "runtime/sandbox/", "tests/bench/", "xtask/"];

/// All violations, as `file:line: sentence`.
pub(crate) fn violations() -> anyhow::Result<Vec<String>> {
    let banned = banned();
    let mut found = Vec::new();
    for file in shell::files()? {
        let is_corpus = file.starts_with("tests/corpus");
        let Ok(text) = std::fs::read_to_string(shell::root().join(&file)) else {
            continue;
        };
        if !is_corpus {
            found.extend(machine_paths(&file, &text));
        }
        let is_generated = file.starts_with("plugin-sdk/rust/bindings");
        if file.extension().is_some_and(|ending| ending == "rs") && !is_generated {
            found.extend(rust_file(&file, &text, &banned));
        }
    }
    found.extend(tests_that_never_run()?);
    found.extend(phrases::violations()?);
    Ok(found)
}

/// A library or program that is built without unit tests (`test = false`) must have none.
fn tests_that_never_run() -> anyhow::Result<Vec<String>> {
    let metadata = shell::metadata()?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let untested = targets.filter(|target| {
        target["test"] == false
            && (target["kind"] == json!(["lib"]) || target["kind"] == json!(["bin"]))
    });
    let folders = untested.filter_map(|target| Path::new(target["src_path"].as_str()?).parent());
    let folders: Vec<&Path> = folders.collect();
    let mut found = Vec::new();
    for file in shell::files()? {
        let path = shell::root().join(&file);
        let is_untested = folders.iter().any(|folder| path.starts_with(folder));
        if is_untested && has_tests(&std::fs::read_to_string(&path).unwrap_or_default()) {
            let shown = file.display();
            found
                .push(format!("{shown}: tests never run, because the manifest has `test = false`"));
        }
    }
    Ok(found)
}

fn has_tests(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim_start);
    lines.any(|line| line.starts_with("#[") && (line.contains("[test]") || line.contains("::test")))
}

/// Absolute paths of a developer's machine.
fn machine_paths(file: &Path, text: &str) -> Vec<String> {
    let homes = [
        ["/ho", "me/"].concat(),
        ["/Us", "ers/"].concat(),
        ["/ro", "ot/"].concat(),
        ["/wo", "rk/"].concat(),
    ];
    // The SCIM resource of users is not a folder.
    let names_one = |line: &str| {
        let line = line.replace(&["scim", &homes[1]].concat(), "");
        homes.iter().any(|home| line.contains(home.as_str()))
    };
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| names_one(line))
        .map(|(at, _)| format!("{}:{}: a path of one machine", file.display(), at + 1))
        .collect()
}

fn rust_file(file: &Path, text: &str, banned: &[(String, &'static str)]) -> Vec<String> {
    let shown = file.display();
    let mut found = Vec::new();
    if !text.starts_with("//!") {
        found.push(format!("{shown}:1: a file must start with a //! comment"));
    }
    let n_lines = text.lines().count();
    if MAX_LINES < n_lines {
        found
            .push(format!("{shown}: {n_lines} lines, at most {MAX_LINES} allowed: split the file"));
    }
    for (at, line) in text.lines().enumerate() {
        for (word, why) in banned.iter().filter(|(word, _)| line.contains(word.as_str())) {
            found.push(format!("{shown}:{}: {word}: {why}", at + 1));
        }
    }
    found.extend(waits_and_clocks(file, text));
    found
}

/// Sleeps in tests (bounded polls in support libraries are allowed), and clocks outside of tests.
fn waits_and_clocks(file: &Path, text: &str) -> Vec<String> {
    let shown = file.display().to_string();
    let is_test_file = shell::is_test_file(&shown);
    let may_read = MAY_READ_CLOCK.iter().any(|place| shown.starts_with(place));
    let is_server = shown.starts_with("runtime/");
    let sleeps = sleeps();
    let mut found = Vec::new();
    let mut in_tests = is_test_file;
    for (at, line) in text.lines().enumerate() {
        in_tests = in_tests || line.starts_with("#[cfg(test)]");
        let code = line.split("//").next().unwrap_or_default();
        if in_tests && !polls(text, at) && sleeps.iter().any(|sleep| code.contains(sleep.as_str()))
        {
            found.push(format!("{shown}:{}: wait for an event instead of a time", at + 1));
        }
        let reads = CLOCK_AND_CHANCE.iter().find(|read| code.contains(**read));
        if let (Some(read), true, false) = (reads, is_server && !in_tests, may_read) {
            found.push(format!("{shown}:{}: {read}: take clock and ids as parameters", at + 1));
        }
    }
    found
}

/// Whether a line is one of the first lines of a loop: a poll for an event.
fn polls(text: &str, at: usize) -> bool {
    const REACH: usize = 8;
    let before = text.lines().take(at).skip(at.saturating_sub(REACH));
    let starts = ["loop {", "while ", "for "];
    before.map(str::trim_start).any(|line| starts.iter().any(|start| line.starts_with(start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_head_and_with_a_banned_word_is_named_twice() {
        let text = format!("fn f() {{}} // {}\n", ["TO", "DO"].concat());
        let found = rust_file(Path::new("a.rs"), &text, &banned());
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn a_sleep_is_named_in_a_test_and_nowhere_else() {
        let sleep = ["    std::thread::", "sleep(TICK);\n"].concat();
        let code = waits_and_clocks(Path::new("runtime/sandbox/src/a.rs"), &sleep);
        assert_eq!(code, Vec::<String>::new());
        let tested = format!("#[cfg(test)]\nmod tests {{\n{sleep}}}\n");
        let found = waits_and_clocks(Path::new("runtime/sandbox/src/a.rs"), &tested);
        assert_eq!(found, ["runtime/sandbox/src/a.rs:3: wait for an event instead of a time"]);
    }

    #[test]
    fn a_clock_is_read_in_one_place_only() {
        let read = "let now = SystemTime::now();\n";
        let at = |file: &str| waits_and_clocks(Path::new(file), read).len();
        assert_eq!(at("runtime/scheduler/src/lib.rs"), 1);
        assert_eq!(at("runtime/server/src/system.rs"), 0);
    }

    #[test]
    fn a_test_is_known_by_its_attribute_whatever_runs_it() {
        assert!(has_tests("mod tests {\n    #[test]\n    fn f() {}\n}"));
        assert!(has_tests("#[tokio::test(flavor = \"multi_thread\")]\nasync fn f() {}"));
        assert!(!has_tests("#[cfg(test)]\nmod double;\n// as in #[test]"));
    }

    #[test]
    fn a_home_folder_is_named_with_its_line() {
        let text = format!("fine\nsee {}\n", ["/ho", "me/someone/x"].concat());
        assert_eq!(machine_paths(Path::new("a.md"), &text), ["a.md:2: a path of one machine"]);
    }
}
