//! Settings of an evaluator version, as shown with its scores.

use perpend_domain::evaluation::EvaluatorVersion;
use perpend_domain::slots::Slot;
use perpend_views::{Text, count, plural};
use serde_json::Value;

/// Characters shown of one setting.
const MAX_CHARS: usize = 200;

/// Name and value of each setting, then the model of each slot.
pub(super) fn evaluator_settings(version: &EvaluatorVersion) -> Vec<(Text, Text)> {
    let config = version.config.as_object().into_iter().flatten();
    let settings = config.filter_map(|(name, value)| {
        let text = match value {
            Value::String(source) if version.runs_source() && name == "source" => {
                Text::from(plural(source.lines().count() as u64, "line"))
            }
            value => setting_text(value)?,
        };
        Some((Text::from(name.as_str()), text))
    });
    settings.chain(version.slots.iter().map(slot_model)).collect()
}

/// Absent for null and empty values.
fn setting_text(value: &Value) -> Option<Text> {
    match value {
        Value::Null => None,
        Value::String(text) => (!text.is_empty()).then(|| truncated(text)),
        Value::Array(items) if items.is_empty() => None,
        Value::Object(members) if members.is_empty() => None,
        other => Some(truncated(&other.to_string())),
    }
}

fn truncated(text: &str) -> Text {
    match text.char_indices().nth(MAX_CHARS) {
        None => Text::lines(text),
        Some((end, _)) => {
            let (start, rest) = text.split_at(end);
            let more = count(rest.chars().count() as u64);
            Text::lines(format!("{start}… ({more} more characters)"))
        }
    }
}

fn slot_model(slot: &Slot) -> (Text, Text) {
    let model = slot.model.as_ref().map_or_else(
        || "default evaluation model of the project".to_owned(),
        |model| format!("{} (connection {})", model.model, model.provider),
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

    fn setting_lines(version: &EvaluatorVersion) -> Vec<String> {
        let settings = evaluator_settings(version);
        let settings = settings.iter();
        settings.map(|(name, value)| format!("{}: {}", name.raw(), value.raw())).collect()
    }

    #[test]
    fn empty_settings_are_omitted_and_long_ones_are_truncated_with_the_number_of_omitted_characters()
     {
        let config = json!({
            "min": 20, "unit": "words", "max": null, "words": [], "note": "", "list": ["a", 1],
            "text": "é".repeat(1_250),
        });
        let long = format!("text: {}… (1,050 more characters)", "é".repeat(200));
        let mut all = setting_lines(&version(["perpend/text", "length"], config, Vec::new()));
        all.sort();
        let wanted = ["list: [\"a\",1]", "min: 20", &long, "unit: words"];
        assert_eq!(all, wanted);
    }

    #[test]
    fn source_is_shown_as_its_line_count_and_slots_as_their_models() {
        let config = json!({ "source": "a\nb\n" });
        let code = version(["perpend/python", "code"], config, Vec::new());
        assert_eq!(setting_lines(&code), ["source: 2 lines"]);
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
            "model, judge: small-1 (connection work)",
            "model, second: default evaluation model of the project",
        ];
        assert_eq!(setting_lines(&judge), wanted);
    }
}
