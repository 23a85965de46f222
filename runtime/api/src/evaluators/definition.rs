//! What an evaluator is made of, checked.

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

/// A plug-in, which of its evaluators, and its configuration.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Definition {
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
    /// The models of its slots. A required slot that is left out asks the project's default evaluation model.
    #[serde(default)]
    slots: Vec<Slot>,
    /// The configuration was saved before.
    #[serde(skip)]
    is_moved: bool,
}

impl Definition {
    /// One that needs no grants and maps nothing.
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

    /// The same with models, which it may ask, and a mapping.
    pub(super) fn with_models(self, slots: Vec<Slot>, mapping: Option<Vec<Mapping>>) -> Self {
        Self { slots, variable_mapping: mapping, grants: Some(vec!["model".to_owned()]), ..self }
    }

    /// A version on another component: its evaluator and mapping, and of its grants those that the other
    /// component asks for.
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

    /// Finds the plug-in and checks everything against it.
    pub(crate) async fn check(self, app: &App, project: &ProjectId) -> Result<NewVersion, Problem> {
        optional_plugins::register(app, &self.plugin).await?;
        let plugin = app.store.catalog.resolve_plugin(project, &self.plugin).await?;
        let plugin = plugin.ok_or_else(|| optional_plugins::missing(app, &self.plugin))?;
        let found = plugin.info.evaluators.iter().find(|info| info.id == self.evaluator);
        let info = found.ok_or_else(|| {
            let ids: Vec<&str> =
                plugin.info.evaluators.iter().map(|info| info.id.as_str()).collect();
            let message = format!("{} has no evaluator {:?}", plugin.info.name, self.evaluator);
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

/// What the plug-in itself finds wrong with a configuration that its schema allows.
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
        | FailureClass::Cancelled => {
            Err(Problem::unavailable(format!("the configuration could not be checked: {message}")))
        }
        // It does not end, or grows, or traps on this very configuration: it would do so on every item.
        _ => {
            let message =
                format!("the plug-in cannot check this configuration: {class}: {message}");
            let issues = vec![Issue::new("/config", message)];
            Err(Problem::issues(Code::InvalidConfig, issues))
        }
    }
}

/// What is granted: nothing the component never asks for, and all that the evaluator needs.
fn checked_grants(
    wanted: Option<&[String]>,
    plugin: &PluginInfo,
    evaluator: &EvaluatorInfo,
) -> Result<Grants, Problem> {
    let refuse =
        |message: String| Problem::issues(Code::Unprocessable, vec![Issue::new("grants", message)]);
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
        "{} needs the capability `{}`, which was not granted: send \"grants\": {}",
        evaluator.id,
        missing.join("` and `"),
        json!(wanted)
    )))
}

/// A judge needs the trace of its item with some configurations only: no other judge has to be granted it.
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
        "a judge with `large: {large}` reads the trace of its item: send \"grants\": [\"model\",\"trace\"]"
    );
    Err(Problem::issues(Code::Unprocessable, vec![Issue::new("grants", message)]))
}

/// A mapping suits the targets of a kind, and fills what the prompt of a judge asks for.
///
/// # Errors
/// Every entry that is wrong, with its place in this field.
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

/// The problem for a mapping, with the code of its first fault.
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
