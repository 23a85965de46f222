//! Go: a new project, and a judge that takes the rest of the package.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use perpend_domain::payload::Payload;
use perpend_domain::plugin::{FailureClass, Item, PluginScoreValue, TraceRef};
use perpend_plugin_cli::Project;
use perpend_tests_guests::{
    Guest, Missing, Model, Template, Test, Tested, built, detective, item, new_project, output,
    template, tests,
};
use perpend_worker_protocol::host_call::{
    Kind, ModelError, ObservationHead, ObservationPage, Severity,
};
use perpend_worker_protocol::{HostReply, HostRequest};
use serde_json::{Value, json};

/// What a plug-in that uses the rest of the package is made of.
const JUDGE: &str = include_str!("go/judge.go");
const DETECTIVE: &str = include_str!("go/detective.go");
const DETECTIVE_TEST: &str = include_str!("go/detective_test.go");

fn a_new_project_gives_scores() -> Tested {
    let template = template("go")?;
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

fn its_configuration_is_a_schema_and_it_requests_no_capability() -> Tested {
    let template = template("go")?;
    let info = template.guest.info();
    assert_eq!(info.name, "acme/sample");
    assert_eq!(info.capabilities.names(), [""; 0]);
    let schema: Value = serde_json::from_str(&info.evaluators[0].config_schema).unwrap();
    let max_chars = &schema["properties"]["max_chars"];
    assert_eq!(max_chars["default"], 80);
    assert_eq!(max_chars["minimum"], 0);
    assert_eq!(max_chars["description"], "The maximum number of characters that passes.");
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["required"], Value::Null);
    Ok(())
}

fn an_item_without_output_is_bad_input() -> Tested {
    let guest = &template("go")?.guest;
    let failure = guest.failure("max-length", &json!({}), &item("1"));
    assert_eq!(failure.class, FailureClass::InvalidInput);
    assert_eq!(failure.message, "the item has no output");
    Ok(())
}

fn equal_calls_return_equal_results_and_equal_random_numbers() -> Tested {
    let guest = judge(|| Ok("{}"), |_| None)?;
    let random = |guest: &Guest| guest.result("judge", &json!({"mode": "random"}), &output("x"));
    let (first, second) = (random(&guest), random(&guest));
    assert_eq!(first.outcome, second.outcome);
    assert!(first.outcome.is_ok(), "{first:?}");
    Ok(())
}

fn a_judge_calls_the_model_and_reads_its_structured_reply() -> Tested {
    let model = Model::saying(r#"{"verdict": "wröng", "points": 0.25}"#);
    let guest = judge_through(Arc::clone(&model))?;
    assert_eq!(guest.info().capabilities.names(), ["model", "trace"]);
    let question = Item { input: Some(Payload::Text("yes?".into())), ..output("no") };
    let result = guest.result("judge", &json!({}), &question);
    let scores = result.outcome.unwrap();
    assert_eq!(scores[0].value, PluginScoreValue::Numeric(0.25));
    assert_eq!(scores[0].comment.as_deref(), Some("wröng"));
    assert_eq!(scores[0].metadata.as_deref(), Some(r#"{"model":"double","tokens":15}"#));
    let requests = model.completions();
    assert_eq!(requests[0].messages[1].texts(), "yes?\n---\nno");
    assert_eq!(requests[0].temperature, Some(0.0));
    assert_eq!(requests[0].slot, None);
    assert_eq!(result.log[0].message, "asked");
    assert_eq!(result.log[0].fields.as_deref(), Some(r#"{"seed":7}"#));
    Ok(())
}

fn a_configuration_is_checked_by_the_evaluator_that_has_a_rule_for_it() -> Tested {
    let guest = judge(|| Ok("{}"), |_| None)?;
    let checked = guest.check_config("judge", &json!({ "mode": "loop" }));
    let failure = checked.outcome.unwrap_err();
    assert_eq!(failure.class, FailureClass::InvalidConfig);
    assert!(failure.message.contains("/mode: would not end"), "{failure:?}");
    let checked = guest.check_config("judge", &json!({ "mode": "judge" }));
    assert_eq!(checked.outcome, Ok(Vec::new()));
    let template = &template("go")?.guest;
    let checked = template.check_config("max-length", &json!({ "max_chars": 1, "trim": true }));
    assert_eq!(checked.outcome, Ok(Vec::new()));
    Ok(())
}

fn a_trace_is_read_page_by_page() -> Tested {
    let guest = judge(|| Ok("{}"), |request| Some(trace(request)))?;
    let subject = Item {
        trace: Some(TraceRef { trace_id: "t1".into(), observation_id: None }),
        ..output("no")
    };
    let scores = guest.scores("judge", &json!({"mode": "trace"}), &subject);
    assert_eq!(scores[0].value, PluginScoreValue::Numeric(3.0));
    assert_eq!(scores[0].comment.as_deref(), Some("search: hello"));
    assert_eq!(scores[0].observation_id.as_deref(), Some("o3"));
    Ok(())
}

/// A trace of three tool calls, on two pages.
fn trace(request: &HostRequest) -> HostReply {
    let head = |id: &str| ObservationHead {
        id: id.to_owned(),
        parent_id: None,
        kind: Kind::Tool,
        name: Some("search".into()),
        start_ms: 1,
        end_ms: None,
        severity: Severity::Standard,
        status_message: None,
        model: None,
        input_tokens: None,
        output_tokens: None,
        input_size: 5,
        output_size: 0,
    };
    match request {
        HostRequest::ListObservations { filter, cursor, .. } => {
            assert_eq!(filter.kinds, [Kind::Tool]);
            let (ids, next): (&[&str], _) = match cursor {
                None => (&["o1", "o2"], Some("2".to_owned())),
                Some(_) => (&["o3"], None),
            };
            HostReply::ListObservations(Ok(ObservationPage {
                observations: ids.iter().map(|id| head(id)).collect(),
                next_cursor: next,
            }))
        }
        HostRequest::Read { .. } => HostReply::Read(Ok(Some(Payload::Text("hello".into())))),
        other => other.not_granted(),
    }
}

fn errors_of_host_and_plugin_are_distinguished() -> Tested {
    let guest = judge(|| Err(ModelError::RateLimited("too many".into())), |_| None)?;
    let question = Item { input: Some(Payload::Text("yes?".into())), ..output("no") };
    let failure = guest.failure("judge", &json!({}), &question);
    assert_eq!(failure.class, FailureClass::UpstreamUnavailable);
    assert_eq!(failure.message, "the judge: too many");
    let classes = [
        ("invalid-config", FailureClass::InvalidConfig, "requested"),
        ("not-applicable", FailureClass::NotApplicable, "requested"),
        ("transient", FailureClass::Transient, "requested"),
        ("error", FailureClass::PluginError, "requested"),
        ("panic", FailureClass::PluginTrap, "main.fail"),
        ("loop", FailureClass::FuelExhausted, "CPU"),
        ("memory", FailureClass::MemoryLimit, "MiB"),
    ];
    for (mode, class, text) in classes {
        let failure = guest.failure("judge", &json!({ "mode": mode }), &output("no"));
        assert_eq!(failure.class, class, "{mode}: {}", failure.message);
        assert!(failure.message.contains(text), "{mode}: {}", failure.message);
    }
    Ok(())
}

fn a_panic_message_is_in_the_log() -> Tested {
    let guest = judge(|| Ok("{}"), |_| None)?;
    let result = guest.result("judge", &json!({ "mode": "panic" }), &output("no"));
    let log: Vec<String> = result.log.into_iter().map(|line| line.message).collect();
    assert!(log.concat().contains("panic: requested"), "{log:?}");
    Ok(())
}

fn memory_and_streams_grow_without_overlap() -> Tested {
    let guest = judge(|| Ok("{}"), |_| None)?;
    let result = guest.result("judge", &json!({ "mode": "grow" }), &output("no"));
    let scores = result.outcome.unwrap();
    assert_eq!(scores[0].value, PluginScoreValue::Numeric(12.0));
    let log: String = result.log.into_iter().map(|line| line.message).collect();
    assert!(log.contains("round 11"), "{log}");
    Ok(())
}

fn sleeping_moves_the_clock_and_takes_no_time() -> Tested {
    let guest = judge(|| Ok("{}"), |_| None)?;
    let scores = guest.scores("judge", &json!({ "mode": "sleep" }), &output("no"));
    assert_eq!(scores[0].value, PluginScoreValue::Numeric(1.0));
    Ok(())
}

fn the_tools_that_a_model_calls_are_carried_out_and_its_answer_has_probabilities() -> Tested {
    detective::uses_tools(&built_judge()?.guest);
    Ok(())
}

fn several_completions_embeddings_and_the_steps_of_a_trace_are_requested() -> Tested {
    detective::asks_for_all_else(&built_judge()?.guest);
    Ok(())
}

fn a_session_is_read_trace_by_trace() -> Tested {
    detective::reads_a_session(&built_judge()?.guest);
    Ok(())
}

fn a_run_is_read_item_by_item() -> Tested {
    detective::reads_a_run(&built_judge()?.guest);
    Ok(())
}

fn the_test_host_serves_the_calls_of_evaluators() -> Tested {
    built_judge()?; // the compiler is there
    let project = judge_project();
    std::fs::write(project.dir().join("detective_test.go"), DETECTIVE_TEST).unwrap();
    let go = project.tools().find("go").unwrap();
    let mut test = project.tools().command(&go);
    let test = test.current_dir(project.dir()).env("GOWORK", "off");
    let ran = test.args(["test", "-v", "."]).output().unwrap();
    let output = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{output}{ran:?}");
    assert_eq!(output.matches("--- PASS").count(), 3, "{output}");
    Ok(())
}

fn it_imports_only_what_it_uses() -> Tested {
    let component = &template("go")?.component;
    let text = String::from_utf8_lossy(component);
    for import in ["wasi:filesystem", "wasi:sockets", "evaluator/model@1", "evaluator/log@1"] {
        assert!(
            !text.contains(&format!("{import}.0.0")) && !text.contains(&format!("{import}/")),
            "{import}"
        );
    }
    Ok(())
}

fn a_compile_error_names_its_position() -> Tested {
    template("go")?; // the compiler is there
    let project = new_project("go");
    std::fs::write(project.dir().join("main.go"), "package main\nfunc main() { x }\n").unwrap();
    let error = perpend_plugin_cli::build(&project, &perpend_plugin_cli::Silent).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("main.go:2:15: undefined: x"), "{text}");
    Ok(())
}

fn judge_project() -> Project {
    let project = new_project("go");
    std::fs::write(project.dir().join("main.go"), JUDGE).unwrap();
    std::fs::write(project.dir().join("detective.go"), DETECTIVE).unwrap();
    std::fs::remove_file(project.dir().join("main_test.go")).unwrap();
    project
}

fn built_judge() -> Result<&'static Template, Missing> {
    built("a judge in Go", judge_project)
}

fn judge_through(model: Arc<Model>) -> Result<Guest, Missing> {
    Ok(built_judge()?.guest.through(model))
}

fn judge(
    answer: impl Fn() -> Result<&'static str, ModelError> + Send + Sync + 'static,
    other: impl Fn(&HostRequest) -> Option<HostReply> + Send + Sync + 'static,
) -> Result<Guest, Missing> {
    let model = Model::with_host(
        move |request| answer().map(|text| Model::completion(request, text)),
        other,
    );
    let mut guest = judge_through(model)?;
    guest.limits.cpu_ms = 500;
    Ok(guest)
}

pub(crate) fn all() -> Vec<Test> {
    tests![
        a_new_project_gives_scores,
        its_configuration_is_a_schema_and_it_requests_no_capability,
        an_item_without_output_is_bad_input,
        equal_calls_return_equal_results_and_equal_random_numbers,
        a_judge_calls_the_model_and_reads_its_structured_reply,
        a_trace_is_read_page_by_page,
        a_configuration_is_checked_by_the_evaluator_that_has_a_rule_for_it,
        errors_of_host_and_plugin_are_distinguished,
        a_panic_message_is_in_the_log,
        memory_and_streams_grow_without_overlap,
        sleeping_moves_the_clock_and_takes_no_time,
        the_tools_that_a_model_calls_are_carried_out_and_its_answer_has_probabilities,
        several_completions_embeddings_and_the_steps_of_a_trace_are_requested,
        a_session_is_read_trace_by_trace,
        a_run_is_read_item_by_item,
        the_test_host_serves_the_calls_of_evaluators,
        it_imports_only_what_it_uses,
        a_compile_error_names_its_position,
    ]
}
