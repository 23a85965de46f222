//! `type: "llm_as_judge"`: a prompt and a definition of the output, run by the plug-in `perpend/judge`.

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

/// Model slot of the judge.
const SLOT: &str = "judge";

/// A judge in the form of the compat API.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct JudgeInput {
    /// A string, which is one user message, or a list of messages.
    #[schema(value_type = Option<Object>)]
    prompt: Option<Prompt>,
    /// A prompt of prompt management. `prompt` takes precedence, as in the response of an evaluator.
    #[serde(default, deserialize_with = "object")]
    prompt_ref: Option<PromptRef>,
    /// The model; the default evaluation model of the project when absent.
    model_config: Option<ModelInput>,
    #[serde(alias = "mapping")]
    #[schema(value_type = Option<Vec<Object>>)]
    variable_mapping: Option<Vec<Mapping>>,
    #[schema(value_type = OutputDefinition)]
    output_definition: Output,
    /// Whether inserted values are enclosed in marks and declared as data to the model; true when absent.
    fence: Option<bool>,
    #[schema(value_type = Option<Object>)]
    limits: Option<ModelLimits>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a string, or a list of messages with role and content")]
enum Prompt {
    Text(String),
    Messages(Vec<PromptMessage>),
}

/// Both forms of an output definition.
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

/// A model of an LLM connection.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = JudgeModelInput)]
struct ModelInput {
    provider: String,
    model: String,
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    params: Map<String, Value>,
}

impl JudgeInput {
    /// Converts the judge to a definition of the plug-in evaluator.
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
                let message = "prompt or promptRef is required";
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

/// The response for a judge.
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
