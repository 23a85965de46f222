//! Validation of the definition of an evaluator.

use futures_util::StreamExt as _;
use perpend_catalog::{NewVersion, Plugin};
use perpend_domain::evaluation::{EvaluatorVersion, JUDGES, Mapping, TargetKind};
use perpend_domain::ids::{EvaluatorVersionId, ProjectId};
use perpend_domain::mapping::{MappingError, MappingFault, compile};
use perpend_domain::plugin::{
    Digest, EvaluationCall, EvaluatorInfo, Failure, FailureClass, Grants, Item, Limits, PluginInfo,
    Purpose,
};
use perpend_domain::slots::Slot;
use perpend_http_kit::extract::must_be_one_of;
use perpend_http_kit::problem::{Code, Issue, Problem};
use perpend_scheduler::Evaluate as _;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::config::checked_config;
use super::models::Models;
use super::prompt;
use crate::optional_plugins;
use crate::state::App;

/// An evaluator of a plug-in and its configuration.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Definition {
    /// `vendor/name`, `vendor/name@version` or a digest.
    plugin: String,
    /// Id of the evaluator in the plug-in.
    evaluator: String,
    /// Must match the JSON Schema of the evaluator.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    config: Option<Value>,
    #[serde(default)]
    #[schema(value_type = Option<Vec<Object>>)]
    variable_mapping: Option<Vec<Mapping>>,
    /// Granted capabilities: `model`, `trace`. Must include those that the evaluator requires.
    #[serde(default)]
    grants: Option<Vec<String>>,
    /// Models of the slots. An absent required slot uses the default evaluation model of the project.
    #[serde(default)]
    slots: Vec<Slot>,
    /// Whether the configuration was saved before.
    #[serde(skip)]
    is_moved: bool,
}

impl Definition {
    /// A definition without grants and mapping.
    pub(super) fn of(plugin: &str, evaluator: &str, config: Value) -> Self {
        Self {
            plugin: plugin.to_owned(),
            evaluator: evaluator.to_owned(),
            config: Some(config),
            variable_mapping: None,
            grants: None,
            slots: Vec::new(),
            is_moved: false,
        }
    }

    /// Adds models, with the capability to use them, and a mapping.
    pub(super) fn with_models(self, slots: Vec<Slot>, mapping: Option<Vec<Mapping>>) -> Self {
        Self { slots, variable_mapping: mapping, grants: Some(vec!["model".to_owned()]), ..self }
    }

    /// The same with other capabilities.
    pub(super) fn with_grants(self, grants: Vec<String>) -> Self {
        Self { grants: Some(grants), ..self }
    }

    /// A version on another component: its evaluator and mapping, and those of its grants that the other
    /// component requests.
    pub(crate) fn on_plugin(version: &EvaluatorVersion, plugin: &Plugin, config: Value) -> Self {
        let requested = plugin.info.capabilities.names();
        let kept = version.grants.names().into_iter();
        let kept = kept.filter(|name| requested.contains(name));
        Self {
            variable_mapping: Some(version.mapping.clone()),
            grants: Some(kept.map(str::to_owned).collect()),
            slots: version.slots.clone(),
            is_moved: true,
            ..Self::of(&plugin.digest.to_string(), &version.plugin_evaluator, config)
        }
    }

    /// Validates the definition against its plug-in.
    pub(crate) async fn check(self, app: &App, project: &ProjectId) -> Result<NewVersion, Problem> {
        optional_plugins::register(app, &self.plugin).await?;
        let plugin = app.store.catalog.resolve_plugin(project, &self.plugin).await?;
        let plugin = plugin.ok_or_else(|| optional_plugins::missing(app, &self.plugin))?;
        let found = plugin.info.evaluators.iter().find(|info| info.id == self.evaluator);
        let info = found.ok_or_else(|| {
            let ids: Vec<&str> =
                plugin.info.evaluators.iter().map(|info| info.id.as_str()).collect();
            let message =
                format!("the plug-in {} has no evaluator {:?}", plugin.info.name, self.evaluator);
            Problem::new(Code::NotFound, message)
                .with("field", "evaluator")
                .with("allowedValues", json!(ids))
        })?;
        let grants = checked_grants(self.grants.as_deref(), &plugin.info, info)?;
        let mut config = self.config.unwrap_or_else(|| json!({}));
        if plugin.info.name == JUDGES
            && prompt::fill(app, project, &mut config).await?
            && let Some(mapping) = &self.variable_mapping
        {
            let variables = prompt::variables_of(&config);
            prompt::check_mapping("variableMapping", &variables, mapping)?;
        }
        let config = checked_config(app, project, &info.config_schema, &config).await?;
        if plugin.info.name == JUDGES && !self.is_moved {
            prompt::check_placeholders(&config)?;
        }
        check_grant_of_judge(&plugin.info, &config, grants)?;
        if plugin.info.checks_config {
            check_with_plugin(app, plugin.digest, &self.evaluator, &config).await?;
        }
        let mapping = self.variable_mapping.unwrap_or_default();
        // Without a mapping, rules may map the variables.
        if plugin.info.name == JUDGES && !self.is_moved && !mapping.is_empty() {
            let variables = prompt::variables_of(&config);
            prompt::check_mapping("variableMapping", &variables, &mapping)?;
        }
        let others = [TargetKind::Trace, TargetKind::Session];
        if others.iter().all(|kind| compile(&mapping, *kind).is_err()) {
            compile(&mapping, TargetKind::Observation)
                .map_err(|errors| mapping_problem("variableMapping", errors))?;
        }
        let models = Models::of(app, project, info, self.slots).await?;
        let id = EvaluatorVersionId::new(&app.web.ids.uuid().to_string());
        Ok(NewVersion {
            id: id.map_err(|_| Problem::internal())?,
            plugin: plugin.digest,
            fingerprint: models.fingerprint(&plugin.digest, &self.evaluator, &config),
            slots: models.slots,
            plugin_name: plugin.info.name,
            plugin_version: plugin.info.version,
            plugin_evaluator: self.evaluator,
            config,
            mapping,
            grants,
        })
    }
}

/// Validation of a configuration by the plug-in, after that by its schema.
async fn check_with_plugin(
    app: &App,
    plugin: Digest,
    evaluator: &str,
    config: &Value,
) -> Result<(), Problem> {
    let call = EvaluationCall {
        plugin,
        evaluator_id: evaluator.into(),
        config: config.to_string().into(),
        item: Item::default().into(),
        seed: 0,
        run_time_ms: 0,
        limits: Limits::default(),
        purpose: Purpose::CheckConfig,
        origin: None,
    };
    let answer = app.engine.evaluate(vec![call]).next().await;
    let outcome = answer.ok_or_else(Problem::internal)?.1.outcome;
    let Err(Failure { class, message }) = outcome else {
        return Ok(());
    };
    match class {
        FailureClass::InvalidConfig => {
            let issues = message.lines().map(|line| Issue::new("/config", line));
            Err(Problem::issues(Code::InvalidConfig, issues))
        }
        FailureClass::Internal
        | FailureClass::WorkerLost
        | FailureClass::WorkerFull
        | FailureClass::Cancelled => Err(Problem::unavailable(format!(
            "the configuration could not be validated: {message}"
        ))),
        // A timeout, a memory limit or a trap with this configuration would occur on every item.
        _ => {
            let message =
                format!("the plug-in cannot validate this configuration: {class}: {message}");
            let issues = vec![Issue::new("/config", message)];
            Err(Problem::issues(Code::InvalidConfig, issues))
        }
    }
}

/// Validates grants: only capabilities that the component requests, and all that the evaluator requires.
fn checked_grants(
    names: Option<&[String]>,
    plugin: &PluginInfo,
    evaluator: &EvaluatorInfo,
) -> Result<Grants, Problem> {
    let refuse =
        |message: String| Problem::issues(Code::Unprocessable, vec![Issue::new("grants", message)]);
    let mut grants = Grants::NONE;
    for name in names.unwrap_or_default() {
        grants = grants.with(name).ok_or_else(|| refuse(must_be_one_of(&Grants::NAMES, name)))?;
    }
    if let Some(unused) = grants.without(plugin.capabilities).names().first() {
        let message = format!("must not contain `{unused}`: {} does not request it", plugin.name);
        return Err(refuse(message));
    }
    let missing = plugin.required(evaluator).without(grants).names();
    if missing.is_empty() {
        return Ok(grants);
    }
    let required = plugin.required(evaluator).names();
    Err(refuse(format!(
        "must contain `{1}`, which {0} requires: send \"grants\": {2}",
        evaluator.id,
        missing.join("` and `"),
        json!(required)
    )))
}

/// A judge requires the trace of its item with some configurations only.
fn check_grant_of_judge(
    plugin: &PluginInfo,
    config: &Value,
    grants: Grants,
) -> Result<(), Problem> {
    let large = config["large"].as_str();
    let Some(large) = large.filter(|large| ["digest", "explore"].contains(large)) else {
        return Ok(());
    };
    if plugin.name != JUDGES || grants.trace_reader {
        return Ok(());
    }
    let message = format!(
        "must contain `trace`, which `large: {large}` requires: send \"grants\": [\"model\",\"trace\"]"
    );
    Err(Problem::issues(Code::Unprocessable, vec![Issue::new("grants", message)]))
}

/// Validates a mapping for a kind of target, and for the variables of the prompt of a judge.
///
/// # Errors
/// Every invalid entry, with its index in this field.
pub(crate) fn check_mapping_for(
    field: &str,
    version: &EvaluatorVersion,
    mapping: &[Mapping],
    kind: TargetKind,
) -> Result<(), Problem> {
    compile(mapping, kind).map_err(|errors| mapping_problem(field, errors))?;
    match version.is_judge() {
        true => prompt::check_mapping(field, &prompt::variables_of(&version.config), mapping),
        false => Ok(()),
    }
}

/// The problem of a mapping, with the code of its first error.
fn mapping_problem(field: &str, errors: Vec<MappingError>) -> Problem {
    let code = match errors.first().map(|error| error.kind) {
        Some(MappingFault::Duplicate) => Code::DuplicateMapping,
        Some(MappingFault::Path) => Code::InvalidJsonPath,
        _ => Code::InvalidMapping,
    };
    let first =
        errors.first().map(|error| (error.variable.clone(), error.value.clone(), error.index));
    let issues: Vec<_> = errors
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
