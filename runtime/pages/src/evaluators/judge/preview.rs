//! The prompt of the form for a target or an item: the response of the operation that renders prompts.

use axum::http::Method;
use perpend_domain::telemetry::GroupKey;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    PromptMessageView, PromptPreview, Text, count, dollars, encode, href, segment,
};
use serde_json::{Map, Value, json};

use super::form::JudgeDefinition;
use super::picking::{PromptTarget, first_target};
use crate::evaluators::trial::{PROMPT, keep_first};
use crate::request::operations::call;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Characters of a part of a message.
const MAX_CHARS: usize = 20_000;

/// The target of a rendered prompt.
fn target_of(rendered: &Value) -> Option<PromptTarget> {
    let text = |member: &str| rendered[member].as_str().map(str::to_owned);
    Some((text("traceId")?, text("observationId")))
}

/// The first of the targets, whatever the prompt of the judge is.
pub(super) async fn resolved_target(
    app: &App,
    viewer: &Viewer,
    definition: &JudgeDefinition,
    mut body: Map<String, Value>,
) -> Option<PromptTarget> {
    let given = first_target(&body);
    if given.is_some() || !body.contains_key("recent") {
        return given;
    }
    keep_first(&mut body);
    let mut probe = definition.with_input_as_prompt().body();
    probe["name"] = json!("draft");
    body.insert("evaluator".to_owned(), probe);
    body.insert("onMissing".to_owned(), json!("empty"));
    // The problem of the definition itself is shown.
    let rendered = call(app, viewer, (Method::POST, PROMPT), &Value::Object(body)).await;
    target_of(&rendered.ok()?)
}

/// Renders the prompt for the first of the targets. `body` has the targets or the item.
pub(super) async fn preview(
    app: &App,
    viewer: &Viewer,
    definition: &Value,
    mut body: Map<String, Value>,
) -> Result<(PromptPreview, Option<PromptTarget>), Problem> {
    keep_first(&mut body);
    body.insert("evaluator".to_owned(), definition.clone());
    body.insert("onMissing".to_owned(), json!("empty"));
    let rendered = call(app, viewer, (Method::POST, PROMPT), &Value::Object(body)).await;
    rendered.map(|rendered| (view(&rendered, &viewer.base()), target_of(&rendered)))
}

fn view(rendered: &Value, base: &str) -> PromptPreview {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let number = |member: &str| rendered[member].as_u64().unwrap_or_default();
    let cost = rendered["costUsd"].as_f64();
    PromptPreview {
        target: target_link(rendered, base),
        problem: rendered["errorMessage"].as_str().map(Text::from),
        messages: list(&rendered["messages"])
            .iter()
            .map(|message| PromptMessageView {
                role: Text::from(text(&message["role"])),
                parts: list(&message["parts"])
                    .iter()
                    .map(|part| {
                        let variable = part["variable"].as_str().map(Text::from);
                        (variable, shortened(text(&part["text"])))
                    })
                    .collect(),
            })
            .collect(),
        missing: list(&rendered["missingVariables"])
            .iter()
            .map(|name| Text::from(text(name)))
            .collect(),
        has_marks: rendered["fence"] == true,
        models: list(&rendered["models"])
            .iter()
            .map(|model| {
                Text::from(format!("{} {}", text(&model["provider"]), text(&model["model"])))
            })
            .collect(),
        facts: vec![
            ("Tokens of the prompt, about", count(number("inputTokens"))),
            ("Tokens of a reply, assumed", count(number("outputTokens"))),
            ("Requests of an evaluation", count(number("requests"))),
            (
                "Cost of an evaluation, about",
                cost.map_or_else(|| "? (price unknown)".to_owned(), dollars),
            ),
        ],
    }
}

/// Id and URL of the target.
fn target_link(rendered: &Value, base: &str) -> Option<(Text, String)> {
    let text = |member: &str| rendered[member].as_str();
    if let Some(session) = text("sessionId") {
        return Some((Text::from(session), href(base, GroupKey::Session, session)));
    }
    let trace = text("traceId")?;
    let of_trace = format!("{base}/traces/{}", segment(trace));
    Some(match text("observationId") {
        Some(id) => (Text::from(id), format!("{of_trace}?observation={}", encode(id))),
        None => (Text::from(trace), of_trace),
    })
}

fn shortened(text: String) -> Text {
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => {
            let n_left = text.len() - end;
            Text::lines(format!("{}… [{} more bytes]", &text[..end], count(n_left as u64)))
        }
        None => Text::lines(text),
    }
}
