//! The JavaScript clients: each script of `javascript/`, by the folder of its version.

use libtest_mimic::Trial;
use perpend_tests_sdk::{Database, Script};

const SCRIPTS: &[&str] = &[
    "generated/operations",
    "v5/tracing",
    "v5/scores",
    "v5/prompts",
    "v5/datasets",
    "v3/tracing",
    "v3/prompts",
    "v3/datasets",
];

fn trial(name: &str, database: Database) -> Trial {
    let script = Script {
        client: "javascript",
        interpreter: "bin/node",
        arguments: vec!["--test-reporter=spec".to_owned(), format!("{name}.cjs")],
        folder: "javascript",
        database,
    };
    script.trial(name)
}

pub(crate) fn all() -> Vec<Trial> {
    SCRIPTS.iter().flat_map(|name| Database::ALL.map(|database| trial(name, database))).collect()
}
