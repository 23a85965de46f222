//! An evaluator, with its newest version or a version alone.

use perpend_domain::evaluation::{self, Fingerprint, Mapping};
use perpend_domain::ids::{EvaluatorId, EvaluatorVersionId, RuleId};
use perpend_domain::plugin::Digest;
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// An evaluator as clients send it; which members there are follows from its type.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewEvaluator {
    /// `code` or `plugin`.
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
    /// Of code: the source of a function `evaluate(ctx)`, at most 256 KB.
    pub source_code: Option<String>,
    /// Of code: PYTHON, TYPESCRIPT or JAVASCRIPT.
    pub source_code_language: Option<String>,
}

/// An evaluator to be made by the endpoint that takes the name for the identity; further members follow from its
/// type.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewEvaluatorByName {
    /// One that exists gets its next version.
    pub name: String,
    /// `code` or `plugin`. Older clients leave it out and mean `llm_as_judge`, which this server does not run.
    #[serde(rename = "type")]
    pub kind: String,
    /// Of code: the source of a function `evaluate(ctx)`.
    pub source_code: Option<String>,
    /// Of code: PYTHON or TYPESCRIPT.
    pub source_code_language: Option<String>,
}

/// A plug-in as an evaluator names it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PluginOfEvaluator {
    name: String,
    version: String,
    digest: Digest,
}

/// What a version says about how it scores.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EvaluatorDefinition)]
pub struct Definition {
    /// `plugin` or `code`.
    #[serde(rename = "type")]
    kind: String,
    plugin: PluginOfEvaluator,
    /// Which evaluator of the plug-in.
    evaluator: String,
    /// Defaults filled in.
    #[schema(value_type = BTreeMap<String, Value>)]
    config: Value,
    variable_mapping: Vec<Mapping>,
    /// Capabilities it may use.
    grants: Vec<String>,
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
pub struct Source {
    /// The text.
    pub code: String,
    /// PYTHON, TYPESCRIPT or JAVASCRIPT.
    pub language: &'static str,
}

impl Definition {
    /// Of a version; with `source` it is shown as code.
    #[must_use]
    pub fn new(version: &evaluation::EvaluatorVersion, source: Option<Source>) -> Self {
        let kind = match source {
            Some(_) => "code",
            None => "plugin",
        };
        let (code, language) = source.map(|it| (it.code, it.language)).unzip();
        Self {
            kind: kind.to_owned(),
            plugin: PluginOfEvaluator {
                name: version.plugin_name.clone(),
                version: version.plugin_version.clone(),
                digest: version.plugin,
            },
            evaluator: version.plugin_evaluator.clone(),
            config: version.config.clone(),
            variable_mapping: version.mapping.clone(),
            grants: version
                .grants
                .names()
                .into_iter()
                .map(str::to_owned)
                .collect(),
            fingerprint: version.fingerprint,
            source_code: code,
            source_code_language: language.map(str::to_owned),
        }
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
}

impl EvaluatorVersion {
    /// As stored.
    #[must_use]
    pub fn new(version: &evaluation::EvaluatorVersion, source: Option<Source>) -> Self {
        Self {
            id: version.id.clone(),
            version: version.number,
            created_at: version.created_at,
            definition: Definition::new(version, source),
        }
    }
}

/// A rule that uses an evaluator.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UseOfEvaluator {
    /// The rule.
    pub evaluation_rule_id: RuleId,
    /// The mapping that it uses instead of the evaluator's own.
    pub variable_mapping_override: Option<Vec<Mapping>>,
}

/// An evaluator with its newest version.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Evaluator {
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
    evaluation_rule_assignments: Vec<UseOfEvaluator>,
    created_at: Timestamp,
    updated_at: Timestamp,
    version_id: EvaluatorVersionId,
    version: u32,
    version_created_at: Timestamp,
    #[serde(flatten)]
    definition: Definition,
}

impl Evaluator {
    /// As stored, with the rules that use it.
    #[must_use]
    pub fn new(
        evaluator: &evaluation::Evaluator,
        uses: Vec<UseOfEvaluator>,
        source: Option<Source>,
    ) -> Self {
        let paused = evaluator.paused.as_ref();
        let version = &evaluator.version;
        let status = match paused {
            Some(_) => "paused",
            None => "active",
        };
        Self {
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
            definition: Definition::new(version, source),
        }
    }
}

/// An evaluator with the members that older clients read beside.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvaluatorByName {
    #[serde(flatten)]
    evaluator: Evaluator,
    evaluation_rule_count: usize,
    /// Always empty.
    variables: Vec<String>,
    mapping: Vec<Mapping>,
}

impl From<Evaluator> for EvaluatorByName {
    fn from(evaluator: Evaluator) -> Self {
        Self {
            evaluation_rule_count: evaluator.evaluation_rule_assignments.len(),
            variables: Vec::new(),
            mapping: evaluator.definition.variable_mapping.clone(),
            evaluator,
        }
    }
}
