//! `items.jsonl` and `tests.jsonl`: one JSON object per line.

use std::collections::HashSet;
use std::path::Path;

use perpend_domain::payload::Payload;
use perpend_domain::plugin::{FailureClass, Item, ItemParts};
use serde_json::{Map, Value};

use crate::answers::Answer;
use crate::error::Error;

/// A line of `tests.jsonl`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Golden {
    /// The line number in the file, from 1.
    pub(crate) line: usize,
    /// The name of the test; `line N` by default.
    pub(crate) name: String,
    /// The id of the evaluator; optional for a component with a single evaluator.
    pub(crate) evaluator: Option<String>,
    pub(crate) config: Value,
    pub(crate) item: Item,
    /// The answers of the model; `None` grants no model.
    pub(crate) answers: Option<Vec<Answer>>,
    pub(crate) expected: Expected,
}

/// The expected outcome of a test.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expected {
    /// Exactly these scores, in any order.
    Scores(Vec<ExpectedScore>),
    /// A failure of this class; its message contains the text.
    Error(FailureClass, Option<String>),
}

/// An expected score.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExpectedScore {
    pub(crate) name: String,
    pub(crate) value: Value,
    /// Not compared when absent.
    pub(crate) comment: Option<String>,
}

/// An object with its line number, from 1.
type NumberedObject = (usize, Map<String, Value>);

/// The objects of a file; empty lines are skipped.
fn objects(file: &Path) -> Result<Vec<NumberedObject>, Error> {
    let text = std::fs::read_to_string(file).map_err(|source| Error::file(file, source))?;
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| match serde_json::from_str::<Value>(line) {
            Ok(Value::Object(members)) => Ok((at + 1, members)),
            Ok(_) => Err(invalid_line(file, at + 1, "a line must be a JSON object")),
            Err(error) => Err(invalid_line(file, at + 1, &format!("not JSON: {error}"))),
        })
        .collect()
}

fn invalid_line(file: &Path, line: usize, message: &str) -> Error {
    Error::Line { file: file.display().to_string(), line, message: message.to_owned() }
}

/// The items of a file.
pub(crate) fn items(file: &Path) -> Result<Vec<Item>, Error> {
    let items: Result<Vec<Item>, Error> = objects(file)?
        .into_iter()
        .map(|(line, members)| {
            item(members, line).map_err(|message| invalid_line(file, line, &message))
        })
        .collect();
    if let Ok(items) = &items {
        let mut seen = HashSet::new();
        if let Some(twice) = items.iter().find(|item| !seen.insert(&item.id)) {
            let message = format!("duplicate id {:?}", twice.id);
            return Err(invalid_line(file, 1, &message));
        }
    }
    match items {
        Ok(items) if items.is_empty() => {
            Err(invalid_line(file, 1, "the file must contain at least one item"))
        }
        other => other,
    }
}

const MEMBERS: &str = "id, input, output, expectedOutput and metadata";

/// An item from its members. The default of its id is `line-N`.
fn item(members: Map<String, Value>, line: usize) -> Result<Item, String> {
    let mut item = Item { id: format!("line-{line}"), ..Item::default() };
    for (name, value) in members {
        match name.as_str() {
            "id" => {
                let Value::String(id) = value else {
                    return Err("`id` must be a text".to_owned());
                };
                item.id = id;
            }
            "input" => item.input = Some(payload(value)),
            "output" => item.output = Some(payload(value)),
            "expectedOutput" => item.expected_output = Some(payload(value)),
            "metadata" if value.is_object() => item.metadata = Some(value.to_string()),
            "metadata" => return Err("`metadata` must be a JSON object".to_owned()),
            other => {
                return Err(format!(
                    "unknown member {other:?} of an item; the members are {MEMBERS}"
                ));
            }
        }
    }
    Ok(item)
}

/// The payload for a plug-in: a string as text, any other value as JSON.
fn payload(value: Value) -> Payload {
    match value {
        Value::String(text) => Payload::Text(text),
        other => Payload::Json(other.to_string()),
    }
}

/// The item with only the parts that the evaluator needs, as a server passes it.
pub(crate) fn needed(item: &Item, needs: ItemParts) -> Item {
    let part = |is_needed: bool, part: &Option<Payload>| part.clone().filter(|_| is_needed);
    Item {
        id: item.id.clone(),
        input: part(needs.input, &item.input),
        output: part(needs.output, &item.output),
        expected_output: part(needs.expected_output, &item.expected_output),
        metadata: item.metadata.clone().filter(|_| needs.metadata),
        trace: item.trace.clone().filter(|_| needs.trace),
        session: item.session.clone().filter(|_| needs.trace),
        run: item.run.clone().filter(|_| needs.trace),
    }
}

/// The tests of a file.
pub(crate) fn goldens(file: &Path) -> Result<Vec<Golden>, Error> {
    objects(file)?
        .into_iter()
        .map(|(line, members)| {
            golden(members, line).map_err(|message| invalid_line(file, line, &message))
        })
        .collect()
}

fn golden(mut members: Map<String, Value>, line: usize) -> Result<Golden, String> {
    let mut text = |name: &str| match members.shift_remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{name}` must be a text")),
    };
    let name = text("name")?.unwrap_or_else(|| format!("line {line}"));
    let evaluator = text("evaluator")?;
    let config = members.shift_remove("config").unwrap_or(Value::Object(Map::new()));
    let Some(Value::Object(parts)) = members.shift_remove("item") else {
        return Err("`item` is missing: it must be an object with the parts of an item".to_owned());
    };
    let item = item(parts, line)?;
    let answers = match members.shift_remove("answers") {
        None => None,
        Some(Value::Array(all)) => {
            Some(all.into_iter().map(Answer::read).collect::<Result<_, _>>()?)
        }
        Some(_) => return Err("`answers` must be an array".to_owned()),
    };
    let expected = match (members.shift_remove("scores"), members.shift_remove("error")) {
        (Some(Value::Object(scores)), None) => Expected::Scores(expected_scores(scores)?),
        (None, Some(error)) => expected_error(error)?,
        _ => {
            return Err(
                "exactly one of `scores`, an object of score names and values, and `error`, a failure \
                 class, is required"
                    .to_owned(),
            );
        }
    };
    if let Some(unknown) = members.keys().next() {
        return Err(format!(
            "unknown member {unknown:?} of a test; the members are name, evaluator, config, item, answers, scores and \
             error"
        ));
    }
    Ok(Golden { line, name, evaluator, config, item, answers, expected })
}

fn expected_scores(scores: Map<String, Value>) -> Result<Vec<ExpectedScore>, String> {
    let one = |(name, value): (String, Value)| {
        let (value, comment) = match value {
            Value::Object(mut parts) => {
                let value = parts.shift_remove("value").unwrap_or(Value::Null);
                let comment = match parts.shift_remove("comment") {
                    None => None,
                    Some(Value::String(text)) => Some(text),
                    Some(_) => return Err(format!("`scores.{name}.comment` must be a text")),
                };
                if let Some(unknown) = parts.keys().next() {
                    return Err(format!(
                        "unknown member {unknown:?} of `scores.{name}`; the members are value and comment"
                    ));
                }
                (value, comment)
            }
            value => (value, None),
        };
        match value {
            Value::Number(_) | Value::Bool(_) | Value::String(_) => {
                Ok(ExpectedScore { name, value, comment })
            }
            _ => Err(format!("`scores.{name}` must be a number, a boolean or a text")),
        }
    };
    scores.into_iter().map(one).collect()
}

fn expected_error(error: Value) -> Result<Expected, String> {
    let (class, message) = match error {
        Value::String(class) => (class, None),
        Value::Object(mut parts) => {
            let mut text = |name: &str| match parts.shift_remove(name) {
                Some(Value::String(text)) => Some(text),
                _ => None,
            };
            (text("class").unwrap_or_default(), text("message"))
        }
        _ => {
            return Err(
                "`error` must be a failure class, or an object with class and message".to_owned()
            );
        }
    };
    let found = FailureClass::ALL.iter().find(|known| known.as_str() == class);
    match found {
        Some(class) => Ok(Expected::Error(*class, message)),
        None => {
            let all: Vec<&str> = FailureClass::ALL.iter().map(|known| known.as_str()).collect();
            Err(format!("unknown failure class {class:?}; the classes are {}", all.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("items.jsonl");
        std::fs::write(&file, text).unwrap();
        (folder, file)
    }

    #[test]
    fn a_string_becomes_text_and_other_values_become_json() {
        let (_folder, file) = written(
            "{\"id\":\"a\",\"output\":\"hi\",\"input\":null,\"metadata\":{\"k\":1}}\n\n{\"output\":[1, 2]}\n",
        );
        let items = items(&file).unwrap();
        assert_eq!(items[0].output, Some(Payload::Text("hi".to_owned())));
        assert_eq!(items[0].input, Some(Payload::Json("null".to_owned())));
        assert_eq!(items[0].expected_output, None);
        assert_eq!(items[1].id, "line-3");
        assert_eq!(items[1].output, Some(Payload::Json("[1,2]".to_owned())));
        let parts = needed(&items[0], ItemParts { output: true, ..ItemParts::default() });
        assert_eq!((parts.input, parts.metadata), (None, None));
    }

    #[test]
    fn an_invalid_line_is_reported_with_file_line_and_field() {
        for (text, part) in [
            ("{}\n{\"out\":1}", "items.jsonl:2: unknown member \"out\""),
            ("[1]", "items.jsonl:1: a line must be a JSON object"),
            ("{\"output\":", "items.jsonl:1: not JSON"),
            ("{\"metadata\":[]}", "`metadata` must be"),
            ("", "at least one item"),
        ] {
            let (_folder, file) = written(text);
            let error = items(&file).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_test_expects_scores_or_a_failure_and_nothing_unknown() {
        let (_folder, file) = written(
            "{\"item\":{},\"scores\":{\"a\":1,\"b\":{\"value\":true,\"comment\":\"c\"}}}\n\
             {\"item\":{},\"error\":{\"class\":\"invalid_input\",\"message\":\"absent\"}}\n",
        );
        let tests = goldens(&file).unwrap();
        let Expected::Scores(scores) = &tests[0].expected else {
            panic!("{tests:?}");
        };
        assert_eq!(scores[1].comment.as_deref(), Some("c"));
        let error = Expected::Error(FailureClass::InvalidInput, Some("absent".to_owned()));
        assert_eq!(tests[1].expected, error);
        for (text, part) in [
            ("{\"item\":{}}", "is required"),
            ("{\"item\":{},\"error\":\"boom\"}", "unknown failure class"),
            ("{\"item\":{},\"scores\":{\"a\":null}}", "`scores.a` must be a number"),
            ("{\"item\":{},\"scores\":{},\"more\":1}", "unknown member \"more\""),
            ("{\"scores\":{}}", "`item` is missing"),
        ] {
            let (_folder, file) = written(text);
            let error = goldens(&file).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
