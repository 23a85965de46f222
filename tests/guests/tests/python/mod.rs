//! Python: a new project, all of the SDK, evaluators given as source, and the scorers of autoevals.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod autoevals;
pub(crate) mod sdk;
mod source;

use std::fs;
use std::path::{self, Path, PathBuf};

use perpend_domain::plugin::{FailureClass, PluginScoreValue};
use perpend_plugin_cli::Tools;
use perpend_tests_guests::{
    Missing, Test, Tested, item, new_project, output, scratch, template, tests,
};
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

fn it_describes_itself_with_a_schema_and_requests_no_capability() -> Tested {
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

/// Runs the unit tests in each folder with the Python at hand.
fn pass_their_own_tests(folders: &[PathBuf]) -> Tested {
    let tools = Tools::from_env();
    let Some(python) = tools.find("python3") else {
        return Err(Missing::tool("python3", "your system's package python3"));
    };
    for folder in folders {
        let mut command = tools.command(&python);
        command.args(["-m", "unittest"]).current_dir(folder).env("PYTHONDONTWRITEBYTECODE", "1");
        let done = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{}: {stderr}", folder.display());
        assert!(!stderr.contains("Ran 0 tests"), "{}: {stderr}", folder.display());
    }
    Ok(())
}

fn modules_outside_of_the_sandbox_pass_their_own_tests() -> Tested {
    let root = path::absolute("../..").unwrap();
    pass_their_own_tests(&[
        root.join("plugin-sdk/python"),
        root.join("plugins/python"),
        root.join("plugins/autoevals-py"),
        new_project("python").dir().to_owned(),
    ])
}

fn the_sdk_passes_its_own_tests_below_folders_with_the_names_of_the_product() -> Tested {
    let sdk = path::absolute("../../plugin-sdk/python").unwrap();
    // The second is the product's former name, which is not written out anywhere.
    let copies = ["perpend".to_owned(), ["ass", "ay"].concat()].map(|name| {
        let copy = scratch("names").join(name).join("python");
        copy_folder(&sdk, &copy);
        copy
    });
    pass_their_own_tests(&copies)
}

fn a_package_with_the_name_of_the_product_is_importable_next_to_the_sdk() -> Tested {
    let packages = scratch("packages");
    fs::create_dir_all(packages.join("perpend")).unwrap();
    fs::write(packages.join("perpend/__init__.py"), "CLIENT = True\n").unwrap();
    let project = new_project("python");
    let test = format!(
        "import sys\nimport unittest\n\nsys.path.append({packages:?})\nimport perpend\nimport perpend_plugin\n\n\n\
         class Client(unittest.TestCase):\n    def test_both_are_there(self):\n        \
         self.assertTrue(perpend.CLIENT and perpend_plugin.Score)\n"
    );
    fs::write(project.dir().join("tests/test_client.py"), test).unwrap();
    pass_their_own_tests(&[project.dir().to_owned()])
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let copy = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &copy);
        } else {
            fs::copy(entry.path(), copy).unwrap();
        }
    }
}

pub(crate) fn all() -> Vec<Test> {
    let own = tests![
        a_new_project_gives_scores,
        it_describes_itself_with_a_schema_and_requests_no_capability,
        an_item_without_output_is_bad_input,
        modules_outside_of_the_sandbox_pass_their_own_tests,
        the_sdk_passes_its_own_tests_below_folders_with_the_names_of_the_product,
        a_package_with_the_name_of_the_product_is_importable_next_to_the_sdk,
    ];
    [own, sdk::tests(), source::tests(), autoevals::tests()].concat()
}
