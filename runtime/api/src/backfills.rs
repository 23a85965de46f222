//! Backfills: a rule applied to stored targets.

use axum::extract::{Path, State};
use perpend_api_types::backfill::{
    Backfill as View, BackfillEstimate as EstimateView, BackfillEvaluator, NewBackfill,
};
use perpend_api_types::filter::Conditions;
use perpend_api_types::list::CursorList;
use perpend_api_types::preview::EstimateBasis;
use perpend_catalog::audit;
use perpend_domain::access::Permission::{EvaluatorRead, EvaluatorWrite};
use perpend_domain::backfill::{Backfill, BackfillPlan};
use perpend_domain::budget::{Budget, BudgetWindow, MAX_USD, OnReached};
use perpend_domain::evaluation::{Evaluator, Rule, TargetKind};
use perpend_domain::filter::WrittenFilter;
use perpend_domain::ids::ProjectId;
use perpend_domain::list::ListPosition;
use perpend_domain::time::Timestamp;
use perpend_executions::BackfillChange;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::cursor;
use perpend_http_kit::extract::{Body, Params};
use perpend_http_kit::filters::filter_problem;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::reading;
use perpend_http_kit::routes::Operation;
use perpend_scheduler::{BACKFILL_JOB, BackfillEstimate};
use serde_json::json;

use super::evaluators::PAGE;
use super::rule_preview::{AssignmentPreview, ExecutionMeans, concurrency};
use super::{budgets, rule_runs, rules};
use crate::state::{App, Routes};

const ALL: &str = "/api/v1/backfills";
const ONE: &str = "/api/v1/backfills/{backfillId}";
/// Assumed rate of evaluators without model calls.
const EXECUTIONS_PER_SECOND: f64 = 2_000.0;

pub(super) fn routes(routes: &mut Routes) {
    let create = Operation::post(
        "createBackfill",
        ALL,
        "Apply a rule to stored targets, newest first",
        EvaluatorWrite,
    );
    routes.add(create.body::<NewBackfill>(), create_backfill);
    let estimate = Operation::post(
        "estimateBackfill",
        "/api/v1/backfills/estimate",
        "Estimate the targets, cost and time of a backfill without starting it",
        EvaluatorWrite,
    );
    routes.add(estimate.body::<NewBackfill>().unrecorded(), estimate_backfill);
    let list = Operation::get("listBackfills", ALL, "List backfills, newest first", EvaluatorRead);
    routes.add(list.query(PAGE), list_backfills);
    let one = Operation::get("getBackfill", ONE, "Get a backfill with its progress", EvaluatorRead);
    routes.add(one, get_backfill);
    let pause = Operation::post(
        "pauseBackfill",
        "/api/v1/backfills/{backfillId}/pause",
        "Pause a backfill; running executions continue",
        EvaluatorWrite,
    );
    routes.add(pause, pause_backfill);
    let resume = Operation::post(
        "resumeBackfill",
        "/api/v1/backfills/{backfillId}/resume",
        "Resume a paused backfill",
        EvaluatorWrite,
    );
    routes.add(resume, resume_backfill);
    let cancel = Operation::post(
        "cancelBackfill",
        "/api/v1/backfills/{backfillId}/cancel",
        "Cancel a backfill and its waiting executions; its scores are kept",
        EvaluatorWrite,
    );
    routes.add(cancel, cancel_backfill);
}

/// The body of a backfill.
fn view(found: Backfill) -> View {
    let (examined_share, counts, plan) = (found.examined_share(), found.counts, found.plan);
    View {
        id: found.id,
        rule_id: plan.rule,
        rule_name: plan.rule_name,
        target: plan.target,
        mode: plan.mode,
        from: plan.from,
        to: plan.to,
        filter: Conditions(plan.filter.sent().to_vec()),
        max_items: plan.max_items,
        max_usd: plan.max_usd,
        state: found.state,
        reason: found.reason,
        target_count: plan.n_in_range,
        examined_count: counts.n_examined,
        examined_share,
        reached_at: found.reached_at,
        item_count: counts.n_items,
        present_count: counts.n_present,
        refused_count: counts.n_refused,
        left_out_count: counts.n_left_out,
        execution_count: counts.n_executions,
        open_count: counts.n_open(),
        completed_count: counts.n_completed,
        skipped_count: counts.n_skipped,
        failed_count: counts.n_failed,
        cancelled_count: counts.n_cancelled,
        cost_usd: counts.cost_usd,
        created_at: found.created_at,
        updated_at: found.updated_at,
        ended_at: found.ended_at,
    }
}

/// The rule, the evaluator versions that it uses, and the plan, without the numbers that are counted or estimated.
struct Checked {
    rule: Rule,
    evaluators: Vec<Evaluator>,
    plan: BackfillPlan,
}

async fn checked(app: &App, project: &ProjectId, input: &NewBackfill) -> Result<Checked, Problem> {
    let rule = rules::find(app, project, &input.rule_id).await?;
    if rule.target == TargetKind::Run {
        let message = "must be a rule of observations, experiment items, traces or sessions, got a rule of runs";
        return Err(Problem::body("ruleId", message));
    }
    let mode = rule_runs::mode(input.mode.as_deref())?;
    let to = checked_end(app, input.from, input.to)?;
    check_max_items(input.max_items)?;
    let filter = WrittenFilter::parse(input.filter.0.clone(), rule.target.filter_columns());
    let filter = filter.map_err(filter_problem)?;
    let evaluators = live_versions(app, project, &rule).await?;
    check_max_usd(app, project, input.max_usd, &evaluators).await?;
    let plan = BackfillPlan {
        rule: rule.id.clone(),
        rule_name: rule.name.clone(),
        target: rule.target,
        mode,
        from: input.from,
        to,
        filter,
        max_items: input.max_items,
        max_usd: input.max_usd,
        n_in_range: None,
        usd_per_execution: None,
    };
    Ok(Checked { rule, evaluators, plan })
}

/// The evaluators of a rule, each with the version whose scores count.
async fn live_versions(
    app: &App,
    project: &ProjectId,
    rule: &Rule,
) -> Result<Vec<Evaluator>, Problem> {
    let catalog = &app.store.catalog;
    let mut evaluators = Vec::with_capacity(rule.assignments.len());
    for assignment in &rule.assignments {
        let newest = catalog.evaluator(project, &assignment.evaluator_id).await?;
        let Some(newest) = newest else {
            continue;
        };
        let used = catalog.used_versions(project, newest, assignment.version).await?;
        evaluators.extend(used.map(|used| used.live));
    }
    Ok(evaluators)
}

/// The end of a range, not later than now.
pub(super) fn checked_end(
    app: &App,
    from: Timestamp,
    to: Option<Timestamp>,
) -> Result<Timestamp, Problem> {
    let now = app.web.clock.now();
    let to = to.unwrap_or(now).min(now);
    if to <= from {
        let message = format!("must be before {to}, the end of the range, got {from}");
        return Err(Problem::body("from", message));
    }
    Ok(to)
}

pub(super) fn check_max_items(max_items: Option<u64>) -> Result<(), Problem> {
    let is_out_of_range = |n: &u64| *n == 0 || i64::try_from(*n).is_err();
    match max_items.filter(is_out_of_range) {
        Some(n) => {
            let message = format!("must be between 1 and {}, got {n}", i64::MAX);
            Err(Problem::body("maxItems", message))
        }
        None => Ok(()),
    }
}

/// Refuses an invalid limit, and a model without a price.
pub(super) async fn check_max_usd(
    app: &App,
    project: &ProjectId,
    max_usd: Option<f64>,
    evaluators: &[Evaluator],
) -> Result<(), Problem> {
    let Some(usd) = max_usd else {
        return Ok(());
    };
    if !(0.0 < usd && usd <= MAX_USD) {
        let message = format!("must be greater than 0 and at most {MAX_USD:e}, got {usd}");
        return Err(Problem::body("maxUsd", message));
    }
    let budget = Budget { window: BudgetWindow::Total, usd, on_reached: OnReached::Hold };
    let checked = budgets::check(app, project, &[budget], evaluators).await;
    checked.map_err(|problem| problem.with("field", "maxUsd"))
}

/// The estimate of each evaluator. The numbers of the examined targets are multiplied by `scale`.
async fn evaluator_estimates(
    app: &App,
    project: &ProjectId,
    checked: &Checked,
    (found, scale): (&BackfillEstimate, f64),
) -> Result<Vec<BackfillEvaluator>, Problem> {
    let mut estimates = Vec::with_capacity(checked.evaluators.len());
    for evaluator in &checked.evaluators {
        let mut all = checked.rule.assignments.iter();
        let Some(assignment) = all.find(|each| each.evaluator_id == evaluator.id) else {
            continue;
        };
        let preview = AssignmentPreview { app, project, rule: &checked.rule, assignment };
        let concurrency = concurrency(app, project, evaluator).await?;
        let means = preview.means(evaluator.clone(), None).await?;
        let n = found.executions.get(&evaluator.id).copied().unwrap_or_default();
        let execution_count = (n as f64 * scale).round() as u64;
        let n = execution_count as f64;
        estimates.push(BackfillEvaluator {
            evaluator_id: evaluator.id.clone(),
            execution_count,
            basis: means.basis,
            cost_per_execution_usd: means.cost,
            cost_usd: means.cost.map(|cost| cost * n),
            seconds: seconds(n, &means, concurrency),
        });
    }
    Ok(estimates)
}

/// The time of executions: of their model calls at this concurrency, or of evaluators without calls.
pub(super) fn seconds(n: f64, means: &ExecutionMeans, concurrency: Option<u32>) -> Option<f64> {
    if means.basis == EstimateBasis::Free {
        return Some(n / EXECUTIONS_PER_SECOND);
    }
    let (ms, concurrency) = means.latency_ms.zip(concurrency)?;
    Some(n * ms / 1_000.0 / f64::from(concurrency))
}

/// The examined newest part of a range of targets.
pub(super) struct ExaminedPart {
    pub(super) n_examined: u64,
    pub(super) is_whole: bool,
    pub(super) reached_at: Option<Timestamp>,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    /// Targets in the range, if they are counted.
    pub(super) n_in_range: Option<u64>,
}

impl ExaminedPart {
    /// The factor from the examined targets to those of the range.
    pub(super) fn extrapolation(&self) -> f64 {
        let n_examined = self.n_examined as f64;
        if self.is_whole || n_examined == 0.0 {
            return 1.0;
        }
        if let Some(n) = self.n_in_range {
            return (n as f64 / n_examined).max(1.0);
        }
        let (from, to) = (self.from.as_micros() as f64, self.to.as_micros() as f64);
        let reached = self.reached_at.map_or(from, |at| at.as_micros() as f64);
        ((to - from) / (to - reached).max(1.0)).max(1.0)
    }
}

async fn estimate_backfill(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<NewBackfill>,
) -> Result<Answer<EstimateView>, Problem> {
    let project = &caller.project;
    let checked = checked(&app, project, &input).await?;
    let _turn = app.trials.wait(project).await?;
    let read = async {
        let in_range = app.scheduler.targets_in_range(project, &checked.plan).await?;
        let rule = checked.rule.clone();
        let found = app.scheduler.estimate_backfill(project, &checked.plan, rule).await?;
        Ok::<_, Problem>((in_range, found))
    };
    let (in_range, found) = reading::limited(&app.web, project, read).await?;
    let part = ExaminedPart {
        n_examined: found.counts.n_examined,
        is_whole: found.is_whole,
        reached_at: found.reached_at,
        from: checked.plan.from,
        to: checked.plan.to,
        n_in_range: in_range,
    };
    let factor = part.extrapolation();
    let scaled = |n: u64| (n as f64 * factor).round();
    let n_items = scaled(found.counts.n_items);
    let allowed = input.max_items.map_or(n_items, |max| n_items.min(max as f64));
    let share = if 0.0 < n_items { allowed / n_items } else { 1.0 };
    let scale = factor * share;
    let evaluators = evaluator_estimates(&app, project, &checked, (&found, scale)).await?;
    let costs = evaluators.iter().map(|each| each.cost_usd);
    let cost_usd: Option<f64> = costs.sum();
    let seconds = evaluators.iter().map(|each| each.seconds);
    let seconds: Option<Vec<f64>> = seconds.collect();
    Ok(Answer(EstimateView {
        target_count: in_range,
        examined_count: found.counts.n_examined,
        is_whole: found.is_whole,
        item_count: allowed as u64,
        present_count: scaled(found.counts.n_present) as u64,
        refused_count: scaled(found.counts.n_refused) as u64,
        execution_count: evaluators.iter().map(|each| each.execution_count).sum(),
        cost_usd,
        seconds: seconds.map(|all| all.into_iter().fold(0.0, f64::max)),
        evaluators,
    }))
}

async fn create_backfill(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<NewBackfill>,
) -> Result<Answer<View, 201>, Problem> {
    let project = &caller.project;
    let Checked { rule, evaluators, mut plan } = checked(&app, project, &input).await?;
    if !rule.enabled {
        let message = format!("the rule {:?} is disabled: enable it first", rule.name);
        return Err(Problem::new(Code::Conflict, message).with("field", "ruleId"));
    }
    plan.usd_per_execution = usd_per_execution(&app, project, (&rule, &evaluators)).await?;
    let in_range = app.scheduler.targets_in_range(project, &plan);
    plan.n_in_range = reading::limited(&app.web, project, in_range).await?;
    let id = app.web.ids.uuid().to_string();
    audit::note("backfill", &id, None, Some(json!({ "ruleId": rule.id.as_str() })));
    let now = app.web.clock.now();
    app.store.ledger.create_backfill(project, &id, &plan, now).await?;
    let found = app.store.ledger.backfill(project, &id).await?;
    let found = found.ok_or_else(Problem::internal)?;
    app.jobs.wake(BACKFILL_JOB);
    Ok(Answer(view(found)))
}

/// The mean cost of an execution over the evaluators of a rule; `None` if one is unknown.
async fn usd_per_execution(
    app: &App,
    project: &ProjectId,
    (rule, evaluators): (&Rule, &[Evaluator]),
) -> Result<Option<f64>, Problem> {
    let mut sum = Some(0.0);
    for evaluator in evaluators {
        let mut all = rule.assignments.iter();
        let Some(assignment) = all.find(|each| each.evaluator_id == evaluator.id) else {
            continue;
        };
        let preview = AssignmentPreview { app, project, rule, assignment };
        let means = preview.means(evaluator.clone(), None).await?;
        sum = sum.zip(means.cost).map(|(sum, cost)| sum + cost);
    }
    Ok(sum.map(|sum| sum / (evaluators.len() as f64).max(1.0)))
}

async fn list_backfills(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<CursorList<View>>, Problem> {
    let limit = params.int("limit", 1, 100, 50)?;
    let position = cursor::position(&params)?.map(ListPosition::after).unwrap_or_default();
    let page = app.store.ledger.backfills(&caller.project, &position, limit).await?;
    Ok(Answer(CursorList {
        data: page.items.into_iter().map(view).collect(),
        meta: cursor::meta(page.older.as_ref()),
    }))
}

async fn get_backfill(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<View>, Problem> {
    let found = app.store.ledger.backfill(&caller.project, &id).await?;
    Ok(Answer(view(found.ok_or_else(|| Problem::not_found("backfill"))?)))
}

/// Changes the state of a backfill. A change that was made already is repeated without effect.
async fn change(
    app: &App,
    project: &ProjectId,
    id: &str,
    change: BackfillChange,
) -> Result<Answer<View>, Problem> {
    let now = app.web.clock.now();
    let found = app.store.ledger.change_backfill(project, id, change, now).await?;
    let found = found.ok_or_else(|| Problem::not_found("backfill"))?;
    if found.state.is_final() && change != BackfillChange::Cancel {
        let message = format!("the backfill is {} and cannot be changed", found.state);
        return Err(Problem::new(Code::Conflict, message));
    }
    app.jobs.wake(BACKFILL_JOB);
    app.scheduler.wake();
    Ok(Answer(view(found)))
}

async fn pause_backfill(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<View>, Problem> {
    change(&app, &caller.project, &id, BackfillChange::Pause).await
}

async fn resume_backfill(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<View>, Problem> {
    change(&app, &caller.project, &id, BackfillChange::Resume).await
}

async fn cancel_backfill(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<View>, Problem> {
    change(&app, &caller.project, &id, BackfillChange::Cancel).await
}
