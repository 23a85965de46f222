//! What an evaluator was told: the settings that explain why a score has its value.

use perpend_domain::evaluation::EvaluatorVersion;
use perpend_domain::slots::Slot;
use perpend_views::{Text, count, many};
use serde_json::Value;

/// Characters of one setting.
const SHOWN: usize = 200;

/// The settings of a version by their names, and the model of each of its slots.
pub(super) fn evaluator_settings(version: &EvaluatorVersion) -> Vec<(Text, Text)> {
    let config = version.config.as_object().into_iter().flatten();
    let settings = config.filter_map(|(name, value)| {
        let shown = match value {
            Value::String(source) if version.runs_source() && name == "source" => {
                Text::from(many(source.lines().count() as u64, "line"))
            }
            value => shown(value)?,
        };
        Some((Text::from(name.as_str()), shown))
    });
    settings.chain(version.slots.iter().map(of_slot)).collect()
}

/// None where nothing is set.
fn shown(value: &Value) -> Option<Text> {
    match value {
        Value::Null => None,
        Value::String(text) => (!text.is_empty()).then(|| cut(text)),
        Value::Array(items) if items.is_empty() => None,
        Value::Object(members) if members.is_empty() => None,
        other => Some(cut(&other.to_string())),
    }
}

fn cut(text: &str) -> Text {
    match text.char_indices().nth(SHOWN) {
        None => Text::lines(text),
        Some((end, _)) => {
            let (begins, rest) = text.split_at(end);
            let more = count(rest.chars().count() as u64);
            Text::lines(format!("{begins}… ({more} characters more)"))
        }
    }
}

fn of_slot(slot: &Slot) -> (Text, Text) {
    let model = slot.model.as_ref().map_or_else(
        || "default evaluation model of the project".to_owned(),
        |model| format!("{}, by the connection {}", model.model, model.provider),
    );
    (Text::from(format!("model, {}", slot.name)), Text::from(model))
}

#[cfg(test)]
mod tests {
    use perpend_domain::ids::EvaluatorVersionId;
    use perpend_domain::plugin::{Digest, Grants};
    use perpend_domain::slots::{ModelChoice, ModelLimits};
    use perpend_domain::time::Timestamp;
    use serde_json::{Map, json};

    use super::*;

    fn version(plugin: [&str; 2], config: Value, slots: Vec<Slot>) -> EvaluatorVersion {
        EvaluatorVersion {
            id: EvaluatorVersionId::new("version").unwrap(),
            number: 1,
            plugin: Digest::of(b""),
            plugin_name: plugin[0].to_owned(),
            plugin_version: "1.0.0".to_owned(),
            plugin_evaluator: plugin[1].to_owned(),
            config,
            mapping: Vec::new(),
            grants: Grants::default(),
            slots,
            fingerprint: Digest::of(b""),
            created_at: Timestamp::from_millis(0),
        }
    }

    fn said(version: &EvaluatorVersion) -> Vec<String> {
        let settings = evaluator_settings(version);
        let settings = settings.iter();
        settings.map(|(name, value)| format!("{}: {}", name.raw(), value.raw())).collect()
    }

    #[test]
    fn settings_that_say_nothing_are_left_out_and_long_ones_say_how_much_is() {
        let config = json!({
            "min": 20, "unit": "words", "max": null, "words": [], "note": "", "list": ["a", 1],
            "text": "é".repeat(1_250),
        });
        let long = format!("text: {}… (1,050 characters more)", "é".repeat(200));
        let mut all = said(&version(["perpend/text", "length"], config, Vec::new()));
        all.sort();
        let wanted = ["list: [\"a\",1]", "min: 20", &long, "unit: words"];
        assert_eq!(all, wanted);
    }

    #[test]
    fn source_is_counted_and_models_are_named() {
        let config = json!({ "source": "a\nb\n" });
        let code = version(["perpend/python", "code"], config, Vec::new());
        assert_eq!(said(&code), ["source: 2 lines"]);
        let slot = |name: &str, model| Slot {
            name: name.to_owned(),
            model,
            limits: ModelLimits::default(),
        };
        let model = ModelChoice {
            provider: "work".to_owned(),
            model: "small-1".to_owned(),
            params: Map::new(),
        };
        let slots = vec![slot("judge", Some(model)), slot("second", None)];
        let judge = version(["perpend/judge", "judge"], json!({}), slots);
        let wanted = [
            "model, judge: small-1, by the connection work",
            "model, second: default evaluation model of the project",
        ];
        assert_eq!(said(&judge), wanted);
    }
}
