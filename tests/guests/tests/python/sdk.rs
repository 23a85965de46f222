//! All of the SDK in one plug-in (`evaluators.py` in this folder).

use perpend_domain::payload::Payload;
use perpend_domain::plugin::{FailureClass, Item, PluginScoreValue, TraceRef};
use perpend_tests_guests::{
    Guest, Missing, Model, Template, Test, Tested, built, detective, item, new_project, output,
    tests,
};
use perpend_worker_protocol::host_call::{
    Kind, ModelError, ObservationHead, ObservationPage, ObservationPart, Role, Severity,
    ToolChoice, TraceInfo,
};
use perpend_worker_protocol::{HostReply, HostRequest};
use serde_json::{Value, json};

pub(crate) fn plugin() -> Result<&'static Template, Missing> {
    built("the SDK in Python", || {
        let project = new_project("python");
        let source = include_str!("evaluators.py");
        std::fs::write(project.dir().join("evaluators.py"), source).unwrap();
        let source = include_str!("detective.py");
        std::fs::write(project.dir().join("detective.py"), source).unwrap();
        project
    })
}

fn guest() -> Result<&'static Guest, Missing> {
    plugin().map(|built| &built.guest)
}

fn the_schema_of_a_dataclass_has_its_types_defaults_and_descriptions() -> Tested {
    let guest = guest()?;
    let info = guest.info();
    assert_eq!(info.version, "1.2.3");
    assert_eq!(info.capabilities.names(), ["model", "trace"]);
    let words = &info.evaluators[0];
    assert_eq!((words.id.as_str(), words.title.as_str()), ("words", "Words"));
    let schema: Value = serde_json::from_str(&words.config_schema).unwrap();
    let properties = &schema["properties"];
    assert_eq!(schema["required"], json!(["words"]));
    assert_eq!(properties["mode"], json!({ "enum": ["strict", "loose"], "default": "loose" }));
    assert_eq!(properties["limit"]["type"], json!(["integer", "null"]));
    let weights = &properties["weights"];
    assert_eq!(weights["default"], json!({ "good": 1.0, "bad": 0.0 }));
    assert_eq!(weights["properties"]["bad"]["minimum"], 0);
    Ok(())
}

fn a_configuration_arrives_in_its_types() -> Tested {
    let guest = guest()?;
    let config = json!({ "words": ["Hello", "you"], "mode": "strict", "weights": { "good": 2, "bad": 0.5 } });
    let scores = guest.scores("words", &config, &output("Hello there"));
    assert_eq!(scores[0].value, PluginScoreValue::Numeric(1.5));
    Ok(())
}

fn an_evaluators_own_check_refuses_a_configuration() -> Tested {
    let guest = guest()?;
    assert!(guest.info().checks_config);
    let good = guest.check_config("words", &json!({ "words": ["a", "b"] }));
    assert_eq!(good.outcome.unwrap(), []);
    let bad = guest.check_config("words", &json!({ "words": ["a", "a"] }));
    let shown = format!("{:?}", bad.outcome);
    assert!(shown.contains("a word appears twice"), "{shown}");
    Ok(())
}

fn each_exception_becomes_its_class_with_its_text() -> Tested {
    let guest = guest()?;
    let classes = [
        ("invalid_config", FailureClass::InvalidConfig, "raised invalid_config"),
        ("invalid_input", FailureClass::InvalidInput, "raised invalid_input"),
        ("not_applicable", FailureClass::NotApplicable, "raised not_applicable"),
        ("transient", FailureClass::Transient, "raised transient"),
        ("internal", FailureClass::PluginError, "raised internal"),
        ("plain", FailureClass::PluginError, "KeyError: 'missing' (evaluators.py, line "),
        ("import", FailureClass::PluginError, "import the module at the top level"),
        ("exit", FailureClass::PluginError, "SystemExit: 3"),
        ("memory", FailureClass::MemoryLimit, "more than 256 MiB of memory"),
    ];
    for (kind, class, text) in classes {
        let failure = guest.failure("fails", &json!({ "with": kind }), &output("x"));
        assert_eq!(failure.class, class, "{kind}: {}", failure.message);
        assert!(failure.message.contains(text), "{kind}: {}", failure.message);
    }
    Ok(())
}

fn a_judge_makes_single_and_multiple_calls() -> Tested {
    let model = Model::new(|request| {
        let text = match request.seed {
            Some(2) => return Err(ModelError::Timeout("slow".to_owned())),
            Some(1) => r#"{"verdict": "bad"}"#,
            _ => r#"{"verdict": "good"}"#,
        };
        Ok(Model::completion(request, text))
    });
    let guest = guest()?.through(model.clone());
    let scores = guest.scores("judge", &json!({}), &output("fine"));
    assert_eq!(scores[0].value, PluginScoreValue::Categorical("good".to_owned()));
    assert_eq!(scores[0].comment.as_deref(), Some("double, 10 tokens"));
    assert_eq!(scores[1].value, PluginScoreValue::Numeric(1.0));
    let requests = model.completions();
    assert_eq!(requests.len(), 4);
    assert_eq!(requests[0].slot.as_deref(), Some("judge"));
    assert_eq!(requests[0].temperature, Some(0.0));
    assert_eq!(requests[0].messages[0].role, Role::System);
    assert_eq!(requests[0].messages[1].texts(), "fine");
    assert_eq!(model.requests().len(), 2, "one call for the panel");
    Ok(())
}

fn probabilities_are_of_a_member_or_from_an_offset_and_absent_without_tokens() -> Tested {
    let model = Model::new(|request| Ok(Model::verdict(request)));
    let guest = guest()?.through(model.clone());
    let scores = guest.scores("choice", &json!({}), &output("fine"));
    let PluginScoreValue::Numeric(good) = scores[0].value else {
        panic!("{scores:?}");
    };
    assert!((good - 0.75).abs() < 1e-6, "{good}");
    let comment = "True, None, {'é': 1, 'verdict': 'good'}";
    assert_eq!(scores[0].comment.as_deref(), Some(comment));
    let requests = model.completions();
    assert_eq!(requests[0].tool_choice, ToolChoice::None);
    assert_eq!(requests[1].tool_choice, ToolChoice::Named("answer".to_owned()));
    assert_eq!(requests[1].tools[0].name, "answer");
    Ok(())
}

fn the_tools_that_a_model_calls_are_carried_out_and_its_answer_has_probabilities() -> Tested {
    detective::uses_tools(guest()?);
    Ok(())
}

fn a_session_is_read_trace_by_trace() -> Tested {
    detective::reads_a_session(guest()?);
    Ok(())
}

fn a_run_is_read_item_by_item() -> Tested {
    detective::reads_a_run(guest()?);
    Ok(())
}

fn every_setting_of_a_request_and_every_reader_of_a_trace_reaches_the_host() -> Tested {
    detective::asks_for_all_else(guest()?);
    Ok(())
}

fn a_failing_model_is_an_upstream_error_with_its_reason() -> Tested {
    let guest = guest()?.through(Model::failing(ModelError::RateLimited("slow down".to_owned())));
    let failure = guest.failure("judge", &json!({}), &output("x"));
    assert_eq!(failure.class, FailureClass::UpstreamUnavailable);
    assert!(failure.message.contains("rate-limited: slow down"), "{}", failure.message);
    Ok(())
}

fn vectors_and_traces_come_from_the_host() -> Tested {
    let model = Model::with_host(
        |request| Ok(Model::completion(request, "{}")),
        |request| match request {
            HostRequest::Embed { texts, .. } => {
                Some(HostReply::Embed(Ok(texts.iter().map(|_| vec![0.5, 1.0]).collect())))
            }
            HostRequest::GetTrace { trace_id } => Some(HostReply::GetTrace(Ok(trace(trace_id)))),
            HostRequest::ListObservations { cursor, filter, .. } => {
                assert_eq!(filter.kinds, [Kind::Tool]);
                Some(HostReply::ListObservations(Ok(page(cursor.as_deref()))))
            }
            HostRequest::Read { part: ObservationPart::Input, observation_id, .. } => {
                let payload = Payload::Json(format!("{{\"of\":\"{observation_id}\"}}"));
                Some(HostReply::Read(Ok(Some(payload))))
            }
            _ => None,
        },
    );
    let guest = guest()?.through(model);
    let sum = guest.scores("near", &json!({}), &output("x"));
    assert_eq!(sum[0].value, PluginScoreValue::Numeric(1.5));
    let traced = Item {
        trace: Some(TraceRef { trace_id: "t".to_owned(), observation_id: None }),
        ..item("traced")
    };
    let steps = guest.scores("steps", &json!({}), &traced);
    assert_eq!(steps[0].value, PluginScoreValue::Numeric(2.0), "both pages");
    let metadata: Value = serde_json::from_str(steps[0].metadata.as_deref().unwrap()).unwrap();
    assert_eq!(metadata, json!({ "inputs": [{ "of": "a" }, { "of": "b" }], "name": "checkout" }));
    let none = guest.failure("steps", &json!({}), &item("bare"));
    assert_eq!(none.class, FailureClass::NotApplicable);
    Ok(())
}

fn trace(id: &str) -> TraceInfo {
    TraceInfo {
        id: id.to_owned(),
        name: Some("checkout".to_owned()),
        session_id: None,
        user_id: None,
        start_ms: 1,
        tags: Vec::new(),
        metadata: None,
        n_observations: 2,
    }
}

/// One observation on each of two pages.
fn page(cursor: Option<&str>) -> ObservationPage {
    let id = if cursor.is_some() { "b" } else { "a" };
    ObservationPage {
        observations: vec![ObservationHead {
            id: id.to_owned(),
            parent_id: None,
            kind: Kind::Tool,
            name: None,
            start_ms: 1,
            end_ms: None,
            severity: Severity::Standard,
            status_message: None,
            model: None,
            input_tokens: None,
            output_tokens: None,
            input_size: 1,
            output_size: 0,
        }],
        next_cursor: cursor.is_none().then(|| "next".to_owned()),
    }
}

fn equal_calls_are_equal_to_the_byte_in_every_process_and_instance() -> Tested {
    let built = plugin()?;
    let (one, other) = (&built.guest, &Guest::new(&built.component));
    let first = one.result("chance", &json!({}), &output("x"));
    assert_eq!(first.outcome.as_ref().unwrap().len(), 7);
    let messages: Vec<&str> = first.log.iter().map(|line| line.message.as_str()).collect();
    assert!(messages.contains(&"drawn") && messages.contains(&"stdout: printed\n"), "{messages:?}");
    for guest in [one, other, one] {
        let again = guest.result("chance", &json!({}), &output("x"));
        assert_eq!(again.outcome, first.outcome);
        assert_eq!(again.log, first.log);
    }
    Ok(())
}

pub(crate) fn tests() -> Vec<Test> {
    tests![
        the_schema_of_a_dataclass_has_its_types_defaults_and_descriptions,
        a_configuration_arrives_in_its_types,
        an_evaluators_own_check_refuses_a_configuration,
        each_exception_becomes_its_class_with_its_text,
        a_judge_makes_single_and_multiple_calls,
        probabilities_are_of_a_member_or_from_an_offset_and_absent_without_tokens,
        the_tools_that_a_model_calls_are_carried_out_and_its_answer_has_probabilities,
        a_session_is_read_trace_by_trace,
        a_run_is_read_item_by_item,
        every_setting_of_a_request_and_every_reader_of_a_trace_reaches_the_host,
        a_failing_model_is_an_upstream_error_with_its_reason,
        vectors_and_traces_come_from_the_host,
        equal_calls_are_equal_to_the_byte_in_every_process_and_instance,
    ]
}
