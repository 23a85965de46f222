//! Items written by hand, which a trial evaluates instead of a stored target.

use serde_json::{Map, Value};

use super::item::metadata_text;
use crate::payload::Payload;
use crate::plugin::{Item, ItemParts};

/// The parts of an item, written by hand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ManualItem {
    /// Input.
    pub input: Option<Value>,
    /// Output.
    pub output: Option<Value>,
    /// Expected output.
    pub expected_output: Option<Value>,
    /// Metadata.
    pub metadata: Option<Map<String, Value>>,
    /// Further variables.
    pub variables: Map<String, Value>,
}

impl ManualItem {
    /// The parts that the evaluator needs.
    #[must_use]
    pub fn item(self, needs: ItemParts) -> Item {
        let payload = |value: Option<Value>, is_needed: bool| {
            value.filter(|_| is_needed).map(Payload::from_value)
        };
        let metadata = self.metadata.map(Value::Object);
        let metadata = metadata_text(metadata, self.variables);
        Item {
            id: "written".to_owned(),
            input: payload(self.input, needs.input),
            output: payload(self.output, needs.output),
            expected_output: payload(self.expected_output, needs.expected_output),
            metadata: metadata.filter(|_| needs.metadata),
            ..Item::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_written_item_has_the_parts_that_are_needed_and_its_variables_where_mapped_ones_are() {
        let needs = ItemParts { output: true, metadata: true, ..ItemParts::default() };
        let variables = json!({ "question": "why?" });
        let written = ManualItem {
            input: Some(json!("not needed")),
            output: Some(json!({ "n": 1 })),
            variables: variables.as_object().cloned().unwrap(),
            ..ManualItem::default()
        };
        let item = written.item(needs);
        assert_eq!(item.input, None);
        assert_eq!(item.output, Some(Payload::Json(r#"{"n":1}"#.to_owned())));
        let metadata: Value = serde_json::from_str(&item.metadata.unwrap()).unwrap();
        assert_eq!(metadata, json!({ "perpend.vars": { "question": "why?" } }));
    }
}
