//! Budgets and costs of model calls.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::{Path, State};
use perpend_api_types::budget::{BudgetState, ModelCost, ModelCosts, NewBudgets};
use perpend_api_types::list::CompleteList;
use perpend_domain::access::Permission::{EvaluatorRead, EvaluatorWrite};
use perpend_domain::budget::{Budget, BudgetWindow, MAX_USD};
use perpend_domain::evaluation::Evaluator;
use perpend_domain::ids::{EvaluatorId, ProjectId};
use perpend_domain::observation::Usage;
use perpend_domain::time::Timestamp;
use perpend_executions::DayCost;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, Param, Params, must_be_one_of, param};
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;

use crate::state::{App, Routes};

const DAY_MS: i64 = 86_400_000;
/// Most daily rows that one response sums up.
const MAX_ROWS: u32 = 100_000;
/// Dimensions of the costs.
const GROUPS: [&str; 5] = ["day", "rule", "evaluator", "provider", "model"];

const RANGE: &[Param] = &[
    param("from", "date-time", "Start, inclusive; 30 days before the end when absent."),
    param("to", "date-time", "End, exclusive; now when absent."),
    param(
        "groupBy",
        "string",
        "Comma-separated list of `day`, `rule`, `evaluator`, `provider` and `model`; all when absent.",
    ),
];

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listBudgets",
        "/api/v1/budgets",
        "List the budgets of rules, evaluators and the project with their spending",
        EvaluatorRead,
    );
    routes.add(list, list_budgets);
    let put = Operation::put(
        "putProjectBudget",
        "/api/v1/budgets/project",
        "Set the budgets of the project; evaluators that wait for a budget resume",
        EvaluatorWrite,
    );
    routes.add(put.body::<NewBudgets>(), put_of_project);
    let put = Operation::put(
        "putEvaluatorBudget",
        "/api/v1/budgets/evaluators/{evaluatorId}",
        "Set the budgets of an evaluator; it resumes if it waits for a budget",
        EvaluatorWrite,
    );
    routes.add(put.body::<NewBudgets>(), put_of_evaluator);
    let costs = Operation::get(
        "listModelCosts",
        "/api/v1/model-costs",
        "List the costs of model calls by UTC day, rule, evaluator and model",
        EvaluatorRead,
    );
    routes.add(costs.query(RANGE), list_costs);
}

/// Refuses an invalid limit, two budgets for one window, and a model without a price.
///
/// # Errors
/// 400 for the first two, 422 for the last, each with the field.
pub(super) async fn check(
    app: &App,
    project: &ProjectId,
    budgets: &[Budget],
    evaluators: &[Evaluator],
) -> Result<(), Problem> {
    for (at, budget) in budgets.iter().enumerate() {
        if !(0.0 < budget.usd && budget.usd <= MAX_USD) {
            let message =
                format!("must be greater than 0 and at most {MAX_USD:e}, got {}", budget.usd);
            return Err(Problem::body(&format!("budget[{at}].usd"), message));
        }
        if budgets[..at].iter().any(|other| other.window == budget.window) {
            let message = "must be unique: another budget has this window";
            return Err(Problem::body(&format!("budget[{at}].window"), message));
        }
    }
    if budgets.is_empty() {
        return Ok(());
    }
    let now = app.web.clock.now();
    let table = app.prices.of(&app.store.catalog, project, now).await?;
    let default = app.store.catalog.default_model(project).await?;
    let probe = Usage::from([("input".to_owned(), 1.into()), ("output".to_owned(), 1.into())]);
    for evaluator in evaluators {
        for slot in &evaluator.version.slots {
            let Some(choice) = slot.model.as_ref().or(default.as_ref()) else {
                continue;
            };
            if table.cost_of_call(&choice.model, &probe, now).is_none() {
                let message = format!(
                    "the evaluator {:?} uses the model {:?}, which has no price, so the budget cannot be enforced: create one with POST \
                     /api/public/models",
                    evaluator.name, choice.model
                );
                let problem = Problem::new(Code::Unprocessable, message).with("field", "budget");
                let problem = problem.with("provider", choice.provider.clone());
                return Err(problem.with("model", choice.model.clone()));
            }
        }
    }
    Ok(())
}

async fn list_budgets(
    State(app): State<App>,
    caller: Act,
) -> Result<Answer<CompleteList<BudgetState>>, Problem> {
    let now = app.web.clock.now();
    let mut data = Vec::new();
    for scoped in app.store.catalog.budgets(&caller.project).await? {
        let ledger = &app.store.ledger;
        let spending = ledger.spending(&caller.project, &scoped, now).await?;
        let budget = scoped.budget;
        let is_renewed = budget.window != BudgetWindow::Total;
        data.push(BudgetState {
            scope: scoped.scope,
            id: scoped.id,
            window: budget.window,
            usd: budget.usd,
            on_reached: budget.on_reached,
            spent_usd: spending.spent,
            reserved_usd: spending.reserved,
            window_start: is_renewed.then(|| budget.window.start(now)),
            window_end: budget.window.end(now),
        });
    }
    Ok(Answer(CompleteList { data }))
}

async fn put_of_project(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<NewBudgets>,
) -> Result<Answer<NewBudgets>, Problem> {
    let used = app.store.catalog.evaluators_in_use(&caller.project).await?;
    check(&app, &caller.project, &input.budget, &used).await?;
    put(&app, &caller.project, None, &input).await?;
    Ok(Answer(input))
}

async fn put_of_evaluator(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<NewBudgets>,
) -> Result<Answer<NewBudgets>, Problem> {
    let none = || Problem::not_found("evaluator");
    let id = EvaluatorId::new(&id).map_err(|_| none())?;
    let found = app.store.catalog.evaluator(&caller.project, &id).await?;
    let found = found.ok_or_else(none)?;
    check(&app, &caller.project, &input.budget, &[found]).await?;
    put(&app, &caller.project, Some(&id), &input).await?;
    Ok(Answer(input))
}

async fn put(
    app: &App,
    project: &ProjectId,
    evaluator: Option<&EvaluatorId>,
    input: &NewBudgets,
) -> Result<(), Problem> {
    let now = app.web.clock.now();
    let catalog = &app.store.catalog;
    catalog.put_budgets(project, evaluator, &input.budget, now).await?;
    app.scheduler.wake();
    Ok(())
}

fn groups(params: &Params) -> Result<BTreeSet<&str>, Problem> {
    let Some(text) = params.text("groupBy") else {
        return Ok(GROUPS.into());
    };
    let names = text.split(',').map(str::trim);
    let known = names.map(|name| {
        let known = GROUPS.into_iter().find(|known| *known == name);
        known.ok_or_else(|| {
            let message = must_be_one_of(&GROUPS, name);
            Problem::query("groupBy", message)
        })
    });
    known.collect()
}

async fn list_costs(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<ModelCosts>, Problem> {
    let groups = groups(&params)?;
    let now = app.web.clock.now();
    let to = params.time("to")?.unwrap_or(now);
    let from = params.time("from")?.unwrap_or_else(|| to.plus_millis(-30 * DAY_MS));
    let ledger = &app.store.ledger;
    let rows = ledger.costs(&caller.project, (from, to), MAX_ROWS).await?;
    let (mut total, mut trials) = (ModelCost::default(), ModelCost::default());
    let mut grouped: BTreeMap<(i64, Vec<String>), ModelCost> = BTreeMap::new();
    for row in &rows {
        if row.rule.is_empty() {
            add(&mut trials, row);
            continue;
        }
        let group = group(row, &groups);
        let names = [&group.evaluation_rule_id, &group.evaluator_id, &group.provider, &group.model];
        let names = names.map(|name| name.clone().unwrap_or_default());
        // Latest day first.
        let day = group.day.map_or(0, |day| -day.as_micros());
        let sum = grouped.entry((day, names.into())).or_insert(group);
        add(sum, row);
        add(&mut total, row);
    }
    Ok(Answer(ModelCosts { data: grouped.into_values().collect(), total, trials }))
}

fn group(row: &DayCost, groups: &BTreeSet<&str>) -> ModelCost {
    let name_of = |group, name: &String| groups.contains(group).then(|| name.clone());
    let day: Option<Timestamp> = groups.contains("day").then_some(row.day);
    ModelCost {
        day,
        evaluation_rule_id: name_of("rule", &row.rule),
        evaluator_id: name_of("evaluator", &row.evaluator),
        provider: name_of("provider", &row.provider),
        model: name_of("model", &row.model),
        ..ModelCost::default()
    }
}

fn add(sum: &mut ModelCost, row: &DayCost) {
    sum.calls += row.n_calls;
    sum.failed_calls += row.n_failed;
    sum.unpriced_calls += row.n_unpriced;
    sum.input_tokens += row.input_tokens;
    sum.output_tokens += row.output_tokens;
    sum.cost_usd += row.cost;
    sum.cached_calls += row.n_cached;
    sum.saved_usd += row.saved;
}
