//! Mapping of a variable by choosing a recorded value: the values of the target with their paths, and the chosen line.

use perpend_domain::access::Permission::TraceRead;
use perpend_domain::payload::Payload;
use perpend_http_kit::problem::Problem;
use perpend_views::{JudgeFields, MappingChoice, Text, plural, segment};
use serde_json::{Map, Value, json};

use super::variables::{PARTS, names};
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::trace::raw;

/// Values to choose from.
const MAX_CHOICES: usize = 100;
/// Depth of their paths.
const MAX_DEPTH: usize = 12;
/// Bytes of the name of a member. A long name would be repeated in the paths of all values within it.
const MAX_NAME: usize = 200;
/// Characters of a value.
const MAX_CHARS: usize = 160;

/// A trace, and an observation of it if that is the target.
pub(super) type PromptTarget = (String, Option<String>);

/// The values of a target that a variable can be mapped to.
pub(super) async fn choices(
    app: &App,
    viewer: &Viewer,
    (trace, observation): &PromptTarget,
) -> Result<Vec<MappingChoice>, Problem> {
    if !viewer.may(TraceRead) {
        return Ok(Vec::new());
    }
    let trace = segment(trace);
    let (content, prefix) = match observation {
        Some(id) => {
            let id = segment(id);
            (raw::content_of_observation(app, viewer, &trace, &id).await?, "")
        }
        None => (raw::content_of_trace(app, viewer, &trace).await?, "trace."),
    };
    let value = |payload: Option<Payload>| payload.map(|payload| payload.to_value());
    let values = [
        ("input", value(content.input)),
        ("output", value(content.output)),
        ("metadata", Some(json!(content.metadata))),
    ];
    let mut choices = Vec::new();
    for (part, value) in values {
        if let Some(value) = value {
            add_choices(&mut choices, &format!("{prefix}{part}"), &value);
        }
    }
    Ok(choices)
}

/// Adds a value and the values within it, in their order.
fn add_choices(choices: &mut Vec<MappingChoice>, source: &str, value: &Value) {
    let mut nodes = vec![(String::new(), value, 0)];
    while let Some((path, node, depth)) = nodes.pop() {
        if MAX_CHOICES <= choices.len() {
            return;
        }
        choices.push(choice(source, &path, node));
        if depth == MAX_DEPTH {
            continue;
        }
        match node {
            Value::Array(items) => {
                let items = items.iter().enumerate().take(MAX_CHOICES).rev();
                nodes.extend(items.map(|(at, item)| (format!("{path}[{at}]"), item, depth + 1)));
            }
            Value::Object(members) => {
                let members = members.iter().take(MAX_CHOICES);
                let members = members.filter(|(name, _)| name.len() <= MAX_NAME).rev();
                nodes
                    .extend(members.map(|(name, member)| {
                        (format!("{path}{}", step(name)), member, depth + 1)
                    }));
            }
            _ => {}
        }
    }
}

fn choice(source: &str, path: &str, value: &Value) -> MappingChoice {
    let line = if path.is_empty() { source.to_owned() } else { format!("{source} ${path}") };
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => plural(items.len() as u64, "item"),
        Value::Object(members) => plural(members.len() as u64, "member"),
        other => other.to_string(),
    };
    let value = match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    };
    MappingChoice { line, value: Text::from(value) }
}

/// The step of a path to a member.
fn step(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match name.chars().all(is_plain) && name.starts_with(|c: char| !c.is_ascii_digit()) {
        true => format!(".{name}"),
        // A JSON string is a name in a path too.
        false => format!("[{}]", json!(name)),
    }
}

/// Maps a variable to a chosen line. A mapping that was empty gets the parts that it implied.
pub(super) fn pick(fields: &mut JudgeFields, variable: &str, line: &str) {
    let mut lines: Vec<String> = fields.mapping.lines().map(str::to_owned).collect();
    if fields.mapping.trim().is_empty() {
        let parts = names(&fields.messages).into_iter().filter(|name| PARTS.contains(name));
        lines = parts.map(|name| format!("{name} {name}")).collect();
    }
    lines.retain(|own| own.split_whitespace().next().is_some_and(|name| name != variable));
    lines.push(format!("{variable} {line}"));
    fields.mapping = lines.join("\n");
}

/// The trace and the observation of the first target in the body of a trial.
pub(super) fn first_target(body: &Map<String, Value>) -> Option<PromptTarget> {
    let first = body.get("targets")?.get(0)?;
    let trace = first["traceId"].as_str()?.to_owned();
    Some((trace, first["observationId"].as_str().map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use perpend_domain::json_path::JsonPath;
    use perpend_views::JudgeMessage;

    use super::*;

    #[test]
    fn each_value_has_the_path_that_selects_it() {
        let value = json!({ "messages": [{ "content": "hi" }], "it's \"odd\"": { "1": 2 } });
        let mut choices = Vec::new();
        add_choices(&mut choices, "input", &value);
        let lines: Vec<&str> = choices.iter().map(|choice| choice.line.as_str()).collect();
        let expected = [
            "input",
            "input $.messages",
            "input $.messages[0]",
            "input $.messages[0].content",
            r#"input $["it's \"odd\""]"#,
            r#"input $["it's \"odd\""]["1"]"#,
        ];
        assert_eq!(lines, expected);
        for line in &lines[1..] {
            let (_, path) = line.split_once(' ').unwrap();
            assert!(JsonPath::parse(path).is_ok(), "{path}");
        }
        assert_eq!(choices[3].value.raw(), "hi");
        let long = json!({ "n".repeat(MAX_NAME + 1): { "a": 1 }, "b": 2 });
        let mut of_long = Vec::new();
        add_choices(&mut of_long, "input", &long);
        let lines: Vec<&str> = of_long.iter().map(|choice| choice.line.as_str()).collect();
        assert_eq!(lines, ["input", "input $.b"]);
        let many: Value = (0..1000).collect();
        add_choices(&mut choices, "output", &many);
        assert_eq!(choices.len(), MAX_CHOICES);
    }

    #[test]
    fn a_choice_replaces_the_line_of_its_variable_and_keeps_the_others() {
        let content = "{{output}} {{question}}".to_owned();
        let message = JudgeMessage { role: "user".to_owned(), content };
        let mut fields = JudgeFields { messages: vec![message], ..JudgeFields::default() };
        pick(&mut fields, "question", "input $.q");
        assert_eq!(fields.mapping, "output output\nquestion input $.q");
        pick(&mut fields, "question", "input");
        assert_eq!(fields.mapping, "output output\nquestion input");
    }
}
