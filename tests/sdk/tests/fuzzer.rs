//! A fuzzer over each operation of the OpenAPI document, with authentication on.

use libtest_mimic::Trial;
use perpend_tests_sdk::{Database, Script};

pub(crate) fn all() -> Vec<Trial> {
    let of_each = Database::ALL.map(|database| {
        let script = Script {
            client: "fuzzer",
            interpreter: "bin/python",
            arguments: vec!["run.py".to_owned()],
            folder: "fuzzer",
            database,
        };
        script.trial("every_operation_answers_as_documented")
    });
    of_each.into()
}
