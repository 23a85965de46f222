//! Configurations that satisfy the schema and are invalid.

use perpend_plugin::Plugin;
use perpend_plugin_judge::ThisPlugin;
use serde_json::{Value, json};

fn problems(evaluator: &str, config: &Value) -> Vec<String> {
    let problems = ThisPlugin::check_config(evaluator, &config.to_string());
    problems.into_iter().map(|problem| problem.pointer).collect()
}

fn with(more: &Value) -> Vec<String> {
    let mut config = json!({ "prompt": "Is {{output}} good?" });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    problems("judge", &config)
}

fn typed(data_type: &str, score: &Value) -> Value {
    json!({ "output": { "dataType": data_type, "score": score } })
}

#[test]
fn the_schemas_require_the_members_without_default() {
    let required = |id: &str| {
        let info = ThisPlugin::describe();
        let found = info.evaluators.iter().find(|evaluator| evaluator.id == id);
        let schema: Value = serde_json::from_str(&found.unwrap().config_schema).unwrap();
        assert_eq!(schema["properties"]["fence"]["default"], true);
        schema["required"].clone()
    };
    assert_eq!(required("judge"), json!(["prompt"]));
    assert_eq!(required("questions"), json!(["prompt", "questions"]));
}

#[test]
fn usable_configurations_have_no_problem() {
    let usable = [
        typed("NUMERIC", &json!({ "minValue": 1, "maxValue": 1 })),
        typed("BOOLEAN", &json!({})),
        typed(
            "CATEGORICAL",
            &json!({ "categories": ["a", "b"], "shouldAllowMultipleMatches": true }),
        ),
        json!({ "output": { "score": "s", "reasoning": "r" } }),
        json!({ "choice_scores": { "a": 1 }, "weighted": true, "pattern": "[ab]" }),
        json!({ "choice_scores": { "a": 1, "b": 0 }, "panel": { "models": 3, "reducer": "median" } }),
        json!({ "choice_scores": { "a": 1, "b": 0 }, "prompt": "no placeholder" }),
    ];
    for config in usable {
        assert_eq!(with(&config), [""; 0], "{config}");
    }
}

#[test]
fn exactly_one_of_output_and_choices_is_required() {
    assert_eq!(with(&json!({})), [""]);
    let mut both = typed("BOOLEAN", &json!({}));
    both["choice_scores"] = json!({ "a": 1 });
    assert_eq!(with(&both), ["/choice_scores"]);
}

#[test]
fn bounds_and_categories_have_to_fit_their_data_type() {
    let at = |data_type, score| with(&typed(data_type, &score));
    assert_eq!(at("NUMERIC", json!({ "minValue": 2, "maxValue": 1 })), ["/output/score/maxValue"]);
    assert_eq!(at("BOOLEAN", json!({ "minValue": 2 })), ["/output/score/minValue"]);
    assert_eq!(at("BOOLEAN", json!({ "categories": ["a", "b"] })), ["/output/score/categories"]);
    assert_eq!(
        at("NUMERIC", json!({ "shouldAllowMultipleMatches": true })),
        ["/output/score/shouldAllowMultipleMatches"]
    );
    for categories in
        [json!(["a"]), json!(["a", "a"]), json!(["a", " b"]), json!(["a", ""]), Value::Null]
    {
        assert_eq!(
            at("CATEGORICAL", json!({ "categories": categories })),
            ["/output/score/categories"]
        );
    }
    assert_eq!(with(&json!({ "choice_scores": { " a": 1 } })), ["/choice_scores"]);
}

#[test]
fn settings_of_unknown_variables_are_refused() {
    let scores = json!({ "a": 1, "b": 0 });
    let config = json!({ "choice_scores": scores, "trusted": ["output", "criteria"], "truncate": { "a/b": { "tokens": 1 } } });
    assert_eq!(with(&config), ["/trusted/1", "/truncate/a~1b"]);
    assert_eq!(with(&json!({ "choice_scores": scores, "swap": ["output", "other"] })), ["/swap/1"]);
    assert_eq!(with(&json!({ "choice_scores": scores, "swap": ["output", "output"] })), ["/swap"]);
}

#[test]
fn settings_for_choices_are_refused_without_choices() {
    let mut numeric = typed("NUMERIC", &json!({}));
    for (name, value) in
        [("weighted", json!(true)), ("logprobs", json!(5)), ("pattern", json!("x"))]
    {
        let mut config = numeric.clone();
        config[name] = value;
        assert_eq!(with(&config), [format!("/{name}")]);
    }
    numeric["pattern"] = json!("(");
    assert_eq!(with(&numeric), ["/pattern", "/pattern"]);
    let mut boolean = typed("BOOLEAN", &json!({}));
    boolean["panel"] = json!({ "models": 2, "reducer": "mean" });
    assert_eq!(with(&boolean), ["/panel/reducer"]);
}

#[test]
fn a_prompt_has_text_outside_of_system_messages() {
    let output = json!({ "dataType": "BOOLEAN", "score": {} });
    assert_eq!(problems("judge", &json!({ "prompt": " ", "output": output })), ["/prompt"]);
    let system = json!([{ "role": "system", "content": "Be strict." }]);
    assert_eq!(problems("judge", &json!({ "prompt": system, "output": output })), ["/prompt"]);
}

#[test]
fn questions_have_different_names_and_usable_scores() {
    let question =
        |name, data_type| json!({ "name": name, "dataType": data_type, "description": "?" });
    let config = json!({
        "prompt": "?",
        "questions": [question("a", "BOOLEAN"), question("a", "NUMERIC"), question("b", "CATEGORICAL")],
        "panel": { "models": 2, "reducer": "mean" },
    });
    assert_eq!(
        problems("questions", &config),
        ["/questions/1/name", "/questions/2/score/categories", "/panel/reducer"]
    );
}

#[test]
fn exploration_requires_a_limit_and_a_single_model() {
    let at = |more: &Value| {
        let mut config = typed("BOOLEAN", &json!({}));
        let members = config.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        with(&config)
    };
    let limit = 1_000;
    for fine in [
        json!({ "large": "digest", "max_input_tokens": limit, "panel": { "models": 3 } }),
        json!({ "large": "explore", "max_input_tokens": limit, "explore": { "max_calls": 5 } }),
        json!({ "large": "explore", "max_input_tokens": limit, "panel": { "repeats": 1 } }),
        json!({ "large": "fail" }),
    ] {
        assert_eq!(at(&fine), [""; 0], "{fine}");
    }
    for (wrong, pointer) in [
        (json!({ "large": "digest" }), "/large"),
        (json!({ "large": "explore" }), "/large"),
        (json!({ "explore": { "max_calls": 5 } }), "/explore"),
        (json!({ "large": "digest", "max_input_tokens": limit, "explore": {} }), "/explore"),
        (
            json!({ "large": "explore", "max_input_tokens": limit, "panel": { "repeats": 2 } }),
            "/panel",
        ),
        (
            json!({ "large": "explore", "max_input_tokens": limit, "panel": { "models": 2 } }),
            "/panel",
        ),
    ] {
        assert_eq!(at(&wrong), [pointer], "{wrong}");
    }
    let swapped = json!({
        "prompt": "{{input}} or {{output}}", "choice_scores": { "a": 1, "b": 0 }, "swap": ["input", "output"],
        "large": "explore", "max_input_tokens": limit,
    });
    assert_eq!(problems("judge", &swapped), ["/swap"]);
    let questions = json!({
        "prompt": "?", "large": "explore", "max_input_tokens": limit, "panel": { "models": 2 },
        "questions": [{ "name": "q", "dataType": "BOOLEAN", "description": "?" }],
    });
    assert_eq!(problems("questions", &questions), ["/panel"]);
}
