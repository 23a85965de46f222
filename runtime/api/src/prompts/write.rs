//! New versions of prompts.

use axum::extract::State;
use perpend_catalog::prompts::{NewPrompt, Prompt};
use perpend_domain::prompt::compose::IncludedPrompt;
use perpend_domain::prompt::{
    InvalidPrompt, LATEST, MAX_COMMIT_MESSAGE_CHARS, PRODUCTION, PromptBody, PromptKind,
    PromptName, check_label,
};
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, must_be_one_of};
use perpend_http_kit::problem::Problem;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::view::PromptView;
use super::{compose, view};
use crate::state::App;

/// Most labels or tags of one request.
const MAX_LIST: usize = 100;
const MAX_TAG_CHARS: usize = 200;
/// Most prompts that a prompt includes directly.
const MAX_REFERENCES: usize = 100;

/// A new version of a prompt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptInput {
    /// 1 to 255 characters; `/` separates folders.
    name: String,
    /// `text` or `chat`; `text` when absent.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// A string, or an array of messages and placeholders.
    prompt: Value,
    /// Any JSON value.
    config: Option<Value>,
    labels: Option<Vec<String>>,
    /// Tags of the prompt; unchanged when absent.
    tags: Option<Vec<String>>,
    commit_message: Option<String>,
}

/// A new version of a prompt (v1).
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OldPromptInput {
    name: String,
    prompt: String,
    /// Whether the version gets the label `production`.
    is_active: Option<bool>,
    config: Option<Value>,
    labels: Option<Vec<String>>,
    tags: Option<Vec<String>>,
}

/// Converts an error to a problem of a field.
fn at(field: &'static str) -> impl Fn(InvalidPrompt) -> Problem {
    move |error| Problem::body(field, error.to_string())
}

/// Validates labels.
pub(super) fn check_labels(field: &'static str, labels: &[String]) -> Result<(), Problem> {
    if MAX_LIST < labels.len() {
        let message = format!("must contain at most {MAX_LIST} labels, got {}", labels.len());
        return Err(Problem::body(field, message));
    }
    labels.iter().try_for_each(|label| check_label(label)).map_err(at(field))
}

fn check_tags(tags: &[String]) -> Result<(), Problem> {
    let fits = |tag: &String| {
        (1..=MAX_TAG_CHARS).contains(&tag.chars().count()) && !tag.chars().any(char::is_control)
    };
    if tags.len() <= MAX_LIST && tags.iter().all(fits) {
        return Ok(());
    }
    let message = format!(
        "must contain at most {MAX_LIST} tags of 1 to {MAX_TAG_CHARS} characters, without control characters"
    );
    Err(Problem::body("tags", message))
}

impl PromptInput {
    fn check(self, id: String) -> Result<NewPrompt, Problem> {
        let name = PromptName::new(&self.name).map_err(at("name"))?;
        let kind = match self.kind.as_deref() {
            None | Some("text") => PromptKind::Text,
            Some("chat") => PromptKind::Chat,
            Some(other) => {
                return Err(Problem::body("type", must_be_one_of(&["text", "chat"], other)));
            }
        };
        let body = PromptBody::parse(kind, self.prompt).map_err(at("prompt"))?;
        let references = body.references().map_err(at("prompt"))?;
        if MAX_REFERENCES < references.len() {
            let message = format!("must include at most {MAX_REFERENCES} other prompts");
            return Err(Problem::body("prompt", message));
        }
        let labels = self.labels.unwrap_or_default();
        check_labels("labels", &labels)?;
        self.tags.as_deref().map_or(Ok(()), check_tags)?;
        let message_chars = self.commit_message.as_ref().map_or(0, |text| text.chars().count());
        if MAX_COMMIT_MESSAGE_CHARS < message_chars {
            let message = format!("must have at most {MAX_COMMIT_MESSAGE_CHARS} characters");
            return Err(Problem::body("commitMessage", message));
        }
        Ok(NewPrompt {
            id,
            name,
            body,
            references,
            config: self.config.unwrap_or_else(|| json!({})),
            labels: labels.into_iter().filter(|label| label != LATEST).collect(),
            tags: self.tags,
            commit_message: self.commit_message,
            created_by: "API".to_owned(),
        })
    }
}

async fn create(app: &App, caller: &Act, input: PromptInput) -> Result<Prompt, Problem> {
    let new = input.check(app.web.ids.uuid().to_string())?;
    if !new.references.is_empty() {
        let root = IncludedPrompt {
            id: new.id.clone(),
            name: new.name.to_string(),
            version: 0,
            body: new.body.clone(),
        };
        compose::resolve(app, &caller.project, &root).await?;
    }
    let made = app.store.catalog.create_prompt(&caller.project, &new, app.web.clock.now()).await;
    made.map_err(|error| match error {
        perpend_db::Error::Conflict(what) => Problem::body("type", what),
        error => error.into(),
    })
}

pub(super) async fn create_prompt(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<PromptInput>,
) -> Result<Answer<PromptView, 201>, Problem> {
    let prompt = create(&app, &caller, input).await?;
    Ok(Answer(view::prompt(&caller.project, &prompt, None)))
}

pub(super) async fn create_old_prompt(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<OldPromptInput>,
) -> Result<Answer<PromptView>, Problem> {
    let mut labels = input.labels.unwrap_or_default();
    if input.is_active == Some(true) && labels.iter().all(|label| label != PRODUCTION) {
        labels.push(PRODUCTION.to_owned());
    }
    let input = PromptInput {
        name: input.name,
        kind: None,
        prompt: input.prompt.into(),
        config: input.config,
        labels: Some(labels),
        tags: input.tags,
        commit_message: None,
    };
    let prompt = create(&app, &caller, input).await?;
    Ok(Answer(view::prompt(&caller.project, &prompt, None)))
}
