//! JavaScript and TypeScript: new projects, the SDK on both engines.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::ExitCode;

use assay_domain::plugin::{FailureClass, PluginScoreValue};
use assay_tests_guests::{Tested, item, output, template, tests};
use serde_json::json;

const LANGUAGES: [&str; 2] = ["javascript", "typescript"];

fn new_projects_give_scores() -> Tested {
    for language in LANGUAGES {
        let guest = &template(language)?.guest;
        let scores = guest.scores(
            "max-words",
            &json!({ "maxWords": 2 }),
            &output("It is Paris."),
        );
        assert_eq!(scores.len(), 1, "{language}");
        assert_eq!(scores[0].value, PluginScoreValue::Boolean(false));
        assert_eq!(scores[0].comment.as_deref(), Some("3 of 2 words"));
    }
    Ok(())
}

fn they_describe_themselves_with_a_schema_and_ask_for_nothing() -> Tested {
    for language in LANGUAGES {
        let info = template(language)?.guest.info();
        assert_eq!(info.name, "acme/sample");
        assert_eq!(info.capabilities.names(), [""; 0]);
        let schema: serde_json::Value =
            serde_json::from_str(&info.evaluators[0].config_schema).unwrap();
        assert_eq!(schema["properties"]["maxWords"]["default"], 20);
    }
    Ok(())
}

fn an_item_without_output_is_bad_input() -> Tested {
    for language in LANGUAGES {
        let guest = &template(language)?.guest;
        let failure = guest.failure("max-words", &json!({ "maxWords": 2 }), &item("1"));
        assert_eq!(failure.class, FailureClass::InvalidInput);
        assert_eq!(failure.message, "the item has no output");
    }
    Ok(())
}

fn main() -> ExitCode {
    assay_tests_guests::run(tests![
        new_projects_give_scores,
        they_describe_themselves_with_a_schema_and_ask_for_nothing,
        an_item_without_output_is_bad_input,
    ])
}
