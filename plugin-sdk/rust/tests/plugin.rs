//! Plug-ins defined by `plugin!`, without a sandbox.

use perpend_plugin::prelude::*;
use perpend_plugin::{Plugin, plugin};

/// Counts.
struct Count;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CountConfig {
    /// The text to count.
    #[serde(default = "comma")]
    what: String,
}

fn comma() -> String {
    ",".to_owned()
}

impl Evaluator for Count {
    const ID: &'static str = "count";
    const TITLE: &'static str = "Count";
    const DESCRIPTION: &'static str = "Counts.";
    const SCORES: &'static [ScoreSpec] = &[ScoreSpec::boolean("any", "whether there is any")];
    type Config = CountConfig;

    fn evaluate(item: &Item, config: &CountConfig) -> Result<Vec<Score>, EvalError> {
        let count = item.output_text()?.matches(&config.what).count();
        Ok(vec![Score::boolean("any", count > 0).with("count", count)])
    }
}

plugin! { name: "test/count", description: "Counts", evaluators: [Count] }

#[test]
fn it_describes_its_evaluators_with_the_schema_of_their_configuration() {
    let info = ThisPlugin::describe();
    assert_eq!((info.name, info.version), ("test/count", env!("CARGO_PKG_VERSION")));
    let schema: serde_json::Value =
        serde_json::from_str(&info.evaluators[0].config_schema).unwrap();
    assert_eq!(schema["properties"]["what"]["default"], ",");
    assert_eq!(schema["properties"]["what"]["description"], "The text to count.");
}

#[test]
fn it_calls_the_evaluator_of_the_id() {
    let scores = ThisPlugin::evaluate("count", &Item::with_output("a,b,c"), "{}").unwrap();
    assert_eq!(scores[0].metadata, [("count".to_owned(), Json::from(2))]);
}

#[test]
fn an_invalid_configuration_is_an_error_with_the_member() {
    let answer = ThisPlugin::evaluate("count", &Item::with_output(""), r#"{"wat":1}"#);
    let Err(EvalError::InvalidConfig(text)) = answer else { panic!("{answer:?}") };
    assert!(text.contains("count: unknown field `wat`"), "{text}");
}

#[test]
fn an_unknown_evaluator_and_an_absent_output_are_errors() {
    let item = Item::default();
    let absent = ThisPlugin::evaluate("count", &item, "{}");
    assert_eq!(absent, Err(EvalError::invalid_input("the item has no output")));
    let unknown = ThisPlugin::evaluate("cuont", &item, "{}");
    assert_eq!(unknown, Err(EvalError::invalid_config("unknown evaluator cuont")));
}
