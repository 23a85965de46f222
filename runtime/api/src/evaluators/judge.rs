//! `type: "llm_as_judge"`: a prompt and the kind of answer that is wanted, which the plug-in `perpend/judge` runs.

use perpend_api_types::evaluator::{
    Judge, ModelConfig, NestedOutput, OutputDefinition, PromptMessage, PromptRef,
};
use perpend_domain::evaluation::{JUDGE_EVALUATOR, JUDGES, Mapping};
use perpend_domain::slots::{ModelChoice, ModelLimits, Slot};
use perpend_http_kit::extract::object;
use perpend_http_kit::problem::Problem;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::definition::Definition;
use super::prompt::{check_mapping, check_messages, messages, variables};

/// The slot of the judge that every definition fills.
const SLOT: &str = "judge";

/// A judge as clients of the compat API send it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct JudgeInput {
    /// Text, which is one user message, or a list of messages.
    #[schema(value_type = Option<Object>)]
    prompt: Option<Prompt>,
    /// A prompt of prompt management. With `prompt` beside it, as an evaluator is shown, that is asked with.
    #[serde(default, deserialize_with = "object")]
    prompt_ref: Option<PromptRef>,
    /// `None`: the project's default evaluation model.
    model_config: Option<ModelInput>,
    #[serde(alias = "mapping")]
    #[schema(value_type = Option<Vec<Object>>)]
    variable_mapping: Option<Vec<Mapping>>,
    #[schema(value_type = OutputDefinition)]
    output_definition: Output,
    /// Enclose inserted values in marks and tell the model that the text between them is data. `true` when absent.
    fence: Option<bool>,
    #[schema(value_type = Option<Object>)]
    limits: Option<ModelLimits>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a text, or a list of messages with role and content")]
enum Prompt {
    Text(String),
    Messages(Vec<PromptMessage>),
}

/// Both spellings of what a judge answers with.
#[derive(Debug)]
struct Output(NestedOutput);

impl<'de> Deserialize<'de> for Output {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        let is_nested = value.get("score").is_some() || value.get("reasoning").is_some();
        let read = match is_nested {
            true => serde_json::from_value(value).map(Self),
            false => {
                serde_json::from_value::<OutputDefinition>(value).map(|flat| Self(flat.into()))
            }
        };
        read.map_err(D::Error::custom)
    }
}

/// A model, named by the connection it is reached through.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ModelInput {
    provider: String,
    model: String,
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    params: Map<String, Value>,
}

impl JudgeInput {
    /// The plug-in evaluator that judges.
    ///
    /// # Errors
    /// When the prompt is empty or too long, or the mapping does not fill its variables.
    pub(super) fn definition(self) -> Result<Definition, Problem> {
        let mut config = json!({
            "output": self.output_definition.0,
            "fence": self.fence.unwrap_or(true),
        });
        if let Some(reference) = &self.prompt_ref {
            config["prompt_ref"] = json!(reference);
        }
        match self.prompt {
            Some(prompt) => {
                let prompt = prompt.messages()?;
                if let Some(mapping) = &self.variable_mapping {
                    check_mapping("variableMapping", &variables(&prompt), mapping)?;
                }
                config["prompt"] = json!(prompt);
            }
            None if self.prompt_ref.is_some() => {}
            None => {
                let message = "prompt or promptRef is expected";
                return Err(Problem::body("prompt", message));
            }
        }
        let model = self.model_config.map(|model| ModelChoice {
            provider: model.provider,
            model: model.model,
            params: model.params,
        });
        let slot = Slot { name: SLOT.to_owned(), model, limits: self.limits.unwrap_or_default() };
        let definition = Definition::of(JUDGES, JUDGE_EVALUATOR, config);
        Ok(definition.with_models(vec![slot], self.variable_mapping))
    }
}

impl Prompt {
    fn messages(self) -> Result<Vec<PromptMessage>, Problem> {
        let messages = match self {
            Self::Text(content) => vec![PromptMessage::user(content)],
            Self::Messages(messages) => messages,
        };
        check_messages("prompt", &messages)?;
        Ok(messages)
    }
}

/// How the configuration of a judge reads over REST.
pub(super) fn view(config: &Value, slots: &[Slot]) -> Judge {
    let prompt = messages(config);
    let prompt_ref = PromptRef::deserialize(&config["prompt_ref"]).ok();
    let output = NestedOutput::deserialize(&config["output"]).ok();
    let model = slots.iter().find(|slot| slot.name == SLOT);
    let model = model.and_then(|slot| slot.model.as_ref());
    Judge {
        variables: Some(variables(&prompt)),
        prompt: Some(prompt),
        prompt_ref,
        model_config: model.map(|choice| ModelConfig {
            provider: choice.provider.clone(),
            model: choice.model.clone(),
        }),
        output_definition: output.map(Into::into),
    }
}
