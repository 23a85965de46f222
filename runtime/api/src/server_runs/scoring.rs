//! The evaluators and the baseline of an experiment. The evaluators score the results through a rule that selects the runs of
//! the experiment, so that they appear where all rules do.

use perpend_api_types::filter::Conditions;
use perpend_api_types::rule::{AssignmentInput, RuleInput};
use perpend_catalog::{NamedKind, RulePatch};
use perpend_db::Error;
use perpend_domain::dataset::Dataset;
use perpend_domain::evaluation::{Rule, TargetKind};
use perpend_domain::ids::{EvaluatorId, ProjectId, RuleId};
use perpend_domain::server_run::RunState;
use perpend_executions::RunProgress;
use perpend_http_kit::problem::Problem;
use serde_json::json;

use crate::rules;
use crate::state::App;

/// Evaluators of an experiment.
const MAX_EVALUATORS: usize = 20;
/// Characters of the name of a rule.
const MAX_NAME: usize = 200;

/// The evaluators with these ids or names.
///
/// # Errors
/// 400 for a name of several evaluators, 404 for an unknown one.
pub(super) async fn evaluators(
    app: &App,
    project: &ProjectId,
    references: &[String],
) -> Result<Vec<EvaluatorId>, Problem> {
    if MAX_EVALUATORS < references.len() {
        let n = references.len();
        let message = format!("must have at most {MAX_EVALUATORS} evaluators, got {n}");
        return Err(Problem::body("evaluators", message));
    }
    let mut found: Vec<EvaluatorId> = Vec::with_capacity(references.len());
    for (at, reference) in references.iter().enumerate() {
        let id = evaluator(app, project, reference).await;
        let id = id.map_err(|problem| problem.with("field", format!("evaluators[{at}]")))?;
        if found.contains(&id) {
            let message = format!("must be unique, got {reference:?} twice");
            return Err(Problem::body(&format!("evaluators[{at}]"), message));
        }
        found.push(id);
    }
    Ok(found)
}

async fn evaluator(
    app: &App,
    project: &ProjectId,
    reference: &str,
) -> Result<EvaluatorId, Problem> {
    let catalog = &app.store.catalog;
    if let Ok(id) = EvaluatorId::new(reference)
        && catalog.evaluator(project, &id).await?.is_some()
    {
        return Ok(id);
    }
    // Exact matches come first.
    let named = catalog.names_with_prefix(project, NamedKind::Evaluator, reference, 2).await?;
    let mut named = named.found.into_iter().filter(|(_, name)| name == reference);
    match (named.next(), named.next()) {
        (Some((id, _)), None) => EvaluatorId::new(&id).map_err(|_| Problem::not_found("evaluator")),
        (Some(_), Some(_)) => {
            let message = format!("must be an id: several evaluators have the name {reference:?}");
            Err(Problem::body("evaluators", message))
        }
        (None, _) => Err(Problem::not_found(&format!("evaluator {reference:?}"))),
    }
}

/// The id of the run over the dataset with this id or name.
///
/// # Errors
/// 400 for a run over another dataset, 404 for an unknown one.
pub(super) async fn baseline(
    app: &App,
    project: &ProjectId,
    (dataset, reference): (&Dataset, &str),
) -> Result<String, Problem> {
    let telemetry = &app.store.telemetry;
    let by_name = telemetry.run_id_of_name(project, &dataset.id, reference).await?;
    for id in [reference, by_name.as_str()] {
        match telemetry.dataset_run(project, id).await? {
            Some(run) if run.dataset_id == dataset.id => return Ok(run.id),
            Some(run) => {
                let message = format!(
                    "must be a run over the dataset {:?}, got one over {:?}",
                    dataset.name, run.dataset_name
                );
                return Err(Problem::body("baseline", message));
            }
            // A run without links consists of spans.
            None => {
                let totals = telemetry.run_totals(project, &[id]).await?;
                if totals.get(id).is_some_and(|totals| 0 < totals.n_items) {
                    return Ok(id.to_owned());
                }
            }
        }
    }
    let resource = format!("run {reference:?} over the dataset {:?}", dataset.name);
    Err(Problem::not_found(&resource).with("field", "baseline"))
}

/// The rule that scores the results of these runs; absent without evaluators.
pub(super) fn rule(evaluators: &[EvaluatorId], runs: &[String], name: &str) -> Option<RuleInput> {
    if evaluators.is_empty() {
        return None;
    }
    let condition = json!({
        "type": "stringOptions", "column": "experimentId", "operator": "any of", "value": runs,
    });
    let name = format!("Experiment {name}");
    let assignment = |id: &EvaluatorId| AssignmentInput {
        evaluator_id: id.to_string(),
        variable_mapping: None,
        version_policy: None,
    };
    Some(RuleInput {
        name: Some(name.chars().take(MAX_NAME).collect()),
        enabled: Some(true),
        filter: Some(Conditions(vec![condition])),
        evaluator_assignments: Some(evaluators.iter().map(assignment).collect()),
        target: Some(TargetKind::Experiment.as_str().to_owned()),
        ..RuleInput::default()
    })
}

/// Creates the rule of an experiment.
///
/// # Errors
/// As for the creation of a rule.
pub(super) async fn create(
    app: &App,
    project: &ProjectId,
    input: Option<&RuleInput>,
) -> Result<Option<Rule>, Problem> {
    match input {
        Some(input) => Ok(Some(rules::make(app, project, input).await?)),
        None => Ok(None),
    }
}

/// Deletes the rule of an experiment that was not started.
pub(super) async fn delete(app: &App, project: &ProjectId, rule: &RuleId) {
    if let Err(error) = app.store.catalog.delete_rule(project, rule).await {
        let error: &dyn std::error::Error = &error;
        // It selects no results: the runs do not exist.
        tracing::warn!(error, %rule, "the rule of an experiment that was not started remains");
    }
}

/// Enables the rule of a run whose failed items are retried: it is disabled a while after the end of the run.
///
/// # Errors
/// When the project has too many active rules.
pub(super) async fn enable(
    app: &App,
    project: &ProjectId,
    run: &RunProgress,
) -> Result<(), Problem> {
    let is_retried = matches!(run.state, RunState::Completed | RunState::Paused);
    let Some(id) = run.rule_id.as_ref().filter(|_| is_retried && 0 < run.n_failed) else {
        return Ok(());
    };
    let Ok(id) = RuleId::new(id) else {
        return Ok(());
    };
    let catalog = &app.store.catalog;
    let Some(rule) = catalog.rule(project, &id).await?.filter(|rule| !rule.enabled) else {
        return Ok(());
    };
    let patch = RulePatch { enabled: Some(true), ..RulePatch::default() };
    match catalog.patch_rule(project, &rule.id, &patch, &*app.web.clock).await {
        Ok(_) | Err(Error::NotFound) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
