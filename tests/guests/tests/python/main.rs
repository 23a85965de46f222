//! Python: a new project, all of the SDK, evaluators given as source, and the scorers of autoevals.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod autoevals;
mod first_party;
mod sdk;
mod source;

use std::path;
use std::process::ExitCode;

use perpend_author::Tools;
use perpend_domain::plugin::{FailureClass, PluginScoreValue};
use perpend_tests_guests::{Missing, Test, Tested, item, new_project, output, template, tests};
use serde_json::json;

fn a_new_project_gives_scores() -> Tested {
    let template = template("python")?;
    let scores = template.guest.scores(
        "max-length",
        &json!({ "max_chars": 5, "trim": false }),
        &output("Zürich"),
    );
    assert_eq!(scores.len(), 1);
    assert_eq!(scores[0].value, PluginScoreValue::Boolean(false));
    assert_eq!(scores[0].comment.as_deref(), Some("6 of 5 characters"));
    Ok(())
}

fn it_describes_itself_with_a_schema_and_asks_for_nothing() -> Tested {
    let info = template("python")?.guest.info();
    assert_eq!(info.name, "acme/sample");
    assert_eq!(info.capabilities.names(), [""; 0]);
    let schema: serde_json::Value =
        serde_json::from_str(&info.evaluators[0].config_schema).unwrap();
    assert_eq!(schema["properties"]["max_chars"]["default"], 80);
    Ok(())
}

fn an_item_without_output_is_bad_input() -> Tested {
    let guest = &template("python")?.guest;
    let config = json!({ "max_chars": 5, "trim": false });
    let failure = guest.failure("max-length", &config, &item("1"));
    assert_eq!(failure.class, FailureClass::InvalidInput);
    Ok(())
}

fn what_runs_without_a_sandbox_passes_its_own_tests() -> Tested {
    let tools = Tools::from_env();
    let Some(python) = tools.find("python3") else {
        return Err(Missing::tool("python3", "your system's package python3"));
    };
    let root = path::absolute("../..").unwrap();
    let project = new_project("python");
    let folders = [
        root.join("plugin-sdk/python"),
        root.join("plugins/python"),
        root.join("plugins/autoevals-py"),
        project.dir().to_owned(),
    ];
    for folder in folders {
        let mut command = tools.command(&python);
        command
            .args(["-m", "unittest"])
            .current_dir(&folder)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{}: {said}", folder.display());
        assert!(
            !said.contains("Ran 0 tests"),
            "{}: {said}",
            folder.display()
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    let own: Vec<Test> = tests![
        a_new_project_gives_scores,
        it_describes_itself_with_a_schema_and_asks_for_nothing,
        an_item_without_output_is_bad_input,
        what_runs_without_a_sandbox_passes_its_own_tests,
    ];
    let all = [own, sdk::tests(), source::tests(), autoevals::tests()];
    perpend_tests_guests::run(all.concat())
}
