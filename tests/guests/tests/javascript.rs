//! JavaScript and TypeScript: new projects, and the SDK on both engines.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{self, Path};
use std::process::Command;
use std::sync::Arc;

use perpend_domain::payload::Payload;
use perpend_domain::plugin::{FailureClass, Item, PluginScoreValue as Value, TraceRef};
use perpend_plugin_cli::{Project, Tools};
use perpend_tests_guests::{
    Guest, Missing, Model, Test, Tested, built, detective, item, new_project, output, template,
    tests,
};
use perpend_worker_protocol::host_call::{
    Kind, ModelError, ObservationHead, ObservationPage, ObservationPart, Severity, ToolChoice,
    TraceInfo,
};
use perpend_worker_protocol::{HostReply, HostRequest};
use serde_json::json;

const LANGUAGES: [&str; 2] = ["javascript", "typescript"];
const ENGINES: [&str; 2] = ["quickjs", "starlingmonkey"];

fn new_projects_give_scores() -> Tested {
    for language in LANGUAGES {
        let guest = &template(language)?.guest;
        let config = json!({ "maxWords": 2 });
        let scores = guest.scores("max-words", &config, &output("It is Paris."));
        assert_eq!(scores.len(), 1, "{language}");
        assert_eq!(scores[0].value, Value::Boolean(false));
        assert_eq!(scores[0].comment.as_deref(), Some("3 of 2 words"));
    }
    Ok(())
}

fn they_describe_themselves_with_a_schema_and_ask_for_nothing() -> Tested {
    for language in LANGUAGES {
        let info = template(language)?.guest.info();
        assert_eq!(info.name, "acme/sample");
        assert_eq!(info.capabilities.names(), [""; 0]);
        assert!(!info.checks_config);
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

fn node() -> Result<Command, Missing> {
    let found = Tools::from_env().find("node");
    found.map(Command::new).ok_or_else(|| Missing::tool("node", "https://nodejs.org"))
}

/// Runs it in `dir`; a failure shows its output.
fn succeeds(command: &mut Command, dir: &Path) {
    let out = command.current_dir(dir).output().unwrap();
    let output = [out.stdout, out.stderr].concat();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&output));
}

fn the_unit_tests_of_new_projects_and_of_the_sdk_pass_without_a_sandbox() -> Tested {
    let sdk = path::absolute("../../plugin-sdk/javascript").unwrap();
    let files = ["tests/promise.test.js", "tests/sdk.test.js"];
    succeeds(node()?.arg("--test").args(files), &sdk);
    let project = new_project("javascript");
    succeeds(node()?.arg("--test"), project.dir());
    Ok(())
}

fn the_types_of_the_sdk_fit_a_new_typescript_project() -> Tested {
    let project = new_project("typescript");
    let Some(tsc) = project.tools().find("tsc") else {
        return Err(Missing::tool("tsc", "npm install typescript"));
    };
    succeeds(&mut Command::new(&tsc), project.dir());
    let wrong = std::fs::read_to_string(project.dir().join("plugin.ts")).unwrap();
    let wrong = wrong.replace("config.maxWords,", "config.maxWord,");
    std::fs::write(project.dir().join("plugin.ts"), wrong).unwrap();
    let out = Command::new(tsc).current_dir(project.dir()).output().unwrap();
    let output = String::from_utf8_lossy(&out.stdout);
    assert!(!out.status.success() && output.contains("maxWord"), "{output}");
    Ok(())
}

fn errors_in_a_plugin_have_file_and_line() -> Tested {
    let cases = [
        ("const = 1;", vec!["plugin.js:1:", "Expected"]),
        ("import './none.js';", vec!["plugin.js:1:", "none.js"]),
        ("export const x = 1;", vec!["plugin.js", "export default definePlugin"]),
        (
            "import { defineEvaluator } from './perpend/javascript/index.js';\n\
             export default defineEvaluator({ id: 'Upper', scores: {} });",
            vec!["evaluator \"Upper\"", "a-z"],
        ),
    ];
    template("javascript")?;
    for (source, parts) in cases {
        let project = new_project("javascript");
        std::fs::write(project.dir().join("plugin.js"), source).unwrap();
        let error = perpend_plugin_cli::build(&project, &perpend_plugin_cli::Silent).unwrap_err();
        let text = error.to_string();
        for part in parts {
            assert!(text.contains(part), "{source}: {part}: {text}");
        }
        assert!(!project.component().exists(), "{source}");
    }
    Ok(())
}

/// The plug-in that uses everything, on an engine; built once.
fn sdk(engine: &'static str) -> Result<&'static Guest, Missing> {
    let built = built(engine, || {
        let project = new_project("javascript");
        let source = include_str!("javascript/sdk.js");
        std::fs::write(project.dir().join("plugin.js"), source).unwrap();
        let source = include_str!("javascript/detective.js");
        std::fs::write(project.dir().join("detective.js"), source).unwrap();
        let manifest = project.dir().join("plugin.toml");
        let text = std::fs::read_to_string(&manifest).unwrap();
        std::fs::write(manifest, format!("{text}\n[build]\nengine = \"{engine}\"\n")).unwrap();
        Project::open(project.dir(), &Tools::from_env()).unwrap()
    });
    built.map(|built| &built.guest)
}

fn on_both(test: impl Fn(&Guest, &str)) -> Tested {
    for engine in ENGINES {
        test(sdk(engine)?, engine);
    }
    Ok(())
}

fn items_are_read_and_scores_returned_in_every_form() -> Tested {
    on_both(|guest, engine| {
        let full = Item {
            input: Some(Payload::Json("[1]".into())),
            output: Some(Payload::Json("1.0".into())),
            expected_output: Some(Payload::Json("null".into())),
            metadata: Some(r#"{"a":1,"b":2}"#.into()),
            ..item("1")
        };
        let scores = guest.scores("forms", &json!({}), &full);
        let values: Vec<_> =
            scores.iter().map(|score| (score.name.as_str(), score.value.clone())).collect();
        let expected = [
            ("n", Value::Numeric(2.0)),
            ("ok", Value::Boolean(true)),
            ("kind", Value::Categorical("json".into())),
        ];
        assert_eq!(values, expected, "{engine}");
        assert_eq!(scores[1].comment.as_deref(), Some("1.0"), "as it was recorded");
        assert_eq!(scores[1].metadata.as_deref(), Some(r#"{"input":[1]}"#));
        let bare = guest.scores("forms", &json!({}), &output("text"));
        assert_eq!(bare[2].value, Value::Categorical("text".into()));
    })
}

fn promises_settle_in_the_order_of_the_language() -> Tested {
    on_both(|guest, engine| {
        let scores = guest.scores("later", &json!({}), &output("x"));
        assert_eq!(scores[0].comment.as_deref(), Some("abcdef no"), "{engine}");
        assert_eq!(scores[0].value, Value::Numeric(1.0));
    })
}

fn time_is_constant_and_random_numbers_follow_the_seed_on_every_engine() -> Tested {
    let mut drawn = Vec::new();
    for engine in ENGINES {
        let guest = sdk(engine)?;
        let first = guest.scores("chance", &json!({}), &output("x"));
        assert_eq!(guest.scores("chance", &json!({}), &output("x")), first);
        let comment = first[0].comment.as_deref();
        assert_eq!(comment, Some("7,1700000000000,1700000000000,true"), "{engine}");
        drawn.push(first[0].value.clone());
    }
    assert_eq!(drawn[0], drawn[1], "equal seeds give equal numbers");
    Ok(())
}

fn a_class_is_instantiated_for_each_item_and_may_log_and_check_its_configuration() -> Tested {
    on_both(|guest, engine| {
        let config = json!({ "limit": 2 });
        for _ in 0..2 {
            let result = guest.result("counting", &config, &output("ab"));
            assert_eq!(result.outcome.unwrap()[0].value, Value::Boolean(true), "{engine}");
            let lines: Vec<_> = result
                .log
                .iter()
                .map(|line| (line.level.as_str(), line.message.as_str()))
                .collect();
            assert_eq!(lines, [("info", "seen ab {\"calls\":1}"), ("warn", "watch out")]);
            assert_eq!(result.log[1].fields.as_deref(), Some("{\"limit\":2}"));
        }
        assert!(guest.info().checks_config);
        assert!(guest.check_config("counting", &config).outcome.is_ok());
        let failure = guest.check_config("counting", &json!({ "limit": -1 })).outcome.unwrap_err();
        assert!(
            failure.message.contains("/limit") && failure.message.contains("is below 0"),
            "{failure:?}"
        );
        assert!(guest.check_config("forms", &json!({})).outcome.is_ok(), "it has no check");
    })
}

fn thrown_errors_and_invalid_results_have_their_failure_class() -> Tested {
    let cases = [
        ("config", FailureClass::InvalidConfig, "config"),
        ("input", FailureClass::InvalidInput, "input"),
        ("nothing", FailureClass::NotApplicable, "nothing"),
        ("transient", FailureClass::Transient, "transient"),
        ("internal", FailureClass::PluginError, "internal"),
        ("type", FailureClass::PluginError, "TypeError: a type"),
        ("text", FailureClass::PluginError, "text"),
        ("undeclared", FailureClass::InvalidResult, "other"),
        ("shape", FailureClass::PluginError, "score \"s\""),
        ("nan", FailureClass::InvalidResult, "s"),
    ];
    on_both(|guest, engine| {
        for (what, class, part) in cases {
            let failure = guest.failure("throwing", &json!({ "what": what }), &output("x"));
            assert_eq!(failure.class, class, "{engine}: {what}: {}", failure.message);
            assert!(failure.message.contains(part), "{engine}: {what}: {}", failure.message);
        }
        let none = guest.scores("throwing", &json!({ "what": "null" }), &output("x"));
        assert!(none.is_empty(), "null is nothing to report");
        let failure = guest.failure("throwing", &json!({ "what": "never" }), &output("x"));
        assert!(!failure.message.is_empty(), "{engine}: {failure:?}");
    })
}

/// One trace with two observations on two pages.
fn traced(request: &HostRequest) -> Option<HostReply> {
    let head = |id: &str| ObservationHead {
        id: id.into(),
        parent_id: None,
        kind: Kind::Tool,
        name: Some(format!("tool {id}")),
        start_ms: 5,
        end_ms: None,
        severity: Severity::Standard,
        status_message: None,
        model: None,
        input_tokens: None,
        output_tokens: Some(3),
        input_size: 7,
        output_size: 0,
    };
    let trace = || TraceInfo {
        id: "t".into(),
        name: Some("ticket".into()),
        session_id: None,
        user_id: None,
        start_ms: 5,
        tags: Vec::new(),
        metadata: None,
        n_observations: 2,
    };
    Some(match request {
        HostRequest::Embed { texts, .. } => {
            HostReply::Embed(Ok(texts.iter().map(|_| vec![0.5, 1.5]).collect()))
        }
        HostRequest::GetTrace { .. } => HostReply::GetTrace(Ok(trace())),
        HostRequest::ListObservations { cursor, .. } => {
            let (id, next_cursor) = match cursor {
                None => ("1", Some("next".to_owned())),
                Some(_) => ("2", None),
            };
            HostReply::ListObservations(Ok(ObservationPage {
                observations: vec![head(id)],
                next_cursor,
            }))
        }
        HostRequest::Read { part: ObservationPart::Input, .. } => {
            HostReply::Read(Ok(Some(Payload::Json("{\"q\":1}".into()))))
        }
        HostRequest::Read { .. } => HostReply::Read(Ok(Some(Payload::Json("{\"m\":2}".into())))),
        _ => return None,
    })
}

fn models_and_traces_are_reached_through_the_host() -> Tested {
    on_both(|guest, engine| {
        let model = Model::with_host(
            |request| match request.messages.last().unwrap().texts().as_str() {
                "no" => Err(ModelError::RateLimited("later".into())),
                _ => Ok(Model::completion(request, "{\"good\":0.25}")),
            },
            traced,
        );
        let traced = Item {
            trace: Some(TraceRef { trace_id: "t".into(), observation_id: None }),
            ..output("text")
        };
        let judge = guest.through(Arc::<Model>::clone(&model));
        let scores = judge.scores("judge", &json!({}), &traced);
        assert_eq!(scores[0].value, Value::Numeric(0.25), "{engine}");
        let lines: serde_json::Value =
            serde_json::from_str(scores[0].comment.as_ref().unwrap()).unwrap();
        let expected = json!({
            "yes": "{\"good\":0.25}",
            "no": "rate-limited",
            "vector": [0.5, 1.5],
            "trace": "ticket",
            "names": [["tool 1", 5], ["tool 2", 5]],
            "input": { "q": 1 },
            "metadata": { "m": 2 },
            "tokens": { "inputTokens": 10, "outputTokens": 5 },
        });
        assert_eq!(lines, expected, "{engine}");
        let requests = &model.completions()[0];
        assert_eq!(requests.messages.len(), 2);
        assert_eq!((requests.temperature, requests.seed), (Some(0.5), Some(7)));
        assert_eq!(requests.stop, ["\n"]);
        assert_eq!(requests.extra.as_deref(), Some("{\"top_k\":3}"));
        // Uncaught: the failure class tells whether to retry.
        let refused = Model::failing(ModelError::Timeout("slow".into()));
        let failure = guest.through(refused).failure("judge", &json!({}), &traced);
        assert_eq!(failure.class, FailureClass::UpstreamUnavailable, "{engine}: {failure:?}");
        assert_eq!(guest.info().capabilities.names(), ["model", "trace"]);
    })
}

fn probabilities_are_of_a_member_or_from_an_offset_and_absent_without_tokens() -> Tested {
    on_both(|guest, engine| {
        let model = Model::new(|request| Ok(Model::verdict(request)));
        let judge = guest.through(Arc::<Model>::clone(&model));
        let scores = judge.scores("choice", &json!({}), &output("fine"));
        let Value::Numeric(good) = scores[0].value else {
            panic!("{engine}: {scores:?}");
        };
        assert!((good - 0.75).abs() < 1e-6, "{engine}: {good}");
        let comment = "true, undefined, {\"é\":1,\"verdict\":\"good\"}";
        assert_eq!(scores[0].comment.as_deref(), Some(comment), "{engine}");
        let requests = model.completions();
        assert_eq!(requests[0].tool_choice, ToolChoice::None);
        assert_eq!(requests[1].tool_choice, ToolChoice::Named("answer".into()));
        assert_eq!(requests[1].tools[0].name, "answer");
    })
}

fn the_tools_that_a_model_calls_are_carried_out_and_its_answer_has_probabilities() -> Tested {
    on_both(|guest, _| detective::uses_tools(guest))
}

fn a_session_is_read_trace_by_trace() -> Tested {
    on_both(|guest, _| detective::reads_a_session(guest))
}

fn a_run_is_read_item_by_item() -> Tested {
    on_both(|guest, _| detective::reads_a_run(guest))
}

fn every_setting_of_a_request_and_every_reader_of_a_trace_reaches_the_host() -> Tested {
    on_both(|guest, _| detective::asks_for_all_else(guest))
}

pub(crate) fn all() -> Vec<Test> {
    tests![
        new_projects_give_scores,
        they_describe_themselves_with_a_schema_and_ask_for_nothing,
        an_item_without_output_is_bad_input,
        the_unit_tests_of_new_projects_and_of_the_sdk_pass_without_a_sandbox,
        the_types_of_the_sdk_fit_a_new_typescript_project,
        errors_in_a_plugin_have_file_and_line,
        items_are_read_and_scores_returned_in_every_form,
        promises_settle_in_the_order_of_the_language,
        time_is_constant_and_random_numbers_follow_the_seed_on_every_engine,
        a_class_is_instantiated_for_each_item_and_may_log_and_check_its_configuration,
        thrown_errors_and_invalid_results_have_their_failure_class,
        models_and_traces_are_reached_through_the_host,
        probabilities_are_of_a_member_or_from_an_offset_and_absent_without_tokens,
        the_tools_that_a_model_calls_are_carried_out_and_its_answer_has_probabilities,
        a_session_is_read_trace_by_trace,
        a_run_is_read_item_by_item,
        every_setting_of_a_request_and_every_reader_of_a_trace_reaches_the_host,
    ]
}
