//! The Python clients: each module of `python/` with each version that has what it uses.

use libtest_mimic::Trial;
use perpend_tests_sdk::{Database, Script};

/// Folder of a version, and the modules it runs.
const RUNS: &[(&str, &[&str])] = &[
    (
        "python5",
        &[
            "test_prompts",
            "test_datasets",
            "test_dataset_media",
            "test_experiments",
            "test_experiment_lists",
            "test_autoevals",
            "test_media",
            "test_tracing",
            "test_scores",
            "test_teamwork",
            "test_organizations",
            "test_blob_storage",
            "test_openai",
            "test_langchain",
        ],
    ),
    (
        "python4",
        &[
            "test_prompts",
            "test_datasets",
            "test_experiments",
            "test_dataset_media",
            "test_dataset_runs",
            "test_media",
            "test_tracing",
            "test_scores",
            "test_teamwork",
            "test_organizations",
        ],
    ),
    (
        "python3",
        &[
            "test_prompts",
            "test_datasets",
            "test_experiments",
            "test_dataset_runs",
            "test_media",
            "test_tracing",
            "test_openai",
            "test_scores",
        ],
    ),
];

/// A client made from the OpenAPI document.
const MODELS: &str = "models";

fn trial(client: &'static str, module: &str, database: Database) -> Trial {
    let script = Script {
        client,
        interpreter: "bin/python",
        arguments: ["-X", "faulthandler", "-m", "unittest", "-v", module]
            .map(str::to_owned)
            .to_vec(),
        folder: if client == MODELS { MODELS } else { "python" },
        database,
    };
    script.trial(module)
}

pub(crate) fn all() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (client, modules) in RUNS {
        for module in *modules {
            for database in Database::ALL {
                trials.push(trial(client, module, database));
            }
        }
    }
    trials.push(trial(MODELS, "test_models", Database::Sqlite));
    trials
}
