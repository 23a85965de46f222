//! A fuzzer over each operation of the OpenAPI document, with authentication on.

use libtest_mimic::Trial;
use perpend_tests_sdk::{Database, Script};

pub(crate) fn all() -> Vec<Trial> {
    // Faults found by random bodies do not depend on the database; responses of operations do.
    let coverage = ["--generation-deterministic", "--phases", "coverage"];
    let of_each = Database::ALL.map(|database| {
        let more: &[&str] = match database {
            Database::Sqlite => &[],
            Database::Postgres => &coverage,
        };
        let arguments = ["run.py"].iter().chain(more);
        let script = Script {
            client: "fuzzer",
            interpreter: "bin/python",
            arguments: arguments.map(ToString::to_string).collect(),
            folder: "fuzzer",
            database,
        };
        script.trial("every_operation_answers_as_documented")
    });
    of_each.into()
}
