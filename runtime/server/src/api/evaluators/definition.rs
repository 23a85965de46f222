//! What an evaluator is made of, checked.

use assay_domain::evaluation::{EvaluatorVersion, Mapping, TargetKind};
use assay_domain::identity::fingerprint;
use assay_domain::ids::{EvaluatorVersionId, ProjectId};
use assay_domain::mapping::{MappingError, MappingFault, compile};
use assay_domain::plugin::{EvaluatorInfo, Grants, PluginInfo};
use assay_store::catalog::{NewVersion, Plugin};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::EvaluatorInput;
use super::config::checked_config;
use crate::App;
use crate::extract::from_json;
use crate::problem::{Code, Issue, Problem};

/// A plug-in, which of its evaluators, and its configuration.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::api) struct Definition {
    /// `vendor/name`, `vendor/name@version` or a digest.
    plugin: String,
    /// Id of the evaluator in the plug-in.
    evaluator: String,
    /// Checked against the evaluator's JSON Schema.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    config: Option<Value>,
    #[serde(default)]
    #[schema(value_type = Option<Vec<Object>>)]
    variable_mapping: Option<Vec<Mapping>>,
    /// Capabilities it may use: `model`, `trace`. What the evaluator cannot do without has to be here.
    #[serde(default)]
    grants: Option<Vec<String>>,
}

/// Parts name and description from the definition; unknown members are named.
pub(super) fn split(body: Value) -> Result<EvaluatorInput, Problem> {
    #[derive(Deserialize)]
    struct Head {
        name: String,
        description: Option<String>,
    }
    let head: Head = from_json(body.to_string().as_bytes())?;
    let mut rest = body;
    if let Some(members) = rest.as_object_mut() {
        for name in ["type", "name", "description"] {
            members.shift_remove(name);
        }
    }
    Ok(EvaluatorInput {
        name: head.name,
        description: head.description,
        definition: from_json(rest.to_string().as_bytes())?,
    })
}

impl Definition {
    /// A version on another component: its evaluator and mapping, and of its grants those that the other
    /// component asks for.
    pub(in crate::api) fn moved(
        version: &EvaluatorVersion,
        plugin: &Plugin,
        config: Value,
    ) -> Self {
        let asked = plugin.info.capabilities.names();
        let kept = version.grants.names().into_iter();
        let kept = kept.filter(|name| asked.contains(name));
        Self {
            plugin: plugin.digest.to_string(),
            evaluator: version.plugin_evaluator.clone(),
            config: Some(config),
            variable_mapping: Some(version.mapping.clone()),
            grants: Some(kept.map(str::to_owned).collect()),
        }
    }

    /// Finds the plug-in and checks everything against it.
    pub(in crate::api) async fn check(self, app: &App, project: &ProjectId) -> Result<NewVersion, Problem> {
        let plugin = app.store.resolve_plugin(project, &self.plugin).await?;
        let plugin = plugin.ok_or_else(|| {
            let message = format!(
                "no plug-in {:?} in this project; GET /api/v1/plugins lists them",
                self.plugin
            );
            Problem::new(Code::NotFound, message).with("field", "plugin")
        })?;
        let found = plugin
            .info
            .evaluators
            .iter()
            .find(|info| info.id == self.evaluator);
        let info = found.ok_or_else(|| {
            let ids: Vec<&str> = plugin
                .info
                .evaluators
                .iter()
                .map(|info| info.id.as_str())
                .collect();
            let message = format!("{} has no evaluator {:?}", plugin.info.name, self.evaluator);
            Problem::new(Code::NotFound, message)
                .with("field", "evaluator")
                .with("allowedValues", json!(ids))
        })?;
        let grants = checked_grants(self.grants.as_deref(), &plugin.info, info)?;
        let config = checked_config(
            &info.config_schema,
            self.config.unwrap_or_else(|| json!({})),
        )?;
        let mapping = self.variable_mapping.unwrap_or_default();
        if compile(&mapping, TargetKind::Trace).is_err() {
            compile(&mapping, TargetKind::Observation)
                .map_err(|errors| mapping_problem("variableMapping", errors))?;
        }
        let id = EvaluatorVersionId::new(&app.ids.uuid().to_string());
        Ok(NewVersion {
            id: id.map_err(|_| Problem::internal())?,
            plugin: plugin.digest,
            fingerprint: fingerprint(&plugin.digest, &self.evaluator, &config),
            plugin_name: plugin.info.name,
            plugin_version: plugin.info.version,
            plugin_evaluator: self.evaluator,
            config,
            mapping,
            grants,
        })
    }
}

/// What is granted: nothing the component never asks for, and all that the evaluator needs.
fn checked_grants(
    wanted: Option<&[String]>,
    plugin: &PluginInfo,
    evaluator: &EvaluatorInfo,
) -> Result<Grants, Problem> {
    let refuse = |message: String| Problem::issues(Code::Unprocessable, vec![Issue::new("grants", message)]);
    let mut grants = Grants::NONE;
    for name in wanted.unwrap_or_default() {
        grants = grants.with(name).ok_or_else(|| {
            refuse(format!("{name:?} is no capability; there are {:?}", Grants::NAMES))
        })?;
    }
    if let Some(unused) = grants.without(plugin.capabilities).names().first() {
        let message = format!("{} never asks for the capability `{unused}`", plugin.name);
        return Err(refuse(message));
    }
    let missing = plugin.required(evaluator).without(grants).names();
    if missing.is_empty() {
        return Ok(grants);
    }
    let wanted = plugin.required(evaluator).names();
    Err(refuse(format!(
        "{} needs the capability {}, which was not granted: send \"grants\": {}",
        evaluator.id,
        format!("`{}`", missing.join("` and `")),
        json!(wanted)
    )))
}

/// The problem for a mapping, with the code of its first fault.
pub(in crate::api) fn mapping_problem(field: &str, errors: Vec<MappingError>) -> Problem {
    let code = match errors.first().map(|error| error.kind) {
        Some(MappingFault::Duplicate) => Code::DuplicateMapping,
        Some(MappingFault::Path) => Code::InvalidJsonPath,
        _ => Code::InvalidMapping,
    };
    let first = errors
        .first()
        .map(|error| (error.variable.clone(), error.value.clone(), error.index));
    let issues = errors
        .into_iter()
        .map(|error| Issue::new(&format!("{field}[{}]", error.index), error.message))
        .collect();
    let problem = Problem::issues(code, issues);
    match first {
        Some((variable, value, index)) => problem
            .with("field", format!("{field}[{index}]"))
            .with("variable", variable)
            .with("value", value),
        None => problem,
    }
}
