//! The fields of a form for a configuration, from its JSON Schema.
//!
//! Texts, numbers, Boolean values and enumerations have a field of their own. Any other member is edited as JSON, and so are
//! members that the schema allows without naming them.

use perpend_http_kit::extract::Params;
use perpend_views::{ConfigControl, ConfigField, Text};
use serde_json::{Map, Number, Value};

use crate::request::forms::as_submitted;

/// References and alternatives followed from the schema of a member.
const MAX_DEPTH: u32 = 8;
/// Field of the members without a field of their own.
pub(super) const OTHERS: &str = "others";

/// The members of a configuration.
#[derive(Clone, Debug, Default)]
pub(in crate::evaluators) struct ConfigSchema {
    pub(super) members: Vec<Member>,
    /// Whether it may have members that the schema does not name.
    pub(super) is_open: bool,
}

/// A named member.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: String,
    title: Option<String>,
    description: Option<String>,
    is_required: bool,
    kind: MemberKind,
    default: Option<Value>,
    bounds: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum MemberKind {
    Text,
    Number,
    Integer,
    /// Values with labels.
    Choice(Vec<(Value, String)>),
    Json,
}

/// The texts of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ConfigTexts {
    /// In the order of the members.
    pub(super) members: Vec<String>,
    /// Further members as a JSON object.
    pub(super) others: String,
}

/// Violations by the index of a member; `None` for the further members.
pub(super) type ConfigProblems = Vec<(Option<usize>, Text)>;

impl ConfigSchema {
    /// Reads a schema; one that is not an object has no named members.
    pub(in crate::evaluators) fn parse(schema: &str) -> Self {
        let root: Value = serde_json::from_str(schema).unwrap_or_default();
        let required = root["required"].as_array();
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
        let properties = root["properties"].as_object();
        let members = properties.into_iter().flatten().map(|(name, own)| {
            let resolved = resolve(&root, own);
            let text = |member: &str| {
                let texts = [own, resolved].into_iter().filter_map(|at| at[member].as_str());
                texts.map(str::to_owned).next()
            };
            Member {
                name: name.clone(),
                title: text("title"),
                description: text("description"),
                is_required: is_required(name),
                kind: kind(&root, own, MAX_DEPTH).unwrap_or(MemberKind::Json),
                default: own.get("default").filter(|value| !value.is_null()).cloned(),
                bounds: bounds(resolved),
            }
        });
        Self { members: members.collect(), is_open: root["additionalProperties"] != false }
    }

    /// The texts of a configuration.
    pub(super) fn texts(&self, config: &Value) -> ConfigTexts {
        let members = self.members.iter();
        let members = members.map(|member| member.text(config.get(&member.name)));
        let others = self.others(config);
        ConfigTexts {
            members: members.collect(),
            others: if others.is_empty() { String::new() } else { pretty(&Value::Object(others)) },
        }
    }

    /// The sent texts.
    pub(super) fn sent(&self, fields: &Params) -> ConfigTexts {
        let text = |field: &str| as_submitted(fields.raw(field).unwrap_or_default());
        ConfigTexts {
            members: self.members.iter().map(|member| text(&field_name(&member.name))).collect(),
            others: text(OTHERS),
        }
    }

    /// The configuration that the texts mean. A text that was not changed means the stored value.
    pub(super) fn config(
        &self,
        texts: &ConfigTexts,
        stored: &Value,
    ) -> Result<Value, ConfigProblems> {
        let mut config = Map::new();
        let mut problems = Vec::new();
        for (at, (member, text)) in self.members.iter().zip(&texts.members).enumerate() {
            let own = stored.get(&member.name);
            let value = match own.filter(|own| member.text(Some(own)) == *text) {
                Some(own) => Ok(Some(own.clone())),
                None => member.value(text),
            };
            match value {
                Ok(Some(value)) => drop(config.insert(member.name.clone(), value)),
                Ok(None) => {}
                Err(problem) => problems.push((Some(at), Text::from(problem))),
            }
        }
        match others(&texts.others) {
            Ok(others) => config.extend(others),
            Err(problem) => problems.push((None, Text::from(problem))),
        }
        match problems.is_empty() {
            true => Ok(Value::Object(config)),
            false => Err(problems),
        }
    }

    /// A small configuration: the required members, and those with a default.
    pub(in crate::evaluators) fn example(&self) -> Value {
        let members = self.members.iter();
        let members = members.filter(|member| member.is_required || member.default.is_some());
        let value = |member: &Member| (member.name.clone(), member.example());
        Value::Object(members.map(value).collect())
    }

    /// Names and descriptions of the members.
    pub(in crate::evaluators) fn summary(&self) -> Vec<(Text, Text)> {
        let members = self.members.iter();
        let line = |member: &Member| {
            let necessity = if member.is_required { "Required. " } else { "" };
            let hint = member.hint().unwrap_or_default();
            (Text::from(member.name.as_str()), Text::from(format!("{necessity}{hint}")))
        };
        members.map(line).collect()
    }

    /// The index of a member.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.members.iter().position(|member| member.name == name)
    }

    /// The fields with these texts.
    pub(super) fn fields(
        &self,
        texts: &ConfigTexts,
        problems: &[(Option<usize>, Text)],
    ) -> Vec<ConfigField> {
        let members = self.members.iter().zip(&texts.members).enumerate();
        let field = |(at, (member, text)): (usize, (&Member, &String))| {
            let own = problems.iter().find(|(place, _)| *place == Some(at));
            ConfigField {
                name: field_name(&member.name),
                label: Text::from(member.title.as_deref().unwrap_or(&member.name)),
                hint: member.hint().map(Text::from),
                is_required: member.is_required,
                control: member.control(),
                value: text.clone(),
                problem: own.map(|(_, problem)| problem.clone()),
            }
        };
        members.map(field).collect()
    }

    /// The members that the schema does not name.
    fn others(&self, config: &Value) -> Map<String, Value> {
        let all = config.as_object().into_iter().flatten();
        let others = all.filter(|(name, _)| self.place(name).is_none());
        others.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

/// The name of the field of a member.
fn field_name(member: &str) -> String {
    format!("config.{member}")
}

/// Further members from a JSON object.
fn others(text: &str) -> Result<Map<String, Value>, String> {
    match text.trim() {
        "" => Ok(Map::new()),
        text => {
            serde_json::from_str(text).map_err(|error| format!("must be a JSON object: {error}"))
        }
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

impl Member {
    /// A value as text; empty for an absent one.
    fn text(&self, value: Option<&Value>) -> String {
        match (value, &self.kind) {
            (None | Some(Value::Null), _) => String::new(),
            (Some(Value::String(text)), MemberKind::Text) => as_submitted(text),
            (Some(value), MemberKind::Json) => pretty(value),
            (Some(value), _) => value.to_string(),
        }
    }

    /// The value of a text; absent if an optional member has no text.
    fn value(&self, text: &str) -> Result<Option<Value>, String> {
        let trimmed = text.trim();
        let is_text = self.kind == MemberKind::Text;
        if trimmed.is_empty() && !(is_text && (self.is_required || !text.is_empty())) {
            return Ok(None);
        }
        let value = match &self.kind {
            MemberKind::Text => Ok(Value::from(text)),
            MemberKind::Number => number(trimmed).ok_or("must be a number"),
            MemberKind::Integer => integer(trimmed).ok_or("must be an integer"),
            MemberKind::Choice(choices) => {
                // No choice is null.
                let sent: Value = serde_json::from_str(trimmed).unwrap_or_default();
                let found = choices.iter().find(|(value, _)| *value == sent);
                found.map(|(value, _)| value.clone()).ok_or("must be one of the choices")
            }
            MemberKind::Json => {
                return serde_json::from_str(trimmed)
                    .map(Some)
                    .map_err(|error| format!("must be JSON: {error}"));
            }
        };
        value.map(Some).map_err(|expected| format!("{expected}, got `{trimmed}`"))
    }

    fn control(&self) -> ConfigControl {
        match &self.kind {
            MemberKind::Text => ConfigControl::Text,
            MemberKind::Number => ConfigControl::Number("any"),
            MemberKind::Integer => ConfigControl::Number("1"),
            MemberKind::Json => ConfigControl::Json,
            MemberKind::Choice(choices) => {
                let choices = choices.iter();
                let choices =
                    choices.map(|(value, label)| (value.to_string(), Text::from(label.as_str())));
                ConfigControl::Choice(choices.collect())
            }
        }
    }

    /// Description, bounds and default.
    fn hint(&self) -> Option<String> {
        let default = self.default.as_ref().map(|value| format!("Default: `{value}`."));
        let parts = [self.description.clone(), self.bounds.clone(), default];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    }

    fn example(&self) -> Value {
        let value = match &self.kind {
            MemberKind::Text => Value::from("text"),
            MemberKind::Number | MemberKind::Integer => Value::from(1),
            MemberKind::Choice(choices) => {
                choices.first().map(|(value, _)| value.clone()).unwrap_or_default()
            }
            MemberKind::Json => Value::Object(Map::new()),
        };
        self.default.clone().unwrap_or(value)
    }
}

fn number(text: &str) -> Option<Value> {
    if let Ok(number) = serde_json::from_str::<Number>(text) {
        return Some(Value::Number(number));
    }
    let number = text.parse::<f64>().ok()?;
    Number::from_f64(number).map(Value::Number)
}

fn integer(text: &str) -> Option<Value> {
    match text.parse::<i64>() {
        Ok(integer) => Some(Value::from(integer)),
        Err(_) => text.parse::<u64>().ok().map(Value::from),
    }
}

/// The schema that a local reference leads to.
fn resolve<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let mut found = schema;
    for _ in 0..MAX_DEPTH {
        let pointer = found["$ref"].as_str().and_then(|to| to.strip_prefix('#'));
        match pointer.and_then(|pointer| root.pointer(pointer)) {
            Some(next) => found = next,
            None => break,
        }
    }
    found
}

/// The kind of a schema with a field of its own.
fn kind(root: &Value, schema: &Value, depth: u32) -> Option<MemberKind> {
    let schema = resolve(root, schema);
    let depth = depth.checked_sub(1)?;
    if let Some(values) = schema["enum"].as_array() {
        return choice(values.iter().map(|value| (value.clone(), None)).collect());
    }
    let mut alternatives = ["oneOf", "anyOf", "allOf"].into_iter();
    if let Some(all) = alternatives.find_map(|name| schema[name].as_array())
        && schema.get("properties").is_none()
    {
        let all = all.iter().map(|one| resolve(root, one));
        let all: Vec<&Value> = all.filter(|one| one["type"] != "null").collect();
        return match all.as_slice() {
            [one] => kind(root, one, depth),
            _ => choice(constants(&all)?),
        };
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let types: Vec<&str> = types.into_iter().filter(|one| *one != "null").collect();
    match types.as_slice() {
        ["string"] => Some(MemberKind::Text),
        ["number"] => Some(MemberKind::Number),
        ["integer"] => Some(MemberKind::Integer),
        ["boolean"] => choice(vec![(Value::from(true), None), (Value::from(false), None)]),
        _ => None,
    }
}

/// The values of alternatives that are all constants, with their descriptions.
fn constants(all: &[&Value]) -> Option<Vec<(Value, Option<String>)>> {
    let mut values = Vec::new();
    for one in all {
        let label = one["title"].as_str().or_else(|| one["description"].as_str());
        match (one.get("const"), one["enum"].as_array()) {
            (Some(value), _) => values.push((value.clone(), label.map(str::to_owned))),
            (None, Some(list)) => values.extend(list.iter().map(|value| (value.clone(), None))),
            (None, None) => return None,
        }
    }
    Some(values)
}

fn choice(values: Vec<(Value, Option<String>)>) -> Option<MemberKind> {
    let values = values.into_iter().filter(|(value, _)| !value.is_null());
    let values = values.map(|(value, label)| {
        let name = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let label = label.map_or_else(|| name.clone(), |label| format!("{name}: {label}"));
        (value, label)
    });
    let values: Vec<(Value, String)> = values.collect();
    (!values.is_empty()).then_some(MemberKind::Choice(values))
}

/// Such as `At least 0. At most 1.`
fn bounds(schema: &Value) -> Option<String> {
    let names = [
        ("minimum", "At least"),
        ("exclusiveMinimum", "Greater than"),
        ("maximum", "At most"),
        ("exclusiveMaximum", "Less than"),
    ];
    let bounds = names.into_iter().filter_map(|(name, words)| {
        schema[name].as_number().map(|bound| format!("{words} {bound}."))
    });
    let bounds: Vec<String> = bounds.collect();
    (!bounds.is_empty()).then(|| bounds.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> ConfigSchema {
        let schema = json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["pattern"],
            "properties": {
                "pattern": { "type": "string", "title": "Pattern", "description": "A regular expression." },
                "min": { "type": ["number", "null"], "default": null, "minimum": 0 },
                "times": { "type": "integer", "default": 3 },
                "exact": { "type": "boolean", "default": false },
                "profile": { "oneOf": [{ "const": "py", "description": "Python" }, { "const": "js" }] },
                "unit": { "anyOf": [{ "$ref": "#/$defs/Unit" }, { "type": "null" }] },
                "terms": { "type": ["array", "null"], "items": { "type": "string" } },
            },
            "$defs": { "Unit": { "type": "string", "enum": ["words", "characters"] } },
        });
        ConfigSchema::parse(&schema.to_string())
    }

    fn texts(all: [&str; 7]) -> ConfigTexts {
        ConfigTexts { members: all.map(str::to_owned).to_vec(), others: String::new() }
    }

    #[test]
    fn a_stored_text_with_carriage_returns_is_kept_if_its_field_is_not_changed() {
        let schema = schema();
        let stored = json!({ "pattern": "a\r\nb" });
        let texts = schema.texts(&stored);
        let place = schema.place("pattern").unwrap();
        assert_eq!(texts.members[place], "a\nb");
        assert_eq!(schema.config(&texts, &stored).unwrap(), stored);
    }

    #[test]
    fn flat_types_have_fields_of_their_own_and_others_are_json() {
        let schema = schema();
        let sent = texts(["a+", "0.5", "", "true", "\"py\"", "\"words\"", "[\"x\"]"]);
        let config = schema.config(&sent, &Value::Null).unwrap();
        let expected = json!({
            "pattern": "a+", "min": 0.5, "exact": true, "profile": "py", "unit": "words", "terms": ["x"],
        });
        assert_eq!(config, expected);
        let fields = schema.fields(&sent, &[]);
        assert!(fields[0].is_required && !fields[1].is_required);
        assert_eq!(fields[1].hint.as_ref().map(Text::raw), Some("At least 0."));
        assert_eq!(fields[2].hint.as_ref().map(Text::raw), Some("Default: `3`."));
        assert!(matches!(&fields[4].control, ConfigControl::Choice(all) if all.len() == 2));
        assert!(matches!(&fields[5].control, ConfigControl::Choice(all) if all.len() == 2));
        assert!(matches!(&fields[6].control, ConfigControl::Json));
    }

    #[test]
    fn each_wrong_text_is_a_problem_of_its_field() {
        let schema = schema();
        let sent = ConfigTexts {
            others: "[]".to_owned(),
            ..texts(["", "much", "1.5", "perhaps", "", "", "[x"])
        };
        let problems = schema.config(&sent, &Value::Null).unwrap_err();
        let places: Vec<Option<usize>> = problems.iter().map(|(place, _)| *place).collect();
        assert_eq!(places, [Some(1), Some(2), Some(3), Some(6), None], "{problems:?}");
        assert_eq!(problems[0].1.raw(), "must be a number, got `much`");
    }

    #[test]
    fn a_stored_configuration_is_the_same_after_its_form() {
        let schema = schema();
        let stored = json!({
            "pattern": "", "min": null, "times": 3, "exact": false, "unit": "words", "terms": [], "old": { "a": 1 },
        });
        let texts = schema.texts(&stored);
        assert!(texts.others.contains("\"old\""), "{texts:?}");
        assert_eq!(schema.config(&texts, &stored).unwrap(), stored);
    }
}
