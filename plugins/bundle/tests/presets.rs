//! Presets of judges are valid without changes.
#![expect(clippy::unwrap_used, reason = "in a test a failure here is the message")]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use perpend_domain::bundle::Preset;
use perpend_json_schema::Schema;
use perpend_plugin::host::{Host, with_host};
use perpend_plugin::model::{Completion, Message, ModelError, Request};
use perpend_plugin::{Item, Payload, Plugin, ScoreValue};
use perpend_plugin_judge::ThisPlugin;
use serde_json::{Value, json};

fn presets() -> Vec<Preset> {
    perpend_plugins_bundle::BUNDLE.presets().unwrap()
}

/// Each text of the prompt.
fn texts(config: &Value) -> Vec<&str> {
    match &config["prompt"] {
        Value::String(text) => vec![text],
        messages => {
            let messages = messages.as_array().unwrap().iter();
            messages.map(|message| message["content"].as_str().unwrap()).collect()
        }
    }
}

#[test]
fn every_file_is_listed_under_its_name_in_order() {
    let folder = std::path::absolute("../judge/presets").unwrap();
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let files: BTreeSet<String> =
        files.map(|file| file.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    let listed: Vec<String> = presets().into_iter().map(|preset| preset.name).collect();
    assert_eq!(listed, files.into_iter().collect::<Vec<_>>());
    assert_eq!(listed.len(), 33);
}

#[test]
fn configurations_satisfy_the_schema_and_the_check() {
    let info = ThisPlugin::describe();
    for preset in presets() {
        let evaluator = info.evaluators.iter().find(|evaluator| evaluator.id == preset.evaluator);
        let schema: Value = serde_json::from_str(&evaluator.unwrap().config_schema).unwrap();
        // Defaults are filled in, as the host does.
        let mut config = preset.config;
        for (name, property) in schema["properties"].as_object().unwrap() {
            if let (Some(default), None) = (property.get("default"), config.get(name)) {
                config[name] = default.clone();
            }
        }
        let faults = Schema::of_2020_12(&schema).unwrap().violations(&config, 10);
        assert!(faults.is_empty(), "{}: {faults:?}", preset.name);
        let problems = ThisPlugin::check_config(&preset.evaluator, &config.to_string());
        assert_eq!(problems, [], "{}", preset.name);
    }
}

#[test]
fn the_variables_are_those_of_the_prompt() {
    for preset in presets() {
        let named: BTreeSet<&str> =
            texts(&preset.config).into_iter().flat_map(perpend_domain::template::names).collect();
        let listed: BTreeSet<&str> = preset.variables.iter().map(String::as_str).collect();
        assert_eq!(named, listed, "{}", preset.name);
    }
}

#[test]
fn classifiers_always_offer_other() {
    for preset in presets() {
        let categories = &preset.config["output"]["score"]["categories"];
        if let Some(categories) = categories.as_array() {
            assert_eq!(categories.last(), Some(&json!("other")), "{}", preset.name);
        }
    }
}

/// Returns the first possible reply, and records the request.
struct First(Rc<RefCell<Vec<Request>>>);

impl Host for First {
    fn complete(&self, request: &Request) -> Result<Completion, ModelError> {
        self.0.borrow_mut().push(request.clone());
        let schema: Value =
            serde_json::from_str(request.response_schema.as_deref().unwrap()).unwrap();
        let members = schema["properties"].as_object().unwrap().iter();
        let reply = members.map(|(name, schema)| {
            let value = match (&schema["enum"][0], schema["type"].as_str()) {
                (Value::String(choice), _) => json!(choice),
                (_, Some("boolean")) => json!(true),
                _ => json!("because"),
            };
            (name.clone(), value)
        });
        Ok(Completion {
            structured: Some(Value::Object(reply.collect()).to_string()),
            ..Completion::of("")
        })
    }
}

#[test]
fn every_preset_renders_its_variables_and_gives_a_score() {
    for preset in presets() {
        let text = |name: &str| format!("the text of {name}");
        let mapped = preset.variables.iter().map(|name| (name.clone(), json!(text(name))));
        let mapped: serde_json::Map<String, Value> = mapped.collect();
        let part = |name: &str| Some(Payload::from(text(name)));
        let item = Item {
            input: part("input"),
            output: part("output"),
            expected_output: part("expected_output"),
            metadata: Some(json!({ "perpend.vars": mapped }).to_string()),
            ..Item::default()
        };
        let requests = Rc::<RefCell<Vec<Request>>>::default();
        let config = preset.config.to_string();
        let scores = with_host(First(Rc::clone(&requests)), || {
            ThisPlugin::evaluate(&preset.evaluator, &item, &config)
        });
        let scores = scores.unwrap();
        assert_eq!(scores.len(), 1, "{}", preset.name);
        let in_range = match &scores[0].value {
            ScoreValue::Numeric(number) => (0.0..=1.0).contains(number),
            ScoreValue::Boolean(_) | ScoreValue::Categorical(_) => true,
        };
        assert!(in_range, "{}", preset.name);
        let question: String = requests.take()[0].messages.iter().map(Message::texts).collect();
        for name in &preset.variables {
            assert!(question.contains(&text(name)), "{}: {name}", preset.name);
        }
        assert!(!question.contains("{{"), "{}", preset.name);
    }
}
