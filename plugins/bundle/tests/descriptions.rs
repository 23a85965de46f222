//! The host accepts the descriptions of the first-party plug-ins.

use std::collections::BTreeSet;

use perpend_plugin::{Domain, Plugin, PluginInfo};

fn plugins() -> [PluginInfo; 3] {
    [
        perpend_plugin_text::ThisPlugin::describe(),
        perpend_plugin_json::ThisPlugin::describe(),
        perpend_plugin_judge::ThisPlugin::describe(),
    ]
}

#[test]
fn the_embedded_names_are_the_described_ones() {
    let embedded: Vec<_> =
        perpend_plugins_bundle::BUNDLE.first_party.iter().map(|plugin| plugin.name).collect();
    assert_eq!(embedded, plugins().map(|plugin| plugin.name));
}

#[test]
fn each_evaluator_has_a_unique_id_and_one_score_named_after_it_unless_its_configuration_names_them()
{
    for plugin in plugins() {
        let ids: BTreeSet<_> = plugin.evaluators.iter().map(|evaluator| evaluator.id).collect();
        assert_eq!(ids.len(), plugin.evaluators.len());
        for evaluator in &plugin.evaluators {
            if evaluator.dynamic_scores {
                assert_eq!(evaluator.scores, [], "{}", evaluator.id);
                assert_eq!(plugin.name, "perpend/judge");
                continue;
            }
            let [score] = evaluator.scores else {
                panic!("{} must have exactly one score", evaluator.id)
            };
            assert_eq!(score.name, evaluator.id.replace('-', "_"));
            let Domain::Numeric { min, max, .. } = score.domain else {
                panic!("the score of {} must be a share", evaluator.id)
            };
            assert_eq!((min, max), (Some(0.0), Some(1.0)));
        }
    }
}

#[test]
fn each_configuration_schema_describes_a_closed_object_with_explained_members() {
    for evaluator in plugins().into_iter().flat_map(|plugin| plugin.evaluators) {
        let schema: serde_json::Value = serde_json::from_str(&evaluator.config_schema).unwrap();
        let id = evaluator.id;
        assert_eq!(schema["type"], "object", "{id}");
        assert_eq!(schema["additionalProperties"], false, "{id}");
        assert!(!evaluator.config_schema.contains("$ref"), "{id}: a form follows no references");
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        for (name, property) in properties {
            assert!(property["description"].is_string(), "{id}: {name} has no description");
        }
    }
}
