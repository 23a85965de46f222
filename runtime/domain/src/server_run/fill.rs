//! Fills the variables and placeholders of a prompt from the input of an item.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::prompt::PromptBody;
use crate::template;

/// The reason why an input cannot fill a prompt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    /// Variables and placeholders without a value, in the order of the prompt.
    #[error("the input has no value for {}", quoted(.0))]
    Missing(Vec<String>),
    /// A placeholder needs a list of messages.
    #[error(
        "`{name}` of the input must be an array of messages with `role` and `content`, got {found}"
    )]
    NotMessages {
        /// Name of the placeholder.
        name: String,
        /// The kind of its value.
        found: &'static str,
    },
}

fn quoted(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

fn placeholder(message: &Map<String, Value>) -> Option<&str> {
    let is_placeholder = message.get("type").and_then(Value::as_str) == Some("placeholder");
    message.get("name").and_then(Value::as_str).filter(|_| is_placeholder)
}

/// The names of variables, and of placeholders for messages.
#[must_use]
pub fn variables(body: &PromptBody) -> (Vec<String>, Vec<String>) {
    let mut seen = BTreeSet::new();
    let names = body.texts().flat_map(template::names);
    let names = names.filter(|name| seen.insert((*name).to_owned())).map(str::to_owned);
    let names: Vec<String> = names.collect();
    let mut placeholders: Vec<String> = Vec::new();
    if let PromptBody::Chat(messages) = body {
        for name in messages.iter().filter_map(placeholder) {
            if !placeholders.iter().any(|known| known == name) {
                placeholders.push(name.to_owned());
            }
        }
    }
    (names, placeholders)
}

/// The value of a variable: the member with this name, or the one at the end of a path with dots. Null is no value.
fn value_of<'v>(input: &'v Value, name: &str) -> Option<&'v Value> {
    let members = input.as_object()?;
    let value = members.get(name).or_else(|| {
        let mut at = input;
        for part in name.split('.') {
            at = at.as_object()?.get(part)?;
        }
        Some(at)
    });
    value.filter(|value| !value.is_null())
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array with other elements",
        Value::Object(_) => "an object",
    }
}

fn is_message(value: &Value) -> bool {
    let role = value.get("role").and_then(Value::as_str);
    role.is_some() && (value.get("content").is_some() || value.get("tool_calls").is_some())
}

/// The messages of a prompt for an input. A text prompt is one message of the user. An input that is a text fills the
/// only variable of a prompt without placeholders.
///
/// # Errors
/// [`FillError`] names the variables without a value, or the placeholder with an unsuitable one.
pub fn filled(body: &PromptBody, input: &Value) -> Result<Vec<Value>, FillError> {
    let (names, placeholders) = variables(body);
    let lone = match (input, names.as_slice(), placeholders.as_slice()) {
        (Value::String(text), [name], []) => Some((name.as_str(), text.as_str())),
        _ => None,
    };
    let value = |name: &str| match lone {
        Some((lone, text)) if lone == name => Some(text.to_owned()),
        _ => value_of(input, name).map(text_of),
    };
    let missing = names.iter().filter(|name| value(name).is_none());
    let missing = missing.chain(placeholders.iter().filter(|name| value_of(input, name).is_none()));
    let missing: Vec<String> = missing.cloned().collect();
    if !missing.is_empty() {
        return Err(FillError::Missing(missing));
    }
    let messages = match body {
        PromptBody::Text(text) => {
            return Ok(vec![json!({ "role": "user", "content": template::fill(text, value) })]);
        }
        PromptBody::Chat(messages) => messages,
    };
    let mut filled = Vec::with_capacity(messages.len());
    for message in messages {
        if let Some(name) = placeholder(message) {
            let value = value_of(input, name).unwrap_or(&Value::Null);
            let inserted = value.as_array().filter(|all| all.iter().all(is_message));
            let inserted = inserted.ok_or_else(|| FillError::NotMessages {
                name: name.to_owned(),
                found: kind_of(value),
            })?;
            filled.extend(inserted.iter().cloned());
            continue;
        }
        let mut message = message.clone();
        message.remove("type");
        if let Some(Value::String(text)) = message.get("content") {
            let text = template::fill(text, value);
            message.insert("content".to_owned(), text.into());
        }
        filled.push(Value::Object(message));
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::PromptKind;

    fn text(text: &str) -> PromptBody {
        PromptBody::Text(text.to_owned())
    }

    fn chat(messages: Value) -> PromptBody {
        PromptBody::parse(PromptKind::Chat, messages).unwrap()
    }

    #[test]
    fn members_of_the_input_fill_variables_and_a_lone_text_fills_a_lone_variable() {
        let body = text("Answer {{question}} for {{user.name}} with {{facts}}.");
        let input = json!({ "question": "why?", "user": { "name": "Ann" }, "facts": [1, 2] });
        let expected = json!([{ "role": "user", "content": "Answer why? for Ann with [1,2]." }]);
        assert_eq!(json!(filled(&body, &input).unwrap()), expected);
        let lone = filled(&text("Say {{x}} and {{x}}"), &json!("hi")).unwrap();
        assert_eq!(json!(lone), json!([{ "role": "user", "content": "Say hi and hi" }]));
        let fixed = filled(&text("Say it"), &json!("hi")).unwrap();
        assert_eq!(json!(fixed), json!([{ "role": "user", "content": "Say it" }]));
    }

    #[test]
    fn an_inserted_text_is_not_a_template() {
        let input = json!({ "a": "{{b}}", "b": "no" });
        let messages = filled(&text("{{a}} {{b}}"), &input).unwrap();
        assert_eq!(messages[0]["content"], "{{b}} no");
    }

    #[test]
    fn placeholders_take_lists_of_messages() {
        let body = chat(json!([
            { "role": "system", "content": "You are {{role}}." },
            { "type": "placeholder", "name": "history" },
        ]));
        let input = json!({
            "role": "kind", "history": [{ "role": "user", "content": "Hello" }],
        });
        let expected = json!([
            { "role": "system", "content": "You are kind." },
            { "role": "user", "content": "Hello" },
        ]);
        assert_eq!(json!(filled(&body, &input).unwrap()), expected);
        let wrong = json!({ "role": "kind", "history": "Hello" });
        let error = filled(&body, &wrong).unwrap_err();
        assert!(matches!(&error, FillError::NotMessages { name, .. } if name == "history"));
    }

    #[test]
    fn missing_values_are_named_and_null_is_missing() {
        let body = chat(json!([
            { "role": "user", "content": "{{a}} {{b}} {{a}}" },
            { "type": "placeholder", "name": "history" },
        ]));
        let missing = |input: Value| match filled(&body, &input) {
            Err(FillError::Missing(names)) => names,
            other => panic!("{other:?}"),
        };
        assert_eq!(missing(json!({ "a": null, "b": 1 })), ["a", "history"]);
        assert_eq!(missing(json!("text")), ["a", "b", "history"]);
        assert_eq!(missing(json!(null)), ["a", "b", "history"]);
    }
}
