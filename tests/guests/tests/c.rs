//! C: a new project, and sources that take the rest of `perpend.h`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use perpend_domain::payload::Payload;
use perpend_domain::plugin::{FailureClass, Item, PluginScoreValue};
use perpend_tests_guests::{
    Guest, Missing, Model, Test, Tested, built, detective, item, new_project, output, template,
    tests,
};
use perpend_worker_protocol::host_call::ModelError;
use serde_json::json;

/// What a plug-in that uses the rest of `perpend.h` is made of.
const JUDGE: &str = include_str!("c/judge.c");
const DETECTIVE: &str = include_str!("c/detective.c");

fn a_new_project_gives_scores() -> Tested {
    let template = template("c")?;
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

fn it_describes_itself_and_imports_nothing() -> Tested {
    let template = template("c")?;
    let info = template.guest.info();
    assert_eq!(info.name, "acme/sample");
    assert_eq!(info.capabilities.names(), [""; 0]);
    let component = String::from_utf8_lossy(&template.component);
    for import in ["wasi:", "evaluator/model@", "evaluator/log@"] {
        assert!(!component.contains(import), "{import}");
    }
    assert!(template.component.len() < 80_000, "{}", component.len());
    Ok(())
}

fn an_item_without_output_is_bad_input() -> Tested {
    let guest = &template("c")?.guest;
    let failure = guest.failure("max-length", &json!({}), &item("1"));
    assert_eq!(failure.class, FailureClass::InvalidInput);
    assert_eq!(failure.message, "the item has no output");
    Ok(())
}

fn a_judge_calls_the_model_and_reads_its_structured_reply() -> Tested {
    let guest = judge()?;
    assert_eq!(guest.info().capabilities.names(), ["model", "trace"]);
    let model = Model::saying(r#"{"verdict": "wr\u00f6ng", "points": [1, 0.25]}"#);
    let guest = guest.through(Arc::<Model>::clone(&model));
    let question = Item {
        input: Some(Payload::Text("say \"yes\"".into())),
        metadata: Some(r#"{"a":[{"b":"}"}],"tone":"dry"}"#.into()),
        ..output("no")
    };
    let result = guest.result("judge", &json!({}), &question);
    let scores = result.outcome.unwrap();
    assert_eq!(scores[0].value, PluginScoreValue::Numeric(0.25));
    assert_eq!(scores[0].comment.as_deref(), Some("wröng"));
    assert_eq!(scores[0].metadata.as_deref(), Some(r#"{"asked":"say \"yes\"","tone":"dry"}"#));
    assert_eq!(scores[1].value, PluginScoreValue::Categorical("double".into()));
    let requests = model.completions();
    assert_eq!(requests[0].messages.len(), 2);
    assert_eq!(requests[0].messages[1].texts(), "say \"yes\"\n---\nno");
    assert_eq!(requests[0].slot.as_deref(), Some("judge"));
    assert_eq!(requests[0].temperature, Some(0.0));
    assert_eq!(result.log[0].message, "asked");
    assert_eq!(result.log[0].fields.as_deref(), Some(r#"{"seed":7}"#));
    Ok(())
}

fn errors_of_host_and_plugin_are_distinguished() -> Tested {
    let busy = Model::failing(ModelError::RateLimited("too many".into()));
    let guest = judge()?.through(busy);
    let failure = guest.failure("judge", &json!({}), &output("no"));
    assert_eq!(failure.class, FailureClass::UpstreamUnavailable);
    assert_eq!(failure.message, "too many");
    let classes = [
        ("invalid-config", FailureClass::InvalidConfig),
        ("not-applicable", FailureClass::NotApplicable),
        ("transient", FailureClass::Transient),
        ("internal", FailureClass::PluginError),
        ("abort", FailureClass::PluginTrap),
        ("recurse", FailureClass::PluginTrap),
    ];
    for (mode, class) in classes {
        let failure = guest.failure("judge", &json!({ "mode": mode }), &output("no"));
        assert_eq!(failure.class, class, "{mode}: {}", failure.message);
    }
    Ok(())
}

fn a_configuration_is_checked_by_the_evaluator_that_has_a_rule_for_it() -> Tested {
    let checked = judge()?.check_config("judge", &json!({ "mode": "never" }));
    let failure = checked.outcome.unwrap_err();
    assert_eq!(failure.class, FailureClass::InvalidConfig);
    assert!(
        failure.message.contains("/mode: never is no mode")
            && failure.message.contains("tone is empty"),
        "{failure:?}"
    );
    assert_eq!(judge()?.check_config("judge", &json!({})).outcome, Ok(Vec::new()));
    let template = &template("c")?.guest;
    let checked = template.check_config("max-length", &json!({}));
    assert_eq!(checked.outcome, Ok(Vec::new()));
    Ok(())
}

fn a_compile_error_names_its_position() -> Tested {
    template("c")?; // the compiler is there
    let project = new_project("c");
    std::fs::write(project.dir().join("src/plugin.c"), "int broken( {\n").unwrap();
    let error = perpend_plugin_cli::build(&project, &perpend_plugin_cli::Silent).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("src/plugin.c:1:13: error"), "{text}");
    Ok(())
}

fn the_tools_that_a_model_calls_are_carried_out_and_its_answer_has_probabilities() -> Tested {
    detective::uses_tools(judge()?);
    Ok(())
}

fn several_completions_embeddings_and_the_steps_of_a_trace_are_requested() -> Tested {
    detective::asks_for_all_else(judge()?);
    Ok(())
}

fn a_session_is_read_trace_by_trace() -> Tested {
    detective::reads_a_session(judge()?);
    Ok(())
}

fn a_run_is_read_item_by_item() -> Tested {
    detective::reads_a_run(judge()?);
    Ok(())
}

fn judge() -> Result<&'static Guest, Missing> {
    let built = built("a judge in C", || {
        let project = new_project("c");
        std::fs::write(project.dir().join("src/plugin.c"), JUDGE).unwrap();
        std::fs::write(project.dir().join("src/detective.c"), DETECTIVE).unwrap();
        project
    });
    built.map(|built| &built.guest)
}

pub(crate) fn all() -> Vec<Test> {
    tests![
        a_new_project_gives_scores,
        it_describes_itself_and_imports_nothing,
        an_item_without_output_is_bad_input,
        a_judge_calls_the_model_and_reads_its_structured_reply,
        errors_of_host_and_plugin_are_distinguished,
        a_configuration_is_checked_by_the_evaluator_that_has_a_rule_for_it,
        the_tools_that_a_model_calls_are_carried_out_and_its_answer_has_probabilities,
        several_completions_embeddings_and_the_steps_of_a_trace_are_requested,
        a_session_is_read_trace_by_trace,
        a_run_is_read_item_by_item,
        a_compile_error_names_its_position,
    ]
}
