//! Prompts of judges: variables, and references to prompt management.

use perpend_api_types::evaluator::{PromptMessage, PromptRef};
use perpend_catalog::prompts::Prompt;
use perpend_domain::evaluation::Mapping;
use perpend_domain::ids::ProjectId;
use perpend_domain::prompt::compose::VersionSelector;
use perpend_domain::prompt::{PRODUCTION, PromptBody, PromptName};
use perpend_domain::template;
use perpend_http_kit::extract::{from_value, must_be_one_of};
use perpend_http_kit::problem::{Code, Issue, Problem};
use serde_json::{Map, Value, json};

use crate::prompts;
use crate::state::App;

const MAX_PROMPT_BYTES: usize = 256 << 10;

/// Roles of the messages of a prompt.
const ROLES: [&str; 3] = ["system", "user", "assistant"];
/// Member of the configuration of a judge with the reference to its prompt.
const REFERENCE: &str = "prompt_ref";
/// Variables that are filled without a mapping: the parts of an item.
const PARTS: [&str; 4] = ["input", "output", "expected_output", "metadata"];
/// Variables that are filled whatever the mapping is, each from a reserved member of the metadata.
pub(super) const UNMAPPED: [(&str, &str); 2] =
    [("tool_calls", "perpend.tool_calls"), ("experiment_item_metadata", "perpend.item_metadata")];

/// Validates the content, the size and the roles of a prompt.
///
/// # Errors
/// 400 with the field.
pub(super) fn check_messages(field: &str, messages: &[PromptMessage]) -> Result<(), Problem> {
    if messages.iter().all(|message| message.content.trim().is_empty()) {
        return Err(Problem::body(field, "must not be empty"));
    }
    let n_bytes: usize = messages.iter().map(|message| message.content.len()).sum();
    if MAX_PROMPT_BYTES < n_bytes {
        let message = format!("must have at most {MAX_PROMPT_BYTES} bytes, got {n_bytes}");
        return Err(Problem::body(field, message));
    }
    for (at, message) in messages.iter().enumerate() {
        if !ROLES.contains(&message.role.as_str()) {
            let field = format!("{field}[{at}].role");
            return Err(Problem::body(&field, must_be_one_of(&ROLES, &message.role)));
        }
    }
    Ok(())
}

/// Fills in the prompt of a configuration with a reference; `false` when it has a prompt or no reference. The prompt
/// is copied: later changes in prompt management do not affect the evaluator.
///
/// # Errors
/// When the prompt does not exist, is empty, too long, or contains placeholders for messages.
pub(super) async fn fill(
    app: &App,
    project: &ProjectId,
    config: &mut Value,
) -> Result<bool, Problem> {
    let Some(members) = config.as_object_mut() else {
        return Ok(false);
    };
    let reference = members.get(REFERENCE).filter(|value| !value.is_null());
    let (Some(reference), false) = (reference, members.contains_key("prompt")) else {
        return Ok(false);
    };
    // Derived deserializers accept a list in the place of an object.
    let reference = from_value::<Map<String, Value>>(reference)
        .and_then(|members| from_value::<PromptRef>(&Value::Object(members)))
        .map_err(|problem| problem.in_member(REFERENCE))?;
    let found = referenced_prompt(app, project, &reference).await?;
    let resolved = prompts::resolve(app, project, &found.part()).await?;
    let body = resolved.map_or_else(|| found.body.clone(), |resolved| resolved.body);
    let messages = messages_of(&body)?;
    check_messages("promptRef", &messages)?;
    members.insert("prompt".to_owned(), json!(messages));
    let taken = json!({ "name": found.name, "version": found.version });
    members.insert(REFERENCE.to_owned(), taken);
    Ok(true)
}

async fn referenced_prompt(
    app: &App,
    project: &ProjectId,
    reference: &PromptRef,
) -> Result<Prompt, Problem> {
    let refused = |message: String| Problem::body("promptRef", message);
    let name = PromptName::new(&reference.name).map_err(|error| refused(error.to_string()))?;
    let selector = match reference.version {
        Some(version) => VersionSelector::Version(i64::from(version)),
        None => VersionSelector::Label(PRODUCTION.to_owned()),
    };
    let found = app.store.catalog.prompt(project, &name, &selector).await?;
    found.ok_or_else(|| {
        let which = match reference.version {
            Some(version) => format!("version {version}"),
            None => format!("version with the label {PRODUCTION:?}"),
        };
        refused(format!("the prompt {:?} has no {which}", reference.name))
    })
}

fn messages_of(body: &PromptBody) -> Result<Vec<PromptMessage>, Problem> {
    match body {
        PromptBody::Text(text) => Ok(vec![PromptMessage::user(text.clone())]),
        PromptBody::Chat(messages) => messages.iter().enumerate().map(message_of).collect(),
    }
}

fn message_of((at, message): (usize, &Map<String, Value>)) -> Result<PromptMessage, Problem> {
    let member = |name: &str| message.get(name)?.as_str().map(str::to_owned);
    match (member("role"), member("content")) {
        (Some(role), Some(content)) => Ok(PromptMessage { role, content }),
        _ => {
            let message = format!(
                "must refer to a prompt without placeholders for messages, which message {at} is"
            );
            let issue = Issue::new("promptRef", message);
            Err(Problem::issues(Code::Unprocessable, [issue]))
        }
    }
}

/// Refuses text between double braces that is not a valid variable name.
///
/// # Errors
/// Every placeholder with an invalid name.
pub(super) fn check_placeholders(config: &Value) -> Result<(), Problem> {
    let prompt = messages(config);
    let mut malformed: Vec<&str> = Vec::new();
    for message in &prompt {
        malformed.extend(template::malformed(&message.content));
    }
    if malformed.is_empty() {
        return Ok(());
    }
    let issues = malformed.iter().map(|placeholder| {
        let text = format!(
            "must have only variable names of A-Z, a-z, 0-9, `_` and `.` between double braces, got `{placeholder}`"
        );
        Issue::new("prompt", text)
    });
    let problem = Problem::issues(Code::MissingMapping, issues.collect::<Vec<_>>());
    Err(problem.with("field", "prompt").with("variables", json!(malformed)))
}

/// The names of the variables of a prompt, in order of first appearance.
pub(super) fn variables(prompt: &[PromptMessage]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for message in prompt {
        for name in template::names(&message.content) {
            if !found.iter().any(|known| known == name) {
                found.push(name.to_owned());
            }
        }
    }
    found
}

/// The prompt in a configuration of the judge.
pub(super) fn messages(config: &Value) -> Vec<PromptMessage> {
    match &config["prompt"] {
        Value::String(text) => vec![PromptMessage::user(text.clone())],
        list => serde_json::from_value(list.clone()).unwrap_or_default(),
    }
}

/// The variables of the prompt in a configuration of the judge.
pub(crate) fn variables_of(config: &Value) -> Vec<String> {
    variables(&messages(config))
}

/// Checks that each variable has exactly one entry, unless it is filled without one. An empty mapping fills the variables named after parts of an item.
///
/// # Errors
/// Every variable without an entry, and every entry without a variable.
pub(crate) fn check_mapping(
    field: &str,
    variables: &[String],
    mapping: &[Mapping],
) -> Result<(), Problem> {
    let is_filled = |name: &&String| match mapping.is_empty() {
        _ if UNMAPPED.iter().any(|(own, _)| *own == name.as_str()) => true,
        true => PARTS.contains(&name.as_str()),
        false => mapping.iter().any(|entry| entry.variable == **name),
    };
    let missing: Vec<_> = variables.iter().filter(|name| !is_filled(name)).collect();
    if !missing.is_empty() {
        let issues = missing.iter().map(|name| {
            Issue::new(field, format!("the variable `{name}` of the prompt is not mapped"))
        });
        let problem = Problem::issues(Code::MissingMapping, issues.collect::<Vec<_>>());
        return Err(problem.with("field", field).with("variables", json!(missing)));
    }
    for (at, entry) in mapping.iter().enumerate() {
        if !variables.contains(&entry.variable) {
            let field = format!("{field}[{at}]");
            let message = format!("the prompt has no variable `{}`", entry.variable);
            let problem = Problem::issues(Code::InvalidMapping, vec![Issue::new(&field, message)]);
            let problem = problem.with("field", field);
            return Err(problem.with("variable", entry.variable.clone()));
        }
    }
    Ok(())
}
