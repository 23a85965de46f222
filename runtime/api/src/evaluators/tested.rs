//! Versions under test: saved versions, changed ones and drafts, and how they become current.

use perpend_api_types::backtest::NewBacktest;
use perpend_catalog::NewVersion;
use perpend_domain::evaluation::{Evaluator, EvaluatorVersion};
use perpend_domain::ids::{EvaluatorVersionId, ProjectId};
use perpend_http_kit::problem::Problem;
use serde_json::Value;

use super::definition::Definition;
use super::{input, preflight, trial, view};
use crate::state::App;

/// The version that a backtest tests. The number of a draft is 0.
///
/// # Errors
/// When the definition is invalid, or a test of its model fails.
pub(crate) async fn tested_version(
    app: &App,
    project: &ProjectId,
    evaluator: &Evaluator,
    input: &NewBacktest,
) -> Result<EvaluatorVersion, Problem> {
    let version = match &input.definition {
        Some(definition) => {
            if input.version.is_some() || input.config.is_some() || input.model.is_some() {
                let message = "must be absent with version, config or model";
                return Err(Problem::body("definition", message));
            }
            let made = of_definition(app, project, evaluator, definition.clone().into()).await;
            made.map_err(|problem| problem.in_member("definition"))?
        }
        None => changed(app, project, evaluator, input).await?,
    };
    let mapping = input.variable_mapping.as_ref();
    let version = match mapping.filter(|mapping| **mapping != version.mapping) {
        // Adopting it saves the mapping.
        Some(mapping) => EvaluatorVersion {
            id: new_id(app)?,
            number: 0,
            mapping: mapping.clone(),
            created_at: app.web.clock.now(),
            ..version
        },
        None => version,
    };
    let tested = Evaluator { version: version.clone(), ..evaluator.clone() };
    preflight::check(app, project, [tested]).await?;
    Ok(version)
}

fn new_id(app: &App) -> Result<EvaluatorVersionId, Problem> {
    EvaluatorVersionId::new(&app.web.ids.uuid().to_string()).map_err(|_| Problem::internal())
}

fn draft(app: &App, new: NewVersion) -> EvaluatorVersion {
    EvaluatorVersion { number: 0, ..trial::first_version(new, app.web.clock.now()) }
}

async fn of_definition(
    app: &App,
    project: &ProjectId,
    evaluator: &Evaluator,
    mut definition: Value,
) -> Result<EvaluatorVersion, Problem> {
    let kind = definition["type"].as_str().map(str::to_owned);
    if let Some(members) = definition.as_object_mut() {
        members.shift_remove("type");
    }
    let checked = input::of_kind(kind.as_deref(), &definition)?;
    let refused = kind.and_then(|kind| view::changes_kind(&evaluator.version, &kind));
    if let Some(message) = refused {
        return Err(Problem::body("type", message));
    }
    Ok(draft(app, checked.check(app, project).await?))
}

/// A saved version, with the configuration and the models of the request.
async fn changed(
    app: &App,
    project: &ProjectId,
    evaluator: &Evaluator,
    input: &NewBacktest,
) -> Result<EvaluatorVersion, Problem> {
    let mut base = match input.version {
        Some(number) => trial::at_version(app, project, evaluator, number).await?,
        None => evaluator.version.clone(),
    };
    if input.config.is_none() && input.model.is_none() {
        return Ok(base);
    }
    if let Some(model) = &input.model {
        if base.slots.is_empty() {
            return Err(Problem::body("model", "must be absent: the version uses no model"));
        }
        for slot in &mut base.slots {
            slot.model = Some(model.clone());
        }
    }
    let plugin = app.store.catalog.plugin(project, &base.plugin).await?;
    let plugin = plugin.ok_or_else(|| Problem::not_found("plug-in of the version"))?;
    let config = input.config.clone().map_or_else(|| base.config.clone(), Value::Object);
    let definition = Definition::on_plugin(&base, &plugin, config);
    Ok(draft(app, definition.check(app, project).await?))
}

/// Makes a tested version the newest one, and returns its number. Without effect if it is.
///
/// # Errors
/// When its plug-in was deleted, or a test of its model fails.
pub(crate) async fn adopt(
    app: &App,
    project: &ProjectId,
    evaluator: &Evaluator,
    tested: &EvaluatorVersion,
) -> Result<u32, Problem> {
    let catalog = &app.store.catalog;
    let saved = catalog.evaluator_version(project, &tested.id).await?;
    let saved = saved.map(|(_, version)| version.number);
    if saved == Some(evaluator.version.number) {
        return Ok(evaluator.version.number);
    }
    let next = Evaluator { version: tested.clone(), ..evaluator.clone() };
    preflight::check(app, project, [next]).await?;
    let id = match saved {
        None => tested.id.clone(),
        // An older version is saved again.
        Some(_) => new_id(app)?,
    };
    let tested = tested.clone();
    let version = NewVersion {
        id,
        plugin: tested.plugin,
        plugin_name: tested.plugin_name,
        plugin_version: tested.plugin_version,
        plugin_evaluator: tested.plugin_evaluator,
        config: tested.config,
        mapping: tested.mapping,
        grants: tested.grants,
        slots: tested.slots,
        fingerprint: tested.fingerprint,
    };
    let now = app.web.clock.now();
    let added = catalog.add_evaluator_version(project, &evaluator.id, &version, now).await?;
    if added.paused.is_some() {
        catalog.unpause_evaluator(project, &evaluator.id, now).await?;
    }
    Ok(added.version.number)
}
