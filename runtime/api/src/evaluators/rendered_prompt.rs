//! The prompt of a judge for a target or an item, without a call of a model.
//!
//! The plug-in adds marks around inserted values and may shorten them; the estimate includes the marks.

use std::collections::BTreeMap;

use axum::extract::State;
use perpend_api_types::evaluator::{ModelConfig, PromptMessage};
use perpend_api_types::rendered_prompt::{RenderedMessage, RenderedPart, RenderedPrompt};
use perpend_api_types::trial::{TrialInput, TrialItem};
use perpend_domain::access::Permission::EvaluatorWrite;
use perpend_domain::evaluation::{AttemptFailure, EvaluatorVersion, JUDGES, NoCallReason, Target};
use perpend_domain::ids::ProjectId;
use perpend_domain::observation::Usage;
use perpend_domain::slots::ModelChoice;
use perpend_domain::template::{self, TemplatePart};
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::Body;
use perpend_http_kit::problem::{Code, Issue, Problem};
use perpend_http_kit::reading;
use perpend_http_kit::routes::Operation;
use perpend_scheduler::TrialSubject;
use serde_json::{Map, Value};

use super::prompt::{UNMAPPED, messages};
use super::trial::{CheckedTrial, checked_trial, trial_item};
use crate::model_calls::{BYTES_PER_TOKEN, OUTPUT_TOKENS};
use crate::state::{App, Routes};

const PROMPT: &str = "/api/v1/evaluations/prompt";
/// Most bytes of a rendered prompt.
const MAX_BYTES: usize = 16 << 20;
/// Bytes of the marks around a value, and of the sentence about marks.
const MARK_BYTES: usize = 58;
const RULE_BYTES: usize = 190;
/// Tool calls of an exploration if the configuration sets no number.
const EXPLORE_CALLS: u32 = 32;
/// Members of the metadata that the server adds.
const RESERVED: &str = "perpend.";

pub(super) fn routes(routes: &mut Routes) {
    let render = Operation::post(
        "renderPrompt",
        PROMPT,
        "Render the prompt of a judge for a target or an item, and estimate its cost, without calling a model",
        EvaluatorWrite,
    );
    routes.add(render.body::<TrialInput>().unrecorded(), render_prompt);
}

/// The body is that of a trial with one target or an item.
async fn render_prompt(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<TrialInput>,
) -> Result<Answer<RenderedPrompt>, Problem> {
    let project = &caller.project;
    let CheckedTrial { evaluator, subjects, on_missing } =
        checked_trial(&app, project, &input).await?;
    let version = evaluator.version.clone();
    if version.plugin_name != JUDGES {
        let field = if input.evaluator.is_some() { "evaluator" } else { "evaluatorId" };
        let message = format!("must be a judge, got an evaluator of {}", version.plugin_name);
        return Err(Problem::issues(Code::Unprocessable, vec![Issue::new(field, message)]));
    }
    let on = subjects.resolve(&app, project).await?;
    let n_targets = on.len();
    let subject = match <[TrialSubject; 1]>::try_from(on) {
        Ok([subject]) => Some(subject),
        Err(_) if n_targets == 0 => None,
        Err(_) => {
            let message = format!("must contain 1 target, got {n_targets}");
            return Err(Problem::body("targets", message));
        }
    };
    let target = match &subject {
        Some(TrialSubject::Target(target)) => Some(target.clone()),
        _ => None,
    };
    let mapping = input.variable_mapping.as_deref();
    let item = match subject {
        Some(subject) => {
            let item = app.scheduler.item(project, evaluator, (subject, mapping), on_missing);
            reading::limited(&app.web, project, item).await?
        }
        None => Err(AttemptFailure::new(
            NoCallReason::TargetMissing,
            "no complete target of the last seven days matches the filter",
        )),
    };
    let prompt = match item {
        Err(failure) => RenderedPrompt {
            fence: is_fenced(&version.config),
            error_class: Some(failure.class.as_str().to_owned()),
            error_message: Some(failure.message),
            ..RenderedPrompt::default()
        },
        Ok(item) => rendered(&app, project, &version, trial_item(item)).await?,
    };
    let target = target.as_ref();
    Ok(Answer(RenderedPrompt {
        trace_id: target.and_then(Target::trace).cloned(),
        observation_id: target.and_then(Target::observation).cloned(),
        session_id: target.and_then(Target::session).cloned(),
        ..prompt
    }))
}

async fn rendered(
    app: &App,
    project: &ProjectId,
    version: &EvaluatorVersion,
    item: TrialItem,
) -> Result<RenderedPrompt, Problem> {
    let config = &version.config;
    let prompt = messages(config);
    let values = values(&prompt, &item);
    let n_bytes = length(&prompt, &values, config);
    if MAX_BYTES < n_bytes {
        let message = format!("must render to at most {MAX_BYTES} bytes, got {n_bytes}");
        return Err(Problem::issues(Code::Unprocessable, vec![Issue::new("prompt", message)]));
    }
    let models = models(app, project, version).await?;
    let per_model = votes(config, "repeats") * if config["swap"].is_array() { 2 } else { 1 };
    let limit = config["max_output_tokens"].as_u64().unwrap_or(u64::MAX);
    let input_tokens = (n_bytes as u64).div_ceil(BYTES_PER_TOKEN);
    let exploration = Exploration::of(config, input_tokens);
    let per_model = per_model.saturating_mul(exploration.map_or(1, |each| each.n_requests));
    let mut prompt_view = RenderedPrompt {
        fence: is_fenced(config),
        requests: per_model.saturating_mul(votes(config, "models")),
        input_tokens,
        output_tokens: OUTPUT_TOKENS.min(limit),
        ..RenderedPrompt::default()
    };
    let usage = Usage::from([
        ("input".to_owned(), exploration.map_or(input_tokens, |each| each.max_tokens).into()),
        ("output".to_owned(), prompt_view.output_tokens.into()),
    ]);
    let now = app.web.clock.now();
    let prices = app.prices.of(&app.store.catalog, project, now).await?;
    let costs = models.iter().map(|model| prices.cost_of_call(&model.model, &usage, now));
    let cost: Option<f64> = costs.sum();
    prompt_view.cost_usd = cost.map(|cost| cost * f64::from(per_model));
    prompt_view.messages =
        prompt.iter().map(|message| rendered_message(message, &values)).collect();
    let missing = values.iter().filter(|(_, text)| text.is_empty());
    prompt_view.missing_variables = missing.map(|(name, _)| name.clone()).collect();
    prompt_view.models = models;
    prompt_view.item = Some(item);
    Ok(prompt_view)
}

/// The requests of a judge that explores the trace of its item, because the prompt is too long.
#[derive(Clone, Copy, Debug)]
struct Exploration {
    /// A request for each tool call, and one for the answer.
    n_requests: u32,
    /// Most input tokens of a request.
    max_tokens: u64,
}

impl Exploration {
    fn of(config: &Value, input_tokens: u64) -> Option<Self> {
        let max_tokens = config["max_input_tokens"].as_u64()?;
        if config["large"] != "explore" || input_tokens <= max_tokens {
            return None;
        }
        let n_calls = config["explore"]["max_calls"].as_u64();
        let n_calls = n_calls.and_then(|n| u32::try_from(n).ok()).unwrap_or(EXPLORE_CALLS);
        Some(Self { n_requests: n_calls.saturating_add(1), max_tokens })
    }
}

fn is_fenced(config: &Value) -> bool {
    config["fence"] != false
}

/// A number of the panel.
fn votes(config: &Value, member: &str) -> u32 {
    let n = config["panel"][member].as_u64().and_then(|n| u32::try_from(n).ok());
    n.unwrap_or(1).max(1)
}

/// The models of the panel; slots without a model have the default evaluation model.
async fn models(
    app: &App,
    project: &ProjectId,
    version: &EvaluatorVersion,
) -> Result<Vec<ModelConfig>, Problem> {
    let default = app.store.catalog.default_model(project).await?;
    let model_of = |at: u32| -> Option<&ModelChoice> {
        let name = if at == 1 { "judge".to_owned() } else { format!("judge-{at}") };
        let slot = version.slots.iter().find(|slot| slot.name == name);
        slot.and_then(|slot| slot.model.as_ref()).or(default.as_ref())
    };
    let all = (1..=votes(&version.config, "models")).filter_map(model_of);
    let all = all.map(|choice| ModelConfig {
        provider: choice.provider.clone(),
        model: choice.model.clone(),
    });
    Ok(all.collect())
}

/// The texts of the variables of a prompt.
fn values(prompt: &[PromptMessage], item: &TrialItem) -> BTreeMap<String, String> {
    let names = prompt.iter().flat_map(|message| template::names(&message.content));
    names.map(|name| (name.to_owned(), value_text(name, item))).collect()
}

fn value_text(name: &str, item: &TrialItem) -> String {
    let metadata = item.metadata.as_ref();
    match name {
        "input" => text(item.input.as_ref()),
        "output" => text(item.output.as_ref()),
        "expected_output" => text(item.expected_output.as_ref()),
        "metadata" => {
            let own = metadata.into_iter().flatten();
            let own = own.filter(|(member, _)| !member.starts_with(RESERVED));
            let own: Map<String, Value> =
                own.map(|(member, value)| (member.clone(), value.clone())).collect();
            if own.is_empty() { String::new() } else { Value::Object(own).to_string() }
        }
        _ => {
            let reserved = UNMAPPED.iter().find(|(variable, _)| *variable == name);
            let reserved = reserved.and_then(|(_, member)| metadata?.get(*member));
            text(item.variables.get(name).or(reserved))
        }
    }
}

/// A value in a prompt, as the plug-in inserts it.
fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn rendered_message(message: &PromptMessage, values: &BTreeMap<String, String>) -> RenderedMessage {
    let part = |part: TemplatePart<'_>| match part {
        TemplatePart::Text(text) => RenderedPart { variable: None, text: text.to_owned() },
        TemplatePart::Variable { name, .. } => RenderedPart {
            variable: Some(name.to_owned()),
            text: values.get(name).cloned().unwrap_or_default(),
        },
    };
    let parts = template::parts(&message.content).map(part).collect();
    RenderedMessage { role: message.role.clone(), parts }
}

/// Bytes of the prompt with its marks.
fn length(prompt: &[PromptMessage], values: &BTreeMap<String, String>, config: &Value) -> usize {
    let trusted = config["trusted"].as_array().map(Vec::as_slice).unwrap_or_default();
    let (mut n_bytes, mut has_marks) = (0_usize, false);
    for part in prompt.iter().flat_map(|message| template::parts(&message.content)) {
        let n_added = match part {
            TemplatePart::Text(text) => text.len(),
            TemplatePart::Variable { name, .. } => {
                let is_marked = is_fenced(config) && trusted.iter().all(|own| own != name);
                has_marks |= is_marked;
                let n_marks = if is_marked { MARK_BYTES } else { 0 };
                values.get(name).map_or(0, String::len) + n_marks
            }
        };
        n_bytes = n_bytes.saturating_add(n_added);
    }
    if has_marks { n_bytes.saturating_add(RULE_BYTES) } else { n_bytes }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_prompt_that_is_too_long_is_explored_with_a_request_per_call() {
        let config = json!({ "large": "explore", "max_input_tokens": 100 });
        let n_requests = |config: &Value, n_tokens| {
            Exploration::of(config, n_tokens).map(|each| each.n_requests)
        };
        assert_eq!(n_requests(&config, 100), None);
        assert_eq!(n_requests(&config, 101), Some(33));
        let few =
            json!({ "large": "explore", "max_input_tokens": 100, "explore": { "max_calls": 4 } });
        assert_eq!(n_requests(&few, 101), Some(5));
        let digest = json!({ "large": "digest", "max_input_tokens": 100 });
        assert_eq!(n_requests(&digest, 101), None);
    }

    #[test]
    fn values_are_inserted_once_and_reserved_metadata_is_not_shown() {
        let item = TrialItem {
            output: Some(json!("{{input}}")),
            metadata: json!({ "team": "x", "perpend.tool_calls": [1] }).as_object().cloned(),
            ..TrialItem::default()
        };
        let prompt =
            [PromptMessage::user("{{output}}|{{metadata}}|{{tool_calls}}|{{input}}".to_owned())];
        let values = values(&prompt, &item);
        let message = rendered_message(&prompt[0], &values);
        let text: String = message.parts.iter().map(|part| part.text.as_str()).collect();
        assert_eq!(text, r#"{{input}}|{"team":"x"}|[1]|"#);
        let missing: Vec<_> = values.iter().filter(|(_, text)| text.is_empty()).collect();
        assert_eq!(missing.len(), 1, "{missing:?}");
        let without = length(&prompt, &values, &json!({ "fence": false }));
        assert_eq!(without, text.len());
        assert!(without < length(&prompt, &values, &json!({})));
    }
}
