//! Rust: a new project, and the example of a model judge.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use perpend_domain::payload::Payload;
use perpend_domain::plugin::{FailureClass, Item, PluginScoreValue, TraceRef};
use perpend_tests_guests::{
    Missing, Model, Template, Test, Tested, built, item, new_project, output, template, tests,
};
use perpend_worker_protocol::host_call::{
    Kind, ModelError, ObservationHead, ObservationPage, Severity,
};
use perpend_worker_protocol::{HostReply, HostRequest};
use serde_json::json;

const JUDGE: &str = include_str!("../../../examples/plugin-judge-rust/src/lib.rs");
const TOOLS: &str = include_str!("rust/tools.rs");
const TALKER: &str = include_str!("rust/talker.rs");

fn a_new_project_gives_scores() -> Tested {
    let template = template("rust")?;
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
    let info = template("rust")?.guest.info();
    assert_eq!(info.name, "acme/sample");
    assert_eq!(info.capabilities.names(), [""; 0]);
    let schema: serde_json::Value =
        serde_json::from_str(&info.evaluators[0].config_schema).unwrap();
    assert_eq!(schema["properties"]["max_chars"]["default"], 80);
    Ok(())
}

fn an_item_without_output_is_bad_input() -> Tested {
    let guest = &template("rust")?.guest;
    let failure = guest.failure("max-length", &json!({}), &item("1"));
    assert_eq!(failure.class, FailureClass::InvalidInput);
    Ok(())
}

fn with_source(name: &'static str, source: &str) -> Result<&'static Template, Missing> {
    built(name, || {
        let project = new_project("rust");
        std::fs::write(project.dir().join("src/lib.rs"), source).unwrap();
        project
    })
}

pub(crate) fn judge() -> Result<&'static Template, Missing> {
    with_source("a judge in Rust", JUDGE)
}

fn talker() -> Result<&'static Template, Missing> {
    with_source("a talker in Rust", TALKER)
}

fn the_example_judge_makes_the_configured_number_of_calls_and_imports_the_model_only() -> Tested {
    let model = Model::saying(r#"{"reason":"It does.","answered":true}"#);
    let guest = judge()?.guest.through(Arc::<Model>::clone(&model));
    assert_eq!(guest.info().capabilities.names(), ["model"]);
    assert!(guest.info().checks_config);
    assert_eq!(guest.info().evaluators[0].slots[0].name, "judge");
    let question = Item { input: Some(Payload::Text("yes?".into())), ..output("no") };
    let result = guest.result("answers", &json!({ "votes": 3 }), &question);
    let scores = result.outcome.unwrap();
    assert_eq!(scores[0].value, PluginScoreValue::Numeric(1.0));
    assert_eq!(model.requests().len(), 1, "all in one call");
    let requests = model.completions();
    assert_eq!(requests.len(), 3);
    assert_eq!(requests[0].slot.as_deref(), Some("judge"));
    assert!(requests[0].response_schema.as_ref().unwrap().contains("reason"));
    assert_eq!(result.log[0].fields.as_deref(), Some(r#"{"yes":3,"all":3}"#));
    Ok(())
}

fn an_error_of_the_model_ends_as_one_of_the_provider() -> Tested {
    let busy = Model::failing(ModelError::RateLimited("too many".into()));
    let guest = judge()?.guest.through(busy);
    let question = Item { input: Some(Payload::Text("yes?".into())), ..output("no") };
    let failure = guest.failure("answers", &json!({}), &question);
    assert_eq!(failure.class, FailureClass::UpstreamUnavailable);
    assert_eq!(failure.message, "too many");
    Ok(())
}

fn a_configuration_is_checked_beyond_its_schema() -> Tested {
    let guest = &judge()?.guest;
    assert_eq!(guest.check_config("answers", &json!({})).outcome, Ok(Vec::new()));
    let config = json!({ "prompt": "Is it good?" });
    let failure = guest.check_config("answers", &config).outcome.unwrap_err();
    assert_eq!(failure.class, FailureClass::InvalidConfig);
    assert!(failure.message.contains("/prompt"), "{}", failure.message);
    Ok(())
}

fn a_trace_is_read_and_scores_may_be_named_by_the_data() -> Tested {
    let built = with_source("tools in Rust", TOOLS)?;
    let model = Model::with_host(
        |_| Err(ModelError::Cancelled),
        |request| match request {
            HostRequest::ListObservations { cursor, .. } => {
                let (name, next) = match cursor {
                    None => ("search", Some("2".to_owned())),
                    Some(_) => ("fetch", None),
                };
                Some(HostReply::ListObservations(Ok(ObservationPage {
                    observations: vec![tool(name)],
                    next_cursor: next,
                })))
            }
            HostRequest::Read { .. } => {
                Some(HostReply::Read(Ok(Some(Payload::Json("[1]".into())))))
            }
            _ => None,
        },
    );
    let guest = built.guest.through(model);
    assert_eq!(guest.info().capabilities.names(), ["trace"]);
    let subject =
        Item { trace: Some(TraceRef { trace_id: "t1".into(), observation_id: None }), ..item("1") };
    let scores = guest.scores("tools", &json!({}), &subject);
    let names: Vec<_> = scores.iter().map(|score| score.name.as_str()).collect();
    assert_eq!(names, ["called_search", "called_fetch"]);
    assert_eq!(scores[0].comment.as_deref(), Some("[1]"));
    assert_eq!(scores[0].observation_id.as_deref(), Some("search"));
    let text = String::from_utf8_lossy(&built.component);
    assert!(text.contains("batch@1.0.0#evaluate-batch"));
    Ok(())
}

fn printed_lines_and_the_message_of_a_panic_are_in_the_log() -> Tested {
    let guest = &talker()?.guest;
    let result = guest.result("talker", &json!({}), &output("in order"));
    assert!(result.outcome.is_ok(), "{:?}", result.outcome);
    let lines: Vec<_> = result.log.iter().map(|line| &*line.message).collect();
    let long = format!("stdout: {}", "x".repeat(8000));
    let expected = [
        "stdout: \u{fc}ber in order",
        "stderr: 1 and 2",
        long.as_str(),
        "stdout: xx",
        "stdout: HOME is not set",
        "stderr: no end",
    ];
    assert_eq!(lines, expected);
    let failed = guest.result("talker", &json!({}), &output("panic"));
    assert_eq!(failed.outcome.unwrap_err().class, FailureClass::PluginTrap);
    let last_message = failed.log.last().map(|line| line.message.clone());
    let last_message = last_message.unwrap_or_default();
    assert!(failed.log.iter().any(|line| line.message.contains("it is over")), "{last_message}");
    Ok(())
}

fn a_component_imports_no_part_of_wasi_that_it_does_not_use() -> Tested {
    let text = String::from_utf8_lossy(&talker()?.component);
    assert!(text.contains("perpend:evaluator/log@1.0.0"));
    assert!(!text.contains("wasi:"), "each import costs every call time");
    Ok(())
}

/// A tool call with the id of its name.
fn tool(name: &str) -> ObservationHead {
    ObservationHead {
        id: name.to_owned(),
        parent_id: None,
        kind: Kind::Tool,
        name: Some(name.to_owned()),
        start_ms: 1,
        end_ms: Some(2),
        severity: Severity::Standard,
        status_message: None,
        model: None,
        input_tokens: None,
        output_tokens: None,
        input_size: 3,
        output_size: 0,
    }
}

pub(crate) fn all() -> Vec<Test> {
    tests![
        the_example_judge_makes_the_configured_number_of_calls_and_imports_the_model_only,
        an_error_of_the_model_ends_as_one_of_the_provider,
        a_configuration_is_checked_beyond_its_schema,
        a_trace_is_read_and_scores_may_be_named_by_the_data,
        printed_lines_and_the_message_of_a_panic_are_in_the_log,
        a_component_imports_no_part_of_wasi_that_it_does_not_use,
        a_new_project_gives_scores,
        it_describes_itself_with_a_schema_and_requests_no_capability,
        an_item_without_output_is_bad_input,
    ]
}
