//! A JSON Schema that describes given values.

use serde_json::{Map, Value, json};

/// Levels of values that a schema describes; deeper values may be anything.
const MAX_DEPTH: usize = 16;
/// Members of an object that a schema describes; an object with more may have any.
const MAX_MEMBERS: usize = 200;

/// The values seen at one place.
#[derive(Clone, Debug, Default)]
pub struct SchemaInference {
    has_null: bool,
    has_boolean: bool,
    has_integer: bool,
    has_number: bool,
    has_string: bool,
    has_array: bool,
    n_objects: u64,
    elements: Option<Box<Self>>,
    /// Names of members in the order of their first occurrence, with their index in `shapes`.
    members: Option<Map<String, Value>>,
    /// The values of each member, and the number of objects that have it.
    shapes: Vec<(Self, u64)>,
    /// Members are not described: there are too many, or they are too deep.
    has_any_members: bool,
}

impl SchemaInference {
    /// Adds a value.
    pub fn add(&mut self, value: &Value) {
        self.add_at(value, 0);
    }

    fn add_at(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Null => self.has_null = true,
            Value::Bool(_) => self.has_boolean = true,
            Value::Number(number) if number.is_f64() => self.has_number = true,
            Value::Number(_) => self.has_integer = true,
            Value::String(_) => self.has_string = true,
            Value::Array(elements) => {
                self.has_array = true;
                if depth < MAX_DEPTH {
                    let shape = self.elements.get_or_insert_default();
                    elements.iter().for_each(|element| shape.add_at(element, depth + 1));
                }
            }
            Value::Object(members) => {
                self.n_objects += 1;
                for (name, member) in members {
                    self.add_member(name, member, depth);
                }
            }
        }
    }

    fn add_member(&mut self, name: &str, member: &Value, depth: usize) {
        if depth == MAX_DEPTH {
            self.has_any_members = true;
        }
        if self.has_any_members {
            return;
        }
        let places = self.members.get_or_insert_default();
        let place = match places.get(name).and_then(Value::as_u64) {
            Some(place) => usize::try_from(place).unwrap_or(usize::MAX),
            None if places.len() == MAX_MEMBERS => {
                self.has_any_members = true;
                self.shapes.clear();
                return;
            }
            None => {
                let place = self.shapes.len();
                places.insert(name.to_owned(), place.into());
                self.shapes.push((Self::default(), 0));
                place
            }
        };
        if let Some((shape, n_objects)) = self.shapes.get_mut(place) {
            *n_objects += 1;
            shape.add_at(member, depth + 1);
        }
    }

    /// A schema of draft 2020-12 that all added values match: types, members, and the members that all objects have.
    /// `None` without values.
    #[must_use]
    pub fn schema(&self) -> Option<Value> {
        let mut schema = self.shape();
        let members = schema.as_object_mut().filter(|members| !members.is_empty())?;
        members.shift_insert(
            0,
            "$schema".to_owned(),
            "https://json-schema.org/draft/2020-12/schema".into(),
        );
        Some(schema)
    }

    fn shape(&self) -> Value {
        let types = [
            ("object", 0 < self.n_objects),
            ("array", self.has_array),
            ("string", self.has_string),
            ("number", self.has_number),
            ("integer", self.has_integer && !self.has_number),
            ("boolean", self.has_boolean),
            ("null", self.has_null),
        ];
        let types = types.into_iter().filter(|(_, is_seen)| *is_seen).map(|(name, _)| name);
        let types: Vec<&str> = types.collect();
        let mut schema = Map::new();
        match types.as_slice() {
            [] => return Value::Object(schema),
            [only] => schema.insert("type".to_owned(), json!(only)),
            all => schema.insert("type".to_owned(), json!(all)),
        };
        if !self.has_any_members
            && let Some(places) = &self.members
        {
            let members = places.keys().zip(&self.shapes);
            let properties: Map<String, Value> =
                members.clone().map(|(name, (shape, _))| (name.clone(), shape.shape())).collect();
            let required = members.filter(|(_, (_, n))| *n == self.n_objects);
            let required: Vec<Value> =
                required.map(|(name, _)| Value::from(name.as_str())).collect();
            schema.insert("properties".to_owned(), Value::Object(properties));
            if !required.is_empty() {
                schema.insert("required".to_owned(), Value::Array(required));
            }
        }
        if let Some(elements) = &self.elements {
            let elements = elements.shape();
            if elements.as_object().is_some_and(|members| !members.is_empty()) {
                schema.insert("items".to_owned(), elements);
            }
        }
        Value::Object(schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(values: &[Value]) -> Option<Value> {
        let mut inference = SchemaInference::default();
        values.iter().for_each(|value| inference.add(value));
        let mut schema = inference.schema()?;
        schema.as_object_mut()?.shift_remove("$schema")?;
        Some(schema)
    }

    #[test]
    fn members_that_all_objects_have_are_required() {
        let values = [json!({ "q": "a", "n": 1 }), json!({ "q": "b", "n": 1.5, "tags": ["x"] })];
        let expected = json!({
            "type": "object",
            "properties": {
                "q": { "type": "string" },
                "n": { "type": "number" },
                "tags": { "type": "array", "items": { "type": "string" } },
            },
            "required": ["q", "n"],
        });
        assert_eq!(schema(&values), Some(expected));
    }

    #[test]
    fn values_of_several_types_have_all_of_them() {
        assert_eq!(schema(&[json!(1), json!(null)]), Some(json!({ "type": ["integer", "null"] })));
        assert_eq!(schema(&[json!([])]), Some(json!({ "type": "array" })));
        assert_eq!(schema(&[]), None);
    }

    #[test]
    fn deep_and_wide_values_are_described_up_to_a_limit() {
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!({ "a": [deep] });
        }
        assert!(schema(&[deep]).unwrap().to_string().len() < 2_000);
        let wide: Map<String, Value> = (0..300).map(|n| (format!("k{n}"), json!(n))).collect();
        assert_eq!(schema(&[Value::Object(wide)]), Some(json!({ "type": "object" })));
    }
}
