//! The values of the variables of a prompt.

use perpend_plugin::{Item, Json, Payload};

/// The member of the metadata with the mapped variables, except the parts of the item.
const MAPPED: &str = "perpend.vars";
/// Variables that the host provides as reserved members of the metadata, without a mapping.
const UNMAPPED: [(&str, &str); 2] =
    [("tool_calls", "perpend.tool_calls"), ("experiment_item_metadata", "perpend.item_metadata")];
const RESERVED: &str = "perpend.";

/// The variables of one item.
pub(crate) struct Variables<'a> {
    item: &'a Item,
    metadata: Vec<(String, Json)>,
}

impl<'a> Variables<'a> {
    pub(crate) fn of(item: &'a Item) -> Self {
        let parsed = item.metadata.as_deref().map(Json::parse);
        let metadata = match parsed {
            Some(Ok(Json::Object(members))) => members,
            _ => Vec::new(),
        };
        Self { item, metadata }
    }

    /// The text of a variable; empty when the item does not have it.
    pub(crate) fn text(&self, name: &str) -> String {
        match name {
            "input" => payload_text(self.item.input.as_ref()),
            "output" => payload_text(self.item.output.as_ref()),
            "expected_output" => payload_text(self.item.expected_output.as_ref()),
            "metadata" => self.metadata_text(),
            _ => self.other(name).map_or_else(String::new, text),
        }
    }

    fn metadata_text(&self) -> String {
        let own = self.metadata.iter().filter(|(name, _)| !name.starts_with(RESERVED));
        let own: Vec<_> = own.cloned().collect();
        match own.is_empty() {
            true => String::new(),
            false => Json::Object(own).to_string(),
        }
    }

    fn other(&self, name: &str) -> Option<&Json> {
        let mapped = match member(&self.metadata, MAPPED) {
            Some(Json::Object(variables)) => member(variables, name),
            _ => None,
        };
        mapped.or_else(|| {
            let (_, reserved) = UNMAPPED.iter().find(|(variable, _)| *variable == name)?;
            member(&self.metadata, reserved)
        })
    }
}

fn member<'a>(members: &'a [(String, Json)], name: &str) -> Option<&'a Json> {
    members.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

fn payload_text(payload: Option<&Payload>) -> String {
    match payload {
        None => String::new(),
        Some(Payload::Text(text)) => text.clone(),
        Some(Payload::Json(raw)) => {
            Json::parse(raw).map_or_else(|_| raw.clone(), |value| text(&value))
        }
    }
}

/// A value in a prompt: empty for null, a text unchanged, any other value as compact JSON.
pub(crate) fn text(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::Text(text) => text.clone(),
        Json::Number(number) if !number.is_integer() => {
            let double = number.as_f64();
            // 1.0 and 1 are the same number and print the same.
            match double.fract() == 0.0 && double.abs() < 1e21 {
                true => format!("{double}"),
                false => Json::from(double).to_string(),
            }
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(metadata: &str) -> Item {
        Item {
            input: Some(Payload::Json(r#"{ "a": [1, 2.50] }"#.to_owned())),
            output: Some(Payload::Json("null".to_owned())),
            metadata: Some(metadata.to_owned()),
            ..Item::default()
        }
    }

    #[test]
    fn parts_and_mapped_variables_are_found_and_the_rest_is_empty() {
        let item =
            item(r#"{"team":"x","perpend.vars":{"criteria":"short","n":1.0,"context":["a"]}}"#);
        let variables = Variables::of(&item);
        let expected = [
            ("input", r#"{"a":[1,2.50]}"#),
            ("output", ""),
            ("expected_output", ""),
            ("metadata", r#"{"team":"x"}"#),
            ("criteria", "short"),
            ("n", "1"),
            ("context", r#"["a"]"#),
            ("team", ""),
        ];
        for (name, text) in expected {
            assert_eq!(variables.text(name), text, "{name}");
        }
    }

    #[test]
    fn tool_calls_are_found_without_a_mapping_and_a_mapping_wins() {
        let stored = item(r#"{"perpend.tool_calls":[{"name":"search"}]}"#);
        assert_eq!(Variables::of(&stored).text("tool_calls"), r#"[{"name":"search"}]"#);
        let mapped = item(r#"{"perpend.tool_calls":[1],"perpend.vars":{"tool_calls":[2]}}"#);
        assert_eq!(Variables::of(&mapped).text("tool_calls"), "[2]");
    }
}
