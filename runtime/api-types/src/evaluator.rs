//! An evaluator, with its newest version or a version alone.

use perpend_domain::evaluation::{self, Fingerprint, Mapping};
use perpend_domain::ids::{EvaluatorId, EvaluatorVersionId, RuleId};
use perpend_domain::plugin::Digest;
use perpend_domain::slots::Slot;
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// An evaluator as clients send it; which members there are follows from its type.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewEvaluator {
    /// `llm_as_judge`, `code` or `plugin`.
    #[serde(rename = "type")]
    pub kind: String,
    /// 1 to 200 characters.
    pub name: String,
    /// For people.
    pub description: Option<String>,
    /// Of a plug-in: `vendor/name`, `vendor/name@version` or a digest.
    pub plugin: Option<String>,
    /// Of a plug-in: the id of the evaluator in it.
    pub evaluator: Option<String>,
    /// Of a plug-in: checked against the evaluator's JSON Schema.
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    pub config: Option<Value>,
    /// Of a plug-in: where its variables come from.
    pub variable_mapping: Option<Vec<Mapping>>,
    /// Of a plug-in: capabilities it may use: `model`, `trace`. What the evaluator cannot do without has to be
    /// here.
    pub grants: Option<Vec<String>>,
    /// Of a plug-in: its models. Slots that are left out ask the default evaluation model.
    pub slots: Option<Vec<Slot>>,
    /// Of a judge: text with `{{variables}}`, or a list of messages with `role` and `content`.
    #[schema(value_type = Option<Vec<PromptMessage>>)]
    pub prompt: Option<Value>,
    /// Of a judge: a prompt of prompt management, in place of `prompt`.
    pub prompt_ref: Option<PromptRef>,
    /// Of a judge: its model; the default evaluation model when absent.
    pub model_config: Option<ModelConfig>,
    /// Of a judge: what it answers with.
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
    /// The version in production when absent.
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

/// What a judge's score is.
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

/// What a judge answers with.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputDefinition {
    /// The type of the score.
    pub data_type: JudgeDataType,
    /// What the model is told about the reasoning that it gives before the score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub score_reasoning_instructions: Option<String>,
    /// What the model is told about the score.
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
    /// Of CATEGORICAL: whether several may hold at once; each gives a score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub should_allow_multiple_matches: Option<bool>,
}

/// What a judge answers with, as the configuration of the plug-in and older clients write it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NestedOutput {
    /// The type of the score.
    pub data_type: JudgeDataType,
    /// What the model is told about the reasoning that it gives before the score.
    pub reasoning: NestedField,
    /// What the model is told about the score.
    pub score: NestedScore,
}

/// What the model is told about a member of its answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NestedField {
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub description: Option<String>,
}

/// The score of a judge.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NestedScore {
    /// In words.
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
    /// Of CATEGORICAL: whether several may hold at once; each gives a score.
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

/// What an evaluator of type `llm_as_judge` shows besides; of other types nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Judge {
    /// A prompt that was sent as text is one message of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub prompt: Option<Vec<PromptMessage>>,
    /// Where the prompt was taken from, in that version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub prompt_ref: Option<PromptRef>,
    /// Names of the prompt's placeholders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub variables: Option<Vec<String>>,
    /// Absent where the project's default evaluation model judges, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub model_config: Option<ModelConfig>,
    /// What it answers with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub output_definition: Option<OutputDefinition>,
}

/// What a version is shown as, besides a plug-in.
#[derive(Clone, Debug)]
pub enum EvaluatorDetails {
    /// A plug-in alone.
    Plugin,
    /// Source text.
    Code(EvaluatorSource),
    /// A judge.
    Judge(Judge),
}

/// An evaluator to be made by the endpoint that takes the name for the identity; further members follow from its
/// type.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewEvaluatorByName {
    /// One that exists gets its next version.
    pub name: String,
    /// `llm_as_judge`, which is meant when it is absent, or `code`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Of a judge: text with `{{variables}}`.
    pub prompt: Option<String>,
    /// Of a judge: its model; the default evaluation model when absent.
    pub model_config: Option<ModelConfig>,
    /// Of a judge: what it answers with.
    pub output_definition: Option<NestedOutput>,
    /// Of code: the source of a function `evaluate(ctx)`.
    pub source_code: Option<String>,
    /// Of code: PYTHON or TYPESCRIPT.
    pub source_code_language: Option<String>,
}

/// A plug-in as an evaluator names it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EvaluatorPlugin {
    name: String,
    version: String,
    digest: Digest,
}

/// What a version says about how it scores.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EvaluatorDefinition)]
pub struct Definition {
    /// `llm_as_judge`, `code` or `plugin`.
    #[serde(rename = "type")]
    kind: String,
    plugin: EvaluatorPlugin,
    /// Which evaluator of the plug-in.
    evaluator: String,
    /// Defaults filled in.
    #[schema(value_type = BTreeMap<String, Value>)]
    config: Value,
    variable_mapping: Vec<Mapping>,
    /// Capabilities it may use.
    grants: Vec<String>,
    /// Its models, where it asks any. A slot without a model asks the project's default evaluation model.
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
    /// Of a version, with what it shows as a judge.
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
    /// The mapping that it uses instead of the evaluator's own.
    pub variable_mapping_override: Option<Vec<Mapping>>,
}

/// What an evaluator is, whatever it is made of.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvaluatorSummary {
    id: EvaluatorId,
    name: String,
    description: Option<String>,
    /// `active` or `paused`.
    status: String,
    paused_at: Option<Timestamp>,
    /// For programs, such as `PLUGIN_FAILING`.
    paused_reason: Option<String>,
    /// For people.
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

/// An evaluator with the members that older clients read beside.
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

/// A judge as older clients read it; of other types nothing.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JudgeByName {
    /// The text of its messages, one below the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    prompt: Option<String>,
    /// What it answers with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    output_definition: Option<NestedOutput>,
    /// Absent where the project's default evaluation model judges, too.
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
