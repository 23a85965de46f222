//! Rules with evaluators by name, each rule with a name of its own.

use axum::Json;
use axum::extract::{Path, State};
use perpend_domain::access::Permission::{EvaluatorRead, EvaluatorWrite};
use perpend_domain::evaluation::{Evaluator, Rule, TargetKind};
use perpend_domain::ids::ProjectId;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::{all_evaluators, all_rules, cut, newer};
use crate::App;
use crate::api::evaluators::kind_of;
use crate::api::page;
use crate::api::rules as newest;
use crate::auth::Act;
use crate::extract::{Body, Params};
use crate::problem::{Code, Problem};
use crate::routes::{Operation, Routes};

const ALL: &str = "/api/public/unstable/evaluation-rules";
const ONE: &str = "/api/public/unstable/evaluation-rules/{evaluationRuleId}";

/// What makes a rule of observations one of experiments.
const MARK: &str = "isExperimentItemRootSpan";

pub(super) fn routes(routes: &mut Routes) {
    let create = Operation::post(
        "createRuleByName",
        ALL,
        "Make a rule with evaluators by name",
        EvaluatorWrite,
    );
    routes.add(create.body::<OlderRule>(), create_rule);
    let list = Operation::get(
        "listRulesByName",
        ALL,
        "Rules by page, newest first",
        EvaluatorRead,
    );
    routes.add(list.query(page::PAGED), list_rules);
    routes.add(
        Operation::get(
            "getRuleByName",
            ONE,
            "One rule, the older way",
            EvaluatorRead,
        ),
        get_rule,
    );
    let patch = Operation::patch(
        "updateRuleByName",
        ONE,
        "Change a rule with evaluators by name",
        EvaluatorWrite,
    );
    routes.add(patch.body::<OlderRule>(), patch_rule);
    routes.add(
        Operation::delete("deleteRuleByName", ONE, "Delete a rule", EvaluatorWrite),
        delete_rule,
    );
}

/// A rule, or a change of one: what is absent stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct OlderRule {
    name: Option<String>,
    /// The only evaluator; or `evaluators`.
    evaluator: Option<EvaluatorName>,
    evaluators: Option<Vec<OlderAssignment>>,
    /// `observation` or `experiment`.
    target: Option<String>,
    enabled: Option<bool>,
    sampling: Option<f64>,
    #[schema(value_type = Option<Vec<Object>>)]
    filter: Option<Vec<Value>>,
    /// Of the only evaluator.
    #[schema(value_type = Option<Vec<Object>>)]
    mapping: Option<Vec<Value>>,
}

/// An evaluator that exists.
#[derive(Debug, Deserialize, ToSchema)]
struct EvaluatorName {
    name: String,
    /// As the evaluator has it.
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
struct OlderAssignment {
    evaluator: EvaluatorName,
    #[schema(value_type = Option<Vec<Object>>)]
    mapping: Option<Vec<Value>>,
}

/// The newest evaluator of a name, as an assignment of the newer endpoint.
fn assignment(
    all: &[Evaluator],
    field: &str,
    wanted: &EvaluatorName,
    mapping: Option<&Vec<Value>>,
) -> Result<Value, Problem> {
    let is_it = |each: &&Evaluator| {
        let of_kind = wanted
            .kind
            .as_deref()
            .is_none_or(|kind| kind_of(&each.version, kind));
        each.name == wanted.name && of_kind
    };
    let found = all.iter().find(is_it).ok_or_else(|| {
        let message = format!(
            "no evaluator {:?} of this type in this project",
            wanted.name
        );
        Problem::new(Code::NotFound, message).with("field", field)
    })?;
    Ok(json!({ "evaluatorId": found.id, "variableMapping": mapping }))
}

fn is_mark(condition: &Value) -> bool {
    condition["column"] == MARK && condition["operator"] == "=" && condition["value"] == true
}

fn is_experiment(rule: &Rule) -> bool {
    rule.target == TargetKind::Observation && rule.filter.iter().any(is_mark)
}

impl OlderRule {
    /// As the newer endpoint takes it; `standing` is the rule that is changed.
    fn newer(&self, all: &[Evaluator], standing: Option<&Rule>) -> Result<Value, Problem> {
        let mut input = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                input.insert(name.to_owned(), value);
            }
        };
        put("name", self.name.clone().map(Value::from));
        put("enabled", self.enabled.map(Value::from));
        put("sampling", self.sampling.map(Value::from));
        let was = standing.is_some_and(is_experiment);
        let is_marked = match self.target.as_deref() {
            None => was,
            Some("observation") => false,
            Some("experiment") => true,
            Some(other) => {
                let message = format!("{other:?} is none of observation, experiment");
                return Err(Problem::body("target", message));
            }
        };
        if self.filter.is_some() || is_marked != was {
            let before = standing.map(|rule| rule.filter.clone());
            let filter = self.filter.clone().or(before).unwrap_or_default();
            let mut filter: Vec<Value> = filter.into_iter().filter(|one| !is_mark(one)).collect();
            if is_marked {
                let mark =
                    json!({ "type": "boolean", "column": MARK, "operator": "=", "value": true });
                filter.push(mark);
            }
            put("filter", Some(filter.into()));
        }
        let assignments = match (&self.evaluator, &self.evaluators) {
            (Some(_), Some(_)) => {
                let message = "either evaluator or evaluators is expected";
                return Err(Problem::body("evaluators", message));
            }
            (Some(one), None) => {
                let one = assignment(all, "evaluator", one, self.mapping.as_ref())?;
                Some(vec![one])
            }
            (None, Some(many)) => {
                let many = many.iter().enumerate().map(|(n, one)| {
                    let field = format!("evaluators[{n}].evaluator");
                    assignment(all, &field, &one.evaluator, one.mapping.as_ref())
                });
                Some(many.collect::<Result<_, _>>()?)
            }
            (None, None) => self.remapped(standing)?,
        };
        put("evaluatorAssignments", assignments.map(Value::from));
        Ok(Value::Object(input))
    }
}

impl OlderRule {
    /// The only assignment of the standing rule, with the mapping that was sent without an evaluator.
    fn remapped(&self, standing: Option<&Rule>) -> Result<Option<Vec<Value>>, Problem> {
        let Some(mapping) = &self.mapping else {
            return Ok(None);
        };
        match standing.map(|rule| rule.assignments.as_slice()) {
            Some([one]) => Ok(Some(vec![
                json!({ "evaluatorId": one.evaluator_id, "variableMapping": mapping }),
            ])),
            _ => Err(Problem::body(
                "mapping",
                "needs evaluator beside it: the rule has not exactly one",
            )),
        }
    }
}

/// A rule as older clients read it.
fn older(all: &[Evaluator], rule: &Rule) -> Value {
    let mut view = newest::view(rule);
    let evaluators: Vec<Value> = rule
        .assignments
        .iter()
        .map(|one| {
            let found = all.iter().find(|each| each.id == one.evaluator_id);
            json!({
                "evaluator": {
                    "id": one.evaluator_id,
                    "name": found.map(|each| each.name.as_str()).unwrap_or_default(),
                    // Older clients know code and judges; whatever is no judge is code to them.
                    "type": "code",
                },
                "mapping": one.mapping,
            })
        })
        .collect();
    let first = evaluators.first();
    view["evaluator"] = first.map_or(Value::Null, |one| one["evaluator"].clone());
    let mapping = first.map(|one| one["mapping"].clone());
    view["mapping"] = mapping.filter(Value::is_array).unwrap_or_else(|| json!([]));
    view["evaluators"] = evaluators.into();
    if is_experiment(rule) {
        view["target"] = "experiment".into();
        let filter = rule.filter.iter().filter(|one| !is_mark(one));
        view["filter"] = filter.cloned().collect();
    }
    if rule.target == TargetKind::Trace {
        view["delay"] = 0.into();
        view["timeScope"] = json!(["NEW"]);
    }
    view
}

/// Refuses a name that another rule has.
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
            let message = format!("an evaluation rule {name:?} exists: change that one");
            Err(Problem::new(Code::NameConflict, message).with("field", "name"))
        }
    }
}

/// The rule that a newer endpoint answered with.
async fn answered(app: &App, project: &ProjectId, made: &Value) -> Result<Json<Value>, Problem> {
    let id = made["id"].as_str().unwrap_or_default();
    let rule = newest::existing(app, project, id).await?;
    let all = all_evaluators(app, project).await?;
    Ok(Json(older(&all, &rule)))
}

async fn create_rule(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<OlderRule>,
) -> Result<Json<Value>, Problem> {
    let project = caller.project.clone();
    if input.target.is_none() {
        return Err(Problem::body("target", "needed: observation or experiment"));
    }
    check_name(&app, &project, input.name.as_deref(), None).await?;
    let all = all_evaluators(&app, &project).await?;
    let body = Body(newer(input.newer(&all, None)?)?);
    let Json(made) = newest::create_rule(State(app.clone()), caller, body).await?;
    answered(&app, &project, &made).await
}

async fn list_rules(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Json<Value>, Problem> {
    let paging = page::paging(&params)?;
    let found = cut(all_rules(&app, &caller.project).await?, paging);
    let all = all_evaluators(&app, &caller.project).await?;
    Ok(page::answer(paging, &found, |rule| older(&all, rule)))
}

async fn get_rule(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let rule = newest::existing(&app, &caller.project, &id).await?;
    let all = all_evaluators(&app, &caller.project).await?;
    Ok(Json(older(&all, &rule)))
}

async fn patch_rule(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<OlderRule>,
) -> Result<Json<Value>, Problem> {
    let project = caller.project.clone();
    let standing = newest::existing(&app, &project, &id).await?;
    if standing.target == TargetKind::Trace {
        let message =
            "a rule of traces is only shown here; change it at /api/public/v2/evaluation-rules";
        return Err(Problem::new(Code::InvalidRequest, message));
    }
    check_name(&app, &project, input.name.as_deref(), Some(&standing)).await?;
    let all = all_evaluators(&app, &project).await?;
    let body = Body(newer(input.newer(&all, Some(&standing))?)?);
    let Json(made) = newest::patch_rule(State(app.clone()), caller, Path(id), body).await?;
    answered(&app, &project, &made).await
}

async fn delete_rule(
    app: State<App>,
    caller: Act,
    id: Path<String>,
) -> Result<Json<Value>, Problem> {
    let _: Json<Value> = newest::delete_rule(app, caller, id).await?;
    Ok(Json(
        json!({ "message": "Evaluation rule successfully deleted" }),
    ))
}
