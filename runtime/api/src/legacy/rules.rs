//! Rules with unique names and evaluators by name.

use axum::extract::{Path, State};
use perpend_api_types::filter::Conditions;
use perpend_api_types::list::{Confirmation, NumberedList};
use perpend_api_types::rule::{
    AssignmentByName, AssignmentInput, EvaluatorName, NamedEvaluator, RuleByName, RuleInput,
    RuleInputByName,
};
use perpend_domain::access::Permission::{EvaluatorRead, EvaluatorWrite};
use perpend_domain::evaluation::{Evaluator, Mapping, Rule, TargetKind};
use perpend_domain::filter::{Condition, Test};
use perpend_domain::ids::ProjectId;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, Params, must_be_one_of};
use perpend_http_kit::page;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;

use super::lists::{all_evaluators, all_rules, cut};
use crate::evaluators::kind_of;
use crate::rules;
use crate::state::{App, Routes};

const ALL: &str = "/api/public/unstable/evaluation-rules";
const ONE: &str = "/api/public/unstable/evaluation-rules/{evaluationRuleId}";

/// Column of the condition that makes a rule of observations one of experiments.
const MARK: &str = "isExperimentItemRootSpan";

pub(super) fn routes(routes: &mut Routes) {
    let create = Operation::post(
        "createRuleByName",
        ALL,
        "Create a rule with evaluators by name",
        EvaluatorWrite,
    );
    routes.add(create.body::<RuleInputByName>(), create_rule);
    let list =
        Operation::get("listRulesByName", ALL, "List rules by page, newest first", EvaluatorRead);
    routes.add(list.query(page::PAGED), list_rules);
    routes.add(
        Operation::get("getRuleByName", ONE, "Get a rule (unstable API)", EvaluatorRead),
        get_rule,
    );
    let patch = Operation::patch(
        "updateRuleByName",
        ONE,
        "Update a rule with evaluators by name",
        EvaluatorWrite,
    );
    routes.add(patch.body::<RuleInputByName>(), patch_rule);
    routes.add(
        Operation::delete("deleteRuleByName", ONE, "Delete a rule", EvaluatorWrite),
        delete_rule,
    );
}

/// The newest evaluator of a name, assigned with a mapping.
fn assignment(
    all: &[Evaluator],
    field: &str,
    reference: &EvaluatorName,
    mapping: Option<&Vec<Mapping>>,
) -> Result<AssignmentInput, Problem> {
    let is_it = |each: &&Evaluator| {
        let of_kind = reference.kind.as_deref().is_none_or(|kind| kind_of(&each.version, kind));
        each.name == reference.name && of_kind
    };
    let found = all.iter().find(is_it).ok_or_else(|| {
        let message = format!("unknown evaluator {:?} of this type", reference.name);
        Problem::new(Code::NotFound, message).with("field", field)
    })?;
    Ok(AssignmentInput {
        evaluator_id: found.id.to_string(),
        variable_mapping: mapping.cloned(),
        version_policy: None,
    })
}

fn is_mark(condition: &Condition) -> bool {
    condition.column.is_some_and(|column| column.id == MARK) && condition.test == Test::Is(true)
}

/// Whether a rule is one of experiments, by its target or by the marking condition.
fn is_experiment(rule: &Rule) -> bool {
    let mut conditions = rule.filter.filter().conditions.iter();
    rule.target == TargetKind::Experiment
        || (rule.target == TargetKind::Observation && conditions.any(is_mark))
}

/// Converts the body to that of the v2 endpoint; `current` is the rule to be changed.
fn input_of(
    sent: &RuleInputByName,
    all: &[Evaluator],
    current: Option<&Rule>,
) -> Result<RuleInput, Problem> {
    let target = match sent.target.as_deref() {
        None if current.is_some_and(is_experiment) => TargetKind::Experiment,
        None | Some("observation") => TargetKind::Observation,
        Some("experiment") => TargetKind::Experiment,
        Some(other) => {
            let message = must_be_one_of(&["observation", "experiment"], other);
            return Err(Problem::body("target", message));
        }
    };
    Ok(RuleInput {
        name: sent.name.clone(),
        enabled: sent.enabled,
        sampling: sent.sampling.map(Some),
        filter: sent.filter.clone().or_else(|| current.and_then(without_mark)),
        target: Some(target.to_string()),
        evaluator_assignments: assignments(sent, all, current)?,
        ..RuleInput::default()
    })
}

/// The filter of a rule of experiments without the marking condition.
fn without_mark(rule: &Rule) -> Option<Conditions> {
    let others = rule.filter.iter().filter(|(_, meant)| !is_mark(meant));
    is_experiment(rule).then(|| Conditions(others.map(|(sent, _)| sent.clone()).collect()))
}

fn assignments(
    sent: &RuleInputByName,
    all: &[Evaluator],
    current: Option<&Rule>,
) -> Result<Option<Vec<AssignmentInput>>, Problem> {
    match (&sent.evaluator, &sent.evaluators) {
        (Some(_), Some(_)) => Err(Problem::body("evaluators", "must be absent with evaluator")),
        (Some(one), None) => {
            let one = assignment(all, "evaluator", one, sent.mapping.as_ref())?;
            Ok(Some(vec![one]))
        }
        (None, Some(many)) => {
            let many = many.iter().enumerate().map(|(n, one)| {
                let field = format!("evaluators[{n}].evaluator");
                assignment(all, &field, &one.evaluator, one.mapping.as_ref())
            });
            many.collect::<Result<_, _>>().map(Some)
        }
        (None, None) => remapped(sent, current),
    }
}

/// The only assignment of the current rule, with a mapping that was sent without an evaluator.
fn remapped(
    sent: &RuleInputByName,
    current: Option<&Rule>,
) -> Result<Option<Vec<AssignmentInput>>, Problem> {
    let Some(mapping) = &sent.mapping else {
        return Ok(None);
    };
    match current.map(|rule| rule.assignments.as_slice()) {
        Some([one]) => Ok(Some(vec![AssignmentInput {
            evaluator_id: one.evaluator_id.to_string(),
            variable_mapping: Some(mapping.clone()),
            version_policy: None,
        }])),
        _ => Err(Problem::body(
            "mapping",
            "requires evaluator: the rule does not have exactly one evaluator",
        )),
    }
}

/// The response for a rule.
fn by_name(all: &[Evaluator], rule: &Rule) -> RuleByName {
    let evaluators = rule.assignments.iter().map(|one| {
        let found = all.iter().find(|each| each.id == one.evaluator_id);
        AssignmentByName {
            evaluator: NamedEvaluator {
                id: one.evaluator_id.clone(),
                name: found.map(|each| each.name.clone()).unwrap_or_default(),
                // These clients accept judges and code only.
                kind: "code".to_owned(),
            },
            mapping: one.mapping.clone(),
        }
    });
    RuleByName::new(rule, evaluators.collect(), without_mark(rule))
}

/// Refuses the name of another rule.
async fn check_name(
    app: &App,
    project: &ProjectId,
    name: Option<&str>,
    own: Option<&Rule>,
) -> Result<(), Problem> {
    let Some(name) = name else { return Ok(()) };
    let rules = all_rules(app, project).await?;
    let is_taken =
        |rule: &Rule| rule.name == name.trim() && own.is_none_or(|own| own.id != rule.id);
    match rules.iter().any(is_taken) {
        false => Ok(()),
        true => {
            let message = format!("an evaluation rule {name:?} exists: update it instead");
            Err(Problem::new(Code::NameConflict, message).with("field", "name"))
        }
    }
}

async fn create_rule(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<RuleInputByName>,
) -> Result<Answer<RuleByName>, Problem> {
    let project = &caller.project;
    if input.target.is_none() {
        return Err(Problem::body("target", "is required: `observation` or `experiment`"));
    }
    check_name(&app, project, input.name.as_deref(), None).await?;
    let all = all_evaluators(&app, project).await?;
    let rule = rules::make(&app, project, &input_of(&input, &all, None)?).await?;
    Ok(Answer(by_name(&all, &rule)))
}

async fn list_rules(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<NumberedList<RuleByName>>, Problem> {
    let paging = page::paging(&params)?;
    // Clients of this API cannot parse rules of sessions.
    let mut all = all_rules(&app, &caller.project).await?;
    all.retain(|rule| !matches!(rule.target, TargetKind::Session | TargetKind::Run));
    let found = cut(all, paging);
    let all = all_evaluators(&app, &caller.project).await?;
    let view = |rule: &Rule| by_name(&all, rule);
    Ok(Answer(NumberedList::new(paging, &found, view)))
}

async fn get_rule(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<RuleByName>, Problem> {
    let rule = rules::find(&app, &caller.project, &id).await?;
    let all = all_evaluators(&app, &caller.project).await?;
    Ok(Answer(by_name(&all, &rule)))
}

async fn patch_rule(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<RuleInputByName>,
) -> Result<Answer<RuleByName>, Problem> {
    let project = &caller.project;
    let current = rules::find(&app, project, &id).await?;
    if !current.target.is_of_observations() {
        let message = format!(
            "a rule of {}s is read-only here; change it with /api/public/v2/evaluation-rules",
            current.target
        );
        return Err(Problem::new(Code::InvalidRequest, message));
    }
    check_name(&app, project, input.name.as_deref(), Some(&current)).await?;
    let all = all_evaluators(&app, project).await?;
    let input = input_of(&input, &all, Some(&current))?;
    let rule = rules::change(&app, project, current, &input).await?;
    Ok(Answer(by_name(&all, &rule)))
}

async fn delete_rule(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<Confirmation>, Problem> {
    rules::delete(&app, &caller.project, &id).await?;
    Ok(Answer(Confirmation::new("Evaluation rule successfully deleted")))
}
