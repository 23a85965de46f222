//! Evaluators and their versions.

use perpend_domain::evaluation::{self, Fingerprint, Mapping};
use perpend_domain::ids::{EvaluatorId, EvaluatorVersionId, RuleId};
use perpend_domain::plugin::Digest;
use perpend_domain::slots::Slot;
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::any_json::AnyJson;

/// A new evaluator; the members depend on its type.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewEvaluator {
    /// `llm_as_judge`, `code` or `plugin`.
    #[serde(rename = "type")]
    pub kind: String,
    /// 1 to 200 characters.
    pub name: String,
    /// Free text.
    pub description: Option<String>,
    /// Of a plug-in: `vendor/name`, `vendor/name@version` or a digest.
    pub plugin: Option<String>,
    /// Of a plug-in: the id of the evaluator in it.
    pub evaluator: Option<String>,
    /// Of a plug-in: validated against the evaluator's JSON Schema.
    #[schema(value_type = Option<BTreeMap<String, AnyJson>>)]
    pub config: Option<Value>,
    /// Of a plug-in: the sources of its variables.
    pub variable_mapping: Option<Vec<Mapping>>,
    /// Of a plug-in: granted capabilities: `model`, `trace`. Required capabilities must be granted.
    pub grants: Option<Vec<String>>,
    /// Of a plug-in: its models. Omitted slots use the default evaluation model.
    pub slots: Option<Vec<Slot>>,
    /// Of a judge: text with `{{variables}}`, or a list of messages with `role` and `content`.
    #[schema(value_type = Option<Vec<PromptMessage>>)]
    pub prompt: Option<Value>,
    /// Of a judge: a prompt of prompt management, in place of `prompt`.
    pub prompt_ref: Option<PromptRef>,
    /// Of a judge: its model; the default evaluation model when absent.
    pub model_config: Option<ModelConfig>,
    /// Of a judge: the definition of its score.
    pub output_definition: Option<OutputDefinition>,
    /// Of code: the source of a function `evaluate(ctx)`, at most 256 KB.
    pub source_code: Option<String>,
    /// Of code: PYTHON, TYPESCRIPT or JAVASCRIPT.
    pub source_code_language: Option<String>,
}

/// A prompt of prompt management.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptRef {
    /// Its name.
    pub name: String,
    /// The version with the label `production` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// One message of a judge's prompt.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptMessage {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// Text with `{{variables}}`.
    pub content: String,
}

impl PromptMessage {
    /// A message of the user.
    #[must_use]
    pub fn user(content: String) -> Self {
        Self { role: "user".to_owned(), content }
    }
}

/// The data type of a judge's score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum JudgeDataType {
    /// A number.
    #[default]
    Numeric,
    /// True or false.
    Boolean,
    /// One or more of given categories.
    Categorical,
}

/// The definition of a judge's score.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputDefinition {
    /// The type of the score.
    pub data_type: JudgeDataType,
    /// Instructions for the reasoning before the score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub score_reasoning_instructions: Option<String>,
    /// Instructions for the score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub score_value_instructions: Option<String>,
    /// Of NUMERIC: the least score, inclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub min_value: Option<f64>,
    /// Of NUMERIC: the greatest score, inclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub max_value: Option<f64>,
    /// Of CATEGORICAL: two or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub categories: Option<Vec<String>>,
    /// Of CATEGORICAL: whether several may apply at once; each gives a score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub should_allow_multiple_matches: Option<bool>,
}

/// The definition of a judge's score in the configuration of the plug-in and for legacy clients.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NestedOutput {
    /// The type of the score.
    pub data_type: JudgeDataType,
    /// Instructions for the reasoning before the score.
    pub reasoning: NestedField,
    /// Instructions for the score.
    pub score: NestedScore,
}

/// Instructions for a member of the reply.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NestedField {
    /// The instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub description: Option<String>,
}

/// The score of a judge.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NestedScore {
    /// The instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub description: Option<String>,
    /// Of NUMERIC: the least score, inclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub min_value: Option<f64>,
    /// Of NUMERIC: the greatest score, inclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub max_value: Option<f64>,
    /// Of CATEGORICAL: two or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub categories: Option<Vec<String>>,
    /// Of CATEGORICAL: whether several may apply at once; each gives a score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub should_allow_multiple_matches: Option<bool>,
}

impl From<OutputDefinition> for NestedOutput {
    fn from(flat: OutputDefinition) -> Self {
        Self {
            data_type: flat.data_type,
            reasoning: NestedField { description: flat.score_reasoning_instructions },
            score: NestedScore {
                description: flat.score_value_instructions,
                min_value: flat.min_value,
                max_value: flat.max_value,
                categories: flat.categories,
                should_allow_multiple_matches: flat.should_allow_multiple_matches,
            },
        }
    }
}

impl From<NestedOutput> for OutputDefinition {
    fn from(nested: NestedOutput) -> Self {
        Self {
            data_type: nested.data_type,
            score_reasoning_instructions: nested.reasoning.description,
            score_value_instructions: nested.score.description,
            min_value: nested.score.min_value,
            max_value: nested.score.max_value,
            categories: nested.score.categories,
            should_allow_multiple_matches: nested.score.should_allow_multiple_matches,
        }
    }
}

/// The model of a judge.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ModelConfig {
    /// The name of a connection.
    pub provider: String,
    /// As the provider names it.
    pub model: String,
}

/// Additional members of an evaluator of type `llm_as_judge`; absent for other types.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Judge {
    /// A prompt sent as text is one user message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub prompt: Option<Vec<PromptMessage>>,
    /// The source of the prompt with its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub prompt_ref: Option<PromptRef>,
    /// Names of the prompt's placeholders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub variables: Option<Vec<String>>,
    /// Absent for the default evaluation model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub model_config: Option<ModelConfig>,
    /// The definition of its score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub output_definition: Option<OutputDefinition>,
}

/// Type-specific details of a version.
#[derive(Clone, Debug)]
pub enum EvaluatorDetails {
    /// A plug-in alone.
    Plugin,
    /// Source text.
    Code(EvaluatorSource),
    /// A judge.
    Judge(Judge),
}

/// A new evaluator for the legacy endpoint, which identifies evaluators by name; further members depend on its type.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewEvaluatorByName {
    /// An existing evaluator gets a new version.
    pub name: String,
    /// `llm_as_judge` (default) or `code`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Of a judge: text with `{{variables}}`.
    pub prompt: Option<String>,
    /// Of a judge: its model; the default evaluation model when absent.
    pub model_config: Option<ModelConfig>,
    /// Of a judge: the definition of its score.
    pub output_definition: Option<NestedOutput>,
    /// Of code: the source of a function `evaluate(ctx)`.
    pub source_code: Option<String>,
    /// Of code: PYTHON or TYPESCRIPT.
    pub source_code_language: Option<String>,
}

/// The plug-in of an evaluator.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EvaluatorPlugin {
    name: String,
    version: String,
    digest: Digest,
}

/// The definition of a version.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EvaluatorDefinition)]
pub struct Definition {
    /// `llm_as_judge`, `code` or `plugin`.
    #[serde(rename = "type")]
    kind: String,
    plugin: EvaluatorPlugin,
    /// The id of the evaluator in the plug-in.
    evaluator: String,
    /// Includes defaults.
    #[schema(value_type = BTreeMap<String, AnyJson>)]
    config: Value,
    variable_mapping: Vec<Mapping>,
    /// Granted capabilities.
    grants: Vec<String>,
    /// Its models. A slot without a model uses the default evaluation model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    slots: Vec<Slot>,
    fingerprint: Fingerprint,
    /// Of code: the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    source_code: Option<String>,
    /// Of code: PYTHON, TYPESCRIPT or JAVASCRIPT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    source_code_language: Option<String>,
}

/// Source text in a language.
#[derive(Clone, Debug)]
pub struct EvaluatorSource {
    /// The text.
    pub code: String,
    /// PYTHON, TYPESCRIPT or JAVASCRIPT.
    pub language: &'static str,
}

impl Definition {
    /// The definition of a version, with its judge.
    fn new(version: &evaluation::EvaluatorVersion, shown: EvaluatorDetails) -> (Self, Judge) {
        let (kind, source, judge) = match shown {
            EvaluatorDetails::Plugin => ("plugin", None, None),
            EvaluatorDetails::Code(source) => ("code", Some(source), None),
            EvaluatorDetails::Judge(judge) => ("llm_as_judge", None, Some(judge)),
        };
        let (code, language) = source.map(|it| (it.code, it.language)).unzip();
        let definition = Self {
            kind: kind.to_owned(),
            plugin: EvaluatorPlugin {
                name: version.plugin_name.clone(),
                version: version.plugin_version.clone(),
                digest: version.plugin,
            },
            evaluator: version.plugin_evaluator.clone(),
            config: version.config.clone(),
            variable_mapping: version.mapping.clone(),
            grants: version.grants.names().into_iter().map(str::to_owned).collect(),
            slots: version.slots.clone(),
            fingerprint: version.fingerprint,
            source_code: code,
            source_code_language: language.map(str::to_owned),
        };
        (definition, judge.unwrap_or_default())
    }
}

/// One version of an evaluator.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvaluatorVersion {
    id: EvaluatorVersionId,
    /// 1, 2, ...
    version: u32,
    created_at: Timestamp,
    #[serde(flatten)]
    definition: Definition,
    #[serde(flatten)]
    judge: Judge,
}

impl EvaluatorVersion {
    /// As stored.
    #[must_use]
    pub fn new(version: &evaluation::EvaluatorVersion, shown: EvaluatorDetails) -> Self {
        let (definition, judge) = Definition::new(version, shown);
        Self {
            id: version.id.clone(),
            version: version.number,
            created_at: version.created_at,
            definition,
            judge,
        }
    }
}

/// A rule that uses an evaluator.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvaluatorUse {
    /// The rule.
    pub evaluation_rule_id: RuleId,
    /// Overrides the mapping of the evaluator.
    pub variable_mapping_override: Option<Vec<Mapping>>,
}

/// The members common to all types of evaluators.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvaluatorSummary {
    id: EvaluatorId,
    name: String,
    description: Option<String>,
    /// `active` or `paused`.
    status: String,
    paused_at: Option<Timestamp>,
    /// A code such as `PLUGIN_FAILING`.
    paused_reason: Option<String>,
    /// Human-readable.
    paused_message: Option<String>,
    evaluation_rule_assignments: Vec<EvaluatorUse>,
    created_at: Timestamp,
    updated_at: Timestamp,
    version_id: EvaluatorVersionId,
    version: u32,
    version_created_at: Timestamp,
}

/// An evaluator with its newest version.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Evaluator {
    #[serde(flatten)]
    head: EvaluatorSummary,
    #[serde(flatten)]
    definition: Definition,
    #[serde(flatten)]
    judge: Judge,
}

impl Evaluator {
    /// As stored, with the rules that use it.
    #[must_use]
    pub fn new(
        evaluator: &evaluation::Evaluator,
        uses: Vec<EvaluatorUse>,
        shown: EvaluatorDetails,
    ) -> Self {
        let paused = evaluator.paused.as_ref();
        let version = &evaluator.version;
        let status = match paused {
            Some(_) => "paused",
            None => "active",
        };
        let head = EvaluatorSummary {
            id: evaluator.id.clone(),
            name: evaluator.name.clone(),
            description: evaluator.description.clone(),
            status: status.to_owned(),
            paused_at: paused.map(|pause| pause.at),
            paused_reason: paused.map(|pause| pause.reason.clone()),
            paused_message: paused.map(|pause| pause.message.clone()),
            evaluation_rule_assignments: uses,
            created_at: evaluator.created_at,
            updated_at: evaluator.updated_at,
            version_id: version.id.clone(),
            version: version.number,
            version_created_at: version.created_at,
        };
        let (definition, judge) = Definition::new(version, shown);
        Self { head, definition, judge }
    }
}

/// An evaluator with additional members for legacy clients.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvaluatorByName {
    #[serde(flatten)]
    head: EvaluatorSummary,
    evaluation_rule_count: usize,
    /// Of a judge: names of the prompt's placeholders.
    variables: Vec<String>,
    mapping: Vec<Mapping>,
    #[serde(flatten)]
    definition: Definition,
    #[serde(flatten)]
    judge: JudgeByName,
}

/// A judge for legacy clients; absent for other types.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JudgeByName {
    /// The texts of its messages, separated by empty lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    prompt: Option<String>,
    /// The definition of its score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    output_definition: Option<NestedOutput>,
    /// Absent for the default evaluation model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    model_config: Option<ModelConfig>,
}

impl From<Evaluator> for EvaluatorByName {
    fn from(evaluator: Evaluator) -> Self {
        let Evaluator { head, definition, judge } = evaluator;
        let text = |prompt: Vec<PromptMessage>| {
            let texts: Vec<String> = prompt.into_iter().map(|message| message.content).collect();
            texts.join("\n\n")
        };
        Self {
            evaluation_rule_count: head.evaluation_rule_assignments.len(),
            head,
            variables: judge.variables.unwrap_or_default(),
            mapping: definition.variable_mapping.clone(),
            definition,
            judge: JudgeByName {
                prompt: judge.prompt.map(text),
                output_definition: judge.output_definition.map(Into::into),
                model_config: judge.model_config,
            },
        }
    }
}
