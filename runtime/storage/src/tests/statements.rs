//! Prepares every SQL constant on each database, so that a constant that no test runs cannot be wrong.

use std::path::Path;

use perpend_db::testing::prepare;

use crate::testing::on_each_database;

const CRATES: [&str; 5] = ["catalog", "executions", "db", "storage", "telemetry"];
const VERBS: [&str; 5] = ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"];
/// Parts of statements that are completed with columns or lists. They have tests of their own on each
/// database.
const PARTS: [&str; 6] =
    ["CLAIM_SQLITE", "CLAIM_POSTGRES", "OF_TRACES", "FIND_STORED", "FIND_ANNOUNCED", "STARTS"];
/// Lower bound of the number of constants: a parser that finds none would report no error.
const AT_LEAST: usize = 150;

/// A constant in the source.
#[derive(Debug)]
struct Constant {
    place: String,
    name: String,
    text: String,
}

/// The texts of `const NAME: &str = "...";` that are whole statements.
fn constants(place: &str, source: &str) -> Vec<Constant> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find("const ") {
        rest = &rest[at + "const ".len()..];
        let Some((name, after)) = rest.split_once(':') else {
            break;
        };
        let is_name =
            name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        let Some(after) = after.strip_prefix(" &str =").filter(|_| is_name) else {
            continue;
        };
        let Some(literal) = after.trim_start().strip_prefix('"') else {
            continue;
        };
        let text = unquoted(literal);
        if VERBS.iter().any(|verb| text.trim_start().starts_with(verb)) {
            found.push(Constant { place: place.to_owned(), name: name.to_owned(), text });
        }
    }
    found
}

/// A literal up to its closing quote, as the compiler reads it.
fn unquoted(literal: &str) -> String {
    let mut text = String::new();
    let mut chars = literal.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => match chars.next() {
                Some('\n') => while chars.next_if(|c| c.is_whitespace()).is_some() {},
                Some('n') => text.push('\n'),
                Some(other) => text.push(other),
                None => break,
            },
            other => text.push(other),
        }
    }
    text
}

fn sources(folder: &Path, found: &mut Vec<Constant>) {
    let mut entries: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            found.extend(constants(&path.display().to_string(), code));
        }
    }
}

#[tokio::test]
async fn every_sql_constant_is_a_statement_of_its_databases() {
    on_each_database(|store| async move {
        let is_postgres = store.pool.is_postgres();
        let mut all = Vec::new();
        for crate_dir in CRATES {
            let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(crate_dir);
            sources(&crate_dir.join("src"), &mut all);
        }
        assert!(AT_LEAST < all.len(), "{} constants seen", all.len());
        let mut wrong = Vec::new();
        for constant in all {
            let other = if is_postgres { "_SQLITE" } else { "_POSTGRES" };
            let name = constant.name.as_str();
            if name.ends_with(other) || PARTS.contains(&name) {
                continue;
            }
            let text: &'static str = constant.text.leak();
            if let Err(error) = prepare(&store.pool, text).await {
                wrong.push(format!("{} in {}: {error}", constant.name, constant.place));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    })
    .await;
}
