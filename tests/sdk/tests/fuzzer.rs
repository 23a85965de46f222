//! A fuzzer over each operation of the OpenAPI document, with authentication on.

use libtest_mimic::Arguments;
use perpend_tests_sdk::{Database, Script};

fn main() {
    let arguments = Arguments::from_args();
    let trials = Database::ALL.map(|database| {
        let script = Script {
            client: "fuzzer",
            interpreter: "bin/python",
            arguments: vec!["run.py".to_owned()],
            folder: "fuzzer",
            database,
        };
        script.trial("every_operation_answers_as_documented")
    });
    libtest_mimic::run(&arguments, trials.into()).exit();
}
