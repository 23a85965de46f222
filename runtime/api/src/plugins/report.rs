//! The check of a component as a list of steps.

use perpend_http_kit::problem::MAX_LISTED;
use perpend_worker_protocol::ComponentProblem;
use serde_json::{Value, json};

/// Characters of a message; parts of it come from the component.
const MAX_CHARS: usize = 500;

/// The step in which a name or version is found to be in use.
pub(super) const REGISTRATION: &str = "registration";
/// Steps in the order in which they are taken. The imports and the exports are checked together.
const STEPS: [&str; 6] = ["file", "compile", "imports", "exports", "describe", REGISTRATION];

/// The step of a problem.
fn step_of(at: &str) -> &'static str {
    match at.split(' ').next().unwrap_or_default() {
        "file" => "file",
        "compile" => "compile",
        "import" => "imports",
        "export" => "exports",
        REGISTRATION => REGISTRATION,
        // Paths into the description.
        _ => "describe",
    }
}

fn listed(problem: &ComponentProblem) -> Value {
    let cut = |text: &str| text.chars().take(MAX_CHARS).collect::<String>();
    json!({ "at": cut(&problem.at), "message": cut(&problem.message) })
}

/// The steps of a check that failed with one problem.
pub(super) fn failed_at(step: &str, message: &str) -> Value {
    steps(&[ComponentProblem::new(step, message)])
}

/// All steps with `step`, `status` (`passed`, `failed` or `not_reached`), `problems` and the number of omitted ones.
pub(super) fn steps(problems: &[ComponentProblem]) -> Value {
    let mut failed = None;
    let steps = STEPS.into_iter().map(|step| {
        let own = problems.iter().filter(|problem| step_of(&problem.at) == step);
        let n = own.clone().count();
        let listed: Vec<Value> = own.take(MAX_LISTED).map(listed).collect();
        let is_reached = failed.is_none() || (step == "exports" && failed == Some("imports"));
        let status = match (n == 0, is_reached) {
            (false, _) => "failed",
            (true, true) => "passed",
            (true, false) => "not_reached",
        };
        if status == "failed" && failed.is_none() {
            failed = Some(step);
        }
        json!({
            "step": step, "status": status, "problems": listed,
            "problemsOmitted": n.saturating_sub(MAX_LISTED),
        })
    });
    Value::Array(steps.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statuses(at: &[&str]) -> Vec<String> {
        let problems: Vec<_> = at.iter().map(|at| ComponentProblem::new(*at, "bad")).collect();
        let steps = steps(&problems);
        let steps = steps.as_array().unwrap().iter();
        steps.map(|step| step["status"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_steps_after_a_failed_one_are_not_reached() {
        let file =
            ["failed", "not_reached", "not_reached", "not_reached", "not_reached", "not_reached"];
        assert_eq!(statuses(&["file"]), file);
        let imports = ["passed", "passed", "failed", "passed", "not_reached", "not_reached"];
        assert_eq!(statuses(&["import wasi:http/types@0.2.0", "import"]), imports);
        let both = ["passed", "passed", "failed", "failed", "not_reached", "not_reached"];
        assert_eq!(statuses(&["import a", "export perpend:evaluator/evaluator@1.0.0"]), both);
        let describe = ["passed", "passed", "passed", "passed", "failed", "not_reached"];
        assert_eq!(statuses(&["evaluators[0].scores", "version"]), describe);
        assert_eq!(statuses(&[REGISTRATION])[5], "failed");
        assert!(statuses(&[]).iter().all(|status| status == "passed"));
    }
}
